# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pod that is not the first one: it runs its ranks in each launch of the first pod, until that has ended the job."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._io import read_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import processes
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.pod import rounds
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.pod.launch import (
    START_SECONDS,
    Start,
    first_pod,
    for_torchrun,
    wait_for_first_pod,
)
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.pod.places import Places, say
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.pod.ranks import Ranks
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.pod.supervisor import ENDED, ended_before

LOOK = 1  # seconds between two looks at the job's status
BUSY = 20  # seconds between two looks at what this pod's ranks use
# Seconds after which a pod joins again although the first one has not launched anew, and those for a verdict.
AGAIN, VERDICT = 60, 120


class Member:
    """This pod's part of the job."""

    def __init__(self, places: Places, start: Start, environ: Mapping[str, str]) -> None:
        """environ: of this pod's container."""
        self.places, self.start, self.environ = places, start, environ
        self.kept: Path = start.job.kept(places)
        # Of a previous run of the same files, which is no verdict on this one.
        is_old = not ended_before(self.kept, start.job.run.settings.since)
        self.old = self.status().get("ended") if is_old else None
        self.stop_wanted = False
        self.looked = self.measured = time.monotonic()

    def status(self) -> dict[str, Any]:
        """Return status.json; empty before the first pod has written it."""
        return read_json(self.kept / "status.json") or {}

    def verdict(self) -> tuple[str, str] | None:
        """Return the state and the reason with which the first pod has ended the job; None while it has not."""
        status = self.status()
        if status.get("state") in ENDED and status.get("ended") != self.old:
            return str(status["state"]), str(status["reason"])
        return None

    def run(self) -> tuple[str, str]:
        """Run until the job has ended, or this pod has to; return the state and the reason. Raises ValueError."""
        while True:
            wait_for_first_pod(*first_pod(self.start.job.derived, self.environ), is_over=self.is_over)
            if self.is_over():
                return self.outcome()
            launch, code = self.launch()
            if self.is_over():
                return self.outcome()
            if not self.is_launched_again(launch, code):
                return self.outcome() if self.is_over() else ("succeeded", "")
            say("joining the other pods again")

    def is_over(self) -> bool:
        """Return whether this pod has to end."""
        return self.stop_wanted or self.verdict() is not None

    def outcome(self) -> tuple[str, str]:
        """Return the verdict; without one this pod was ended from outside."""
        return self.verdict() or ("lost", f"pod {self.start.pod} on node {self.start.node} was deleted or evicted")

    def launch(self) -> tuple[int, int]:
        """Run torchrun once; return in which launch of the first pod, and torchrun's exit code."""
        status = self.status()
        launch = int(status.get("launch", 0))
        failed = sum(bool(attempt.get("reason")) for attempt in status.get("attempts", []))
        left = max(0, self.start.job.run.job.restarts - failed)
        (self.start.here / rounds.OWN).unlink(missing_ok=True)
        command = self.start.command(self.places, self.environ, left)
        log = self.kept / f"log.{self.start.number}"
        ranks = Ranks(command, for_torchrun(self.places, self.environ), self.start.here, self.kept, log)
        while (code := ranks.poll()) is None:
            time.sleep(0.2)
            if self.stop_wanted or (self.is_time() and (self.is_over() or self.status().get("launch") != launch)):
                break
            self.tell_busy()
        return launch, ranks.end() if code is None else code

    def is_time(self) -> bool:
        """Return whether the job's status is to be looked at again."""
        if time.monotonic() - self.looked < LOOK:
            return False
        self.looked = time.monotonic()
        return True

    def tell_busy(self) -> None:
        """Report to the supervisor which ranks of this pod use a processor: it cannot see them."""
        if not self.start.job.run.job.stall_seconds or time.monotonic() - self.measured < BUSY:
            return
        used = processes.usage_of_ranks(self.start.here, 0.5)
        rounds.tell(rounds.endpoint(self.kept), self.start.pod, busy=used)
        self.measured = time.monotonic()

    def is_launched_again(self, launch: int, code: int) -> bool:
        """Wait for the verdict, or another launch of the first pod; return whether this pod is to join again.

        After so many seconds without either it joins again, unless its ranks have ended well: then it is done.
        """
        began = time.monotonic()
        while not self.is_over():
            status, waited = self.status(), time.monotonic() - began
            if status.get("launch", 0) != launch:
                return True
            if code == 0 and waited > VERDICT:
                return False
            # Lost: another pod takes the first one's place.
            if code and waited > (START_SECONDS if status.get("state") == "lost" else AGAIN):
                return True
            time.sleep(LOOK / 2)
        return False
