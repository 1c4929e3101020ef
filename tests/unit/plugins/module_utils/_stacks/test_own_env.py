"""An environment of the user's own: read, compared between hosts, and viewed without a change of it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._stacks import own_env, venv
from support import checkout

PATH = "/opt/conda/envs/train"
NONE = Path("/no/vars.sh")
NATIVE = {
    "torch": "2.13.0+cpu", "transformers": "5.23.0", "accelerate": "1.15.0", "mpi4py": "4.1.2",
    "impi-rt": "2021.18.1", "intel-openmp": "2026.2.0",
}  # fmt: skip
IPEX = {
    "torch": "2.8.0+cpu", "transformers": "4.55.4", "accelerate": "1.7.0", "intel-openmp": "2025.2.1",
    "intel-extension-for-pytorch": "2.8.0", "oneccl-bind-pt": "2.8.0+cpu",
}  # fmt: skip
KNOWN = [{"torch": "2.8.0", "ipex": "2.8.0", "oneccl": "2.8.0", "python": ["3.9", "3.13"]}]
BINDINGS = "oneccl_bindings_for_pytorch"


def has(packages: dict[str, str], **other: Any) -> dict[str, Any]:
    return {
        "problem": "",
        "python": "3.11",
        "bindings": "",
        "packages": packages,
        "mpi": own_env.ENVIRONMENT,
        "openmp": True,
        **other,
    }


def refused(hosts: dict[str, dict[str, Any]], backend: str = "auto") -> list[str]:
    """Return the lines of the one message, without the first."""
    with pytest.raises(
        ValueError, match=re.escape(f"The environment {PATH} (torch_stack_env) cannot be used")
    ) as error:
        own_env.stack(PATH, hosts, KNOWN, backend)
    return str(error.value).split("\n- ")[1:]


@pytest.mark.parametrize(
    ("packages", "bindings", "backend", "distributed", "ipex"),
    [
        (NATIVE, "", "mpi", {"ddp_backend": "mpi"}, {}),
        ({**NATIVE, "mpi4py": ""}, "", "gloo", {"ddp_backend": "gloo"}, {}),
        (IPEX, BINDINGS, "ccl", {"ddp_backend": "ccl"}, {"use_ipex": True}),
        # Newer versions of these two do not have ccl: the environment is used without.
        ({**IPEX, "transformers": "5.1.0"}, BINDINGS, "gloo", {"ddp_backend": "gloo"}, {}),
        ({**IPEX, "accelerate": "1.13.0"}, BINDINGS, "gloo", {"ddp_backend": "gloo"}, {}),
        # Nobody would call ipex.optimize.
        ({**IPEX, "accelerate": "1.10.1"}, BINDINGS, "ccl", {"ddp_backend": "ccl"}, {}),
    ],
)
def test_the_versions_decide(
    packages: dict[str, str], bindings: str, backend: str, distributed: dict[str, str], ipex: dict[str, bool]
) -> None:
    packages = {name: version for name, version in packages.items() if version}
    made = own_env.stack(PATH, dict.fromkeys(("node0", "node1"), has(packages, bindings=bindings)), KNOWN)
    assert (made["name"], made["path"], made["backend"], made["interpreter"]) == ("own", PATH, backend, "3.11")
    assert (made["arguments"]["distributed"], made["arguments"]["ipex"]) == (distributed, ipex)
    assert made["packages"] == packages and made["mpi_script"] == ""


def test_a_changed_package_makes_another_stack() -> None:
    keys = {
        own_env.stack(PATH, {"node0": has({**NATIVE, "transformers": version})}, KNOWN)["key"]
        for version in ("5.23.0", "5.22.0", "5.23.0")
    }
    assert len(keys) == 2 and all(re.fullmatch("cp311-[0-9a-f]{12}", key) for key in keys)


def test_one_message_says_host_what_and_what_to_do() -> None:
    less = {name: version for name, version in NATIVE.items() if name not in ("accelerate", "intel-openmp")}
    assert refused(
        {
            "node0": has(NATIVE),
            "node1": {"problem": f"{PATH} does not exist: create it"},
            "node2": has(less, openmp=False, mpi=""),
            "node3": has({**NATIVE, "torch": "2.12.0"}, python="3.12"),
        }
    ) == [
        f"node1: {PATH} does not exist: create it",
        f"node2: accelerate not installed: run {PATH}/bin/python -m pip install accelerate",
        f"node2: {PATH}/lib/libiomp5.so (Intel's OpenMP runtime) is missing: install the package intel-openmp there",
        "node2: Intel MPI is missing: install the package impi-rt into the environment, or set torch_stack_env_mpi to "
        "vars.sh of Intel MPI on the host",
        "node2 has accelerate none instead of 1.15.0, intel-openmp none instead of 2026.2.0, Intel MPI none instead of "
        f"environment on node0: install the same in {PATH} on both",
        "node3 has Python 3.12 instead of 3.11, torch 2.12.0 instead of 2.13.0+cpu on node0: install the same in "
        f"{PATH} on both",
    ]


def test_versions_that_cannot_work_together() -> None:
    mixed = {**IPEX, "torch": "2.7.0"}
    assert any(
        "torch 2.7.0 and intel-extension-for-pytorch 2.8.0 are incompatible" in line
        for line in refused({"node0": has(mixed, bindings=BINDINGS)})
    )


def test_a_backend_that_the_environment_does_not_have() -> None:
    only_gloo = {name: version for name, version in NATIVE.items() if name != "mpi4py"}
    assert refused({"node0": has(only_gloo)}, "mpi") == [
        "cluster_backend is mpi, and this environment has gloo: install mpi4py and impi-rt on every host, or change "
        "cluster_backend"
    ]
    assert own_env.stack(PATH, {"node0": has(NATIVE)}, KNOWN, "gloo")["backend"] == "mpi"  # which has gloo, too


def test_intel_mpi_of_oneapi() -> None:
    script = "/opt/intel/oneapi/mpi/latest/env/vars.sh"
    packages = {name: version for name, version in NATIVE.items() if name != "impi-rt"}
    made = own_env.stack(PATH, {"node0": has(packages, mpi=script)}, KNOWN)
    assert (made["backend"], made["mpi_script"]) == ("mpi", script)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real virtual environment, with the metadata of packages alone."""
    path = tmp_path_factory.mktemp("own") / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(path)], check=True)
    (site,) = path.glob("lib/python3*/site-packages")
    for name, version in {**NATIVE, "mine": "1"}.items():
        folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (path / "lib/libiomp5.so").touch()
    (path / "bin/mpiexec.hydra").touch()
    return path


