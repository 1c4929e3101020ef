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
from ansible_collections.amx.cluster.plugins.module_utils._jobs import (
    batches,
    plan_text,
    purposes,
    readiness,
)
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import of_inventory
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.known import LAUNCHERS
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Plan
from ansible_collections.amx.cluster.plugins.module_utils._jobs.planning import Answer
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run
from ansible_collections.amx.cluster.plugins.module_utils._jobs.slurm import script
from ansible_collections.amx.cluster.plugins.plugin_utils import document, inventory_in_use, screen
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes import slurm
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes.action import RuntimeAction

display = Display()


class ActionModule(RuntimeAction):
    """Plans a run on the control node, from what its hosts have answered."""

    ARGUMENTS: ClassVar[dict[str, Any]] = {
        "run": {"type": "dict", "required": True},
        "hosts": {"type": "list", "elements": "str", "required": True},
        "answers": {"type": "dict", "required": True},
        "job_env": {"type": "raw", "default": {}, "no_log": True},
        "fabric": {"type": "str", "choices": list(fabrics.VALUES), "default": fabrics.AUTO},
        "tcmalloc": {"type": "str", "choices": ["preferred", "required", "absent"], "default": "preferred"},
        "cache": {"type": "str", "default": "~/.cache/amx.cluster"},
        "resume": {"type": "raw", "default": False},
        "requirements": {"type": "list", "elements": "str", "default": []},
        "refuse_memory": {"type": "bool", "default": True},
        "purpose": {"type": "str", "choices": list(purposes.PURPOSES), "default": purposes.PLAN.name},
        "verify_again": {"type": "bool", "default": True},
        "sbatch": {"type": "bool", "default": False},
        **document.ARGUMENTS,
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        run, hosts, purpose = Run.from_json(options["run"]), options["hosts"], purposes.PURPOSES[options["purpose"]]
        head, answered = run.settings.head, {host: answer["host"] for host, answer in options["answers"].items()}
        if LAUNCHERS[run.job.launcher].submits:
            return self.submission(slurm.Slurm(self, task_vars), run, purpose, options)
        if options["sbatch"]:
            raise ValueError("--sbatch is for an inventory with cluster_slurm (docs/slurm.md): leave it out")
        # Their values are looked up again when they are handed over: nothing of them is returned here.
        of_inventory(run.job, options["job_env"])
        cache, own = Path(options["cache"]).expanduser(), answered[head]
        answers, plan = readiness.plan(run, hosts, options["answers"], options, own["stack"], own["venv"], cache)
        plan = replace(plan, runtime=answers[head].runtime)
        self.show(run, plan, purpose, options)
        resumes, source = self.resumption(options["resume"], head, answered)
        problem = readiness.without_example(run, answered)
        if purpose.refuses_locked:
            problem = problem or ("" if purpose.replaces else readiness.running(run.job.name, answered[head]))
            # One that waits does so on the head.
            problem = problem or ("" if run.job.wait else readiness.locked(run.job.name, hosts, answered, head))
        if problem:
            raise ValueError(problem)
        due, note = True, ""
        if purpose is purposes.VERIFY and not options["verify_again"]:
            due, note = readiness.verification(plan.to_json(), answered, head)
        if note:
            screen.show(inventory_in_use.commands(note))
        example = answered[head]["example"]
        maps = [(host, drawn) for host in hosts if (drawn := answers[host].core_map)]
        return {
            "plan": plan.to_json(),
            "drawings": plan_text.drawings(maps),
            "resumes": resumes,
            "source": source,
            "examples": example.get("link", ""),
            "requirements": [*options["requirements"], *example.get("requirements", [])],
            "due": due and purpose.runs,
        }

    def submission(
        self, runtime: slurm.Slurm, run: Run, purpose: purposes.Purpose, options: dict[str, Any]
    ) -> dict[str, Any]:
        """Return what a job is submitted with, if Slurm accepts it; the plan itself is made in the allocation."""
        head, job = run.settings.head, run.job
        answered = {host: answer["host"] for host, answer in options["answers"].items()}
        own = answered[head]
        answers = {head: Answer.from_json({**own, "host": head})}
        problem = readiness.refusal(run, [], answers, "preferred") or readiness.without_example(run, answered)
        if not problem and purpose.refuses_locked:
            problem = readiness.running(job.name, own)
        if problem:
            raise ValueError(problem)
        of_inventory(job, options["job_env"])
        planning = runtime.planning(run, own["venv"], own["runtime"], options)
        request = script.requested(run.settings.slurm or {}, job)
        text = script.batch_script(request, job, runtime.directory(job.name), own["venv"], own["runtime"])
        start = runtime.accepted(run)
        if purpose.shows_plan and options["format"] != "text":
            document.emit({"slurm": request, "batch_script": text, "start": start}, options)
        elif options["sbatch"]:
            screen.show(text)
        else:
            screen.show(script.summary(request, job, start))
        resumes, source = self.resumption(options["resume"], head, answered)
        return {
            "plan": {"job": job.name, "environment": own["venv"], "runtime": own["runtime"], "planning": planning},
            "drawings": {},
            "resumes": resumes,
            "source": source,
            "examples": own["example"].get("link", ""),
            "requirements": [*options["requirements"], *own["example"].get("requirements", [])],
            "due": purpose.runs,
        }

    @staticmethod
    def show(run: Run, plan: Plan, purpose: purposes.Purpose, options: dict[str, Any]) -> None:
        """Show the plan as text, in full where it is what the user requested; or emit it as a document."""
        if options["format"] != "text":
            document.emit(plan.to_json(), options)
            return
        full = purpose.shows_plan or display.verbosity > 0
        text = plan_text.render(plan, colour=screen.current().colours, full=full)
        if run.job.of_kind().takes_trainer_arguments:
            text += f"\n{batches.text(run.job, plan.world_size)}"
        screen.show(text)

    @staticmethod
    def resumption(resume: Any, head: str, answered: dict[str, Any]) -> tuple[bool, str]:
        """Return what readiness.resumption does. Raises ValueError for a value that is none."""
        if resume != readiness.AUTO:
            try:
                resume = boolean(resume)
            except TypeError:
                raise ValueError(f"job_resume: {resume!r} is neither auto, true nor false") from None
        return readiness.resumption(resume, head, {host: answer["previous"] for host, answer in answered.items()})
