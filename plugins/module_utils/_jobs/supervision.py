# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Base of the supervisors of jobs, wherever ranks run: status and heartbeats while a job runs, and its results."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _io
from ansible_collections.amx.cluster.plugins.module_utils._io import read_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import (
    batches,
    cost,
    curves,
    directory,
    faults,
    loss_weight,
    measured,
    own_settings,
    padding_share,
    profiles,
    utilization,
    verification,
)
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Plan
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run
from ansible_collections.amx.cluster.plugins.module_utils._jobs.watch import Watch
from ansible_collections.amx.cluster.plugins.module_utils._jobs.wire import PROGRESS, WORLD
from ansible_collections.amx.cluster.plugins.module_utils._text import now

ROOM = 60  # seconds in which the end of a job is tried to be written where there is no room
# Bytes that are kept free for the job's end: results.json and status.json of 800 ranks take less.
RESERVED = 512 << 10
# Bytes that a log takes of the disk at most, and those of it that are kept at its beginning and at its end.
LOG, LOG_FIRST, LOG_LAST = 1 << 30, 1 << 20, 64 << 20
# Of what one attempt has logged, so many bytes at most are searched for the cause of its failure: the last ones.
SEARCHED = 16 << 20
RANKS = 2  # seconds between two writings of ranks.json
UTILIZATION = 30  # seconds between two writings of utilization.json
RESERVE = ".reserve"  # the file that keeps RESERVED bytes of the disk


def write_json(path: Path, document: Any) -> None:
    """Replace a JSON file of the job; no other user can read it. Raises OSError."""
    _io.write_json(path, document, 0o600)


