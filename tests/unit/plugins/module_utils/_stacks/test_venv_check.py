from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._stacks import venv_check
from ansible_collections.amx.cluster.plugins.module_utils._stacks.venv_check import broken_mpi, wrong_versions


def install(folder: Path, name: str, version: str) -> None:
    """Leave behind what pip leaves of a package."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def test_cuda_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    install(tmp_path, "nvidia-nccl-cu12", "2.27")
    assert wrong_versions({}) == [
        "CUDA packages are installed (nvidia-nccl-cu12); torch must be pinned to its CPU build (+cpu)"
    ]
    assert wrong_versions({}, cuda_build=True) == []


def programs(folder: Path, monkeypatch: pytest.MonkeyPatch, mpirun: str, fi_info: str = "echo provider: tcp") -> None:
    """Put programs of these names first on PATH, as impi-rt has them; their environment is `folder`."""
    folder /= "bin"
    for name, text in (("mpirun", mpirun), ("libfabric/fi_info", fi_info)):
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def test_an_mpi_that_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs(tmp_path, monkeypatch, "echo 1 2; echo 0 2")
    found: dict[str, object] = {}
    assert broken_mpi("tcp", tmp_path, found) == []
    assert found == {"mpirun": f"{tmp_path}/bin/mpirun"}


def test_an_mpirun_that_starts_two_groups_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs(tmp_path, monkeypatch, "echo 0 1; echo 0 1; echo 'no provider' >&2; exit 3")
    assert broken_mpi("tcp", tmp_path, {}) == [
        "Intel MPI's mpirun did not start two processes on this host (exit code 3): no provider"
    ]


def test_a_provider_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs(tmp_path, monkeypatch, "echo 1 2; echo 0 2", "echo 'fi_getinfo: -61 (No data available)' >&2; exit 61")
    monkeypatch.setenv("FI_PROVIDER_PATH", "/wrong")
    assert broken_mpi("verbs", tmp_path, {}) == [
        "libfabric has no provider verbs here (FI_PROVIDER_PATH is /wrong), MPI_Init would die with "
        "`OFI fi_getinfo() failed`; run site.yml again, or choose another provider: fi_getinfo: -61 (No data available)"
    ]


def test_no_mpi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    again = "run site.yml again, or take a stack of the catalogue"
    assert broken_mpi("tcp", tmp_path, {}) == [f"Intel MPI's mpirun is missing instead of one in {tmp_path}; {again}"]
    programs(tmp_path, monkeypatch, "echo 1 2; echo 0 2")
    other = tmp_path / "other"
    assert broken_mpi("tcp", other, {}) == [
        f"Intel MPI's mpirun is {tmp_path}/bin/mpirun instead of one in {other}; {again}"
    ]


def test_openmp_that_is_missing() -> None:
    problems = check({"intel-openmp": "2026.2.0"})
    library = Path(sys.prefix, "lib/libiomp5.so")
    assert f"{library} is missing; KMP_* variables have no effect without Intel's OpenMP runtime" in problems


def check(versions: dict[str, str], *directories: Path) -> list[str]:
    """Return the problems of an environment that has these directories, too."""
    options = {"versions": versions, "backend": "gloo"}
    ran = subprocess.run(
        [sys.executable, venv_check.__file__, json.dumps(options)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, directories))},
        capture_output=True,
        text=True,
        check=True,
    )
    return list(json.loads(ran.stdout.splitlines()[-1])["problems"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (
            "ImportError('/x/lib.so: undefined symbol: _ZN3c105ErrorE')",
            "two of the packages were built for different versions of torch; take a",
        ),
        ("RuntimeError('Mismatch in kernel C++ signatures')", "torch and oneccl-bind-pt do not match; take a stack of"),
        (
            "SystemExit('ERROR! Intel(R) Extension for PyTorch* needs to work with PyTorch 2.8.*, but 2.7.1 is found')",
            "torch and intel-extension-for-pytorch do not match; take a stack of the catalogue",
        ),
    ],
)
def test_a_broken_torch_is_explained(tmp_path: Path, error: str, cause: str) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(f"raise {error}")
    assert any(
        problem.startswith(f"torch.distributed cannot be imported ({cause}")
        for problem in check({"torch": "2"}, tmp_path)
    )
