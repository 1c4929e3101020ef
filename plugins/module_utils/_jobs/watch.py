# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Watch one attempt of a job: what its ranks tell, what their hosts say, and whether the attempt has to be ended.

docs/watching.md has what is concluded from what; faults.py has the conclusions that need no host.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._clock import CLOCK, Clock
from ansible_collections.amx.cluster.plugins.module_utils._io import read_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import archive, faults, heartbeats, remote, wire
from ansible_collections.amx.cluster.plugins.module_utils._jobs.departures import Departures
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run
from ansible_collections.amx.cluster.plugins.module_utils._jobs.wire import ENTERED, WORLD, WRITTEN_BY_RANK_0

UNNOTICED = 5  # seconds that a launcher has to end the others when a rank has failed
SILENT = 15  # seconds without a heartbeat from a host's ranks after which it is asked
LOST = 60  # and after which one is gone that takes connections and twice does not answer: a busy one answers late, too
STARTING = 180  # the same for one whose ranks have told nothing yet: a busy one takes long to start them
LOOKS = 3  # how often hosts are asked whether a rank is at work, before it counts as idle
BUSY = 0.05  # the share of a processor that a rank uses at least when it is at work


class Watch:
    """The ranks of one attempt, from its launch on.

    beats: the last heartbeat of each rank that has sent one, with when it came under "seen". gone: {host: why} of hosts
    that do not answer any more. failures: of ranks, in the order of their reports. left: what scripts have left behind.
    departures: hosts that are taken back.
    """

    def __init__(
        self,
        directory: Path,
        run: Run,
        plan: Mapping[str, Any],
        here: str,
        receiver: heartbeats.Receiver | None = None,
        clock: Clock = CLOCK,
    ) -> None:
        """Begin at the launch. directory: that of the job. here: the name of this host. receiver: of the heartbeats."""
        self.folder, self.run, self.plan, self.here = directory, run, plan, here
        self.names = [host["host"] for host in plan["hosts"]]
        self.beats: dict[int, dict[str, Any]] = {}
        self.gone: dict[str, str] = {}
        self.failures: list[faults.Failure] = []
        self.left: list[str] = []
        self.receiver, self.clock = receiver, clock
        # What the attempt has printed.
        self.printed: Callable[[], str] = str
        # When the first rank's process was reported as failed, and when hosts were last asked for ranks.
        self._failed: float | None = None
        self._counted = 0.0
        self.departures = Departures(plan["world_size"])
        self._launched = self.clock.monotonic()
        # When ranks whose heartbeat is late were last seen at work.
        self._worked: dict[int, float] = {}
        self._probed = 0.0
        # The hosts that answered the last time neither in time nor for long.
        self._late_before: set[str] = set()
        # When rank 0 was first seen to wait for the others.
        self._entered: float | None = None

    def set_plan(self, plan: Mapping[str, Any]) -> None:
        """Take another plan: of the same ranks, with more of their hosts known."""
        self.plan, self.names = plan, [host["host"] for host in plan["hosts"]]

    def take(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        """Record the heartbeats that came; return what rank 0 has written, {file: content}."""
        written: dict[str, Any] = {}
        for beat in messages:
            rank, files, kills = beat["rank"], beat.pop("files"), beat["oom_kills"]
            if not 0 <= rank < self.plan["world_size"]:
                continue
            if beat.get("failed"):
                self._fail(faults.Failure(rank, beat["host"], str(beat["failed"])))
            if "left" in beat:
                self.left.append(str(beat["left"]))
            if isinstance(beat.get("exit"), int):
                self._ended(rank, beat["host"], beat["exit"])
            if "left" in beat or "exit" in beat:  # of rank.py
                continue
            written.update((name, files[name]) for name in WRITTEN_BY_RANK_0 if name in files)
            beat["first_oom_kills"] = self.beats.get(rank, beat).get("first_oom_kills", kills)
            self.beats[rank] = {**beat, "seen": self.clock.monotonic()}
            self.departures.take(beat, self.clock.monotonic())
        return written

    def reason(self) -> str:
        """Return why the attempt has to be ended; an empty string while it has not."""
        return (
            self._overdue()
            or self._leaving()
            or self._silent()
            or self._failure()
            or self._stall()
            or self.separate_models()
        )

    def steps(self) -> int:
        """Return how many optimizer's steps the ranks have made, as far as they have reported them."""
        return max((int(beat.get("steps") or 0) for beat in self.beats.values()), default=0)

    def ranks(self) -> dict[str, Any]:
        """Return what each rank told last, as ranks.json has it."""
        return {str(rank): beat for rank, beat in sorted(self.beats.items())}

    def alone(self) -> str:
        """Return a note where all ranks train without a group; empty for jobs that need none."""
        return faults.alone(self.beats, self.plan["world_size"]) if self.plan["watch"]["group"] else ""

    def wrong_world(self) -> str:
        """Return how the group that formed differs from the planned one; empty for jobs that need none."""
        if not self.plan["watch"]["group"]:
            return ""
        return faults.wrong_world(self.plan, read_json(self.folder / WORLD))

    def separate_models(self) -> str:
        """Return that ranks train models of their own, where their gradients can be compared."""
        return faults.separate_models(self.beats, self.plan["world_size"]) if self.plan["watch"]["gradients"] else ""

    def out_of_memory(self) -> list[str]:
        """Return the hosts whose kernel has ended a process because it was out of memory since their ranks began."""
        first = {beat["host"]: beat["first_oom_kills"] for beat in self.beats.values() if beat["first_oom_kills"] >= 0}
        now_counted = remote.oom_kills(self.names, self.here)
        return [host for host, kills in now_counted.items() if host in first and kills > first[host]]

    def _overdue(self) -> str:
        """Return the message that rank 0 waits for the others longer than the job allows, or an empty string."""
        entered = self.folder / ENTERED
        if (self.folder / WORLD).exists() or not entered.exists():
            return ""
        if self._entered is None:
            self._entered = self.clock.monotonic()  # and not the file's time: clocks are set, and differ between hosts
        waited = self.clock.monotonic() - self._entered
        if waited < self.run.settings.world_timeout:
            return ""
        return (
            f"rank 0 waited {waited:.0f} s for the other {self.plan['world_size'] - 1} rank(s) to join its group at "
            f"{self.plan['master_addr']}: check that hosts reach each other on the cluster network, on any port"
        )

    def _leaving(self) -> str:
        """Return the message that hosts leave, once the ranks have saved or it cannot wait, or an empty string."""
        return self.departures.reason() if self.departures.are_due(self.clock.monotonic()) else ""

    def _silent(self) -> str:
        """Return which host has gone: its ranks have told nothing for a while, and it does not answer either."""
        # A host may be gone before any of its ranks has told anything.
        latest = dict.fromkeys(self.names, self._launched)
        for beat in self.beats.values():
            latest[beat["host"]] = max(beat["seen"], latest.get(beat["host"], 0.0))
        now = self.clock.monotonic()
        quiet = {host: now - seen for host, seen in latest.items() if now - seen > SILENT}
        if not quiet:
            self._late_before = set()
            return ""
        if now - self._probed < SILENT:
            return ""
        self._probed = now
        # No heartbeat comes from a host whose ranks' scripts have ended, and its launcher may take its time.
        at_work = {beat["host"] for beat in self.beats.values() if not beat.get("ended")}
        ended = {beat["host"] for beat in self.beats.values()} - at_work
        answers = remote.unreachable(quiet, self.here)
        late = {
            host
            for host, why in answers.items()
            if why == remote.LATE and quiet[host] > (LOST if host in at_work else STARTING) and host not in ended
        }
        self.gone = {
            host: why for host, why in answers.items() if why != remote.LATE or host in late & self._late_before
        }
        self._late_before = late
        return faults.hosts_gone(self.gone)

    def _fail(self, failure: faults.Failure) -> None:
        """Record a failure. The script may have gone on after an earlier one of its rank."""
        if failure.text and failure.text not in [known.text for known in self.failures if known.rank == failure.rank]:
            self.failures = [known for known in self.failures if known.rank != failure.rank]
        if failure.rank not in {known.rank for known in self.failures}:
            self.failures.append(failure)

    def _ended(self, rank: int, host: str, code: int) -> None:
        """Record the end of a rank's script."""
        if rank in self.beats:
            self.beats[rank].update(ended=True, waiting=False)
        if not code:
            self.failures = [known for known in self.failures if known.rank != rank]
            return
        message = str(self.beats.get(rank, {}).get("said", ""))
        self._fail(faults.Failure(rank, host, code=code, said=message if code > 0 else ""))
        self._failed = self._failed or self.clock.monotonic()

    def _failure(self) -> str:
        """Return which rank has failed, where its launcher does not end the others; an empty string where none has.

        mpirun notices the end of a process only when it has used MPI, or when all of its host have ended.
        """
        self._count()
        if self._failed is None or self.clock.monotonic() - self._failed < UNNOTICED:
            return ""
        # It may have failed for a host that is gone, which mpirun waits for.
        late = self._late()
        unreachable = remote.unreachable([name for name in self.names if name in late.values()], self.here)
        self.gone.update((host, why) for host, why in unreachable.items() if why != remote.LATE)
        return faults.cause(self.printed(), 1, self.gone, self.out_of_memory(), failures=self.failures)

    def _late(self) -> dict[int, str]:
        """Return {rank: host} of the ranks whose heartbeat is late, and of whose end nothing is known."""
        known = {failure.rank for failure in self.failures}
        return {
            rank: str(beat["host"])
            for rank, beat in self._ages(self.clock.monotonic()).items()
            if beat["silent"] > faults.LATE and not beat.get("ended") and rank not in known
        }

    def _count(self) -> None:
        """Ask the hosts of ranks whose heartbeat is late whether their processes are there: rank.py was ended, too.

        Also those that have never sent one: rank.py notes that it has started them.
        """
        now = self.clock.monotonic()
        late = self._late()
        ended = self.receiver.ended if self.receiver else []
        patience = faults.LATE if any(rank in ended for rank in late) else faults.MUTE
        if self.receiver is None or not late or now - self._counted < patience:
            return
        attempt = wire.attempt(self.receiver.endpoint)
        command = archive.command(self.plan, "supervise", "--ranks", str(self.folder), attempt)
        hosts = [name for name in self.names if name in set(late.values())]
        for code, output in remote.on_every_host(command, hosts, self.here).values():
            with contextlib.suppress(ValueError, IndexError, AttributeError):
                states = json.loads(output.splitlines()[-1]) if code == 0 else {}
                for rank, host in late.items():
                    state = states.get(str(rank))
                    if state is not None:
                        self._ended(rank, host, int(state))
                        if state:  # its launcher has had its time
                            self._failed = now - UNNOTICED
        self._counted = self.clock.monotonic()

    def _stall(self) -> str:
        """Return which rank holds up the others, once none has made progress for as long as the job allows."""
        patience = self.run.job.stall_seconds
        if not patience or not self.plan["watch"]["stall"]:
            return ""
        # While hosts are asked nobody listens to the ranks: that is no silence of theirs.
        listened = self.clock.monotonic()
        reason = faults.stall(self._ages(listened), patience)
        for _look in range(LOOKS):
            suspects = faults.suspects(self._ages(listened)) if reason else []
            if not suspects:
                break
            self._find_busy(suspects)
            reason = faults.stall(self._ages(listened), patience)
        return reason

    def _find_busy(self, ranks: Sequence[int]) -> None:
        """Find out on their hosts whether these ranks use a processor."""
        command = archive.command(self.plan, "supervise", "--usage", str(self.folder))
        for code, output in remote.on_every_host(command, self.names, self.here).values():
            with contextlib.suppress(ValueError, IndexError, AttributeError):
                used = json.loads(output.splitlines()[-1]) if code == 0 else {}
                for rank in ranks:
                    if used.get(str(rank), 0.0) > BUSY:
                        self._worked[rank] = self.clock.monotonic()

    def _ages(self, at: float) -> dict[int, dict[str, Any]]:
        """Return the last heartbeat of each rank, with the seconds from then until `at` under "silent"."""
        since = at - self._launched
        ages = {
            rank["rank"]: {"host": host["host"], "idle": 0.0, "silent": since, "missing": True}
            for host in self.plan["hosts"]
            for rank in host["ranks"]
        }
        ages.update((rank, {**beat, "silent": at - beat["seen"]}) for rank, beat in self.beats.items())
        for rank, worked in self._worked.items():
            ages[rank]["idle"] = min(ages[rank]["idle"], at - worked - ages[rank]["silent"])
        return ages
