#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: job_directory
short_description: Create the directory of a job on a host
extends_documentation_fragment: amx.cluster.internal
options:
  path: {type: path, required: true, description: The job directory}
  files: {type: dict, default: {}, description: "The content of each file, by its path in the job directory"}
  run: {type: dict, description: The run whose files the action renders on the control node}
  plan: {type: dict, description: The plan of the run}
  stack: {type: dict, description: The stack of the run}
  project: {type: dict, default: {}, description: The project of the run}
  store: {type: path, description: "The directory on the host with the project's files, by their SHA-256"}
  cached: {type: dict, default: {}, description: "The paths of models, data and metrics on the host, by their names"}
  links: {type: dict, default: {}, description: "The target of each symbolic link, by its path in the job directory"}
  job_env: {type: dict, default: {}, description: Values of the variables that the job takes from the inventory}
  override: {type: raw, description: "The fields that won over those of the job file, of which secrets are read"}
  secrets: {type: dict, default: {}, description: Environment variables of the ranks that are in secrets.json only}
  keep_earlier: {type: bool, default: true,
    description: Whether the directory of a previous run is moved aside; that of a derived job is replaced otherwise}
  resume: {type: bool, default: false, description: Whether the run resumes from the last complete checkpoint}
  host: {type: str, default: this host, description: "The host's name in the inventory, by which it is locked"}
  restore: {type: str, description: "Instead, put back what this start of the job, which never began, has moved aside"}
"""
EXAMPLES = "\n# Internal\n"

import json
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._io import disk_problem
from ansible_collections.amx.cluster.plugins.module_utils._jobs import checkpoints, directory


def _create(module: AnsibleModule, folder: Path, result: dict[str, Any]) -> None:
    keep = module.params["keep_earlier"]
    replaced = not keep and directory.is_derived(folder)
    aside = directory.set_aside(folder)
    if aside and not replaced:
        result["moved_to"] = str(aside)
    if module._diff:
        names = sorted([*module.params["files"], *module.params["links"]])
        result["diff"] = {"before_header": str(folder), "after_header": str(folder), "before": ""}
        result["diff"]["after"] = "".join(f"{name}\n" for name in names)
    if module.check_mode:
        return
    content = module.params["project"]
    directory.create(
        folder,
        module.params["files"],
        module.params["links"],
        checkpoints.folders(folder / "output") if aside and module.params["resume"] else [],
        module.params["secrets"],
        (content, Path(module.params["store"])) if content else None,
        directory.JOB if keep else directory.DERIVED,
        aside,
    )
    if aside and replaced:
        _ownership.remove(aside)
    elif aside and _ownership.is_own(aside):
        directory.close(aside)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "files": {"type": "dict", "default": {}},
            **{name: {"type": "dict"} for name in ("run", "plan", "stack")},  # rendered by the action
            "cached": {"type": "dict", "default": {}},
            "project": {"type": "dict", "default": {}},
            "store": {"type": "path"},
            "links": {"type": "dict", "default": {}},
            "job_env": {"type": "dict", "default": {}, "no_log": True},
            "override": {"type": "raw", "no_log": True},
            "secrets": {"type": "dict", "default": {}, "no_log": True},
            "keep_earlier": {"type": "bool", "default": True},
            "resume": {"type": "bool", "default": False},
            "host": {"type": "str", "default": "this host"},
            "restore": {"type": "str"},
        },
        supports_check_mode=True,
    )
    folder = Path(module.params["path"])
    if module.params["restore"]:
        try:
            module.exit_json(changed=not module.check_mode and directory.restore(folder, module.params["restore"]))
        except OSError as error:
            module.fail_json(msg=f"the previous run of {folder} cannot be put back: {error}")
    status = directory.running(folder)
    if status:
        module.fail_json(
            msg=f"the job {status['job']} is running since {status['started']} (process {status['pid']} on its head): "
            "wait for its end, or give this job another name"
        )
    if directory.is_in_use(folder, module.params["host"]):
        module.fail_json(
            msg=f"orphaned processes of the previous run in {folder} are on this host: end them with "
            f"playbooks/stop.yml -e job={folder.name}, or give this job another name"
        )
    result: dict[str, Any] = {"changed": True, "path": str(folder)}
    settings = json.loads(module.params["files"].get("job.json", "{}")).get("settings", {})
    leads = settings.get("head", module.params["host"]) == module.params["host"]
    if module.params["resume"] and leads and not checkpoints.last_marked(folder / "output"):
        refused = [(path.name, checkpoints.refusal(path)) for path in checkpoints.folders(folder / "output")]
        why = "".join(f" ({name}: {reason})" for name, reason in refused[:1] if reason)
        module.fail_json(
            msg=f"{folder} has no complete checkpoint to resume from{why}: start the job from the beginning, without "
            "resume"
        )
    keep = module.params["keep_earlier"]
    try:
        if module.check_mode:
            _create(module, folder, result)
        else:
            with directory.replacing(folder, module.params["host"], settings.get("start", "") if keep else ""):
                _create(module, folder, result)
    except ValueError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        full = disk_problem(str(error), module.params["host"], str(folder.parent))
        module.fail_json(msg=f"the job directory {folder} cannot be created: {full or error}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
