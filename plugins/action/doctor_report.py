# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from ansible import constants
from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils._hosts import amx_text, doctor, fabrics, systems
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.catalogue import LIMITS
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.check import FAILURE, Cluster, Wanted
from ansible_collections.amx.cluster.plugins.module_utils._jobs.slurm.fields import of_inventory
from ansible_collections.amx.cluster.plugins.plugin_utils import document, inventory_in_use, screen
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction

display = Display()

WANTED = {
    "require": {"type": "str", "choices": ["amx", "avx512", "none"], "default": "none"},
    "fabric": {"type": "str", "choices": list(fabrics.VALUES), "default": fabrics.AUTO},
    "unknown_os": {"type": "str", "choices": [systems.REFUSE, systems.ALLOW], "default": systems.REFUSE},
    # cluster_slurm, false without it.
    "slurm": {"type": "raw", "default": False},
    "become": {"type": "bool", "required": True},
    "full": {"type": "bool", "required": True},
    "connections": {"type": "bool", "default": False},
    **{limit: {"type": "float", "required": True} for limit in LIMITS},
}


class ActionModule(ControlNodeAction):
    """Runs the checks on the control node. No host is contacted."""

    ARGUMENTS: ClassVar[dict[str, Any]] = {
        "results": {"type": "dict", "required": True},
        "wanted": {"type": "dict", "required": True, "options": WANTED},
        **document.ARGUMENTS,
        "format": {"type": "str", "choices": ["table", "json", "failures"], "default": "table"},
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        limits = {name: options["wanted"][name] for name in LIMITS}
        others = {name: value for name, value in options["wanted"].items() if name not in limits}
        others["slurm"] = of_inventory(others["slurm"])
        cluster = Cluster(options["results"], Wanted(**others, limits=limits))
        findings = [
            dataclasses.replace(finding, advice=inventory_in_use.commands(finding.advice))
            for finding in doctor.examine(cluster)
        ]
        summary = doctor.summary(findings, cluster)
        groups = amx_text.groups({host: info["amx"] for host, info in cluster.infos.items()})
        report: dict[str, Any] = {
            "findings": [dataclasses.asdict(finding) for finding in findings],
            "summary": summary,
            "amx": [{"hosts": group.hosts, "lost": group.lost, **group.judged} for group in groups],
        }
        by_host = doctor.fabrics_of(cluster)
        if by_host:
            report["fabrics"] = {host: dataclasses.asdict(fabric) for host, fabric in by_host.items()}
        machines = doctor.machines_of(cluster)
        if machines:
            report["machines"] = {host: dataclasses.asdict(machine) for host, machine in machines.items()}
        failures = [finding for finding in findings if finding.severity == FAILURE]
        if options["format"] == "json":
            try:
                document.emit({"hosts": list(cluster.results), **report}, options)
            except (OSError, ValueError) as error:
                return {**report, "failed": True, "msg": str(error)}
        else:
            seen = screen.current()
            for group in groups:
                text = "\n".join(amx_text.lines(group, min(110, seen.columns - 1)))
                display.display(text, color=constants.COLOR_WARN if group.lost else None)
            if options["format"] == "table" or failures:
                shown = findings if options["format"] == "table" else failures
                tables = [doctor.machines_table(machines), doctor.fabrics_table(by_host)]
                listed = tables if options["format"] == "table" else []
                screen.show(
                    "\n".join(filter(None, [*listed, doctor.table(shown, seen.columns, seen.colours), summary]))
                )
        if failures:
            return {**report, "failed": True, "msg": doctor.refusal(failures)}
        return report
