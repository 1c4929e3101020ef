from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._hosts import doctor
from ansible_collections.amx.cluster.plugins.module_utils._hosts.amx import judge, probe
from ansible_collections.amx.cluster.plugins.module_utils._hosts.doctor import CHECKS, FAILURE, GIB, Wanted, examine

DOCUMENT = Path(__file__).resolve().parents[5] / "docs" / "doctor.md"
CAPTURED = Path(__file__).resolve().parents[3] / "fixtures" / "proc"
GRANTED = {"supported": 0x602E7, "granted": 0x602E7, "supported_errno": 0, "request_errno": 0, "killed": 0}
NETWORK = "10.0.0.0/24"
WHOLE = Wanted(network=NETWORK, whole=True)
JOB = "/opt/amx-cluster/jobs/demo"


def amx(machine: str) -> dict[str, Any]:
    seen = probe(str(CAPTURED / machine))
    return judge(seen["machine"], seen["release"], seen["cpuinfo"], GRANTED)


def info(number: int) -> dict[str, Any]:
    """What a sound host says of itself."""
    return {
        "machine": "x86_64",
        "glibc": "2.36",
        "os": "debian 12",
        "python": "3.11.2",
        "isa": "amx",
        "amx": amx("sapphire_rapids"),
        "cpu_model": "Intel(R) Xeon(R) Platinum 8480+",
        "memory_bytes": 512 * GIB,
        "memory_available_bytes": 500 * GIB,
        "shm_bytes": 256 * GIB,
        "home_writable": True,
        "prefix": "/opt/amx-cluster",
        "prefix_ancestor": "/opt",
        "prefix_free_bytes": 20 * GIB,
        "jobs_free_bytes": 20 * GIB,
        "prefix_writable": True,
        "addresses": [
            {"interface": "lo", "address": "127.0.0.1", "network": "127.0.0.0/8", "default": False},
            {"interface": "eth0", "address": f"10.0.0.{number}", "network": NETWORK, "default": True},
        ],
        "name": f"node{number}",
        "name_addresses": [f"10.0.0.{number}"],
        "tcmalloc": "/usr/lib/libtcmalloc.so.4",
        "denied_calls": [],
        "stack": {
            "env": "/opt/amx-cluster/envs/native-1",
            "key": "1",
            "name": "native",
            "pinned": {"torch": "2.13.0+cpu"},
            "versions": {"torch": "2.13.0+cpu", "tokenizers": "0.23.3"},
            "providers": ["tcp of eth0", "tcp of lo"],
            "provider_error": "",
        },
        "processes": [],
        "running_jobs": [],
    }


def cluster(hosts: int = 3) -> dict[str, dict[str, Any]]:
    """What the hosts of a sound cluster answer."""
    names = [f"node{number}" for number in range(hosts)]
    return {
        name: {
            "facts": {},
            "info": {"host": info(number)},
            "sudo": {},
            "listener": {"port": 40000},
            "peers": {
                "names": {other: [f"10.0.0.{place}"] for place, other in enumerate(names) if other != name},
                "connections": {
                    other: {"error": "", "offset": 0.01, "uncertainty": 0.001} for other in names if other != name
                },
                "logins": dict.fromkeys(names[1:], "") if number == 0 else {},
            },
        }
        for number, name in enumerate(names)
    }


def told(answers: dict[str, dict[str, Any]], wanted: Wanted = WHOLE) -> list[tuple[str, str, str]]:
    return [(finding.host, finding.check, finding.found) for finding in examine(answers, wanted)]


def test_nothing_is_found_in_a_sound_cluster() -> None:
    for hosts, wanted in itertools.product((1, 2, 3), (WHOLE, Wanted(network=NETWORK), Wanted())):
        assert told(cluster(hosts), wanted) == []


def test_a_machine_of_its_own_needs_no_name_and_no_network() -> None:
    answers = cluster(1)
    host = answers["node0"]["info"]["host"]
    host["name_addresses"] = ["127.0.1.1"]
    host["stack"]["providers"] = ["tcp of eth0"]
    answers["node0"].update(listener={}, peers={})
    assert told(answers, dataclasses.replace(WHOLE, network="127.0.0.0/8")) == []


