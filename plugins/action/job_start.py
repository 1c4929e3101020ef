# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any, ClassVar

from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.known import LAUNCHERS
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes import known
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes.action import RuntimeAction
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes.runtime import Request


class ActionModule(RuntimeAction):
    """Starts a job by the runtime of its launcher, and follows it to its end, or until it serves a model."""

    ARGUMENTS: ClassVar[dict[str, Any]] = {
        "run": {"type": "dict", "required": True},
        "override": {"type": "raw"},
        "plan": {"type": "dict", "default": {}},
        "job_env": {"type": "raw", "default": {}, "no_log": True},
        "resume": {"type": "bool", "default": False},
        "prepared": {"type": "str", "default": ""},
        "project": {"type": "dict", "default": {}},
        "drawings": {"type": "dict", "default": {}},
        "cached": {"type": "dict", "default": {}},
        "linked": {"type": "dict", "default": {}},
        "source": {"type": "str", "default": ""},
        "keep_previous": {"type": "bool", "default": True},
        "predicts": {"type": "bool", "default": False},
        "shows_results": {"type": "bool", "default": True},
        "until_ready": {"type": "bool", "default": False},
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        run = Run.from_json(options["run"])
        runtime = known.named(LAUNCHERS[run.job.launcher].runtime, self, task_vars)
        others = {name: value for name, value in options.items() if name not in ("run", "job_env")}
        request = Request(run, env=options["job_env"], **others)
        runtime.plan(request)
        if self._task.check_mode:
            return {}
        return {"changed": True, **runtime.start(request)}
