from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._stacks import pip
from support.stand_ins import make_wheel

pytestmark = pytest.mark.slow


def run(command: list[str], variables: Mapping[str, str]) -> tuple[int, str, str]:
    ran = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    return ran.returncode, ran.stdout, ran.stderr


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


def test_a_cuda_build_is_refused() -> None:
    error = (
        "torch 2.13.0+cu126 is a CUDA build: it would install nvidia-nccl-cu12, triton on hosts without a GPU. "
        "Pin torch as 2.13.0+cpu to have its CPU build. Ways out:\n- set torch_stack_index_urls to a mirror of "
    )
    with pytest.raises(ValueError, match=f"^{re.escape(error)}"):
        pip.refuse_cuda({"torch": "2.13.0+cu126", "triton": "3", "nvidia-nccl-cu12": "2"})


def test_packages_for_gpus_that_no_cuda_build_requires() -> None:
    """They are pure Python, and of other packages, such as codecarbon."""
    pip.refuse_cuda({"nvidia-ml-py": "13.0", "tritonclient": "2.5", "nvidia_modelopt": "1", "cudaq-tools": "1"})
    for name in (
        "nvidia-cublas",
        "nvidia_cudnn_cu12",
        "nvidia-nvtx",
        "nvidia-cusparselt-cu13",
        "cuda-bindings",
        "Triton",
    ):
        with pytest.raises(ValueError, match=f"it would install {name} on hosts without a GPU"):
            pip.refuse_cuda({name: "1"})


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


def test_requirements_are_resolved_for_the_hosts_python(tmp_path: Path) -> None:
    house = tmp_path / "house"
    make_wheel(house, "a", "1", requires=['old; python_version < "3.10"', 'new; python_version >= "3.13"'])
    make_wheel(house, "old", "1")
    make_wheel(house, "new", "1")
    variables = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(house)}
    for python, companion in (("3.9", "old"), ("3.12", None), ("3.13", "new")):
        tool = pip.Pip(run, python, "2.36", variables)
        assert set(tool.resolve(["a"], None, {}, tmp_path)) == {"a", *([companion] if companion else [])}, python


def test_what_is_installed_or_constrained_stays(tmp_path: Path) -> None:
    house = tmp_path / "house"
    make_wheel(house, "a", "1", requires=["b"])
    for version in ("1", "2", "3", "4"):
        make_wheel(house, "b", version)
    own = make_wheel(tmp_path / "own", "my.own", "1.5", requires=["b"])
    limit = tmp_path / "limit.txt"
    limit.write_text("b<3")
    tool = pip.Pip(run, "3.11", "2.36", {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(house)})
    assert tool.resolve(["a"], None, {}, tmp_path) == {"a": "1", "b": "4"}
    assert tool.resolve(["a"], str(limit), {}, tmp_path) == {"a": "1", "b": "2"}
    assert tool.resolve(["a"], None, {"b": "1"}, tmp_path) == {"a": "1", "b": "1"}
    assert tool.resolve([str(own), "a"], None, {}, tmp_path) == {"a": "1", "b": "4", "my-own": "1.5"}
    assert tool.resolve(["a"], None, {}, tmp_path, ["b"]) == {"a": "1"}
    configured = pip.Pip(run, "3.11", "2.36", {**tool.variables, "PIP_CONSTRAINT": str(limit)})
    assert configured.resolve(["a"], None, {}, tmp_path)["b"] == "2"


def test_a_home_that_cannot_be_written_to(tmp_path: Path) -> None:
    make_wheel(tmp_path / "house", "a", "1")
    variables = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "house"), "XDG_CACHE_HOME": "/proc/none"}
    assert pip.Pip(run, "3.11", "2.36", variables).resolve(["a"], None, {}, tmp_path) == {"a": "1"}


def test_variables_of_uv_that_choose_other_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("1", "2"):
        make_wheel(tmp_path / "house", "a", version)
    (tmp_path / "limit.txt").write_text("a<2")
    others = {"CONSTRAINT": f"{tmp_path}/limit.txt", "RESOLUTION": "lowest", "OFFLINE": "maybe", "TORCH_BACKEND": "x"}
    for name, value in {**others, "EXTRA_INDEX_URL": "https://me:secret@nowhere.invalid", "HTTP_TIMEOUT": "3"}.items():
        monkeypatch.setenv(f"UV_{name}", value)
    variables = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "house")}
    assert pip.Pip(run, "3.11", "2.36", variables).resolve(["a"], None, {}, tmp_path) == {"a": "2"}


