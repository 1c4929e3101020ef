# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._data import project
from ansible_collections.amx.cluster.plugins.module_utils._jobs import provided
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import secrets, without_secrets
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Plan
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run_files import run_files
from ansible_collections.amx.cluster.plugins.plugin_utils.module_action import ModuleAction


def _files_of_project(content: dict[str, Any] | None) -> dict[str, str]:
    """Return the files beside a project's tree: what is in it, and what an installation adds."""
    if not content:
        return {}
    listed = {name: content[name] for name in ("digest", "directory", "files", "links")}
    installed = {f"{project.DIRECTORY}/{name}": text for name, text in content["installed"].items()}
    return {project.LISTING: json.dumps(listed, indent=1) + "\n", **installed}


class ActionModule(ModuleAction):
    """Renders the files of a run on the control node, and has the module make the directory on the host."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        if "run" not in self._task.args:
            return super().run(tmp, task_vars)
        super(ModuleAction, self).run(tmp, task_vars)
        options = dict(self._task.args)
        run = Run.from_json(options.pop("run"))
        scripts = [run.job.script, *([run.job.prepare.script] if run.job.prepare else [])]
        own = {script.name: script for script in scripts if script.is_absolute() and not run.job.project}
        try:
            options["files"] = {
                **{name: path.read_text(encoding="utf-8") for name, path in own.items()},
                "job.yml": without_secrets(run.job.file),
                **run_files(Plan.from_json(options.pop("plan")), run, options.pop("stack")),
                "host": f"{(task_vars or {})['inventory_hostname']}\n",
                **_files_of_project(options.get("project")),
                **options.get("files", {}),
            }
            # The module gets the values alone, as options that Ansible shows and logs nowhere.
            values = secrets(run.job, options.pop("job_env", {}), options.pop("override", None))
            options["secrets"] = {**values, **options.get("secrets", {})}
        except ValueError as error:
            return {"failed": True, "msg": str(error)}
        except OSError as error:
            return {"failed": True, "msg": f"the files of job {run.job.name} cannot be read: {error}"}
        job = run.to_json()["job"]
        options["links"] = provided.links(job, options.pop("cached", {}), options.get("links", {}))
        return self.run_module(options, task_vars)
