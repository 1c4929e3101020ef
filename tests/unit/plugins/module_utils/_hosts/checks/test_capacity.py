from __future__ import annotations

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks import capacity
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.check import GIB
from support.sound_cluster import found_on_node1


def test_memory() -> None:
    text = "1.5 GiB of 512.0 GiB memory are free, 2.0 GiB are required"
    assert found_on_node1(capacity.memory, {"memory_available_bytes": 1.5 * GIB}) == [text]
    assert found_on_node1(capacity.memory, {"memory_available_bytes": 2 * GIB}) == []


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({"prefix_free_bytes": 0}, "0 KiB are free for /opt/amx-cluster, 1.0 GiB are required"),
        ({"jobs_free_bytes": 200 << 20}, "200 MiB are free for /opt/amx-cluster/jobs, 1.0 GiB are required"),
        ({"prefix_free_bytes": 0, "jobs_free_bytes": 0}, "0 KiB are free for /opt/amx-cluster, 1.0 GiB are required"),
        # An installation needs more.
        ({"stack": {}, "prefix_free_bytes": 5 * GIB}, "5.0 GiB are free for /opt/amx-cluster, 6.0 GiB are required"),
    ],
)
def test_disk(facts: dict[str, object], text: str) -> None:
    assert found_on_node1(capacity.disk, facts) == [text]


def test_prefix() -> None:
    text = "the user cannot write to /opt, where /opt/amx-cluster is to be created"
    assert found_on_node1(capacity.prefix, {"prefix_writable": False}, become=False) == [text]
    assert found_on_node1(capacity.prefix, {"prefix_writable": False}) == []


def test_shm() -> None:
    text = "/dev/shm has 64 MiB, 512 MiB are required"
    assert found_on_node1(capacity.shm, {"shm_bytes": 64 << 20}) == [text]