def listed(path: Path) -> list[tuple[str, int]]:
    return sorted((str(each), each.lstat().st_mtime_ns) for each in path.rglob("*"))


@pytest.mark.slow
def test_an_environment_is_read_and_not_changed(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(checkout.ROOT / "no/such"))
    before = listed(environment)
    found = own_env.describe(environment, NONE)
    assert found == has(NATIVE, python=f"{sys.version_info[0]}.{sys.version_info[1]}")
    assert listed(environment) == before


@pytest.mark.slow
def test_one_that_cannot_be_read(tmp_path: Path) -> None:
    missing = tmp_path / "none"
    assert own_env.describe(missing, NONE)["problem"].startswith(f"{missing} does not exist: create the same")
    (tmp_path / "bin").mkdir()
    assert "torch_stack_env to an environment with bin/python" in own_env.describe(tmp_path, NONE)["problem"]
    (tmp_path / "bin/python").write_text("#!/bin/sh\necho broken >&2; exit 3\n")
    (tmp_path / "bin/python").chmod(0o755)
    expected = f"{tmp_path}/bin/python does not run (broken): repair the environment there"
    assert own_env.describe(tmp_path, NONE)["problem"] == expected


@pytest.mark.slow
def test_a_view_runs_as_the_environment_and_its_removal_leaves_that(environment: Path, tmp_path: Path) -> None:
    before = listed(environment)
    _ownership.make(tmp_path / "envs", "environments")
    view = tmp_path / "envs/own-1"
    assert own_env.view(view, environment, check=True) and not view.exists()
    assert own_env.view(view, environment)
    venv.mark(view, {"name": "own"})
    assert not own_env.view(view, environment)
    program = "import importlib.metadata, sys; print(sys.prefix, importlib.metadata.version('mine'))"
    ran = subprocess.run([str(view / "bin/python"), "-B", "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == f"{view} 1\n"
    venv.remove(view)
    assert not view.exists() and listed(environment) == before


def test_a_view_does_not_take_the_place_of_another_directory(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/file").touch()
    with pytest.raises(ValueError, match="was not made by this collection"):
        own_env.view(tmp_path / "mine", environment)
