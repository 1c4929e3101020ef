# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Output about a job that is followed, wherever it runs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils._jobs import attempts
from ansible_collections.amx.cluster.plugins.module_utils._jobs.progress import Recent, describe, describe_hosts
from ansible_collections.amx.cluster.plugins.module_utils._jobs.status import preparing
from ansible_collections.amx.cluster.plugins.module_utils._text import duration, wrapped
from ansible_collections.amx.cluster.plugins.plugin_utils import screen

display = Display()


QUIET = 30.0  # seconds after which there is another line before the first step, and while a restart waits


class Progress:
    """Shows what is new of a job at each look: its restarts and notes, and its progress and hosts as far as the screen
    can.

    A terminal has a line that is drawn again, which `close` removes; elsewhere a line is printed now and then.
    """

    def __init__(self, name: str, *, restarts_only: bool = False) -> None:
        """restarts_only: where the job's log is printed, its progress is not."""
        self.name, self.restarts_only = name, restarts_only
        self.redraws = screen.current().redraws
        self.recent, self.hosts = Recent(), ""
        self.ranks: Mapping[str, Any] = {}
        self.shown: tuple[str, bool] | None = None  # the progress that was shown last, and whether on the screen
        self.told: set[str] = set()  # restarts and notes
        self.waits = 0.0
        self.began = time.monotonic()
        self.due = 0.0

    @staticmethod
    def pause(elapsed: float) -> float:
        """Return the seconds between two lines of progress: a job that has run for long prints fewer of them."""
        return min(120.0, max(10.0, elapsed / 10))

    def show(self, seen: Mapping[str, Any]) -> None:
        """Show what is new. seen: status, progress and ranks, as the job's files have them."""
        if seen["progress"]:
            self.recent.add(seen["progress"])
        ended = seen["status"]["state"] != "running"
        now = None if ended else time.time()
        progress = describe(seen["progress"], self.recent, now) if seen["progress"] else ""
        queued = seen["status"].get("waiting") and not seen["status"].get("attempts")  # which is shown instead
        if not progress and not ended and not queued:
            progress = preparing(seen["status"]) or f"running, {duration(time.monotonic() - self.began)}"
        self._tell(seen["status"])
        if self.redraws and not ended:
            self._draw(seen)
        current = progress, ended or not self.redraws
        if self.restarts_only or not progress or current == self.shown or not (ended or time.monotonic() >= self.due):
            return
        if not self.redraws:
            self._look_at_hosts(seen)
        use = f"  ({self.hosts})" if self.hosts and not ended else ""
        # A redrawn line leaves no trace but its last state; Ansible's log file gets all.
        text = f"  {progress}{use}"
        if self.redraws and ended:  # by itself a terminal would fold it in the middle of a word
            text = "\n".join(wrapped("  ", progress, screen.current().columns - 1))
        display.display(text, log_only=self.redraws and not ended)
        self.shown = current
        pause = self.pause(time.monotonic() - self.began)
        self.due = time.monotonic() + (pause if seen["progress"] else min(pause, QUIET))

    def _tell(self, status: Mapping[str, Any]) -> None:
        """Print each restart and note once, and now and then what a restart waits for."""
        for line in [
            *attempts.restarts(status.get("attempts", [])),
            *(f"note: {note}" for note in status.get("notes", [])),
        ]:
            if line not in self.told:
                self.told.add(line)
                display.display(f"  {line}")
        if status.get("waiting") and time.monotonic() >= self.waits:
            display.display(f"  {status['waiting']}")
            self.waits = time.monotonic() + QUIET

    def close(self) -> None:
        """Remove the line that was drawn."""
        if self.redraws:
            screen.send_progress({})

    def _look_at_hosts(self, seen: Mapping[str, Any]) -> None:
        self.hosts = describe_hosts(self.ranks, seen["ranks"])
        self.ranks = seen["ranks"]

    def _draw(self, seen: Mapping[str, Any]) -> None:
        """Draw the line. Hosts' use is that since their last heartbeats, which come every two seconds."""
        before = self.hosts
        self._look_at_hosts(seen)
        self.hosts = self.hosts or before
        screen.send_progress(
            {
                "name": self.name,
                "progress": seen["progress"],
                "lately": self.recent.seconds_per_step(),
                "now": time.time(),
                "hosts": self.hosts,
                "waited": time.monotonic() - self.began,
            }
        )


def reason(status: Mapping[str, Any]) -> str:
    """Return how a job ended and why, with what to do where its status has that."""
    message = f"job {status['job']} {status['state']}: {status['reason']}"
    return f"{message}\n{status['advice']}" if "advice" in status else message
