from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from amx_cluster.inference import together
from amx_cluster.inference.together import Host

# Longer than anything here takes; nothing waits so long unless it fails.
LIMIT = 60.0


@pytest.fixture
def hosts(tmp_path: Path) -> list[Host]:
    """Two instances of a host; locks of one process exclude each other, as each opens the file itself."""
    return [Host(tmp_path, number, 2) for number in range(2)]


def in_thread(work: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()), daemon=True)
    thread.start()
    return thread, found


def test_instances_wait_for_each_other(hosts: list[Host]) -> None:
    thread, found = in_thread(lambda: hosts[0].wait("c01", "closed", LIMIT))
    time.sleep(5 * together.LOOK)
    assert found == []
    assert hosts[1].wait("c01", "closed", LIMIT)
    thread.join(LIMIT)
    assert found == [True]


def test_an_instance_that_failed_in_the_cell_is_not_waited_for(hosts: list[Host]) -> None:
    hosts[1].gone("c01")
    assert not hosts[0].wait("c01", "closed", LIMIT)
    # In the next cell it takes part again.
    assert not hosts[0].wait("c02", "closed", 3 * together.LOOK)
    hosts[1].wait("c02", "closed", 0)
    assert hosts[0].wait("c02", "closed", LIMIT)


def test_an_instance_whose_process_ended_is_not_waited_for(hosts: list[Host]) -> None:
    thread, found = in_thread(lambda: hosts[0].wait("c01", "closed", LIMIT))
    time.sleep(3 * together.LOOK)
    os.close(hosts[1].lock)
    thread.join(LIMIT)
    assert found == [False]


def test_an_instance_that_has_not_started_is_waited_for(tmp_path: Path) -> None:
    first = Host(tmp_path, 0, 2)
    thread, found = in_thread(lambda: first.wait("c01", "begin", LIMIT))
    time.sleep(3 * together.LOOK)
    assert found == []
    assert Host(tmp_path, 1, 2).wait("c01", "begin", LIMIT)
    thread.join(LIMIT)
    assert found == [True]


def test_an_instance_is_seen_once_its_lock_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, lock = Host(tmp_path, 0, 2), fcntl.flock
    seen: list[bool] = []

    def late(file: int, operation: int) -> None:
        if operation == fcntl.LOCK_EX:  # a busy host: others look before it has the lock
            with monkeypatch.context() as patched:
                patched.setattr(fcntl, "flock", lock)
                seen.append(first._takes_part("c01", 1))
        lock(file, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    second = Host(tmp_path, 1, 2)
    assert seen == [True] and first._takes_part("c01", 1)
    os.close(second.lock)
    assert not first._takes_part("c01", 1)


def test_an_instance_of_an_earlier_start_is_not_taken_for_one_that_has_ended(tmp_path: Path) -> None:
    for number in range(2):
        os.close(Host(tmp_path, number, 2).lock)
    first = Host(tmp_path, 0, 2)
    assert first._takes_part("c01", 1)  # it is still starting
    second = Host(tmp_path, 1, 2)
    assert first._takes_part("c01", 1) and second._takes_part("c01", 0)
    os.close(second.lock)
    assert not first._takes_part("c01", 1)


def test_a_wait_ends_at_its_time_limit(hosts: list[Host]) -> None:
    assert not hosts[0].wait("c01", "closed", 3 * together.LOOK)
    assert hosts[1].hear("c01.memory", "c01", 3 * together.LOOK) is None


def test_what_an_earlier_start_left_behind_does_not_count(tmp_path: Path) -> None:
    old = Host(tmp_path, 1, 2)
    old.wait("c01", "begin", 0)
    old.gone("c01")
    os.close(old.lock)
    Host(tmp_path, 1, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alive.1"]
    first = Host(tmp_path, 0, 2)
    first.announce("c01.memory", "too large")
    os.close(first.lock)
    Host(tmp_path, 0, 2)
    assert not list(tmp_path.glob("*.said"))


def test_the_first_instance_announces(hosts: list[Host]) -> None:
    thread, found = in_thread(lambda: hosts[1].hear("c01.memory", "c01", LIMIT))
    hosts[0].announce("c01.memory", "too large")
    thread.join(LIMIT)
    assert found == ["too large"]


def test_nothing_is_heard_of_a_first_instance_that_is_gone(hosts: list[Host]) -> None:
    hosts[0].gone("c01")
    assert hosts[1].hear("c01.memory", "c01", LIMIT) is None
