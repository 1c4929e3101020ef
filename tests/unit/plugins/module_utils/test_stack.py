from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.amx.cluster.plugins.module_utils import _stack

ROOT = Path(__file__).resolve().parents[4]
CATALOGUE = {"native": {"python": ["3.11", "3.12"], "backend": "gloo"}, "ipex": {"python": ["3.9"], "backend": "ccl"}}


def test_choose() -> None:
    chosen = _stack.choose(CATALOGUE, "native", ["3.11", "3.11"])
    assert chosen == {"name": "native", "python": ["3.11", "3.12"], "backend": "gloo"}


@pytest.mark.parametrize(
    ("name", "pythons", "error"),
    [
        ("nativ", ["3.11"], "cluster_stack: there is no stack 'nativ'; the catalogue has ipex, native"),
        (
            "native",
            ["3.12", "3.11"],
            "the hosts have different Pythons (3.11, 3.12): ranks of one job need the same, "
            "set ansible_python_interpreter",
        ),
        (
            "native",
            ["3.9"],
            "stack native has wheels for Python 3.11, 3.12 and the hosts have Python 3.9: "
            "set ansible_python_interpreter to one that fits",
        ),
    ],
)
def test_no_choice(name: str, pythons: list[str], error: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
        _stack.choose(CATALOGUE, name, pythons)


def test_the_catalogue_is_whole() -> None:
    folder = ROOT / "roles/torch_stack"
    catalogue = yaml.safe_load((folder / "vars/stacks.yml").read_text())["__torch_stack_catalogue"]
    for name, stack in catalogue.items():
        assert set(stack) == {
            *("description", "python", "backend", "packages", "constraints", "index_urls", "arguments")
        }, name
        assert set(stack["arguments"]) == {"cpu", "distributed", "bf16"}, name
        assert all(isinstance(version, str) for version in [*stack["python"], *stack["packages"].values()]), name
        pinned = dict(re.findall(r"^([^#=\s]+)==(\S+)$", (folder / "files" / stack["constraints"]).read_text(), re.M))
        for package, version in stack["packages"].items():
            assert pinned.get(package, version) == version, f"{name}: {package}"


def test_requirements() -> None:
    assert _stack.requirements({"torch": "2.13.0+cpu", "accelerate": "1.15.0"}) == [
        "accelerate==1.15.0",
        "torch==2.13.0+cpu",
    ]


def test_platforms() -> None:
    assert _stack.platforms("2.18")[:4] == [
        "manylinux_2_18_x86_64",
        "manylinux_2_17_x86_64",
        "manylinux2014_x86_64",
        "manylinux_2_16_x86_64",
    ]
    names = _stack.platforms("2.36")
    assert names[0] == "manylinux_2_36_x86_64"
    assert names[-3:] == ["manylinux_2_5_x86_64", "manylinux1_x86_64", "linux_x86_64"]
    with pytest.raises(ValueError, match=r"^glibc 3\.1 is not known: 2\.x is expected$"):
        _stack.platforms("3.1")


def test_oldest() -> None:
    assert _stack.oldest(["2.36", "2.4", "2.28"]) == "2.4"  # by number, not by letter
    for versions in ([], ["2.36", ""], ["musl"]):
        error = f"{versions} are not versions of the GNU C library such as 2.36"
        with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
            _stack.oldest(versions)


def test_the_key_changes_with_what_is_asked() -> None:
    asked: tuple[list[str], str, str, str] = (["a==1", "b==2"], "c==3", "3.11", "2.36")
    key = _stack.wheelhouse_key(*asked)
    assert re.fullmatch(r"cp311-[0-9a-f]{12}", key)
    assert _stack.wheelhouse_key(["b==2", "a==1"], *asked[1:]) == key
    others = {
        _stack.wheelhouse_key(["a==1"], *asked[1:]),
        _stack.wheelhouse_key(asked[0], "", *asked[2:]),
        _stack.wheelhouse_key(*asked[:2], "3.12", "2.36"),
        _stack.wheelhouse_key(*asked[:3], "2.28"),
    }
    assert len(others - {key}) == 4


def test_pip_arguments() -> None:
    assert _stack.pip_arguments("3.11", "2.5") == [
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


def test_a_cpu_build_is_accepted() -> None:
    assert _stack.check_resolution(report(torch="2.13.0+cpu", numpy="2.1")) == {"torch": "2.13.0+cpu", "numpy": "2.1"}


def test_a_cuda_build_is_refused() -> None:
    error = (
        "torch 2.13.0+cu126 is a CUDA build: it would bring nvidia-nccl-cu12, triton onto hosts without a GPU. "
        "Pin torch as 2.13.0+cpu and make the index with CPU builds reachable, or bring its wheel along"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
        _stack.check_resolution(report(**{"torch": "2.13.0+cu126", "triton": "3", "nvidia-nccl-cu12": "2"}))


def test_manifest_and_its_locked_requirements(tmp_path: Path) -> None:
    for name in ("Typing_Extensions-4.1-py3-none-any.whl", "a.b-1.0+cpu-cp311-cp311-linux_x86_64.whl", "notes.txt"):
        (tmp_path / name).write_bytes(name.encode())
    manifest = _stack.manifest(tmp_path)
    first, second = manifest["wheels"]
    assert first == {
        "file": "Typing_Extensions-4.1-py3-none-any.whl",
        "name": "typing-extensions",
        "version": "4.1",
        "sha256": hashlib.sha256(b"Typing_Extensions-4.1-py3-none-any.whl").hexdigest(),
        "bytes": 38,
    }
    assert _stack.locked_requirements(manifest) == (
        f"typing-extensions==4.1 --hash=sha256:{first['sha256']}\na-b==1.0+cpu --hash=sha256:{second['sha256']}\n"
    )
    assert _stack.wheel_versions(manifest["wheels"]) == {"typing-extensions": "4.1", "a-b": "1.0+cpu"}


@pytest.mark.parametrize(
    ("result", "problems"),
    [
        ({"rc": 0, "stdout": 'a warning\n{"problems": []}\n'}, []),
        ({"rc": 0, "stdout": json.dumps({"problems": ["a; b"]})}, ["a; b"]),
        (
            {"rc": -4, "stdout": "", "stderr": "Illegal\ninstruction"},
            ["its check did not come to an end (exit code -4): Illegal instruction"],
        ),
        ({"rc": 1, "stdout": "7"}, ["its check did not come to an end (exit code 1): it said nothing"]),
        ({"rc": 1, "stdout": "{}"}, ["its check did not come to an end (exit code 1): it said nothing"]),
        ({"msg": "timed out"}, ["its check did not come to an end (exit code None): timed out"]),
    ],
)
def test_environment_problems(result: dict[str, Any], problems: list[str]) -> None:
    assert _stack.environment_problems(result) == problems
