from __future__ import annotations

import importlib.metadata
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

CHECK = Path(__file__).resolve().parents[4] / "roles/torch_stack/files/check_environment.py"
FUNCTIONS = runpy.run_path(str(CHECK))
wrong_versions, broken_tools = FUNCTIONS["wrong_versions"], FUNCTIONS["broken_tools"]
PYTEST = importlib.metadata.version("pytest")


def install(folder: Path, name: str, version: str) -> None:
    """Leave behind what pip leaves of a package."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def test_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    install(tmp_path, "torch", "2.13.0+cu126")
    assert wrong_versions({"pytest": PYTEST}) == []
    assert wrong_versions({"torch": "2.13.0+cpu", "no-such": "1.0", "pytest": PYTEST}) == [
        "no-such 1.0 is not installed; run site.yml again",
        "torch is 2.13.0+cu126 and should be 2.13.0+cpu; another package replaced it, run site.yml again",
    ]


def test_cuda_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    install(tmp_path, "nvidia-nccl-cu12", "2.27")
    assert wrong_versions({}) == [
        "CUDA packages are installed (nvidia-nccl-cu12); torch must be pinned to its CPU build (+cpu)"
    ]


def prefix(folder: Path, mpirun: str) -> Path:
    """An environment with this program as mpirun."""
    for name in ("lib/libiomp5.so", "bin/mpirun"):
        (folder / name).parent.mkdir()
        (folder / name).write_text(mpirun)
        (folder / name).chmod(0o755)
    return folder


def test_tools_that_work(tmp_path: Path) -> None:
    assert broken_tools(prefix(tmp_path, "#!/bin/sh\necho 1 2; echo 0 2")) == []


def test_an_mpirun_that_starts_two_groups_of_one(tmp_path: Path) -> None:
    assert broken_tools(prefix(tmp_path, "#!/bin/sh\necho 0 1; echo 0 1; echo 'no provider' >&2; exit 3")) == [
        "Intel MPI's mpirun did not start two processes on this host (exit code 3): no provider"
    ]


def test_no_tools(tmp_path: Path) -> None:
    assert broken_tools(tmp_path) == [
        f"{tmp_path}/lib/libiomp5.so is missing; KMP_* variables mean nothing without Intel's OpenMP run time",
        f"Intel MPI's mpirun does not start: [Errno 2] No such file or directory: '{tmp_path}/bin/mpirun'",
    ]


def test_a_broken_torch_is_named(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('libtorch.so: no such file')")
    ran = subprocess.run(
        [sys.executable, str(CHECK), "{}"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    problems = json.loads(ran.stdout.splitlines()[-1])["problems"]
    assert "torch and transformers do not work: ImportError: libtorch.so: no such file" in problems
