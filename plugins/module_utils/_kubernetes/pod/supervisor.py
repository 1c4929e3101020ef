# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Supervise a job from its first pod: the same files on the volume as the supervisor of hosts has on the head.

torchrun starts failed ranks again, in all pods at once (a round); Kubernetes starts lost pods again. Each round that
failed counts as one of the job's restarts, whatever has failed. A pod that takes the place of the first one goes on
with its status. States: running, succeeded, failed, stopped (on request, pod stop), lost (this pod has to end).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._clock import CLOCK, Clock
from ansible_collections.amx.cluster.plugins.module_utils._io import read_json, write_text
from ansible_collections.amx.cluster.plugins.module_utils._jobs import (
    batches,
    checkpoints,
    heartbeats,
    processes,
)
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run
from ansible_collections.amx.cluster.plugins.module_utils._jobs.supervision import Supervision, write_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs.watch import BUSY, Watch
from ansible_collections.amx.cluster.plugins.module_utils._jobs.wire import WRITTEN_BY_RANK_0
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.pod import rounds
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.pod.launch import Start, for_torchrun
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.pod.places import Places, say
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.pod.ranks import Ranks
from ansible_collections.amx.cluster.plugins.module_utils._text import now

STOP = "stop.json"
"""In the job's directory on the volume: the job is to be ended."""

ENDED = ("succeeded", "failed", "stopped")
SETTLE = 15  # seconds after a round's end in which pods may still write why it has ended
LOOK = 1  # seconds between two looks at what other pods have written


def ended_before(kept: Path, since: str) -> dict[str, Any]:
    """Return the status of a job that had ended before this pod began; empty for one that is to be run.

    kept: its directory on the volume. since: of this start. Kubernetes replaces a pod also where it was lost after the
    job's end, and the first one may be lost when it has written results.json, and not yet status.json. Files that are
    applied again have no time: after a failure they go on from the last checkpoint.
    """
    status, results = (read_json(kept / name) or {} for name in ("status.json", "results.json"))
    if status.get("since") != since:
        return {}
    state = status.get("state")
    if state not in ENDED and results.get("state") in ENDED and results.get("started") == status.get("started"):
        own = {name: results[name] for name in ("state", "reason", "ended", "seconds", "notes", "attempts")}
        status = {**status, **own, "returncode": int(results["state"] != "succeeded")}
    ended = status["state"] == "succeeded" or (since and status["state"] in ENDED)
    return status if ended else {}


class PodWatch(Watch):
    """The ranks of one round. Other pods cannot be asked: their own command pod tells which of their ranks are busy."""

    told: dict[int, float]

    def __init__(
        self, directory: Path, run: Run, plan: Mapping[str, Any], here: str, place: Path, clock: Clock = CLOCK
    ) -> None:
        """place: this pod's job directory."""
        super().__init__(directory, run, plan, here, clock=clock)
        self.place = place
        # When ranks of other pods were last said to be busy.
        self.told = {}

    def _silent(self) -> str:
        """Report nothing: torchrun finds out which pods are gone, and a pod may train without heartbeats."""
        return ""

    def _failure(self) -> str:
        """Report nothing: torchrun ends and restarts the ranks of all pods when one has failed."""
        return ""

    def _find_busy(self, ranks: Sequence[int]) -> None:
        own = processes.usage_of_ranks(self.place, 1)
        for rank in ranks:
            if own.get(rank, 0.0) > BUSY:
                self._worked[rank] = self.clock.monotonic()
            elif rank in self.told:
                self._worked[rank] = self.told[rank]

    def out_of_memory(self) -> list[str]:
        """Return nothing: each pod writes that about its own container."""
        return []

    def wrong_world(self) -> str:
        """Return how the group differs from the plan, where all pods and the first rank have told about themselves."""
        if 0 not in self.beats or not all(host["host"] for host in self.plan["hosts"]):
            return ""
        return super().wrong_world()