class Supervision:
    """The status, the heartbeats and the results of the job in `path`.

    plan: of the attempt that runs. here: the name of this host, or pod. watch: its last attempt's; both have one clock.
    """

    def __init__(self, path: Path, run: Run, plan: dict[str, Any], here: str, watch: Watch) -> None:
        self.folder, self.run, self.plan, self.here, self.watch = path, run, plan, here, watch
        self.clock = watch.clock
        batch = batches.of_job(self.run.job, self.plan["world_size"])
        self.status: dict[str, Any] = {
            "job": self.run.job.name,
            "state": "running",
            "reason": "",
            "pid": os.getpid(),
            "started": now(),
            "hosts": len(self.plan["hosts"]),
            "ranks": self.plan["world_size"],
            "accumulation": batch.accumulation,
            "per_device": batch.per_device,
            "attempts": [],
            "notes": [],
        }
        self.stop_wanted = False
        # The state, and why, of a job that is ended from outside.
        self.stopped = ("", "")
        self.stop_at = 0.0
        # What ranks use of their hosts, in all attempts.
        self.utilization = utilization.Utilization(self.plan)
        self.begun = self.clock.monotonic()
        self.utilization_written = self.begun
        self.ranks_written = 0.0

    def first_rank_is_elsewhere(self) -> bool:
        """Return whether rank 0, which writes the job's files, writes them into another directory than this one."""
        raise NotImplementedError

    def stop(self, state: str, reason: str) -> None:
        """Request the end of the job with this state, for this reason."""
        if not self.stop_wanted:
            self.stop_wanted, self.stopped, self.stop_at = True, (state, reason), self.clock.monotonic()

    def finish(self, reason: str, code: int, seconds: float) -> None:
        """Write what came of the job: results.json, then status.json."""
        if self.stop_wanted:
            self.status.update(state=self.stopped[0], reason=self.stopped[1])
        else:
            self.status.update(state="failed" if reason else "succeeded", reason=reason)
        self.status.pop("waiting", None)
        done = directory.last_done(self.folder) if self.status["state"] != "succeeded" else ""
        if done:
            self.status["notes"].append(f"the last run of this job that has succeeded is in {done}")
        self.status.update(returncode=code, ended=now(), seconds=round(seconds, 1))
        unmeasured = measured.note(self.watch.beats, self.plan.get("measure"))
        unprofiled = profiles.note(self.watch.beats, self.plan.get("measure"))
        progress = read_json(self.folder / PROGRESS) or {}
        training = progress.get("training") or {}
        of_batches = (loss_weight.note(training), padding_share.note(training), padding_share.waiting_note(training))
        own = own_settings.note(training, self.run.job, self.status, self.plan["precision"])
        self.status["notes"] += [note for note in (unmeasured, unprofiled, own, *of_batches) if note]
        results = self.results(progress)
        if results["cost"]:
            self.status["cost"] = results["cost"]
        observed = read_json(self.folder / verification.OBSERVED)
        if observed and not verification.differences(Plan.from_json(self.plan), observed["ranks"]):
            self.keep(directory.VERIFIED, self.plan)
        end = self.clock.monotonic() + ROOM
        self.keep_utilization()
        (self.folder / RESERVE).unlink(missing_ok=True)
        while not (self.keep("results.json", results) and self.keep("status.json", self.status)):
            if self.clock.monotonic() > end:
                break  # the file system is gone: who asks learns that the supervisor is
            self.clock.sleep(1)

    def missed(self) -> str:
        """Return what a job whose ranks have all ended well has missed, as faults.missed says it."""
        metrics = read_json(self.folder / "output" / "all_results.json") or {}
        trains = self.run.job.of_kind().takes_trainer_arguments
        progress = (read_json(self.folder / PROGRESS) or {}) if trains else None
        return faults.missed(self.run.job.expect, metrics, progress)

    def results(self, progress: Mapping[str, Any]) -> dict[str, Any]:
        """Return the content of results.json. progress: progress.json, empty where there is none."""
        metrics = read_json(self.folder / "output" / "all_results.json") or {}
        training = progress.get("training") or {}
        measure, beats = self.plan.get("measure"), self.watch.beats
        isas = {host["host"]: host["isa"] for host in self.plan["hosts"]}
        copied = ("job", "state", "reason", "started", "ended", "seconds", "hosts", "ranks", "notes", "attempts")
        return {
            **{key: self.status[key] for key in copied},
            "restarts": max(0, len(self.status["attempts"]) - 1),
            "threads_per_rank": [host["threads_per_rank"] for host in self.plan["hosts"]],
            "precision": self.plan["precision"],
            "isas": list(dict.fromkeys(isas.values())),
            "backend": self.plan["backend"],
            "stack": self.plan["stack"],
            "model": self.run.job.model(),
            "metrics": metrics,
            "steps": progress.get("step", 0),
            "samples_per_step": progress.get("samples_per_step"),
            "resumed_step": progress.get("first_step", 0),
            "epoch": progress.get("epoch"),
            "training": {key: training.get(key) for key in ("samples", "epochs")},
            "padding": padding_share.shown(training),
            "waiting": padding_share.waiting_shown(training),
            "world": read_json(self.folder / WORLD),
            "cost": cost.of_run(
                self.run.settings.host_price, *(self.status[key] for key in ("attempts", "hosts", "seconds"))
            ),
            "measured": measured.merge(beats, measure, self.plan["backend"], progress.get("samples_per_step"), isas),
            "output": str(self.folder / "output"),
            **({"project": self.plan["project"]} if self.plan.get("project") else {}),
        }

    def reserve(self) -> None:
        """Take what the job's end will need of the disk, so that the job cannot fill it. Raises OSError."""
        (self.folder / RESERVE).write_bytes(os.urandom(RESERVED))  # which no file system can compress

    def keep(self, name: str, document: Any) -> bool:
        """Write a JSON file into the job directory. Where that cannot be, the job goes on, and a note says so."""
        try:
            write_json(self.folder / name, document)
        except OSError as error:
            note = f"{self.folder} on {self.here} could not be written for a while: {error.strerror}"
            if note not in self.status["notes"]:
                self.status["notes"].append(note)
            return False
        return True

    def save(self) -> None:
        self.keep("status.json", self.status)

    def take(self, messages: list[dict[str, Any]]) -> None:
        """Record the heartbeats that came, and write down what rank 0 wrote, where it does not write here."""
        at = self.clock.monotonic() - self.begun
        for beat in messages:
            if 0 <= beat["rank"] < self.plan["world_size"]:
                self.utilization.take(beat, at)
            if beat.get("logged") and isinstance(beat["logged"], list):
                self.keep_logged(beat["logged"])
        for name, document in self.watch.take(messages).items():
            if self.first_rank_is_elsewhere():
                with contextlib.suppress(OSError):
                    (self.folder / name).parent.mkdir(exist_ok=True)
                self.keep(name, document)
        for text in self.watch.left:
            self.note(text)
        for host, when in self.watch.departures.at.items():
            self.note(f"{host} leaves at {when}")
        for host, problem in self.watch.departures.problems.items():
            self.note(f"{host} cannot tell whether it is taken back: {problem}")

    def keep_logged(self, entries: list[dict[str, Any]]) -> None:
        """Add to the job's curves what its Trainer has logged. Without room for it the job goes on."""
        with contextlib.suppress(OSError), (self.folder / curves.CURVES).open("a", encoding="utf-8") as stream:
            stream.write("".join(map(curves.line, entries)))

    def report(self) -> None:
        """Write what the ranks have told, where that is due."""
        if self.clock.monotonic() - self.ranks_written < RANKS or not self.watch.beats:
            return
        self.ranks_written = self.clock.monotonic()
        self.keep("ranks.json", self.watch.ranks())
        if directory.shorten_log(self.folder / "log", LOG, LOG_FIRST, LOG_LAST):
            self.note(f"the log took more than {LOG >> 30} GiB: what lies in its middle was removed")
        self.note(self.watch.alone())
        if self.clock.monotonic() - self.utilization_written > UTILIZATION:
            self.keep_utilization()

    def keep_utilization(self) -> None:
        """Write what the ranks have used of their hosts so far."""
        self.utilization_written = self.clock.monotonic()
        self.keep("utilization.json", self.utilization.to_json())

    def note(self, text: str) -> None:
        """Add a note to the job's status, once."""
        if text and text not in self.status["notes"]:
            self.status["notes"].append(text)
            self.save()

    def has_stepped(self) -> bool:
        """Return whether a rank of the last attempt made a step."""
        progress = read_json(self.folder / PROGRESS) or {}
        return progress.get("step", 0) > 0 or any(beat.get("stepped") for beat in self.watch.beats.values())
