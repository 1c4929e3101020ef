# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils._jobs.cost import Price
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import load
from ansible_collections.amx.cluster.plugins.module_utils._measure.report import make, sources
from ansible_collections.amx.cluster.plugins.module_utils._text import words
from ansible_collections.amx.cluster.plugins.plugin_utils import document, screen
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction

display = Display()


class ActionModule(ControlNodeAction):
    """Makes a report of results on the control node. No host is contacted."""

    ROLE = "report"
    ARGUMENTS: ClassVar[dict[str, Any]] = {
        "results": {"type": "path", "default": "results"},
        # Of the inventory.
        "price": {"type": "raw", "default": ""},
        "page_only": {"type": "bool", "default": False},
        **document.ARGUMENTS,
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        return self.page(options) if options["page_only"] else self.report(options)

    def report(self, options: dict[str, Any]) -> dict[str, Any]:
        """Write the report with all its files, and show where it is and what it says."""
        price = Price.read(options["host_price_per_hour"] or options["price"])
        paths = [Path(word).expanduser() for word in words(options["of"])]
        if job := options["job"]:
            name = load(Path(job)).name if job.endswith((".yml", ".yaml")) else job
            paths = [*sources.of_job(name, Path(options["results"])), *paths]
        results = sources.read(paths, options["mixed"])
        to = Path(options["to"] or paths[0] / "report").expanduser().absolute()
        page = to / make.PAGE
        if self._task.check_mode:
            return {"changed": not page.exists(), "path": str(page)}
        report, files = make.write(results, to, price)
        result = {
            "path": str(page),
            "url": page.as_uri(),
            "files": files,
            "verdict": report.verdict.to_json(),
        }
        if options["format"] == "json":
            document.emit({**report.to_json(), **result}, options)
        else:
            screen.show(f"{report.verdict.text()}\nThe report is {page}\n{page.as_uri()}")
        return {"changed": True, **result}

    def page(self, options: dict[str, Any]) -> dict[str, Any]:
        """Write the page of a job beside its results. What keeps it from being made is shown, and is no failure."""
        directory = Path(options["results"]) / options["job"]
        if self._task.check_mode:
            return {}
        try:
            try:
                results = sources.read(sources.of_job(options["job"], Path(options["results"])))
            except ValueError:
                # A sweep that lies there may be of another model or stack than the job's last run.
                results = sources.read([directory])
            page = make.write_page(results, directory.absolute())
        except (OSError, ValueError, LookupError, TypeError) as error:  # also what results of another version lack
            screen.show(f"No report was made: {error}")
            return {}
        display.display(f"The report is {page.as_uri()}")
        return {"changed": True, "path": str(page), "url": page.as_uri()}
