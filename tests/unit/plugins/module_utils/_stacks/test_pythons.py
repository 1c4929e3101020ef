from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._stacks import pythons
from ansible_collections.amx.cluster.plugins.module_utils._stacks.pythons import Choice, Host

NATIVE = ["3.10", "3.11", "3.12", "3.13", "3.14"]
OWN = "/usr/bin/python3"
DEBIAN_12 = Host(("3.11", OWN), system="debian 12")
DEBIAN_13 = Host(("3.13", OWN), system="debian 13")
ROCKY_9 = Host(("3.9", OWN), system="rocky 9.4")
UBUNTU_22 = Host(("3.10", OWN), system="ubuntu 22.04")
AMAZON = Host(("3.9", OWN), system="amzn 2023")


@pytest.mark.parametrize(
    ("hosts", "version", "packages"),
    [
        ([DEBIAN_12, DEBIAN_12], "3.11", ["", ""]),
        ([UBUNTU_22], "3.10", [""]),  # its own, though it has a newer one
        ([ROCKY_9, ROCKY_9], "3.12", ["python3.12", "python3.12"]),
        ([AMAZON], "3.11", ["python3.11"]),
        # Different systems: what fits all, with as few packages as possible.
        ([ROCKY_9, DEBIAN_12], "3.11", ["python3.11", ""]),
        ([UBUNTU_22, DEBIAN_12], "3.11", ["python3.11", ""]),
        ([AMAZON, DEBIAN_13], "3.13", ["python3.13", ""]),
    ],
)
def test_chosen(hosts: list[Host], version: str, packages: list[str]) -> None:
    named = {f"node{number}": host for number, host in enumerate(hosts)}
    chosen, choices = pythons.choose(named, NATIVE, install=True)
    assert chosen == version
    assert [choice.package for choice in choices.values()] == packages
    for host, choice in zip(hosts, choices.values()):
        assert choice.path == (f"/usr/bin/python{version}" if choice.package else host.own[1])


def test_what_is_installed_is_kept() -> None:
    """The next run finds the newer Python, and takes it without a package."""
    later = ROCKY_9._replace(others={"3.11": "/usr/local/bin/python3.11", "3.9": OWN})
    assert pythons.choose({"node0": later}, NATIVE, install=True) == (
        "3.11",
        {"node0": Choice("/usr/local/bin/python3.11", "")},
    )


def test_a_python_that_is_named() -> None:
    fixed = ROCKY_9._replace(fixed=("3.12", "/opt/python/bin/python3.12"))
    assert pythons.choose({"node0": fixed}, NATIVE, install=False) == (
        "3.12",
        {"node0": Choice("/opt/python/bin/python3.12", "")},
    )
    with pytest.raises(
        ValueError, match=r"torch_stack_python is /opt/python/bin/python3\.12, which is Python 3\.12, and the"
    ):
        pythons.choose({"node0": fixed}, ["3.9"], install=True)
    broken = ROCKY_9._replace(error="/opt/python does not run: no such file")
    with pytest.raises(ValueError, match=r"^- node0: torch_stack_python: /opt/python does not run: no such file$"):
        pythons.choose({"node0": broken}, NATIVE, install=True)


def refusal(hosts: dict[str, Host], install: bool = True) -> str:
    with pytest.raises(ValueError, match=r"^(- |ranks)") as raised:
        pythons.choose(hosts, NATIVE, install)
    return str(raised.value)


def test_hosts_without_one_are_named() -> None:
    """All of them, and what their distribution has where only sudo is missing."""
    old = Host(("3.9", OWN), system="debian 11")
    text = refusal({"node0": DEBIAN_12, "node1": old, "node2": ROCKY_9}, install=False)
    have = "and the stack has wheels for Python 3.10, 3.11, 3.12, 3.13, 3.14"
    assert text.splitlines() == [
        f"- node1 (debian 11) has Python 3.9, {have}: set torch_stack_python to the path of such a Python on this host",
        f"- node2 (rocky 9.4) has Python 3.9, {have}: install the package python3.12 there (roles may not use sudo), "
        "or set torch_stack_python to the path of such a Python on this host",
    ]


def test_hosts_without_a_common_one_are_named() -> None:
    text = refusal({"node0": DEBIAN_12, "node1": DEBIAN_13, "node2": DEBIAN_12})
    assert text.splitlines() == [
        "ranks of one job need the same Python, and these hosts can have no common one for this stack:",
        "- Python 3.11: node0, node2",
        "- Python 3.13: node1",
        "Install a common one and set torch_stack_python to its path, or make a cluster of each group",
    ]


@pytest.mark.slow
def test_interpreters_of_this_machine(tmp_path: Path) -> None:
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    (tmp_path / f"python{own}").symlink_to(sys.executable)
    (tmp_path / "python3.7").write_text("#!/bin/sh\necho nothing that Python prints\n")
    (tmp_path / "python3.7").chmod(0o755)
    (tmp_path / "python3.8-config").touch(0o755)
    found = pythons.gather("", [str(tmp_path), str(tmp_path / "missing")])
    assert found == {
        "own": [own, sys.executable],
        "others": {own: str(tmp_path / f"python{own}")},
        "fixed": [],
        "error": "",
    }
    fixed = pythons.gather(sys.executable)
    assert (fixed["fixed"][0], fixed["others"], fixed["error"]) == (own, {}, "")
    host = pythons.described({"pythons": fixed, "os": "debian 12"})
    assert (host.own, host.fixed, host.system) == ((own, sys.executable), tuple(fixed["fixed"]), "debian 12")


@pytest.mark.slow
def test_an_interpreter_that_does_not_run(tmp_path: Path) -> None:
    nothing = str(tmp_path / "python3.12")
    found = pythons.gather(nothing)
    assert found["error"].startswith(f"{nothing} does not run: ")
    assert found["fixed"] == []
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\necho No module named venv >&2; exit 1\n")
    script.chmod(0o755)
    with pytest.raises(
        ValueError, match=f"^{re.escape(str(script))} cannot make virtual environments: No module named venv$"
    ):
        pythons.ask(str(script))
