from __future__ import annotations

import os
import re
import shutil
import sys
import venv as stdlib
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._stacks import installed, venv
from ansible_collections.amx.cluster.plugins.module_utils._stacks.venv import MARKER
from support import stand_ins

WHEEL: dict[str, Any] = {"file": "a-1-py3-none-any.whl", "bytes": 10, "unpacked": 30}


def make(prefix: Path, *names: str) -> None:
    """Make virtual environments that have passed their checks, the first one last active."""
    for age, name in enumerate(names):
        env = prefix / "envs" / name
        venv.begin(env)
        (env / MARKER).write_text('{"name": "native"}')
        os.utime(env / MARKER, (1000 - age, 1000 - age))


def test_nothing_installed(tmp_path: Path) -> None:
    assert venv.installed(tmp_path) == []
    assert venv.active(tmp_path) == ""
    with pytest.raises(
        ValueError,
        match=r"^torch_stack_use is previous, and there is no previous virtual environment: .* has none$",
    ):
        venv.find(tmp_path, "previous")


def test_activate_and_go_back(tmp_path: Path) -> None:
    make(tmp_path, "native-b", "native-a")
    (tmp_path / "envs" / "native-c").mkdir()  # has not passed its checks
    venv.activate(tmp_path, "native-a")
    assert venv.active(tmp_path) == "native-a"
    assert venv.find(tmp_path, "previous") == "native-b"
    venv.activate(tmp_path, "native-b")
    assert (tmp_path / "env").resolve() == tmp_path / "envs" / "native-b"
    # native-a was active until now.
    assert venv.installed(tmp_path) == ["native-a", "native-b"]
    assert venv.find(tmp_path, "previous") == "native-a"
    assert venv.find(tmp_path, "a") == venv.find(tmp_path, "native-a") == "native-a"
    error = (
        f"torch_stack_use is 'c', and there is no such virtual environment: {tmp_path} has native-a, native-b, and "
        "native-b is active"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
        venv.find(tmp_path, "c")


def test_the_active_one(tmp_path: Path) -> None:
    make(tmp_path, "native-a")
    assert venv.active_stack(tmp_path) == ("", {})
    venv.activate(tmp_path, "native-a")
    assert venv.active_stack(tmp_path) == (str(tmp_path / "envs/native-a"), {"name": "native"})
    shutil.rmtree(tmp_path / "envs")
    assert venv.active_stack(tmp_path) == ("", {})


def test_credentials_of_indexes_are_not_in_a_virtual_environment(tmp_path: Path) -> None:
    stack = {"name": "native", "index_urls": ["https://me:secret@index.example/simple"]}
    make(tmp_path, "native-a")
    venv.mark(tmp_path / "envs/native-a", stack)
    assert venv.marker(tmp_path / "envs/native-a") == {**stack, "index_urls": ["https://index.example/simple"]}


def test_surplus(tmp_path: Path) -> None:
    make(tmp_path, "e", "d", "c", "b")
    venv.activate(tmp_path, "c")
    proc = tmp_path / "proc"
    (proc / "17").mkdir(parents=True)
    (proc / "17" / "cmdline").write_bytes(os.fsencode(f"{tmp_path}/envs/b/bin/python\0-S\0rank.py\0"))
    assert venv.surplus(tmp_path, 1, [], proc) == ["d"]
    shutil.rmtree(proc / "17")
    assert venv.surplus(tmp_path, 1, [], proc) == ["d", "b"]
    assert venv.surplus(tmp_path, 0, [], proc) == ["e", "d", "b"]
    assert venv.surplus(tmp_path, 3, [], proc) == []
    # A job uses it that has no process on this host at the moment.
    assert venv.surplus(tmp_path, 0, ["e", "b"], proc) == ["d"]
    (tmp_path / "envs/d" / _ownership.MARK).unlink()  # as one that somebody has put there
    assert venv.surplus(tmp_path, 0, [], proc) == ["e", "b"]


def test_that_of_an_engine_lies_beside(tmp_path: Path) -> None:
    """It has a link of its own, and neither of the two kinds replaces, finds or removes the other."""
    make(tmp_path, "native-b", "native-a")
    venv.activate(tmp_path, "native-b")
    stack = {"name": "serve-vllm", "serves": "vllm"}
    for name in ("serve-vllm-a", "serve-vllm-b"):
        venv.begin(tmp_path / "envs" / name)
        venv.mark(tmp_path / "envs" / name, stack)
        venv.activate(tmp_path, name, venv.link_of(stack))
    assert (venv.active(tmp_path), venv.active(tmp_path, "vllm")) == ("native-b", "serve-vllm-b")
    assert venv.find(tmp_path, "previous") == "native-a"
    assert len(venv.installed(tmp_path)) == 4
    assert venv.surplus(tmp_path, 0) == ["native-a"]
    assert venv.surplus(tmp_path, 0, link="vllm") == ["serve-vllm-a"]
    assert "vllm" in venv.PLACES.links  # amx reset removes it


def test_problems(tmp_path: Path) -> None:
    def problems(wheel: dict[str, Any], machine: str = "x86_64", prefix: Path = tmp_path) -> list[str]:
        return venv.problems(prefix, [wheel], True, machine, "3.11", "2.31")

    assert problems(WHEEL) == problems(WHEEL, prefix=tmp_path / "not" / "there") == []
    assert problems(WHEEL, "aarch64") == [
        "this host is aarch64 and the wheels are for x86_64: remove it from the inventory"
    ]
    newer = {**WHEEL, "file": "torch-2.13.0+cpu-cp311-cp311-manylinux_2_34_x86_64.whl"}
    assert problems(newer) == [
        f"this host has Python 3.11 and glibc 2.31, which cannot use {newer['file']}: "
        "set torch_stack_python, or use a host with a newer system"
    ]
    (large,) = problems({**WHEEL, "unpacked": 10**18})
    assert re.fullmatch(
        re.escape(str(tmp_path)) + r" has [0-9.]+ GiB free and the installation takes 931322574\.6 GiB: "
        "free some, or set cluster_prefix elsewhere",
        large,
    )


def test_needed_bytes() -> None:
    assert venv.needed_bytes([WHEEL, WHEEL], copied=True) == 80
    assert venv.needed_bytes([WHEEL, {"file": "b"}], copied=False) == 30


def test_remove_incomplete(tmp_path: Path) -> None:
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    for name in ("complete-1.dist-info", "half-1.dist-info"):
        (packages / name).mkdir(parents=True)
        (packages / name / "METADATA").touch()
    (packages / "complete-1.dist-info" / "INSTALLER").touch()
    assert venv.remove_incomplete(tmp_path) == ["half-1.dist-info"]
    assert [path.name for path in packages.iterdir()] == ["complete-1.dist-info"]


@pytest.mark.parametrize(
    ("output", "cause"),
    [
        (
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
            "there is no space left under /opt/x: free some, or set cluster_prefix elsewhere",
        ),
        (
            "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.",
            "a wheel is not the one that was locked: it was damaged in transfer, or the index has another of that name",
        ),
        ("something else", "pip failed"),
    ],
)
def test_explain(output: str, cause: str) -> None:
    assert venv.explain(f"\n{output}\n", Path("/opt/x")) == f"{cause}\n{output}"


def test_explain_hides_passwords() -> None:
    assert "secret" not in venv.explain("looking in https://me:secret@index.example/simple", Path("/"))


def test_mark_and_remove(tmp_path: Path) -> None:
    env = tmp_path / "envs" / "a"
    venv.begin(env)
    (env / "lib").mkdir()
    with pytest.raises(
        ValueError, match=r"^/.*/envs/a has not passed its checks: run site\.yml, which installs it again$"
    ):
        venv.marker(env)
    venv.mark(env, {"name": "native", "packages": {"torch": "2"}})
    assert venv.marker(env) == {"name": "native", "packages": {"torch": "2"}}
    venv.remove(env)
    assert not env.exists()


def test_somebody_elses_virtual_environment_stays(tmp_path: Path) -> None:
    (tmp_path / "envs/a/lib").mkdir(parents=True)
    venv.mark(tmp_path / "envs/a", {"name": "native"})
    venv.remove(tmp_path / "envs/a")
    with pytest.raises(ValueError, match="envs/a was not made by this collection"):
        venv.begin(tmp_path / "envs/a")
    assert (tmp_path / "envs/a/lib").is_dir()
    (tmp_path / "env").symlink_to(tmp_path / "envs/a")
    with pytest.raises(ValueError, match="env was not made by this collection"):
        venv.activate(tmp_path, "b")
    assert venv.active(tmp_path) == "a"


STACK = {"backend": "gloo", "interpreter": ".".join(map(str, sys.version_info[:2]))}


@pytest.mark.slow
def test_check_runs_the_interpreter_of_the_virtual_environment(tmp_path: Path) -> None:
    stdlib.create(tmp_path / "env", symlinks=True)
    env = tmp_path / "env"
    (packages,) = env.glob("lib/python3*/site-packages")
    metadata = packages / "tiny-1.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
    assert venv.check(env, STACK, {"tiny": "1.0"}) == {"problems": [], "found": {}, "mpi": {}}
    assert venv.check(env, STACK, {"tiny": "1.0+cpu", "pytest": "1"})["problems"] == [
        "pytest 1 is not installed; run site.yml again",
        "tiny is 1.0 instead of 1.0+cpu; another package replaced it, run site.yml again",
    ]


@pytest.mark.slow
def test_the_mpirun_of_bindings_is_the_one_that_jobs_start(tmp_path: Path) -> None:
    env = tmp_path / "env"
    stdlib.create(env, symlinks=True)
    (packages,) = env.glob("lib/python3*/site-packages")
    bindings = stand_ins.make_bindings(packages)
    stack = {**STACK, "backend": "ccl", "bindings": bindings.name}
    checked = venv.check(env, stack, {})
    assert checked["problems"] == []
    assert checked["found"] == {"mpirun": f"{bindings}/opt/mpi/bin/mpirun"}
    system = f"{env}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    assert checked["mpi"] == {
        "CCL_ROOT": str(bindings),
        "PATH": f"{bindings}/opt/mpi/bin:{system}",
        "LD_LIBRARY_PATH": f"{bindings}/opt/mpi/libfabric/lib:{bindings}/opt/mpi/lib:{bindings}/lib:{env}/lib",
        "FI_PROVIDER_PATH": f"{bindings}/opt/mpi/libfabric/lib/prov:/usr/lib64/libfabric",
        "I_MPI_ROOT": f"{bindings}/opt/mpi",
        "FI_PROVIDER": "tcp",
    }
    # What is recorded stays when the virtual environment is activated without a check.
    venv.mark(env, venv.with_mpi(env, stack, checked["mpi"]))
    assert venv.with_mpi(env, stack, None) == {**stack, "mpi": checked["mpi"]}
    assert installed.fabric_providers(env, checked["mpi"]) == ([], "")
    (bindings / "env/setvars.sh").unlink()
    assert venv.check(env, stack, {})["mpi"]["PATH"] == f"{bindings}/bin:{system}"


def test_check_of_nothing(tmp_path: Path) -> None:
    (problem,) = venv.check(tmp_path, STACK, {})["problems"]
    assert problem.startswith("the checks did not start: [Errno 2] No such file or directory: ")


@pytest.mark.parametrize(
    ("code", "output", "errors", "problems"),
    [
        (0, 'a warning\n{"problems": [], "found": {}}\n', "", []),
        (0, '{"problems": ["a; b"], "found": {}}', "", ["a; b"]),
        (-4, "", "Illegal\ninstruction", ["the checks did not finish (exit code -4): Illegal instruction"]),
        (1, "7", "", ["the checks did not finish (exit code 1): it printed nothing"]),
        (1, "{}", "", ["the checks did not finish (exit code 1): it printed nothing"]),
    ],
)
def test_result_of_check(code: int, output: str, errors: str, problems: list[str]) -> None:
    assert venv.result_of_check(code, output, errors) == {"problems": problems, "found": {}}
