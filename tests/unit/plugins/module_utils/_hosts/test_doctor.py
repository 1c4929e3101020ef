from __future__ import annotations

import dataclasses
import itertools
import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils import _screen
from ansible_collections.amx.cluster.plugins.module_utils._hosts import doctor
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.catalogue import CHECKS
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.check import Cluster, Wanted
from support.fabrics import facts, lack
from support.sound_cluster import FULL, SHORT, results, silent

TESTS_OF_CHECKS = Path(__file__).parent / "checks"


def examined(reported: dict[str, dict[str, Any]], wanted: Wanted = FULL) -> list[tuple[str, str]]:
    return [(finding.host, finding.check) for finding in doctor.examine(Cluster(reported, wanted))]


def test_nothing_is_found_in_a_sound_cluster() -> None:
    for hosts, wanted in itertools.product((1, 2, 3), (FULL, SHORT)):
        assert examined(results(hosts), wanted) == []


def test_a_machine_of_its_own_needs_no_name_and_no_network() -> None:
    reported = results(1)
    host = reported["node0"]["info"]["host"]
    host["name_addresses"] = ["127.0.1.1"]
    host["stack"]["providers"] = ["tcp of eth0"]
    reported["node0"].update(listener=None, peers=None)
    host["network"] = {"interface": "lo", "address": "127.0.0.1"}
    assert examined(reported) == []


@pytest.mark.parametrize(
    ("tasks", "check"),
    [
        ({"facts": {"unreachable": True}}, "reachable"),
        ({"facts": {}, "info": {"unreachable": True}}, "reachable"),
        ({"facts": {"failed": True}}, "python"),
        ({"facts": {}, "info": {"failed": True}}, "python"),
    ],
)
def test_a_host_that_does_not_answer_is_reported_once(tasks: dict[str, Any], check: str) -> None:
    """That others cannot log in there, or have no port of it to connect to, follows from it."""
    reported = {**results(), "node1": silent(**tasks)}
    for other in ("node0", "node2"):
        del reported[other]["peers"]["connections"]["node1"]
    reported["node0"]["peers"]["logins"]["node1"] = "Connection refused"
    assert examined(reported) == [("node1", check)]


def test_the_short_form_needs_less() -> None:
    reported = results()
    for answer in reported.values():
        answer.update(listener=None, peers=None)
        answer["info"]["host"].update(stack={}, tcmalloc="")
    assert examined(reported, SHORT) == []


def spoilt() -> dict[str, dict[str, Any]]:
    reported = results()
    reported["node2"]["info"]["host"].update(machine="aarch64")
    reported["node1"]["info"]["host"].update(os="ubuntu 24.04", shm_bytes=0, glibc="2.17")
    return reported


def test_findings_are_in_the_order_of_hosts_then_failures_first_then_checks() -> None:
    assert examined(spoilt()) == [("node1", "glibc"), ("node1", "shm"), ("node1", "os"), ("node2", "architecture")]


def test_a_finding_has_the_advice_of_its_check_or_its_own() -> None:
    reported = results(1)
    reported["node0"]["info"]["host"].update(name_addresses=["127.0.1.1"], shm_bytes=0)
    advice = {finding.check: finding.advice for finding in doctor.examine(Cluster(reported, FULL))}
    known = {check.name: check.advice for check in CHECKS}
    assert advice == {
        "shm": known["shm"],
        "own_name": "In /etc/hosts, map node0 to 10.0.0.0, in place of 127.0.1.1",
    }


def test_every_check_is_listed_once_and_tested() -> None:
    """A check that no test makes find something may be one that cannot."""
    names = [check.name for check in CHECKS]
    assert len(names) == len(set(names))
    tests = "".join(path.read_text(encoding="utf-8") for path in TESTS_OF_CHECKS.glob("test_*.py"))
    assert [name for name in names if not re.search(rf"(findings|found_on_node1)\(\w+\.{name},", tests)] == []


def test_summary() -> None:
    every, short = len(CHECKS), sum(not check.full for check in CHECKS)
    assert 0 < short < every
    assert doctor.summary([], Cluster(results(), FULL)) == f"{every} checks on 3 hosts: no failures, no warnings"
    cluster = Cluster(results(1), SHORT)
    one = Cluster(spoilt(), SHORT)
    findings = doctor.examine(one)
    assert doctor.summary(findings, one) == f"{short} checks on 3 hosts: 3 failures, 1 warning"
    assert doctor.summary(findings[:1], cluster) == f"{short} checks on 1 host: 1 failure, no warnings"


def test_connections_are_tested_without_all_checks() -> None:
    with_connections = doctor.checks(dataclasses.replace(SHORT, connections=True))
    added = [check.name for check in with_connections if check not in doctor.checks(SHORT)]
    assert added == ["connection"]