# What one host says, and what must be found on it.
ALONE: list[tuple[dict[str, Any], dict[str, Any], str, str]] = [
    ({"home_writable": False}, {}, "user", "the user cannot write its home folder"),
    ({"machine": "aarch64"}, {}, "architecture", "its architecture is aarch64"),
    ({"glibc": "2.17"}, {}, "glibc", "its C library is glibc 2.17"),
    ({"glibc": ""}, {}, "glibc", "its C library is not glibc"),
    (
        {"memory_available_bytes": 1.5 * GIB},
        {},
        "memory",
        "1.5 GiB of 512.0 GiB memory are free and 2.0 GiB are needed",
    ),
    ({"prefix_free_bytes": 0}, {}, "disk", "0 MiB are free for /opt/amx-cluster and 1.0 GiB are needed"),
    (
        {"jobs_free_bytes": 200 * 2**20},
        {},
        "disk",
        "200 MiB are free for /opt/amx-cluster/jobs and 1.0 GiB are needed",
    ),
    (
        {"prefix_writable": False},
        {"become": False},
        "prefix",
        "the user cannot write /opt, where /opt/amx-cluster is to be made",
    ),
    ({"shm_bytes": 64 * 2**20}, {}, "shm", "/dev/shm has 64 MiB and 1.0 GiB are needed"),
    ({"name_addresses": ["127.0.1.1"]}, {}, "own_name", "its own name node1 resolves to 127.0.1.1"),
    ({"denied_calls": ["set_mempolicy"]}, {}, "system_calls", "set_mempolicy is forbidden"),
    (
        {"denied_calls": ["set_mempolicy", "process_vm_readv"]},
        {},
        "system_calls",
        "set_mempolicy and process_vm_readv are forbidden",
    ),
    ({"tcmalloc": ""}, {}, "tcmalloc", "the loader's cache has no libtcmalloc"),
    ({"os": "ubuntu 24.04"}, {}, "os", "the system is ubuntu 24.04, and debian 12 on node0, node2"),
    ({"python": "3.12.1"}, {}, "python", "Python is 3.12, and 3.11 on node0, node2"),
    ({"cpu_model": ""}, {}, "cpu_model", "the CPU is not known, and Intel(R) Xeon(R) Platinum 8480+ on node0, node2"),
    (
        {"isa": "avx512_bf16"},
        {},
        "isa",
        "the best instruction set is avx512_bf16, and amx on node0, node2",
    ),
    (
        {"amx": amx("emerald_rapids_guest_hidden")},
        {},
        "amx_unused",
        "INTEL(R) XEON(R) PLATINUM 8573C (Emerald Rapids) has AMX, and the CPU's flags do not show it: the hypervisor "
        "hides it",
    ),
    ({"amx": amx("ice_lake")}, {"require": "amx"}, "amx", "Intel(R) Xeon(R) Platinum 8352Y CPU @ 2.20GHz has no AMX"),
    (
        {"addresses": info(1)["addresses"][:1]},
        {},
        "network",
        "none of the host's addresses lies in cluster_network 10.0.0.0/24, where one is expected; its addresses: "
        "lo 127.0.0.1 in 127.0.0.0/8",
    ),
    ({"stack": {}}, {}, "stack", "no environment is installed at /opt/amx-cluster/env"),
]


@pytest.mark.parametrize(("said", "wanted", "check", "found"), ALONE)
def test_what_one_host_says(said: dict[str, Any], wanted: dict[str, Any], check: str, found: str) -> None:
    answers = cluster()
    answers["node1"]["info"]["host"].update(said)
    assert told(answers, dataclasses.replace(WHOLE, **wanted)) == [("node1", check, found)]


def test_no_avx512() -> None:
    answers = cluster(1)
    answers["node0"]["info"]["host"].update(isa="avx2", cpu_model="Old")
    assert told(answers, dataclasses.replace(WHOLE, require="avx512")) == [
        ("node0", "amx", "Old has no AVX-512 that torch uses: its best is avx2")
    ]


def test_an_installation_needs_more_room() -> None:
    answers = cluster(1)
    answers["node0"]["info"]["host"].update(stack={}, prefix_free_bytes=5 * GIB)
    assert told(answers, Wanted(network=NETWORK)) == [
        ("node0", "disk", "5.0 GiB are free for /opt/amx-cluster and 6.0 GiB are needed")
    ]


@pytest.mark.parametrize(
    ("result", "check", "found"),
    [
        (
            {"facts": {"unreachable": True, "msg": "Failed to connect:\r\n  Connection refused."}, "info": {}},
            "reachable",
            "cannot be reached: Failed to connect: Connection refused",
        ),
        ({"facts": {"failed": True, "msg": "no Python"}, "info": {}}, "python", "could not be asked: no Python"),
        (
            {"facts": {}, "info": {"failed": True, "module_stderr": "no ctypes"}},
            "python",
            "could not be asked: no ctypes",
        ),
        ({"facts": {}, "info": {"unreachable": True}}, "reachable", "cannot be reached: no reason was given"),
    ],
)
def test_a_host_that_did_not_answer(result: dict[str, Any], check: str, found: str) -> None:
    """It is told once: that others cannot log in there, or were not told its port, follows from it."""
    answers = cluster()
    answers["node1"] = {**result, "sudo": {}, "listener": {}, "peers": {}}
    for other in ("node0", "node2"):
        del answers[other]["peers"]["connections"]["node1"]
    answers["node0"]["peers"]["logins"]["node1"] = "Connection refused"
    assert told(answers) == [("node1", check, found)]


