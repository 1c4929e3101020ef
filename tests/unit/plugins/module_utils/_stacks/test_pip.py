from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._stacks import pip
from support.stand_ins import make_wheel


def test_arguments() -> None:
    assert pip.arguments("3.11", "2.5") == [
        "--only-binary=:all:",
        "--implementation=cp",
        "--python-version=3.11",
        "--abi=cp311",
        "--abi=abi3",
        "--abi=none",
        "--platform",
        "manylinux_2_5_x86_64",
        "--platform",
        "manylinux1_x86_64",
        "--platform",
        "linux_x86_64",
    ]


def report(**packages: str) -> dict[str, Any]:
    """A report of `pip install --dry-run --report`."""
    return {"install": [{"metadata": {"name": name, "version": version}} for name, version in packages.items()]}


def test_a_cuda_build_is_refused() -> None:
    error = (
        "torch 2.13.0+cu126 is a CUDA build: it would install nvidia-nccl-cu12, triton on hosts without a GPU. "
        "Pin torch as 2.13.0+cpu to have its CPU build. Ways out:\n- set torch_stack_index_urls to a mirror of "
    )
    cuda = report(**{"torch": "2.13.0+cu126", "triton": "3", "nvidia-nccl-cu12": "2"})
    with pytest.raises(ValueError, match=f"^{re.escape(error)}"):
        pip.resolution(cuda)
    assert pip.resolution(cuda, cuda_build=True)["nvidia-nccl-cu12"] == "2"


def test_packages_for_gpus_that_no_cuda_build_requires() -> None:
    """They are pure Python, and of other packages, such as codecarbon."""
    packages = {"nvidia-ml-py": "13.0", "tritonclient": "2.5", "nvidia_modelopt": "1", "cudaq-tools": "1"}
    assert pip.resolution(report(**packages)) == packages
    for name in (
        "nvidia-cublas",
        "nvidia_cudnn_cu12",
        "nvidia-nvtx",
        "nvidia-cusparselt-cu13",
        "cuda-bindings",
        "Triton",
    ):
        with pytest.raises(ValueError, match=f"it would install {name} on hosts without a GPU"):
            pip.resolution(report(**{name: "1"}))


def test_locked() -> None:
    item: dict[str, Any] = {
        "metadata": {"name": "torch", "version": "2.8.0+cpu"},
        "download_info": {
            "url": "https://index.example/torch-2.8.0%2Bcpu-cp311-cp311-linux_x86_64.whl",
            "archive_info": {"hashes": {"sha256": "ab"}},
        },
    }
    assert pip.locked({"install": [item]}) == [
        {
            "file": "torch-2.8.0+cpu-cp311-cp311-linux_x86_64.whl",
            "name": "torch",
            "version": "2.8.0+cpu",
            "sha256": "ab",
        }
    ]
    item["download_info"]["archive_info"] = {}
    with pytest.raises(ValueError, match=r"^the index gives no SHA-256 for torch-2\.8\.0\+cpu-"):
        pip.locked({"install": [item]})


def test_pip_resolves_for_the_hosts_python(tmp_path: Path) -> None:
    house = tmp_path / "house"
    make_wheel(house, "a", "1", requires=['old; python_version < "3.10"', 'new; python_version >= "3.13"'])
    make_wheel(house, "old", "1")
    make_wheel(house, "new", "1")
    for python, companion in (("3.9", "old"), ("3.12", None), ("3.13", "new")):
        report = tmp_path / f"{python}.json"
        arguments = [*pip.arguments(python, "2.36"), "--no-index", "--find-links", str(house), "--quiet", "a"]
        dry = ["install", "--dry-run", "--ignore-installed", "--target", str(tmp_path), "--report", str(report)]
        subprocess.run([sys.executable, "-c", pip.FOR_HOSTS, python, *dry, *arguments], check=True)
        found = pip.resolution(json.loads(report.read_text()))
        assert set(found) == {"a", *([companion] if companion else [])}, python


def test_settings() -> None:
    output = """
global.index-url='https://file.example/simple'
:env:.index-url='https://env.example/simple'
install.find-links='/wheels /more'
"""

    def run(command: list[str], _variables: Mapping[str, str]) -> tuple[int, str, str]:
        assert command == [sys.executable, "-m", "pip", "config", "list"]
        return 0, output, ""

    assert pip.settings(run) == {"index-url": "https://env.example/simple", "find-links": "/wheels /more"}


def test_no_pip() -> None:
    error = f"{sys.executable} has no pip that works: No module named pip"
    with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
        pip.default_index(lambda _command, _variables: (1, "", "No module named pip\n"))


def test_an_error_of_pip() -> None:
    errors = "WARNING: old\n\n1\n2\n3\n4\n5\n6\nERROR: none at https://me:secret@index.example/simple\n"
    failing = pip.Pip(lambda _command, _variables: (1, "", errors), "3.11", "2.36", {}, ["https://a: refused"])
    error = (
        "pip could not collect the wheels: 2\n3\n4\n5\n6\nERROR: none at https://***@index.example/simple"
        "\nNot reachable: https://a: refused"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
        failing.run("download", "a==1")
