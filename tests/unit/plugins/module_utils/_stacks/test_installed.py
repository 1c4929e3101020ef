from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._stacks import installed, venv


def program(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.slow
def test_fabrics_without_a_virtual_environment(tmp_path: Path) -> None:
    assert installed.unusable_fabrics(tmp_path / "env", ["mlx"]) == {}
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / venv.MARKER).write_text("{}")
    why = installed.unusable_fabrics(tmp_path / "env", ["mlx"])["mlx"]
    assert "libfabric.so.1: cannot open shared object file" in why


@pytest.mark.slow
def test_stack(tmp_path: Path) -> None:
    real = tmp_path / "envs" / "native-1"
    for name, version in (("Torch_X", "2.0"), ("other", "1")):
        metadata = real / f"lib/python3.11/site-packages/{name}-{version}.dist-info/METADATA"
        metadata.parent.mkdir(parents=True)
        metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (tmp_path / "env").symlink_to(real)
    assert installed.describe(tmp_path / "env") == {}
    (real / venv.MARKER).write_text('{"key": "1", "name": "native", "packages": {"Torch_X": "2.0"}}')
    tool = real / "bin/libfabric/fi_info"
    program(tool, 'echo "provider: tcp"; echo "    domain: eth1"; echo "provider: tcp"; echo "    domain: lo"')
    assert installed.describe(tmp_path / "env") == {
        "env": str(real),
        "key": "1",
        "name": "native",
        "path": "",
        "pinned": {"torch-x": "2.0"},
        "versions": {"torch-x": "2.0", "other": "1"},
        "providers": ["tcp of eth1", "tcp of lo"],
        "provider_error": "",
    }
    assert set(installed.describe(tmp_path / "env", software=False)) == {"env", "key", "name", "path", "pinned"}
    program(tool, 'echo "fi_getinfo: -61" >&2; exit 61')
    assert installed.fabric_providers(real, {}) == ([], "fi_getinfo: -61")
    tool.unlink()
    providers, error = installed.fabric_providers(real, {})
    assert providers == []
    assert error.startswith(f"{tool} does not run: ")