def test_sudo() -> None:
    answers = cluster(1)
    answers["node0"]["sudo"] = {"failed": True, "msg": "Missing sudo password\n"}
    assert told(answers) == [("node0", "sudo", "sudo does not work: Missing sudo password")]
    assert told(answers, dataclasses.replace(WHOLE, become=False)) == []


def test_a_filter_between_two_hosts() -> None:
    answers = cluster()
    answers["node1"]["peers"]["connections"]["node2"] = {"error": "no answer"}
    assert told(answers) == [
        ("node1", "connection", "it cannot connect to node2 on a port that listens there: no answer")
    ]
    answers["node1"]["peers"]["connections"]["node0"] = {"error": "no answer"}
    assert told(answers) == [
        ("node1", "connection", "it cannot connect to node0, node2 on a port that listens there: no answer")
    ]


@pytest.mark.parametrize("task", ["listener", "peers"])
def test_connections_that_could_not_be_tried(task: str) -> None:
    answers = cluster()
    answers["node1"][task] = {"failed": True, "msg": "cannot listen on 10.0.0.1"}
    assert told(answers) == [("node1", "connection", "could not try its connections: cannot listen on 10.0.0.1")]


def test_names() -> None:
    answers = cluster()
    answers["node2"]["peers"]["names"].update(node0=[], node1=[])
    assert told(answers) == [("node2", "names", "it does not resolve node0, node1")]


CHANGED = """\
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
The fingerprint for the ED25519 key sent by the remote host is
SHA256:qb1n8Tz+ZV/abc.
Host key verification failed."""


@pytest.mark.parametrize(
    ("said", "check", "found"),
    [
        (CHANGED, "host_key", "its host key is not the one pinned on the head: it shows SHA256:qb1n8Tz+ZV/abc"),
        (
            "No ED25519 host key is known for 10.0.0.1 and you have requested strict checking.\n"
            "Host key verification failed.",
            "login",
            "the head has no key pinned for it",
        ),
        (
            "train@10.0.0.1: Permission denied (publickey).",
            "login",
            "the head cannot log in: train@10.0.0.1: Permission denied (publickey).",
        ),
    ],
)
def test_logins(said: str, check: str, found: str) -> None:
    answers = cluster()
    answers["node0"]["peers"]["logins"]["node1"] = said
    assert told(answers) == [("node1", check, found)]


def clocks(*offsets: float, uncertainty: float = 0.001) -> dict[str, dict[str, Any]]:
    """A cluster whose other hosts' clocks are this much ahead of the head's."""
    answers = cluster(len(offsets) + 1)
    for number, offset in enumerate(offsets, 1):
        one = {"error": "", "offset": offset, "uncertainty": uncertainty}
        answers["node0"]["peers"]["connections"][f"node{number}"] = one
    return answers


def test_clocks() -> None:
    assert told(clocks(0.9, -0.05)) == []
    assert told(clocks(3600.0, 0.2)) == [("node1", "clock", "its clock is 3599.8 s ahead of the others' (± 0.001 s)")]
    # The head's own is the one that is off.
    assert told(clocks(3600.0, 3600.2)) == [("node0", "clock", "its clock is 3600.0 s behind the others'")]
    # Of two nobody can tell which one is right.
    assert told(clocks(-5.0)) == [("node1", "clock", "its clock is 5.0 s behind the others' (± 0.001 s)")]
    # What may be the time that asking took is not blamed on the clock.
    assert told(clocks(2.5, uncertainty=2.0)) == []


def test_clocks_are_read_by_the_next_host_when_the_head_does_not_answer() -> None:
    answers = clocks(0.0, 0.0)
    answers["node0"] = {"facts": {"unreachable": True}, "info": {}, "sudo": {}, "listener": {}, "peers": {}}
    answers["node1"]["peers"]["connections"]["node2"]["offset"] = 7.0
    assert [row[:2] for row in told(answers)] == [("node0", "reachable"), ("node2", "clock")]


def test_versions() -> None:
    answers = cluster()
    hosts = [answer["info"]["host"] for answer in answers.values()]
    hosts[1]["stack"]["versions"]["tokenizers"] = "0.0.1"
    hosts[2]["stack"]["versions"]["extra"] = "1"
    assert told(answers) == [
        ("node1", "packages", "tokenizers is 0.0.1, and should be 0.23.3"),
        ("node2", "packages", "extra is 1, and should be absent, as on the other hosts"),
    ]


