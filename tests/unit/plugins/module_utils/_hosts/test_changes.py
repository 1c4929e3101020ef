"""Changes of site.yml, from what is requested and what reset_info has found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._hosts import changes

REQUESTED = changes.Requested(
    user="ubuntu",
    prefix="/opt/amx-cluster",
    become=True,
    package="libtcmalloc-minimal4",
    haproxy=False,
    linger=False,
    kernel={},
    nofile="65536",
    memlock="unlimited",
    shm_gib=4.0,
    firewall="absent",
    ssh_mode="head",
    ssh_name="amx_cluster",
    network="10.0.0.0/24",
)
NOTHING: dict[str, Any] = {
    "environments": {"paths": []},
    "ssh": {"paths": [], "keys": []},
    "tuning": {"paths": [], "settings": 0},
    "firewall": {"paths": [], "rules": []},
}
ALL: dict[str, Any] = {
    "environments": {"paths": ["/opt/amx-cluster/envs"]},
    "ssh": {"paths": ["/home/ubuntu/.ssh/amx_cluster"], "keys": ["amx_cluster@node0"]},
    "tuning": {"paths": ["/etc/security/limits.d/90-amx-cluster.conf"], "settings": 0},
    "firewall": {"paths": [], "rules": []},
}


def groups(requested: changes.Requested, made: dict[str, Any], **of: bool) -> list[str]:
    settings = {"is_head": False, "is_alone": False, **of}
    return [group for group, _change in changes.of_host(requested, made, **settings)]


def test_a_new_host() -> None:
    assert groups(REQUESTED, NOTHING) == ["directories", "SSH", "packages", "limits", "boot unit"]
    assert groups(REQUESTED, NOTHING, is_head=True).count("SSH") == 2
    text = "authorized_keys of ubuntu: this key, from the cluster's addresses in 10.0.0.0/24"
    assert ("SSH", text) in changes.of_host(REQUESTED, NOTHING, False, False)
    assert groups(replace(REQUESTED, ssh_mode="full"), NOTHING).count("SSH") == 2
    assert groups(replace(REQUESTED, become=False), NOTHING, is_alone=True) == ["directories"]


def test_a_host_that_is_set_up() -> None:
    assert groups(replace(REQUESTED, package=""), ALL, is_head=True) == []


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"haproxy": True, "linger": True}, ["packages", "users"]),
        ({"kernel": {"proc/sys/vm/zone_reclaim_mode": "1"}}, ["kernel settings"]),
        ({"firewall": "present"}, ["firewall"]),
        ({"firewall": "open"}, ["firewall"]),
        ({"become": False, "firewall": "present"}, []),
    ],
)
def test_what_a_host_that_is_set_up_gets(fields: dict[str, Any], expected: list[str]) -> None:
    assert groups(replace(REQUESTED, package="", **fields), ALL) == expected


def test_kernel_settings_and_rules_that_are_there() -> None:
    settings = {"paths": [*ALL["tuning"]["paths"], "/etc/sysctl.d/90-amx-cluster.conf"], "settings": 1}
    tuned = {**ALL, "tuning": settings, "firewall": {"paths": [], "rules": ["table inet amx_cluster"]}}
    requested = replace(REQUESTED, package="", kernel={"proc/sys/vm/zone_reclaim_mode": "1"})
    assert groups(replace(requested, firewall="present"), tuned) == []
    assert groups(requested, tuned) == ["firewall"]  # whose rules are removed


def test_a_host_with_a_database_is_named() -> None:
    assert changes.beside(["postgresql", "libvirt"]) == [
        ("other use", "runs postgresql, libvirt: jobs take cores and memory from it")
    ]
    assert changes.beside([]) == []


def test_the_table() -> None:
    head, worker = (list(changes.of_host(REQUESTED, NOTHING, is_head, False)) for is_head in (True, False))
    text = changes.text({"node0": head, "node1": worker, "node2": []})
    lines = text.splitlines()
    assert lines[0] == "On these hosts, site.yml will change:"
    assert [line.split()[0] for line in lines[1:-1]] == ["directories", "SSH", "SSH", "packages", "limits", "boot"]
    assert lines[2].endswith("  node0")
    assert lines[3].endswith("  node0, node1")
    assert changes.text({"node0": worker, "node1": worker}).splitlines()[1].endswith("  all hosts")
    assert changes.text({"node0": [], "node1": []}) == ""