def test_what_cannot_be_resolved_is_named(tmp_path: Path) -> None:
    make_wheel(tmp_path / "house", "a", "1", requires=["gone==7"])
    make_wheel(tmp_path / "house", "torch", "2")
    variables = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "house")}
    tool = pip.Pip(run, "3.11", "2.36", variables, ["https://a: refused"])
    with pytest.raises(ValueError, match=r"(?s)gone.*\nNot reachable: https://a: refused$"):
        tool.resolve(["a"], None, {}, tmp_path)
    with pytest.raises(ValueError, match=r"(?s)torch==2\.13\.0\+cpu.*has the CPU build of torch\. Ways out:"):
        tool.resolve(["torch==2.13.0+cpu"], None, {}, tmp_path)


def settings(tmp_path: Path, text: str, **variables: str) -> dict[str, Any]:
    """Return how pip is configured by a file of this content and these variables alone."""
    (tmp_path / "pip.conf").write_text(text)
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    given = {**bare, "HOME": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path), **variables}
    given["PIP_CONFIG_FILE"] = str(tmp_path / "pip.conf")

    def execute(command: list[str], _variables: Mapping[str, str]) -> tuple[int, str, str]:
        ran = subprocess.run(command, env=given, capture_output=True, text=True, check=False)
        return ran.returncode, ran.stdout, ran.stderr

    return pip.settings(execute)


def test_settings_are_those_that_pip_reads(tmp_path: Path) -> None:
    text = f"""
[global]
extra-index-url =
    https://me:secret@a.example/simple
    # of the team
    https://b.example/simple  # the second one
trusted-host = a.example b.example
index-url = https://file.example/simple
user = true
require-hashes = true
timeout = 33
no-cache-dir = true
[install]
find-links =
    {tmp_path}
    {tmp_path}/nowhere
prefix = {tmp_path}/prefix
[download]
constraint = /limits.txt
[wheel]
proxy = proxy.example:3128
"""
    wanted: dict[str, Any] = {
        "index_url": "https://file.example/simple",
        "extra_index_urls": ["https://me:secret@a.example/simple", "https://b.example/simple"],
        "find_links": [str(tmp_path)],
        "trusted_hosts": ["a.example", "b.example"],
        "timeout": 33,
        "cache_dir": False,
        "constraints": ["/limits.txt"],
        "proxy": "proxy.example:3128",
    }
    found = settings(tmp_path, text)
    # This Python may have a file of its own, of the virtual environment.
    assert {name: found.get(name) for name in wanted} == wanted
    assert settings(tmp_path, text, PIP_PYPI_URL="https://env.example")["index_url"] == "https://env.example"
    assert settings(tmp_path, "[global]\nno-index = yes")["no_index"]
    assert settings(tmp_path, "")["index_url"] == "https://pypi.org/simple"


def test_settings_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has 2 URLs as index-url, which takes one: write the others as extra-"):
        settings(tmp_path, "[global]\nindex-url =\n  https://a.example\n  https://b.example")
    for text, said in (
        ("[global]\nno-index = perhaps", "perhaps is not a valid value for no-index"),
        ("[global]\ntimeout = long", "option timeout: invalid floating-point value: 'long'"),
        ("index-url = https://me:secret@a.example", "File contains no section headers. file: .*pip.conf"),
    ):
        with pytest.raises(
            ValueError, match=rf"^the configuration of pip on the control node cannot be read: .*{said}"
        ) as caught:
            settings(tmp_path, text)
        assert "secret" not in str(caught.value) and "\n" not in str(caught.value)


def test_no_pip() -> None:
    error = f"{sys.executable} has no pip that works: No module named pip"
    with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
        pip.settings(lambda _command, _variables: (1, "", "No module named pip\n"))


def test_an_error_of_pip() -> None:
    errors = "WARNING: old\n\n1\n2\n3\n4\n5\n6\nERROR: none at https://me:secret@index.example/simple\n"
    failing = pip.Pip(lambda _command, _variables: (1, "", errors), "3.11", "2.36", {}, ["https://a: refused"])
    error = (
        "the wheels could not be collected: 2\n3\n4\n5\n6\nERROR: none at https://***@index.example/simple"
        "\nNot reachable: https://a: refused"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
        failing.run("download", "a==1")
