# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from ansible_collections.amx.cluster.plugins.module_utils._jobs.cost import Price
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import load
from ansible_collections.amx.cluster.plugins.module_utils._measure.report import make, sources
from ansible_collections.amx.cluster.plugins.module_utils._text import words
from ansible_collections.amx.cluster.plugins.plugin_utils import document, screen
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction


class ActionModule(ControlNodeAction):
    """Makes a report of results on the control node. No host is contacted."""

    ROLE = "report"
    ARGUMENTS: ClassVar[dict[str, Any]] = {
        "results": {"type": "path", "default": "results"},
        # Of the inventory.
        "price": {"type": "raw", "default": ""},
        **document.ARGUMENTS,
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
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