def test_refusal() -> None:
    findings = doctor.examine(Cluster(spoilt(), SHORT))
    assert doctor.refusal([finding for finding in findings if finding.severity == "failure"]) == (
        "Nothing was changed, because node1, node2 cannot be used:\n"
        "- node1: the C library is glibc 2.17. Use a system with glibc 2.28 or newer (Debian 12, Ubuntu 22.04, RHEL 9)"
        ".\n"
        "- node1: /dev/shm has 0 KiB, 512 MiB are required. Give /dev/shm half of the memory (mount -o "
        "remount,size=50% /dev/shm), or start the container with --shm-size.\n"
        "- node2: the architecture is aarch64. Use x86_64 servers."
    )


def test_table() -> None:
    assert doctor.table([]) == ""
    reported = results()
    reported["node1"]["info"]["host"].update(tcmalloc="", shm_bytes=0)
    rows = doctor.table(doctor.examine(Cluster(reported, FULL)), 109).splitlines()
    assert max(map(len, rows)) <= 109
    assert rows[:3] == [
        "host   check               what was found                            what to do",
        "-----  ------------------  ----------------------------------------  ----------------------------------------",
        "node1  shm                 /dev/shm has 0 KiB, 512 MiB are required  Give /dev/shm half of the memory (mount",
    ]
    assert any(row.startswith("node1  (warning) tcmalloc  the loader's cache") for row in rows)
    assert rows[3] == " " * 69 + "-o remount,size=50% /dev/shm), or start"


def test_failures_come_first_with_colours() -> None:
    found = [
        doctor.Finding("node0", "tcmalloc", "warning", "it is missing", "Install it"),
        doctor.Finding("node1", "shm", "failure", "/dev/shm has 0 KiB", "Give it more"),
    ]
    plain = doctor.table(found).splitlines()
    assert [line.split()[0] for line in plain[2:]] == ["node1", "node0"]
    coloured = doctor.table(found, colours=True)
    assert f"\x1b[31mnode1  {'shm':18}\x1b[0m  /dev/shm" in coloured
    assert "\x1b[33mnode0  (warning) tcmalloc\x1b[0m  it is missing" in coloured
    assert _screen.plain(coloured).splitlines() == plain


@pytest.mark.parametrize("width", [40, 80])
def test_findings_are_a_list_on_a_narrow_screen(width: int) -> None:
    lines = doctor.table(doctor.examine(Cluster(spoilt(), FULL)), width).splitlines()
    assert max(map(len, lines)) <= width
    assert lines[0] == "FAILURE node1: glibc"
    assert "  found: the C library is glibc 2.17" in lines
    heads = [line.split()[0] for line in lines if line.startswith(("FAILURE", "WARNING"))]
    assert heads == sorted(heads)


def with_fabrics(*trees: str) -> dict[str, dict[str, Any]]:
    reported = results(len(trees))
    for answer, tree in zip(reported.values(), trees):
        answer["info"]["host"]["fabric"] = facts(tree)
    return reported


def test_fabrics_of_hosts() -> None:
    cluster = Cluster(with_fabrics("infiniband_hdr", "infiniband_hdr", "infiniband_down"), FULL)
    rows = [re.split(" {2,}", line) for line in doctor.fabrics_table(doctor.fabrics_of(cluster)).splitlines()]
    assert rows == [
        ["host", "fabric", "link", "locked memory", "jobs that use MPI"],
        ["----"] * 5,
        [
            "node0, node1",
            "InfiniBand mlx5_0 port 1 (ib0)",
            "ACTIVE (LinkUp), 200 Gb/sec (4X HDR)",
            "unlimited",
            "tcp, because of node2",
        ],
        ["", "InfiniBand mlx5_1 port 1 (ib1)", "DOWN (Disabled)"],
        [
            "node2",
            "InfiniBand mlx5_0 port 1 (ib0)",
            "DOWN (Polling)",
            "unlimited",
            f"tcp: {lack('infiniband_down')}",
        ],
    ]


@pytest.mark.parametrize(
    ("wanted", "trees", "jobs"),
    [
        ("auto", ("roce", "roce"), ["psm3", "psm3"]),
        ("auto", ("roce",), ["tcp"]),
        ("tcp", ("efa", "nothing"), ["tcp, as cluster_fabric says"] * 2),
        ("efa", ("efa", "nothing"), ["efa", "none: no EFA adapter"]),
        ("auto", ("nothing", "nothing"), []),
    ],
)
def test_what_jobs_use(wanted: str, trees: tuple[str, ...], jobs: list[str]) -> None:
    found = doctor.fabrics_of(Cluster(with_fabrics(*trees), dataclasses.replace(FULL, fabric=wanted)))
    assert [one.jobs for one in found.values()] == jobs


def test_no_table_without_a_fabric() -> None:
    assert doctor.fabrics_table(doctor.fabrics_of(Cluster(results(), FULL))) == ""
