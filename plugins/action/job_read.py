# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import re
import secrets
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar

from ansible_collections.amx.cluster.plugins.module_utils._jobs import (
    archive,
    derive,
    kinds,
    project_files,
    provided,
    purposes,
    training_data,
)
from ansible_collections.amx.cluster.plugins.module_utils._jobs.cost import Price
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import JobFileError, load
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.known import LAUNCHERS
from ansible_collections.amx.cluster.plugins.module_utils._jobs.requests import (
    choose_hosts,
    inventory_optimize,
    question,
    submitted,
)
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run, Settings, members
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run_files import prepare_arguments
from ansible_collections.amx.cluster.plugins.module_utils._jobs.slurm.fields import of_inventory
from ansible_collections.amx.cluster.plugins.plugin_utils import inventory_in_use, requested
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction

# What the path of a script begins with that is one of the transformers examples.
EXAMPLE_SCRIPTS = "transformers/examples/"


def check_notices(url: str) -> None:
    """Raise ValueError where cluster_spot_notices is no address of a metadata service."""
    if url and not re.fullmatch(r"http://[^/\s]+/?", url):
        raise ValueError(f"cluster_spot_notices: {url!r} is not an address such as http://169.254.169.254")


class ActionModule(ControlNodeAction):
    """Reads a job file on the control node."""

    ARGUMENTS: ClassVar[dict[str, Any]] = {
        "file": {"type": "str", "default": ""},
        "default": {"type": "str", "default": ""},
        "override": {"type": "raw"},
        "profile": {"type": "raw"},
        "hosts": {"type": "list", "elements": "str", "default": []},
        "purpose": {"type": "str", "choices": list(purposes.PURPOSES), "default": purposes.TRAIN.name},
        "settings": {"type": "dict", "default": {}},
        "derive": {"type": "dict", "default": {}},
        "fact": {"type": "str", "default": ""},
        "measure_with": {
            "type": "dict",
            "options": {
                "name": {"type": "str", "required": True},
                "kind": {"type": "str", "choices": [kinds.TORCH.name, kinds.RANKS.name], "required": True},
                "script": {"type": "str", "required": True},
                "args": {"type": "dict", "default": {}},
            },
        },
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        purpose = purposes.PURPOSES[options["purpose"]]
        file = options["file"] or ("" if purpose.named else options["default"])
        if not file:
            raise ValueError("no job was named: add -e job=FILE, such as -e job=jobs/demo.yml")
        slurm = of_inventory(options["settings"].pop("slurm", None))
        job = submitted(load(Path(file), options["override"]), slurm)
        playbook = job.of_kind().playbook
        if playbook != kinds.TRAINER.playbook and not options["derive"]:
            raise ValueError(f"job {job.name} is of kind {job.kind}: playbooks/{playbook} -e job={job.file} runs it")
        if purpose is purposes.TRAIN:
            requested.refuse_misspelt(self._loader, ("profile",))
            job = derive.profiled(job, options["profile"] or False)
        if purpose is purposes.VERIFY:
            job = derive.verification(job)
        if options["derive"]:
            job = derive.trial(job, **json.loads(json.dumps(options["derive"])))
        if options["measure_with"]:
            measure = dict(options["measure_with"])
            job = derive.measurement(job, **{**measure, "script": Path(measure["script"])})
        submits = LAUNCHERS[job.launcher].submits
        if submits and not purpose.submitted:
            raise ValueError(f"Job {job.name} ({job.file}): {LAUNCHERS[job.launcher].elsewhere(job.file)}")
        project = project_files.read(job, project_files.build_options(self.variable_of(task_vars)))
        on_hosts = not (LAUNCHERS[job.launcher].elsewhere() and purpose.anywhere)
        wrong = training_data.problems(job) if on_hosts else []
        if wrong:
            raise JobFileError(job.file, wrong)
        result: dict[str, Any] = {
            "job": job.to_json(),
            "purpose": asdict(purpose),
            "hosts": [],
            "members": [],
            **project,
        }
        if options["hosts"]:
            Price.read(options["settings"].get("host_price"), "cluster_host_price_per_hour")
            check_notices(str(options["settings"].get("notices") or ""))
            settings = Settings(
                **{"start": secrets.token_hex(8), **options["settings"]},
                head=options["hosts"][0],
                project=project_files.summary(project["project"]),
                given=inventory_in_use.given(),
            )
            if submits:  # the first node of the allocation takes the head's place, and all share the job directory
                settings = replace(
                    settings, slurm=slurm, shared_directory=True, head_address="", head_interface="", notices=""
                )
            inventory_optimize(settings.optimize)
            run = Run(job, settings)
            hosts = [] if submits or not on_hosts else choose_hosts(job, options["hosts"])
            result.update(run=run.to_json(), hosts=hosts)
            if submits or on_hosts:
                script = str(job.script)
                example = script.removeprefix(EXAMPLE_SCRIPTS) if script.startswith(EXAMPLE_SCRIPTS) else ""
                request = question(run, hosts, archive.name(archive.of_collection()), example)
                result.update(members=members(settings, hosts), question=request)
        fields = {name: {key: asdict(source) for key, source in getattr(job, name).items()} for name in provided.CACHED}
        result["sources"] = {name: provided.sources(fields, name) for name in fields}
        result["prepare"] = (
            [project_files.script_name(job, job.prepare.script), *prepare_arguments(job)]
            if job.prepare is not None
            else []
        )
        if options["fact"]:
            checked = {name: result.get(name) for name in ("job", "members", "hosts", "question")}
            checked["purpose"] = purpose.name
            result["ansible_facts"] = {options["fact"]: checked}
        return result
