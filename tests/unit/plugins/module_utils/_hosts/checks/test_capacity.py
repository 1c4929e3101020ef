from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks import capacity
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.check import GIB
from support.sound_cluster import findings, found_on_node1, results


def test_memory() -> None:
    text = "1.5 GiB of 512.0 GiB memory are free, 2.0 GiB are required"
    assert found_on_node1(capacity.memory, {"memory_available_bytes": 1.5 * GIB}) == [text]
    assert found_on_node1(capacity.memory, {"memory_available_bytes": 2 * GIB}) == []
    reported = results()
    for host, job in (("node0", "/jobs/runs"), ("node1", "/jobs/has_ended")):
        process = {"job": job, "rss_bytes": GIB}
        own = {"running_jobs": ["/jobs/runs"], "processes": [process], "memory_available_bytes": GIB}
        reported[host]["info"]["host"].update(own)
    assert [host for host, _text in findings(capacity.memory, reported)] == ["node1"]


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


def test_existing_ancestor(tmp_path: Path) -> None:
    assert capacity.existing_ancestor(tmp_path) == tmp_path
    assert capacity.existing_ancestor(tmp_path / "a" / "b") == tmp_path


def test_existing_ancestor_behind_a_closed_folder(as_another_user: Path) -> None:
    closed = as_another_user / "closed"
    (closed / "in").mkdir(parents=True)
    closed.chmod(0o600)
    assert capacity.existing_ancestor(closed / "in" / "prefix") == closed
    closed.chmod(0o700)


def test_what_is_in_places_of_the_collection(tmp_path: Path) -> None:
    """It is refused before the first change; links may be of another release, and other names are nobody's business."""
    assert capacity.unmarked_places(tmp_path / "none") == {"prefix_unmarked": []}
    _ownership.claim(tmp_path / "envs/ours", "virtual environment")
    (tmp_path / "envs/ours/amx-cluster.json").touch()
    (tmp_path / "envs/theirs/bin").mkdir(parents=True)
    (tmp_path / "env").symlink_to(tmp_path / "envs/ours")
    (tmp_path / "jobs").mkdir()
    assert capacity.unmarked_places(tmp_path) == {"prefix_unmarked": []}
    (tmp_path / "env").unlink()
    (tmp_path / "env/bin").mkdir(parents=True)
    (tmp_path / "cache").touch()
    (tmp_path / "envs/theirs/amx-cluster.json").touch()
    unmarked = [str(tmp_path / name) for name in ("env", "cache", "envs/theirs")]
    assert capacity.unmarked_places(tmp_path) == {"prefix_unmarked": unmarked}
    (text,) = found_on_node1(capacity.unmarked, {"prefix_unmarked": [f"{tmp_path}/env"]})
    assert text.startswith(f"{tmp_path}/env was not made by this collection")