class PodSupervisor(Supervision):
    """The supervisor of a job in the first of its pods."""

    def __init__(self, places: Places, start: Start, environ: Mapping[str, str], clock: Clock = CLOCK) -> None:
        """environ: of this pod's container."""
        job, self.place = start.job, start.here
        kept = job.kept(places)
        watch = PodWatch(kept, job.run, start.plan, start.pod, start.here, clock)
        super().__init__(kept, job.run, start.plan, start.pod, watch)
        self.places, self.start, self.environ = places, start, environ
        self.pods = int(job.derived["pods"])
        # The round that runs: this pod's entry, and those of all pods that are known.
        self.own: dict[str, Any] = {}
        self.known: dict[int, dict[str, Any]] = {}
        # The round before, while pods may still write why it has ended: its entries, and until when.
        self.before: tuple[dict[int, dict[str, Any]], dict[str, Any], float] | None = None
        self.looked = 0.0
        # Whether a pod cannot run its ranks at all.
        self.refused = False
        # The ranks of the round before, in the order in which their heartbeats ended.
        self.ended: list[int] = []
        # Whether all ranks have ended well: then the loss of this pod takes nothing from the job.
        self.is_done = False
        self.continue_from(read_json(kept / "status.json"))

    def continue_from(self, earlier: Mapping[str, Any] | None) -> None:
        """Take over the status of the pod whose place this one takes; of a run that is over, only its launches."""
        since = self.run.settings.since
        self.status.update(pod=self.start.pod, node=self.start.node, launch=0, since=since)
        if earlier is None:
            return
        self.status["launch"] = earlier.get("launch", 0)
        # Of a run that was lost with all of its pods, and that a person has started again (job_resume), restarts and a
        # request to stop it do not count here.
        if earlier["state"] in ENDED or earlier.get("since", "") != since:
            for left in (STOP, "results.json", "utilization.json"):
                (self.folder / left).unlink(missing_ok=True)
            return
        self.status.update({name: earlier[name] for name in ("started", "attempts", "notes")})
        gone = f"pod {earlier.get('pod', '')} on node {earlier.get('node', '')}"
        for attempt in self.status["attempts"]:
            if "ended" not in attempt:
                attempt.update(ended=now(), returncode=1, reason=earlier["reason"] or f"{gone} was lost")
        self.note(f"{self.start.pod} has taken the place of {gone}")

    def stop(self, state: str, reason: str) -> None:
        if state != "lost" or not self.is_done:
            super().stop(state, reason)

    def first_rank_is_elsewhere(self) -> bool:
        """Return true: every rank 0 works in a directory of its pod's own."""
        return True

    def supervise(self) -> str:
        """Run the job to its end, and write what came of it; return its state."""
        code = 1
        try:
            self.keep_job()
            self.reserve()
            with heartbeats.Receiver(self.start.plan["hosts"][0]["address"], self.clock) as receiver:
                write_text(self.folder / rounds.ENDPOINT, receiver.endpoint, 0o600)
                reason, code = self.launches(receiver)
        except Exception as error:  # whatever it is: nobody is to wait for a job that is not looked after
            reason = f"its supervisor in pod {self.here} failed ({type(error).__name__}: {error})"
            say(reason)
        begun = datetime.fromisoformat(self.status["started"])
        self.finish(reason, code, (datetime.now(timezone.utc) - begun).total_seconds())
        if self.status["state"] in ENDED:
            rounds.clear(self.folder)
        return str(self.status["state"])

    def keep_job(self) -> None:
        """Put the job's files beside its results."""
        for name in ("job.yml", "job.json", "kubernetes.json"):
            if (self.places.job / name).exists():
                write_text(self.folder / name, (self.places.job / name).read_text(encoding="utf-8"), 0o600)

    def failed(self) -> int:
        """Return how many attempts have failed."""
        return sum(bool(attempt.get("reason")) for attempt in self.status["attempts"])

    def launches(self, receiver: heartbeats.Receiver) -> tuple[str, int]:
        """Start torchrun until the job has succeeded or may not be restarted; return why it failed, and its code."""
        if self.failed() > self.run.job.restarts:  # with the pod whose place this one takes
            return f"{self.status['attempts'][-1]['reason']}, and the job has no restart left", 1
        while True:
            reason, code = self.launch(receiver)
            if not reason or self.stop_wanted:
                return reason, code
            if self.failed() > self.run.job.restarts or not self.is_worth_it():
                return reason, code
            say(f"{reason}; starting torchrun again")

    def is_worth_it(self) -> bool:
        """Return whether another attempt may go better than the last one."""
        last = self.status["attempts"][-1]
        if not last["returncode"] or self.refused:
            return False
        if self.has_stepped() or last["from"] != "the beginning" or self.watch.gone:
            return True
        self.note("not restarted: it failed before its first step and would again")
        return False

    def launch(self, receiver: heartbeats.Receiver) -> tuple[str, int]:
        """Run torchrun once, in as many rounds as it makes; return why the last one failed, and its exit code."""
        self.own, self.known = {}, {}
        (self.place / rounds.OWN).unlink(missing_ok=True)
        self.status["launch"] += 1
        self.save()
        left = max(0, self.run.job.restarts - self.failed())
        command = self.start.command(self.places, self.environ, left)
        ranks = Ranks(command, for_torchrun(self.places, self.environ), self.place, self.folder, self.folder / "log")
        reason = ""
        while ranks.poll() is None and not reason and not self.stop_wanted:
            self.take(receiver.receive(0.2))
            reason = self.look(receiver)
            self.report()
        code = ranks.end()
        self.is_done = not code
        if self.is_done and self.stopped[0] == "lost":
            self.stop_wanted, self.stopped = False, ("", "")
        self.take(receiver.receive(0))
        reason = reason or self.look(receiver)
        if self.watch.beats:
            self.keep("ranks.json", self.watch.ranks())
        if not self.own:  # no rank was started
            self.status["attempts"].append({"started": now(), "from": self.resumed()})
        if not self.stop_wanted and not reason:
            reason = self.settled(receiver, code) if code else self.wrong()
        if not self.stop_wanted or "ended" not in self.status["attempts"][-1]:
            self.status["attempts"][-1].update(ended=now(), returncode=code, reason=reason or self.stopped[1])
        self.save()
        return reason, code

    def wrong(self) -> str:
        """Return what is wrong with a job whose ranks have all ended well."""
        return self.watch.separate_models() or self.watch.wrong_world() or self.missed()

    def resumed(self) -> str:
        """Return what the next attempt begins with."""
        last = checkpoints.last_complete(self.folder / "output")
        return last.name if last else "the beginning"

    def look(self, receiver: heartbeats.Receiver) -> str:
        """Look at what torchrun and the other pods have done; return why the job has to be ended, or nothing."""
        own = read_json(self.place / rounds.OWN)
        if own and own["round"] != self.own.get("round"):
            reason = self.begin(own, receiver)
            if reason:
                return reason
        if self.clock.monotonic() - self.looked < LOOK:
            return ""
        self.looked = self.clock.monotonic()
        if (self.folder / STOP).exists():
            self.stop("stopped", "it was stopped on request")
        self.settle()
        for text in rounds.refusals(self.folder, self.pods):
            self.refused = True
            return text
        if self.own and len(self.known) < self.own["pods"]:
            self.meet(rounds.entries(self.folder, self.own["round"], self.pods))
        return self.watched()

    def watched(self) -> str:
        """Return why the ranks have to be ended. While there are none, pods wait for each other: nothing stalls."""
        reason = self.watch.reason() if self.own else ""
        there = reason and any(process["kind"] == "rank" for process in processes.find(self.place))
        return reason if there else ""

    def begin(self, own: dict[str, Any], receiver: heartbeats.Receiver) -> str:
        """Begin a round; return why it must not be: the job has no restart left."""
        if self.own:
            failed = rounds.failures(self.folder, self.own["round"], self.pods)
            joined = not failed and own["pods"] > self.own["pods"]
            record = self.status["attempts"][-1]
            record.update(ended=now(), returncode=0 if joined else 1)
            if joined:
                record["reason"] = ""
                self.note(f"{own['pods'] - self.own['pods']} pod(s) have joined: all ranks were started again")
            else:
                record["reason"] = rounds.cause(failed, {}, receiver.ended, 1, self.watch.failures)
                self.before = (self.known, self.own, self.clock.monotonic() + SETTLE)
                self.ended = list(receiver.ended)
            if self.failed() > self.run.job.restarts:
                return str(record["reason"])
        self.own, self.known = own, {}
        receiver.ended.clear()
        for left in (*WRITTEN_BY_RANK_0, "ranks.json"):
            (self.folder / left).unlink(missing_ok=True)
        plan = read_json(self.place / "plan.json") or self.start.plan
        self.watch = PodWatch(self.folder, self.run, plan, self.here, self.place, self.clock)
        self.status["attempts"].append({"started": now(), "from": self.resumed()})
        self.meet({own["number"]: own})
        self.save()
        return ""

    def meet(self, known: dict[int, dict[str, Any]]) -> None:
        """Take the pods of this round into the plan."""
        if set(known) == set(self.known):
            return
        self.known = known
        own = read_json(self.place / "plan.json") or self.plan
        self.plan = rounds.join(own, known)
        self.watch.set_plan(self.plan)
        self.utilization.add(self.plan)
        batch = batches.of_job(self.run.job, self.plan["world_size"])
        self.status.update(
            hosts=self.own["pods"],
            ranks=self.plan["world_size"],
            accumulation=batch.accumulation,
            per_device=batch.per_device,
        )
        for entry in known.values():
            if entry["heartbeats"]:
                self.note(f"{entry['pod']}: {entry['heartbeats']}: its ranks train, and their state is not shown")
        self.keep("plan.json", self.plan)
        self.save()

    def settle(self) -> None:
        """Complete why the round before has ended, with what other pods have written meanwhile."""
        if self.before is None or len(self.status["attempts"]) < 2:
            return
        known, own, until = self.before
        failed = rounds.failures(self.folder, own["round"], self.pods)
        complete = len(self.known) == self.own["pods"]
        gone = rounds.lost(known, self.known) if complete else {}
        reason = rounds.cause(failed, gone, self.ended, 1)
        record = self.status["attempts"][-2]
        if reason != record["reason"]:
            record["reason"] = reason
            self.save()
        if complete or self.clock.monotonic() > until:
            self.before = None

    def settled(self, receiver: heartbeats.Receiver, code: int) -> str:
        """Return why the last round has failed: what pods write about it within a few seconds."""
        until = self.clock.monotonic() + SETTLE
        while True:
            failed = rounds.failures(self.folder, self.own["round"], self.pods) if self.own else []
            reported = {entry["pod"] for entry in failed}
            silent = [entry["pod"] for entry in self.known.values() if entry["pod"] not in reported]
            decided = rounds.is_decided(failed)
            if decided or not silent or self.stop_wanted or self.clock.monotonic() > until:
                break
            self.take(receiver.receive(0.2))
        gone = {} if decided else dict.fromkeys(silent, "it was lost, or its network was")
        return rounds.cause(failed, gone, receiver.ended, code, self.watch.failures)

    def take(self, messages: list[dict[str, Any]]) -> None:
        """Record the heartbeats that came, and what other pods tell about their ranks."""
        for message in messages:
            busy = message.get("busy")
            if message["rank"] < 0 and isinstance(busy, dict) and isinstance(self.watch, PodWatch):
                with contextlib.suppress(ValueError, TypeError):
                    self.watch.told.update(
                        (int(rank), self.clock.monotonic()) for rank, used in busy.items() if float(used) > BUSY
                    )
        super().take(messages)


def refuse(who: Mapping[str, str], kept: Path, reason: str) -> None:
    """Write the status of a job that was not started. who: job, pod, node, since. Raises OSError."""
    earlier = read_json(kept / "status.json") or {}
    goes_on = earlier.get("state", ENDED[0]) not in ENDED and earlier.get("since") == who["since"]
    keep = {name: earlier[name] for name in ("started", "attempts", "notes") if goes_on}
    status = {
        **{"started": now(), "attempts": [], "notes": [], "hosts": 0, "ranks": 0},
        **{"accumulation": 1, "per_device": None, "launch": earlier.get("launch", 0)},
        **who,
        **keep,
        "state": "failed",
        "reason": reason,
        "ended": now(),
        "returncode": 1,
        "seconds": 0.0,
    }
    kept.mkdir(parents=True, exist_ok=True)
    write_json(kept / "status.json", status)
