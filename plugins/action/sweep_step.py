# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils import _io
from ansible_collections.amx.cluster.plugins.module_utils._measure import sweep, sweep_request, sweep_text
from ansible_collections.amx.cluster.plugins.plugin_utils import requested, sweeps
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction

display = Display()


class ActionModule(ControlNodeAction):
    """Records on the control node what came of a run of a sweep, and chooses the next one."""

    ARGUMENTS: ClassVar[dict[str, Any]] = {
        **sweeps.ARGUMENTS,
        "tried": {"type": "dict", "default": {}},
        "cpu": {"type": "str", "default": ""},
        "network": {"type": "path"},
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        wanted = sweeps.read(options)
        if not options["tried"]:
            content = wanted.begin(options["again"], self._task.check_mode)
        else:
            content = self.record(wanted, requested.plain(options["tried"]), options)
        run = self.choose(wanted, content, options["tried"])
        if run:
            content = sweep.started(content, run["job"], requested.now())
        self.write(wanted.path, content)
        layout = content["layout"] or {}
        trial = sweep_request.trial(wanted.job, wanted.request, run, layout.get("ranks_per_node", 1)) if run else {}
        return {"run": run, "trial": trial}

    def record(self, wanted: sweeps.Wanted, tried: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        """Return the sweep with a run. Raises ValueError where it must stop after it."""
        content, stop = sweep.recorded(requested.recorded(wanted.path), tried, requested.now())
        content["cpu"] = content["cpu"] or options["cpu"] or None
        if not sweep.left(content):
            content = sweep.summarised(content, self.link(options["network"], wanted.hosts))
        self.write(wanted.path, content)
        if stop:
            raise ValueError(stop)
        runs = content["runs"]
        (run,) = [each for each in [content["sanity"], *runs] if each and each["job"] == tried["job"]]
        display.display(sweep_text.line(run, len(runs) - len(sweep.left(content)), len(runs)))
        return content

    @staticmethod
    def choose(wanted: sweeps.Wanted, content: dict[str, Any], tried: dict[str, Any]) -> dict[str, Any]:
        """Return the next run; empty where none is left. The sanity run is made first, each time a sweep goes on."""
        pending = sweep.left(content)
        if pending and not tried and content["sanity"]:
            return dict(content["sanity"])
        return dict(pending[0]) if pending else {}

    @staticmethod
    def link(network: str | None, hosts: list[str]) -> float | None:
        """Return the nominal speed of the slowest link in Mbit/s, from network.json; None where it is not known."""
        found = _io.read_json(Path(network)) if network else None
        if not found:
            return None
        known = {host["host"]: host.get("link_mbit") for host in found.get("hosts", [])}
        speeds = [known[host] for host in hosts if known.get(host)]
        return float(min(speeds)) if len(speeds) == len(hosts) else None

    def write(self, path: Path, content: dict[str, Any]) -> None:
        """Write sweep.json, at once."""
        if not self._task.check_mode:
            _io.write_json(path, content)
