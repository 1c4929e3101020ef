from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import remote, watch, wire
from support import runs
from support.clock import SetClock

PLAN: dict[str, Any] = {
    "world_size": 2,
    "watch": {"stall": True, "group": True, "gradients": True},
    "hosts": [{"host": "node1", "ranks": [{"rank": 0}, {"rank": 1}]}],
}


def beat(rank: int, waiting: bool) -> dict[str, Any]:
    told = {"rank": rank, "host": "node1", "idle": 60.0, "files": {}, "oom_kills": 0}
    return {**told, "waiting": waiting, "stepped": True, "stack": f"where rank {rank} is"}


def test_who_is_not_listened_to_while_hosts_are_asked_is_not_silent(tmp_path: Path) -> None:
    """On hosts with much else to do each question takes long."""

    class Asks(watch.Watch):
        def _find_busy(self, ranks: Sequence[int]) -> None:
            assert list(ranks) == [1]
            self.clock.sleep(8)

    run = runs.run({"head": "node1"}, script=Path(__file__), stall_seconds=30)
    watched = Asks(tmp_path, run, PLAN, "node1", clock=SetClock())
    watched.take([beat(0, True), beat(1, False)])
    assert re.fullmatch(r".* for 60 s\nrank 1 on node1 is here, .*:\nwhere rank 1 is", watched.reason())


def watched(tmp_path: Path, receiver: Any = None) -> tuple[SetClock, watch.Watch]:
    run = runs.run({"head": "node1"}, script=Path(__file__), stall_seconds=600)
    plan = {**PLAN, "environment": "/env", "runtime": "/runtime", "watch": {**PLAN["watch"], "stall": False}}
    clock = SetClock()
    return clock, watch.Watch(tmp_path, run, plan, "node1", receiver, clock)


def end(rank: int, code: int) -> dict[str, Any]:
    return {"rank": rank, "host": "node1", "idle": 0, "files": {}, "oom_kills": -1, "exit": code}


def test_a_rank_that_its_launcher_does_not_miss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """mpirun does not notice the end of a process that has not used MPI while others of its host live."""
    clock, ranks = watched(tmp_path)
    monkeypatch.setattr(remote, "oom_kills", lambda *_hosts: {})
    ranks.take([beat(0, False), beat(1, False), end(1, -9)])
    assert ranks.reason() == ""  # the launcher may
    clock.now += watch.UNNOTICED
    ranks.take([beat(0, False)])
    assert ranks.reason().startswith("rank 1 on node1 was ended by signal 9")


@pytest.mark.slow
def test_a_rank_that_fails_for_a_host_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """mpirun may wait for that host."""
    clock, ranks = watched(tmp_path)
    monkeypatch.setattr(remote, "unreachable", lambda names, here: dict.fromkeys(names, "No route to host"))
    ranks.set_plan({**ranks.plan, "hosts": [{"host": f"node{n}", "ranks": [{"rank": n}]} for n in (0, 1)]})
    ranks.take([{**beat(0, False), "host": "node0"}, beat(1, False)])
    clock.now += 6
    ranks.take([{**end(0, 1), "host": "node0", "failed": "EOFError: no reply"}])
    clock.now += watch.UNNOTICED
    assert re.fullmatch(r"node1 does not answer .*\(No route to host\)", ranks.reason())


@pytest.mark.parametrize(
    ("why", "silent", "ended", "is_gone"),
    [
        ("No route to host", 16, False, True),
        ("No route to host", 16, True, True),
        (remote.LATE, 16, False, False),
        (remote.LATE, 61, False, True),
        (remote.LATE, 61, True, False),
    ],
)
def test_a_busy_host_is_not_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str, silent: float, ended: bool, is_gone: bool
) -> None:
    """One that takes connections may answer late, also while its launcher ends what its script has left."""
    clock, ranks = watched(tmp_path)
    monkeypatch.setattr(remote, "unreachable", lambda names, here: dict.fromkeys(names, why))
    ranks.take([beat(0, False), beat(1, False), *([end(0, 0), end(1, 0)] if ended else [])])
    clock.now += silent
    if why == remote.LATE:
        assert ranks.reason() == "", "it is asked again"
        clock.now += watch.SILENT
    assert ranks.reason() == (f"node1 does not answer any more ({why})" if is_gone else "")


def test_a_host_that_never_told_anything_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, ranks = watched(tmp_path)
    monkeypatch.setattr(remote, "unreachable", lambda names, here: dict.fromkeys(names, remote.LATE))
    clock.now += watch.STARTING
    assert ranks.reason() == ""
    clock.now += watch.SILENT
    assert ranks.reason() == "", "it is asked again"
    clock.now += watch.SILENT
    assert ranks.reason() == f"node1 does not answer any more ({remote.LATE})"


def test_a_rank_that_ends_well_is_no_fault(tmp_path: Path) -> None:
    """Also one whose arguments were refused, which its script has caught."""
    clock, ranks = watched(tmp_path)
    ranks.take([beat(0, False), {**beat(1, False), "failed": "train.py: error: no such argument"}, end(1, 0)])
    clock.now += 60
    ranks.take([beat(0, False)])
    assert ranks.reason() == ""


@pytest.mark.parametrize("connected", [True, False])
def test_the_host_of_a_silent_rank_is_asked_for_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connected: bool
) -> None:
    """Whoever kills rank.py kills the script with it, and nobody reports that. It may never have sent a heartbeat."""
    asked: list[list[str]] = []
    receiver = SimpleNamespace(ended=[1] if connected else [], endpoint="127.0.0.1:1:token")
    clock, ranks = watched(tmp_path, receiver)
    monkeypatch.setattr(remote, "oom_kills", lambda *_hosts: {})
    states: dict[str, int] = {}

    def on_every_host(command: Sequence[str], hosts: Sequence[str], here: str) -> dict[str, tuple[int, str]]:
        if command == ["true"]:
            return {"node1": (0, "")}
        asked.append(list(hosts))
        assert command[3:] == ["supervise", "--ranks", str(tmp_path), wire.attempt("127.0.0.1:1:token")]
        return {"node1": (0, json.dumps(states))}

    monkeypatch.setattr(remote, "on_every_host", on_every_host)
    ranks.take([beat(0, False), *([beat(1, False)] if connected else [])])
    for _look in range(20):
        clock.now += 1
        ranks.take([beat(0, False)])
        states = {"1": -9} if clock.now > 1008 else {}  # stopped, perhaps: its process is there
        reason = ranks.reason()
        if reason:
            break
    assert reason.startswith("rank 1 on node1 was ended by signal 9")
    assert clock.now <= 1020
    assert asked[0] == ["node1"] and len(asked) <= 3
