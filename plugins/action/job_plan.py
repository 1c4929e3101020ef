# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils._cores.core_map import CoreMap
from ansible_collections.amx.cluster.plugins.module_utils._hosts import fabrics
from ansible_collections.amx.cluster.plugins.module_utils._jobs import plan_text, readiness, secret_env
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import make_plan
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run
from ansible_collections.amx.cluster.plugins.plugin_utils import document, inventory_in_use, screen

display = Display()


class ActionModule(ActionBase):
    """Plans a run on the control node, from what its hosts have answered."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(
            argument_spec={
                "run": {"type": "dict", "required": True},
                "hosts": {"type": "list", "elements": "str", "required": True},
                "answers": {"type": "dict", "required": True},
                "stack": {"type": "dict", "required": True},
                "job_env": {"type": "raw", "default": {}, "no_log": True},
                "fabric": {"type": "str", "choices": list(fabrics.VALUES), "default": fabrics.AUTO},
                "tcmalloc": {"type": "str", "choices": ["preferred", "required", "absent"], "default": "preferred"},
                "full": {"type": "bool", "default": True},
                **document.ARGUMENTS,
            }
        )
        run, hosts, answers = Run.from_json(options["run"]), options["hosts"], options["answers"]
        try:
            refusal = readiness.refusal(run, hosts, answers, options["tcmalloc"])
            if refusal:
                raise ValueError(refusal)
            # Their values are looked up again when they are handed over: nothing of them is returned here.
            secret_env.from_inventory(run.job.env_from, options["job_env"], run.job.name, run.job.file)
            venv = answers[run.settings.head]["venv"]
            told = [{"host": host, **answers[host]} for host in hosts]
            plan = make_plan(run, options["stack"], venv, told, options["fabric"])
        except ValueError as error:
            return {"failed": True, "msg": inventory_in_use.commands(str(error), task_vars)}
        if options["format"] == "text":
            full = options["full"] or display.verbosity > 0
            text = plan_text.render(plan, colour=screen.current().colours, full=full)
            screen.show(inventory_in_use.commands(text, task_vars))
        else:
            try:
                document.emit(plan, options)
            except (OSError, ValueError) as error:
                return {"failed": True, "msg": str(error)}
        maps = [(host, CoreMap.from_json(answers[host]["allocation"]["core_map"])) for host in hosts]
        return {"changed": False, "plan": plan, "drawings": plan_text.drawings(maps)}
