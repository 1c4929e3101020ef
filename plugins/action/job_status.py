# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any, ClassVar

from ansible_collections.amx.cluster.plugins.module_utils._jobs import status
from ansible_collections.amx.cluster.plugins.plugin_utils import document, screen
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes import known
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes.action import RuntimeAction, job_name
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes.runtime import Jobs, Runtime

Seen = list[tuple[Runtime, Jobs]]


class ActionModule(RuntimeAction):
    """Shows the status of all jobs, or of one in full, of all runtimes that the inventory has."""

    ARGUMENTS: ClassVar[dict[str, Any]] = {
        **RuntimeAction.JOB,
        "gathered": {"type": "dict", "required": True},
        "removed": {"type": "dict", "default": {}},
        **document.ARGUMENTS,
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        job, there = job_name(options), known.configured(self, task_vars)
        removed = {} if self._task.check_mode else options["removed"]
        gathered = {
            host: {**seen, "removed": None if seen.get("unreachable") else removed.get(host)}
            for host, seen in options["gathered"].items()
        }
        seen = [(runtime, runtime.status(job, gathered)) for runtime in there]
        problems = [jobs.problem for _runtime, jobs in seen if jobs.problem]
        if job and not any(jobs.entries or jobs.text for _runtime, jobs in seen):
            missing = [jobs.missing for _runtime, jobs in seen if jobs.missing]
            raise ValueError("\n".join([*missing[-1:], *problems]))
        if options["format"] == "json":
            report: dict[str, Any] = {"jobs": [entry for _runtime, jobs in seen for entry in jobs.entries]}
            for _runtime, jobs in seen:
                report.update(jobs.document)
            document.emit(report, options)
            return {}
        notes = [note for _runtime, jobs in seen for note in jobs.notes]
        shown = self.single(job, seen) if job else [self.all(seen)]
        for text in [*notes, *shown, *(jobs.text for _runtime, jobs in seen if jobs.text), *problems]:
            screen.show(text)
        return {}

    @staticmethod
    def all(seen: Seen) -> str:
        """Return the table of all jobs."""
        entries = [
            {**entry, "where": runtime.where(entry), "user": runtime.owner(entry)}
            for runtime, jobs in seen
            for entry in jobs.entries
        ]
        return status.overview(entries, screen.current())

    @staticmethod
    def single(job: str, seen: Seen) -> list[str]:
        """Return the job in full, of the first runtime that has it, and a note where others have one of its name."""
        matches = [(runtime, jobs.entries[0]) for runtime, jobs in seen if jobs.entries]
        if not matches:
            return []
        runtime, entry = matches[0]
        return [runtime.details(entry), *filter(None, (other.also_has(job) for other, _entry in matches[1:]))]
