# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from ansible.module_utils.parsing.convert_bool import boolean
from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils._hosts import fabrics
from ansible_collections.amx.cluster.plugins.module_utils._jobs import batches, memory_check, plan_text, readiness
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import of_inventory
from ansible_collections.amx.cluster.plugins.module_utils._jobs.planning import Answer, make_plan
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run
from ansible_collections.amx.cluster.plugins.plugin_utils import document, screen
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction

display = Display()


class ActionModule(ControlNodeAction):
    """Plans a run on the control node, from what its hosts have answered."""

    ARGUMENTS: ClassVar[dict[str, Any]] = {
        "run": {"type": "dict", "required": True},
        "hosts": {"type": "list", "elements": "str", "required": True},
        "answers": {"type": "dict", "required": True},
        "stack": {"type": "dict", "required": True},
        "job_env": {"type": "raw", "default": {}, "no_log": True},
        "fabric": {"type": "str", "choices": list(fabrics.VALUES), "default": fabrics.AUTO},
        "tcmalloc": {"type": "str", "choices": ["preferred", "required", "absent"], "default": "preferred"},
        "cache": {"type": "str", "default": "~/.cache/amx.cluster"},
        "resume": {"type": "raw", "default": False},
        "refuse_memory": {"type": "bool", "default": True},
        "full": {"type": "bool", "default": True},
        **document.ARGUMENTS,
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        run, hosts = Run.from_json(options["run"]), options["hosts"]
        answers = {host: Answer.from_json({"host": host, **values}) for host, values in options["answers"].items()}
        if options["tcmalloc"] == "absent":
            answers = {host: replace(answer, tcmalloc="") for host, answer in answers.items()}
        refusal = readiness.refusal(run, hosts, answers, options["tcmalloc"])
        if refusal:
            raise ValueError(refusal)
        # Their values are looked up again when they are handed over: nothing of them is returned here.
        of_inventory(run.job, options["job_env"])
        venv = answers[run.settings.head].venv
        plan = make_plan(run, options["stack"], venv, [answers[host] for host in hosts], options["fabric"])
        memory = {host: int(options["answers"][host].get("memory_bytes") or 0) for host in hosts}
        cache = Path(options["cache"]).expanduser()
        packages, refuses = options["stack"].get("packages", {}), options["refuse_memory"]
        plan = replace(plan, runtime=answers[run.settings.head].runtime)
        plan = replace(plan, memory=memory_check.check(run.job, plan, cache, memory, packages, refuses))
        if options["format"] == "text":
            full = options["full"] or display.verbosity > 0
            text = plan_text.render(plan, colour=screen.current().colours, full=full)
            if run.job.of_kind().takes_trainer_arguments:
                text += f"\n{batches.text(run.job.args, plan.world_size)}"
            screen.show(text)
        else:
            document.emit(plan.to_json(), options)
        resume = options["resume"]
        if resume != readiness.AUTO:
            try:
                resume = boolean(resume)
            except TypeError:
                raise ValueError(f"job_resume: {resume!r} is neither auto, true nor false") from None
        previous = {host: values["previous"] for host, values in options["answers"].items()}
        resumes, source = readiness.resumption(resume, run.settings.head, previous)
        busy = {lock["job"] for values in options["answers"].values() for lock in values.get("locked_by") or []}
        maps = [(host, drawn) for host in hosts if (drawn := answers[host].core_map)]
        return {
            "plan": plan.to_json(),
            "drawings": plan_text.drawings(maps),
            "resumes": resumes,
            "source": source,
            "busy": sorted(busy),
        }
