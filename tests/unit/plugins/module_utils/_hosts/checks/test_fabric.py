from __future__ import annotations

import dataclasses
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks import fabric
from support.fabrics import facts, lack
from support.sound_cluster import FULL, SHORT, findings, found_on_node1, results


def reported(*trees: str) -> dict[str, dict[str, Any]]:
    """The results of as many hosts as there are trees of /sys; an empty name stands for a host without anything."""
    made = results(len(trees))
    for answer, tree in zip(made.values(), trees):
        answer["info"]["host"]["fabric"] = facts(tree or "nothing")
    return made


def test_a_named_fabric() -> None:
    wanted = dataclasses.replace(SHORT, fabric="mlx")
    assert findings(fabric.fabric, reported("infiniband_hdr", "infiniband_hdr"), wanted) == []
    assert findings(fabric.fabric, reported("infiniband_hdr", "infiniband_down", ""), wanted) == [
        ("node1", f"cluster_fabric is mlx, and it has {lack('infiniband_down')}"),
        ("node2", "cluster_fabric is mlx, and it has no InfiniBand or RoCE adapter"),
    ]
    assert found_on_node1(fabric.fabric, {}, fabric="auto") == []
    assert found_on_node1(fabric.fabric, {}, fabric="tcp") == []


def test_hosts_that_keep_jobs_on_tcp() -> None:
    hosts = reported("infiniband_hdr", "infiniband_down", "infiniband_hdr")
    assert findings(fabric.fabric_unused, hosts) == [
        ("node1", f"jobs use TCP instead of InfiniBand (mlx), because it has {lack('infiniband_down')}")
    ]
    assert findings(fabric.fabric_unused, hosts, dataclasses.replace(FULL, fabric="tcp")) == []
    limited = reported("roce", "roce")
    limited["node0"]["info"]["host"]["fabric"]["memlock_bytes"] = 8 << 20
    assert [host for host, _text in findings(fabric.fabric_unused, limited)] == ["node0"]


def test_nothing_is_said_where_there_is_no_fabric() -> None:
    for hosts in (results(), reported("", "", ""), reported("infiniband_down"), reported("efa", "efa")):
        assert findings(fabric.fabric_unused, hosts) == []
