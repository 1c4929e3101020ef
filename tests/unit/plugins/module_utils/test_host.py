from __future__ import annotations

import os
import platform
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils import _host

GIB = 2**30
INFO: dict[str, Any] = {
    "machine": "x86_64",
    "glibc": "2.36",
    "isa": "amx",
    "prefix": "/opt/amx-cluster",
    "prefix_ancestor": "/opt",
    "prefix_free_bytes": 20 * GIB,
    "prefix_writable": True,
    "addresses": [{"interface": "eth0", "address": "10.0.0.5", "network": "10.0.0.0/24", "default": True}],
}


def told(changes: dict[str, Any] | None = None, **asked: Any) -> list[str]:
    """The problems of a host that is sound but for `changes`, as a person reads them."""
    request: dict[str, Any] = {"facts": {}, "sudo": {}, "needed_bytes": 6 * GIB, "become": True, "network": ""}
    found = _host.problems("node1", info={"host": {**INFO, **(changes or {})}}, **{**request, **asked})
    assert all(problem["host"] == "node1" for problem in found)
    return [f"{problem['what']}. {problem['advice']}." for problem in found]


def test_a_sound_host_has_no_problems() -> None:
    assert told() == []
    assert told({"prefix_writable": False}) == []  # sudo makes the folder


GLIBC = "The wheels need glibc 2.28 or newer (Debian 10, Ubuntu 20.04, RHEL 8)."


@pytest.mark.parametrize(
    ("changes", "asked", "problem"),
    [
        ({"machine": "aarch64"}, {}, "its architecture is aarch64. The wheels are for x86_64 only."),
        ({"glibc": "2.17"}, {}, f"its C library is glibc 2.17. {GLIBC}"),
        ({"glibc": ""}, {}, f"its C library is not glibc. {GLIBC}"),
        (
            {"prefix_free_bytes": int(5.5 * GIB)},
            {},
            "5.5 GiB are free for /opt/amx-cluster and 6.0 GiB are needed. "
            "Make room under /opt, or set cluster_prefix to a folder on a larger file system.",
        ),
        (
            {"prefix_writable": False},
            {"become": False},
            "the user cannot write /opt, where /opt/amx-cluster is to be made. "
            "Set cluster_prefix to a folder of the user's, or cluster_become to true.",
        ),
        (
            {},
            {"sudo": {"failed": True, "msg": "Missing sudo password\n"}},
            "sudo does not work: Missing sudo password. Let the user use sudo without a password, "
            "or run with --ask-become-pass, or set cluster_become to false.",
        ),
        (
            {},
            {"network": "10.9.0.0/16"},
            "none of the host's addresses lies in cluster_network 10.9.0.0/16, where one is expected; its addresses: "
            "eth0 10.0.0.5 in 10.0.0.0/24. Name in cluster_network the network over which ranks talk.",
        ),
    ],
)
def test_problem(changes: dict[str, Any], asked: dict[str, Any], problem: str) -> None:
    assert told(changes, **asked) == [problem]


def test_all_problems_are_told() -> None:
    assert len(told({"machine": "aarch64", "glibc": "2.17", "prefix_free_bytes": 0, "addresses": []})) == 4


@pytest.mark.parametrize(
    "wrapping",
    [
        "",
        "Failed to connect to the host via ssh: ",
        'Task failed: Data could not be sent to remote host "x". Make sure this host can be reached over ssh: ',
    ],
)
def test_a_host_that_did_not_answer(wrapping: str) -> None:
    unreachable = {"unreachable": True, "msg": f"{wrapping}ssh: connect:\r\n  Connection refused."}
    assert _host.problems("node1", unreachable, {"skipped": True}, {}, 0, True, "") == [
        {
            "host": "node1",
            "what": "cannot be reached: ssh: connect: Connection refused",
            "advice": "Check its ansible_host and ansible_user, and that ssh from this machine to it works "
            "without a question",
        }
    ]
    for facts, info in (
        ({"failed": True, "msg": "no Python"}, {}),
        ({}, {"failed": True, "module_stderr": "no Python"}),
    ):
        assert _host.problems("node1", facts, info, {}, 0, True, "") == [
            {
                "host": "node1",
                "what": "could not be asked: no Python",
                "advice": "It needs Python 3.9 or newer for Ansible's modules",
            }
        ]


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
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("model name\t: Xeon\nflags\t\t: amx_tile amx_bf16\n\nmodel name\t: other\n")
    host = _host.read(tmp_path / "cluster" / "prefix", cpuinfo)
    assert host["machine"] == platform.machine()
    assert (host["isa"], host["cpu_model"]) == ("amx", "Xeon")
    assert (host["prefix"], host["prefix_ancestor"]) == (str(tmp_path / "cluster/prefix"), str(tmp_path))
    assert host["prefix_writable"]
    assert host["prefix_free_bytes"] > 0


def test_a_file_is_no_place_for_a_prefix(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert not _host.read(tmp_path / "file")["prefix_writable"]
