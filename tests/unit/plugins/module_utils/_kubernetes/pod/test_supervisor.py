"""The status that the first pod keeps: what it takes over, how rounds count, and which causes are added later."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._io import write_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import heartbeats
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.pod import (
    launch,
    places,
    ranks,
    rounds,
    supervisor,
)
from support.checkout import ROOT
from support.clock import SetClock
from support.kubernetes_jobs import STACK, derive, job_of, write
from support.runs import host

SMOKE = ROOT / "jobs/smoke.yml"


def supervising(folder: Path, restarts: int = 1, **status: Any) -> supervisor.PodSupervisor:
    """Return the supervisor of a job of two pods. status: what an earlier one has left, if any."""
    made = places.Places(*(folder / name for name in ("prefix", "job", "storage", "scratch")))
    derived = derive(SMOKE, {"restarts": restarts}, workers=2)
    write(made.job, derived, job_of(SMOKE, {"restarts": restarts}))
    job = places.Job.read(made.job)
    here = folder / "here"
    here.mkdir()
    kept = job.kept(made)
    (kept / "output").mkdir(parents=True)
    if status:
        write_json(kept / "status.json", {"attempts": [], "notes": [], "reason": "", "started": "s", **status})
    plan = launch.own_plan(job.run, STACK, places.Places(Path("/opt")), host("a", 1))
    start = launch.Start(job, here, 0, "a", "node0", plan, 1)
    return supervisor.PodSupervisor(made, start, {"AMX_CLUSTER_INDEX": "0"}, SetClock())


def announce(made: supervisor.PodSupervisor, port: int, pods: str = "ab", incarnation: str = "1") -> None:
    """Have the pods begin a round, the first of them here; the last one with this incarnation."""
    for number, name in enumerate(pods):
        own = launch.own_plan(made.run, STACK, places.Places(Path("/opt")), host(name, 1))
        environ = {
            "RANK": str(number),
            "WORLD_SIZE": str(len(pods)),
            "LOCAL_RANK": "0",
            "MASTER_ADDR": "10.0.0.1",
            "MASTER_PORT": str(port),
            "GROUP_WORLD_SIZE": str(len(pods)),
            "AMX_CLUSTER_INDEX": str(number),
            rounds.INCARNATION: incarnation if name == pods[-1] else "1",
        }
        plan = launch.complete(own, environ)
        here = made.place if number == 0 else made.folder
        write_json(here / "plan.json", plan)
        rounds.announce(made.folder, here, plan, environ, "")


@pytest.fixture
def receiver() -> Any:
    with heartbeats.Receiver("127.0.0.1") as made:
        yield made


def look(made: supervisor.PodSupervisor, receiver: heartbeats.Receiver) -> str:
    made.clock.sleep(supervisor.LOOK)
    return made.look(receiver)


@pytest.mark.slow
def test_rounds_are_attempts_and_a_lost_pod_is_named(tmp_path: Path, receiver: heartbeats.Receiver) -> None:
    made = supervising(tmp_path)
    announce(made, 1)
    assert look(made, receiver) == ""
    assert [name["host"] for name in made.plan["hosts"]] == ["a", "b"]
    assert (made.status["hosts"], made.status["ranks"], made.failed()) == (2, 2, 0)
    announce(made, 2, incarnation="2")
    assert look(made, receiver) == ""
    look(made, receiver)
    first, second = made.status["attempts"]
    assert first["reason"].startswith("b does not answer any more (it was lost, ")
    assert ("reason" in second, made.failed()) == (False, 1)
    announce(made, 3)
    assert look(made, receiver) != "", "the job has one restart"
    assert made.failed() == 2


@pytest.mark.slow
def test_a_pod_that_joins_is_no_failure(tmp_path: Path, receiver: heartbeats.Receiver) -> None:
    made = supervising(tmp_path, restarts=0)
    announce(made, 1, "a")
    look(made, receiver)
    announce(made, 2, "ab")
    assert look(made, receiver) == ""
    assert (made.failed(), len(made.status["attempts"])) == (0, 2)
    assert "1 pod(s) have joined: all ranks were started again" in made.status["notes"]


def test_the_place_of_a_pod_that_was_killed(tmp_path: Path, receiver: heartbeats.Receiver) -> None:
    made = supervising(
        tmp_path, 0, state="running", launch=3, pod="old", node="n", attempts=[{"started": "s", "from": "checkpoint-2"}]
    )
    (attempt,) = made.status["attempts"]
    assert attempt["reason"] == "pod old on node n was lost"
    assert (made.status["started"], made.status["launch"]) == ("s", 3)
    reason, code = made.launches(receiver)
    assert (reason, code) == ("pod old on node n was lost, and the job has no restart left", 1)


def test_a_job_that_has_ended_begins_anew(tmp_path: Path) -> None:
    made = supervising(tmp_path, state="failed", launch=3, attempts=[{"started": "s", "reason": "x", "ended": "e"}])
    assert (made.status["attempts"], made.status["launch"], made.status["state"]) == ([], 3, "running")


def test_a_job_that_was_lost_and_is_started_again_has_all_its_restarts(tmp_path: Path) -> None:
    lost = {"started": "s", "ended": "e", "from": "the beginning", "returncode": 1, "reason": "pod a was evicted"}
    made = supervising(tmp_path, 0, state="lost", launch=3, pod="a", node="n", attempts=[lost])
    status = dict(made.status)
    made.keep_job()
    write_json(made.folder / supervisor.STOP, {"version": 1})
    again = replace(made.run, settings=replace(made.run.settings, since="2026-11-22T22:00:00"))
    start = replace(made.start, job=replace(made.start.job, run=again))
    resumed = supervisor.PodSupervisor(made.places, start, {"AMX_CLUSTER_INDEX": "0"})
    assert made.failed() == 1, "the pod that takes the place of a lost one counts on"
    assert (resumed.failed(), resumed.status["launch"], resumed.status["state"]) == (0, status["launch"], "running")
    assert not (made.folder / supervisor.STOP).exists(), "the previous run was to be stopped, not this one"


@pytest.mark.slow
def test_a_pod_that_is_lost_when_all_ranks_have_ended_well(
    tmp_path: Path, receiver: heartbeats.Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal may come at any moment between the end of torchrun and that of the supervisor: each is tried."""
    made = supervising(tmp_path)
    monkeypatch.setattr(launch.Start, "command", lambda *_arguments: ["true"])
    end = ranks.Ranks.end

    def evicted(ranks: Any) -> int:
        made.stop("lost", "pod a was deleted or evicted")
        return end(ranks)

    monkeypatch.setattr(ranks.Ranks, "end", evicted)
    assert made.launches(receiver) == ("", 0)
    made.stop("lost", "pod a was deleted or evicted")
    made.finish("", 0, 1.0)
    assert (made.status["state"], made.status["reason"]) == ("succeeded", "")
    assert made.status["attempts"][-1]["reason"] == ""


def test_a_pod_that_cannot_run_its_ranks_ends_the_job(tmp_path: Path, receiver: heartbeats.Receiver) -> None:
    made = supervising(tmp_path)
    rounds.refuse(made.folder, 1, "b", "this image has no virtual environment")
    assert look(made, receiver) == "pod b: this image has no virtual environment"
    made.status["attempts"].append({"from": "checkpoint-1", "returncode": 1})
    assert not made.is_worth_it(), "it would again"


def test_ranks_of_other_pods_that_are_busy(tmp_path: Path) -> None:
    made = supervising(tmp_path)
    message = {"rank": -1, "host": "b", "idle": 0, "files": {}, "oom_kills": 0, "busy": {"1": 0.9, "2": 0.0, "x": "y"}}
    made.take([json.loads(json.dumps(message))])
    assert isinstance(made.watch, supervisor.PodWatch)
    assert 1 in made.watch.told
    assert 2 not in made.watch.told
