from __future__ import annotations

import os
import platform
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils import _host

CAPTURED = Path(__file__).resolve().parents[2] / "fixtures" / "proc"


def test_existing_ancestor(tmp_path: Path) -> None:
    assert _host.existing_ancestor(tmp_path) == tmp_path
    assert _host.existing_ancestor(tmp_path / "a" / "b") == tmp_path


@pytest.fixture
def not_root() -> Iterator[None]:
    """Root may enter every folder: be somebody else."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    yield
    os.seteuid(before)


def test_existing_ancestor_behind_a_closed_folder(not_root: None) -> None:
    with tempfile.TemporaryDirectory() as folder:  # tmp_path is root's own
        closed = Path(folder, "closed")
        (closed / "in").mkdir(parents=True)
        closed.chmod(0o600)
        assert _host.existing_ancestor(closed / "in" / "prefix") == closed
        closed.chmod(0o700)


def test_addresses_of_this_machine() -> None:
    found = {row["address"]: row for row in _host.addresses()}
    assert found["127.0.0.1"] == {"interface": "lo", "address": "127.0.0.1", "network": "127.0.0.0/8", "default": False}
    names = {name for _index, name in socket.if_nameindex()}
    assert {row["interface"] for row in found.values()} <= names


def test_the_default_route(tmp_path: Path) -> None:
    routes = tmp_path / "route"
    routes.write_text(
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
        "eth9\t0000A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
        "lo\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
        "eth9\t00000000\t010011AC\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
    )
    assert {row["interface"] for row in _host.addresses(routes) if row["default"]} == {"lo"}


def test_read_this_machine(tmp_path: Path) -> None:
    host = _host.read(tmp_path / "cluster" / "prefix", amx_root=str(CAPTURED / "sapphire_rapids"))
    assert host["machine"] == platform.machine()
    assert (host["isa"], host["cpu_model"]) == ("amx", "Intel(R) Xeon(R) Platinum 8480+")
    assert host["amx"]["reason"] == "not_asked"
    assert (host["prefix"], host["prefix_ancestor"]) == (str(tmp_path / "cluster/prefix"), str(tmp_path))
    assert host["prefix_writable"]
    assert host["prefix_free_bytes"] > 0
    assert 0 < host["memory_available_bytes"] <= host["memory_bytes"]
    assert host["python"] == platform.python_version()
    assert (host["name"], host["stack"], host["running_jobs"]) == (socket.gethostname(), {}, [])


def test_a_file_is_no_place_for_a_prefix(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert not _host.read(tmp_path / "file")["prefix_writable"]


def program(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_the_system() -> None:
    assert _host._os_name(Path("/nonexistent")) == ""


def test_the_system_is_named(tmp_path: Path) -> None:
    (tmp_path / "os-release").write_text('NAME="Red Hat Enterprise Linux"\nID="rhel"\nVERSION_ID="9.4"\n')
    assert _host._os_name(tmp_path / "os-release") == "rhel 9.4"


def test_calls_are_tried() -> None:
    """They harm nothing: whatever this machine allows, the answer names only the two."""
    assert set(_host.denied_calls()) <= {"set_mempolicy", "process_vm_readv"}


def test_stack(tmp_path: Path) -> None:
    real = tmp_path / "envs" / "native-1"
    for name, version in (("Torch_X", "2.0"), ("other", "1")):
        metadata = real / f"lib/python3.11/site-packages/{name}-{version}.dist-info/METADATA"
        metadata.parent.mkdir(parents=True)
        metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (tmp_path / "env").symlink_to(real)
    assert _host.stack(tmp_path / "env") == {}
    (real / "amx-cluster.json").write_text('{"key": "1", "name": "native", "packages": {"Torch_X": "2.0"}}')
    tool = real / "bin/libfabric/fi_info"
    program(tool, 'echo "provider: tcp"; echo "    domain: eth1"; echo "provider: tcp"; echo "    domain: lo"')
    assert _host.stack(tmp_path / "env") == {
        "env": str(real),
        "key": "1",
        "name": "native",
        "pinned": {"torch-x": "2.0"},
        "versions": {"torch-x": "2.0", "other": "1"},
        "providers": ["tcp of eth1", "tcp of lo"],
        "provider_error": "",
    }
    program(tool, 'echo "fi_getinfo: -61" >&2; exit 61')
    assert _host.fabric_providers(real) == ([], "fi_getinfo: -61")
    tool.unlink()
    providers, error = _host.fabric_providers(real)
    assert providers == []
    assert error.startswith(f"{tool} does not run: ")