def test_a_pinned_version_is_right_whatever_most_hosts_have() -> None:
    answers = cluster(2)
    for answer in answers.values():
        answer["info"]["host"]["stack"]["versions"]["torch"] = "2.13.0"
    found = "torch is 2.13.0, and should be 2.13.0+cpu"
    assert told(answers) == [("node0", "packages", found), ("node1", "packages", found)]
    del answers["node1"]["info"]["host"]["stack"]["versions"]["torch"]
    assert told(answers)[1] == ("node1", "packages", "torch is not installed, and should be 2.13.0+cpu")


def test_another_environment() -> None:
    answers = cluster()
    answers["node2"]["info"]["host"]["stack"].update(env="/opt/amx-cluster/envs/native-0", versions={"torch": "2.12"})
    assert told(answers) == [
        (
            "node2",
            "stack",
            "it uses /opt/amx-cluster/envs/native-0, and node0, node1 /opt/amx-cluster/envs/native-1",
        )
    ]


def test_providers() -> None:
    answers = cluster()
    hosts = [answer["info"]["host"] for answer in answers.values()]
    hosts[0]["stack"].update(providers=[], provider_error="fi_getinfo: -61 (No data available)")
    hosts[1]["stack"]["providers"] = ["tcp of eth7"]
    assert told(answers) == [
        ("node0", "provider", "libfabric has no provider tcp: fi_getinfo: -61 (No data available)"),
        (
            "node1",
            "provider",
            "libfabric has no provider tcp of eth0, which carries the cluster network, but tcp of eth7",
        ),
    ]


def test_ranks_of_a_dead_job() -> None:
    answers = cluster()
    rank = {"pid": 71, "kind": "rank", "job": JOB, "ports": [29500, 40001]}
    answers["node2"]["info"]["host"]["processes"] = [rank, {**rank, "pid": 72, "ports": []}]
    findings = examine(answers, Wanted(network=NETWORK))
    assert [(one.host, one.check, one.severity, one.found, one.advice) for one in findings] == [
        (
            "node2",
            "leftovers",
            FAILURE,
            f"2 process(es) of the job in {JOB}, which is not running, are left: 71 72, and hold the port(s) 29500, "
            "40001",
            "End them on this host: kill 71 72",
        )
    ]
    # The same ranks, while their job runs.
    answers["node0"]["info"]["host"]["running_jobs"] = [JOB]
    assert told(answers) == []
    # Whether it does is known on the head alone.
    answers["node0"] = {"facts": {"unreachable": True}, "info": {}, "sudo": {}, "listener": {}, "peers": {}}
    assert [row[:2] for row in told(answers)] == [("node0", "reachable")]


def test_the_short_form_asks_less() -> None:
    answers = cluster()
    for answer in answers.values():
        answer.update(listener={}, peers={})
        answer["info"]["host"].update(stack={}, tcmalloc="")
    assert told(answers, Wanted(network=NETWORK)) == []


def test_findings_stand_in_the_order_of_hosts_failures_first() -> None:
    answers = cluster()
    answers["node2"]["info"]["host"].update(machine="aarch64")
    answers["node1"]["info"]["host"].update(tcmalloc="", shm_bytes=0)
    assert [(one.host, one.check) for one in examine(answers, WHOLE)] == [
        ("node1", "shm"),
        ("node1", "tcmalloc"),
        ("node2", "architecture"),
    ]


def test_every_check_is_tried_by_a_test_here() -> None:
    """A check that no test makes find something may be one that cannot."""
    text = Path(__file__).read_text(encoding="utf-8")
    assert [name for name in CHECKS if f'"{name}"' not in text] == []


def test_summary() -> None:
    answers = cluster()
    answers["node1"]["info"]["host"].update(tcmalloc="", shm_bytes=0)
    assert doctor.summary([], 3, True) == f"{len(CHECKS)} checks on 3 host(s): no failure(s), no warning(s)"
    asked_less = sum(not check.peers for check in CHECKS.values())
    assert doctor.summary(examine(answers, WHOLE), 3, False) == (
        f"{asked_less} checks on 3 host(s): 1 failure(s), 1 warning(s)"
    )


def test_table() -> None:
    assert doctor.table([]) == ""
    answers = cluster()
    answers["node1"]["info"]["host"].update(tcmalloc="", shm_bytes=0)
    text = doctor.table(examine(answers, WHOLE), 110)
    assert max(len(line) for line in text.splitlines()) <= 110
    rows = text.splitlines()
    assert rows[0].split("  ")[0] == "host"
    assert rows[2].startswith("node1  shm                 /dev/shm has 0 MiB and 1.0 GiB are")
    assert any(line.startswith("node1  (warning) tcmalloc  the loader's cache") for line in rows)


def test_the_document_lists_every_check() -> None:
    """Write it anew with: python -c "from ... import doctor; print(doctor.markdown())"."""
    assert doctor.markdown() in DOCUMENT.read_text(encoding="utf-8")
