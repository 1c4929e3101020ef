"""Reports of the hosts of a cluster without faults, for tests of the doctor's checks to spoil."""

from __future__ import annotations

import dataclasses
from typing import Any

import yaml
from ansible_collections.amx.cluster.plugins.module_utils._hosts import machine
from ansible_collections.amx.cluster.plugins.module_utils._hosts.amx import judge, probe
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.catalogue import LIMITS
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.check import GIB, Check, Cluster, Wanted
from support.checkout import ROOT

CAPTURED = ROOT / "tests/unit/fixtures/proc"
GRANTED = {"supported": 0x602E7, "granted": 0x602E7, "supported_errno": 0, "request_errno": 0, "killed": 0}
NETWORK = "10.0.0.0/24"

_DEFAULTS = yaml.safe_load((ROOT / "roles/preflight/defaults/main.yml").read_text(encoding="utf-8"))
# What the role preflight asks for by default, in the full form.
FULL = Wanted(
    require=_DEFAULTS["preflight_require"],
    become=True,
    full=True,
    limits={limit: _DEFAULTS[f"preflight_{limit}"] for limit in LIMITS},
)
SHORT = dataclasses.replace(FULL, full=False)


def amx(machine: str) -> dict[str, Any]:
    """Return what amx_info returns on a captured machine whose kernel grants AMX."""
    seen = probe(str(CAPTURED / machine))
    return judge(seen["machine"], seen["release"], seen["cpuinfo"], GRANTED)


def info(number: int) -> dict[str, Any]:
    """Return what host_info returns on a host."""
    return {
        "machine": "x86_64",
        "glibc": "2.36",
        "os": "debian 12",
        "python": "3.11.2",
        "isa": "amx",
        "amx": amx("sapphire_rapids"),
        "cpu_model": "Intel(R) Xeon(R) Platinum 8480+",
        "cpus": 224,
        "cpu_quota": None,
        "memory_bytes": 512 * GIB,
        "memory_available_bytes": 500 * GIB,
        "shm_bytes": 256 * GIB,
        "home_writable": True,
        "login_prints": {},
        "login_variables": {},
        "prefix": "/opt/amx-cluster",
        "prefix_ancestor": "/opt",
        "prefix_free_bytes": 20 * GIB,
        "jobs_free_bytes": 20 * GIB,
        "prefix_writable": True,
        "prefix_unmarked": [],
        "slurm": None,
        "addresses": [
            {"interface": "lo", "address": "127.0.0.1", "network": "127.0.0.0/8", "default": False, "named": ""},
            {"interface": "eth0", "address": f"10.0.0.{number}", "network": NETWORK, "default": True, "named": ""},
        ],
        "network_given": True,
        "network": {"interface": "eth0", "address": f"10.0.0.{number}", "network": NETWORK},
        "machine_settings": machine.read(CAPTURED / "sapphire_rapids"),
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


def results(hosts: int = 3) -> dict[str, dict[str, Any]]:
    """The results of all tasks on hosts named node0, which is the head, node1 and so on."""
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


def silent(**tasks: Any) -> dict[str, Any]:
    """The results of a host on which a task failed, and those after it did not run."""
    return {**dict.fromkeys(("facts", "info", "sudo", "listener", "peers")), **tasks}


def findings(check: Check, reported: dict[str, dict[str, Any]], wanted: Wanted = FULL) -> list[tuple[str, str]]:
    """Return what one check finds: (host, text)."""
    return [(problem.host, problem.text) for problem in check.find(Cluster(reported, wanted))]


def found_on_node1(check: Check, facts: dict[str, Any], **wanted: Any) -> list[str]:
    """Return what one check finds when node1 of three hosts has these facts, which must be on that host alone."""
    reported = results()
    reported["node1"]["info"]["host"].update(facts)
    rows = findings(check, reported, dataclasses.replace(FULL, **wanted))
    assert {host for host, _text in rows} <= {"node1"}
    return [text for _host, text in rows]
