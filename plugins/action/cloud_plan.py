# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import dataclasses
import getpass
import platform
import secrets
from pathlib import Path
from typing import Any, ClassVar

from ansible.plugins.loader import module_loader
from ansible_collections.amx.cluster.plugins.module_utils._cloud import aws, plan, request
from ansible_collections.amx.cluster.plugins.plugin_utils import requested, screen
from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command import table
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction


class ActionModule(ControlNodeAction):
    """Checks a cloud file, asks EC2, and shows what is made or removed. Nothing is changed."""

    ARGUMENTS: ClassVar[dict[str, Any]] = {
        "file": {"type": "path", "default": ""},
        "state": {"type": "str", "default": "present"},
        "images": {"type": "bool", "default": False},
        # The ids of hosts that are taken back: those that carry the mark are replaced.
        "leaving": {"type": "list", "elements": "str", "default": []},
        # What carried the mark before a run that failed: what is removed then is the rest, and nothing is shown.
        "before": {"type": "dict"},
        # The run that locks the cluster, and what it makes: with `before`, only that is removed. unlock: ends its lock.
        "run": {"type": "str", "default": ""},
        "unlock": {"type": "bool", "default": False},
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        requested.refuse_misspelt(self._loader, table.BY_NAME["cloud"].names)
        options = requested.plain(options)
        if not options["file"]:
            raise ValueError("cloud: is missing: add -e cloud=FILE, the file of the cluster (docs/cloud.md)")
        if options["state"] not in ("present", "absent"):
            raise ValueError(f"state: {options['state']!r} is not one of present, absent")
        wanted = request.load(Path(options["file"]))
        aws.check_installed(module_loader.find_plugin("amazon.aws.ec2_instance") is not None)
        ec2 = aws.Ec2(wanted)
        if options["unlock"]:
            ec2.unlock(options["run"])
            return {"changed": False}
        if options["before"] is not None or options["run"] or self._task.check_mode:
            return self.answer(wanted, ec2, options)
        run = secrets.token_hex(6)
        ec2.lock(run, f"{getpass.getuser()}@{platform.node()}")
        try:
            return {**self.answer(wanted, ec2, {**options, "run": run}), "run": run}
        except BaseException:
            ec2.unlock(run)
            raise

    def answer(self, wanted: request.Request, ec2: aws.Ec2, options: dict[str, Any]) -> dict[str, Any]:
        """Return what is made, or removed, and show it."""
        if options["state"] == "absent":
            own = ec2.own(options["run"] if options["before"] else "")
            return self.absent(wanted, own, options)
        facts = ec2.facts()
        own = facts["own"]
        leaving = [instance for instance in own["instances"] if instance["InstanceId"] in options["leaving"]]
        staying = [instance for instance in own["instances"] if instance not in leaving]
        facts = {**facts, "own": {**own, "instances": staying}}
        made = plan.plan(wanted, facts)
        price = ec2.price(made.zone)
        screen.show(plan.table(wanted, made, facts, price, leaving))
        return {
            "changed": bool(self._task.check_mode and made.changes),
            **self.common(wanted, own),
            "run_tags": {aws.RUN: options["run"]},
            "leaving": [instance["InstanceId"] for instance in leaving],
            "plan": dataclasses.asdict(made),
            "price": dataclasses.asdict(price),
            "request": {
                **{key: value for key, value in dataclasses.asdict(wanted).items() if key != "prices"},
                "roles": {
                    wanted.host(number): plan.role(wanted, wanted.host(number)) for number in range(wanted.hosts)
                },
            },
        }

    def absent(self, wanted: request.Request, own: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        """Return what is removed, and show it; of a run that failed, without a word."""
        remove = plan.removal(own, options["before"], options["images"])
        if options["before"] is None:
            screen.show(plan.removed_text(wanted, own, remove))
        changed = bool(self._task.check_mode and any(remove.values()))
        left = plan.listed(own, remove)
        return {"changed": changed, **self.common(wanted, own), "remove": remove, "left": left}

    def common(self, wanted: request.Request, own: dict[str, Any]) -> dict[str, Any]:
        """Return what both states need."""
        return {
            "own": requested.plain(
                {**own, "instances": [{"InstanceId": instance["InstanceId"]} for instance in own["instances"]]}
            ),
            "region": wanted.region,
            "resource": wanted.resource(),
            "tags": wanted.tagged(),
            "where": f"{wanted.hosts} x {wanted.type} in {wanted.zone or wanted.region}",
        }
