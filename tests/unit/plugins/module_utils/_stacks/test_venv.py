from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._io import MARKER
from ansible_collections.amx.cluster.plugins.module_utils._stacks import venv

WHEEL: dict[str, Any] = {"file": "a-1-py3-none-any.whl", "bytes": 10, "unpacked": 30}


def make(prefix: Path, *names: str) -> None:
    """Make environments that have passed their check, the first one last in use."""
    for age, name in enumerate(names):
        folder = prefix / "envs" / name
        folder.mkdir(parents=True)
        (folder / MARKER).write_text('{"name": "native"}')
        os.utime(folder / MARKER, (1000 - age, 1000 - age))


def test_nothing_installed(tmp_path: Path) -> None:
    assert venv.installed(tmp_path) == []
    assert venv.in_use(tmp_path) == ""
    with pytest.raises(
        ValueError, match=r"^torch_stack_use: there is no earlier environment to go back to: .* has none$"
    ):
        venv.choose(tmp_path, "previous")


def test_use_and_go_back(tmp_path: Path) -> None:
    make(tmp_path, "native-b", "native-a")
    (tmp_path / "envs" / "native-c").mkdir()  # has not passed its check
    venv.use(tmp_path, "native-a")
    assert venv.in_use(tmp_path) == "native-a"
    assert venv.choose(tmp_path, "previous") == "native-b"
    venv.use(tmp_path, "native-b")
    assert (tmp_path / "env").resolve() == tmp_path / "envs" / "native-b"
    # native-a was in use until now.
    assert venv.installed(tmp_path) == ["native-a", "native-b"]
    assert venv.choose(tmp_path, "previous") == "native-a"
    assert venv.choose(tmp_path, "a") == venv.choose(tmp_path, "native-a") == "native-a"
    error = f"torch_stack_use: there is no environment 'c': {tmp_path} has native-a, native-b, and native-b is in use"
    with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
        venv.choose(tmp_path, "c")


def test_the_one_in_use(tmp_path: Path) -> None:
    make(tmp_path, "native-a")
    assert venv.current(tmp_path) == ("", {})
    venv.use(tmp_path, "native-a")
    assert venv.current(tmp_path) == (str(tmp_path / "envs/native-a"), {"name": "native"})
    shutil.rmtree(tmp_path / "envs")
    assert venv.current(tmp_path) == ("", {})


def test_surplus(tmp_path: Path) -> None:
    make(tmp_path, "e", "d", "c", "b")
    venv.use(tmp_path, "c")
    proc = tmp_path / "proc"
    (proc / "17").mkdir(parents=True)
    (proc / "17" / "cmdline").write_bytes(os.fsencode(f"{tmp_path}/envs/b/bin/python\0-S\0rank.py\0"))
    assert venv.surplus(tmp_path, 1, proc) == ["d"]
    shutil.rmtree(proc / "17")
    assert venv.surplus(tmp_path, 1, proc) == ["d", "b"]
    assert venv.surplus(tmp_path, 0, proc) == ["e", "d", "b"]
    assert venv.surplus(tmp_path, 3, proc) == []


def test_problems(tmp_path: Path) -> None:
    def told(wheel: dict[str, Any], machine: str = "x86_64", prefix: Path = tmp_path) -> list[str]:
        return venv.problems(prefix, [wheel], True, machine, "3.11", "2.31")

    assert told(WHEEL) == told(WHEEL, prefix=tmp_path / "not" / "there") == []
    assert told(WHEEL, "aarch64") == [
        "this host is aarch64 and the wheels are for x86_64: take it out of the inventory"
    ]
    newer = {**WHEEL, "file": "torch-2.13.0+cpu-cp311-cp311-manylinux_2_34_x86_64.whl"}
    assert told(newer) == [
        f"this host has Python 3.11 and glibc 2.31, which cannot use {newer['file']}: "
        "set ansible_python_interpreter, or take a host with a newer system"
    ]
    (large,) = told({**WHEEL, "unpacked": 10**18})
    assert re.fullmatch(
        re.escape(str(tmp_path)) + r" has [0-9.]+ GB free and the installation takes 1000000000\.0 GB: "
        "free some, or set cluster_prefix elsewhere",
        large,
    )


def test_needed_bytes() -> None:
    assert venv.needed_bytes([WHEEL, WHEEL], copied=True) == 80
    assert venv.needed_bytes([WHEEL, {"file": "b"}], copied=False) == 30


def test_remove_halves(tmp_path: Path) -> None:
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    for name in ("whole-1.dist-info", "half-1.dist-info"):
        (packages / name).mkdir(parents=True)
        (packages / name / "METADATA").touch()
    (packages / "whole-1.dist-info" / "INSTALLER").touch()
    assert venv.remove_halves(tmp_path) == ["half-1.dist-info"]
    assert [path.name for path in packages.iterdir()] == ["whole-1.dist-info"]


@pytest.mark.parametrize(
    ("said", "first"),
    [
        (
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
            "there is no space left under /opt/x: free some, or set cluster_prefix elsewhere",
        ),
        (
            "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.",
            "a wheel is not the one that was locked: it was damaged on the way, or the index has another of that name",
        ),
        ("something else", "pip could not install the wheels"),
    ],
)
def test_explain(said: str, first: str) -> None:
    assert venv.explain(f"\n{said}\n", Path("/opt/x")) == f"{first}\n{said}"


def test_explain_hides_passwords() -> None:
    assert "secret" not in venv.explain("looking in https://me:secret@index.example/simple", Path("/"))


def test_marker(tmp_path: Path) -> None:
    make(tmp_path, "a")
    assert venv.marker(tmp_path / "envs" / "a") == {"name": "native"}
    with pytest.raises(ValueError, match=r"^/.*/envs/b has not passed its check: "):
        venv.marker(tmp_path / "envs" / "b")
