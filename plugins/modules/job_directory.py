#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: job_directory
short_description: Create the directory of a job on a host
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Creates a new directory with the files that a run of a job needs. The directory of a previous run is moved aside, to
    its name with the time it was made, unless O(keep_earlier=false).
  - With O(run) the files are rendered on the control node.
  - Only the user who runs the module can read the directory.
  - Fails while the job in it is running, and while orphaned processes of the job are on the host.
extends_documentation_fragment:
  - amx.cluster.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: none
    details:
      - Each run of a job gets a directory of its own.
options:
  path:
    description: The job directory.
    type: path
    required: true
  files:
    description: The content of each file, by its path in the job directory. They win over those of O(run).
    type: dict
    default: {}
  run:
    description: The run whose files are rendered, as M(amx.cluster.job_read) returns it.
    type: dict
  plan:
    description: The plan of O(run), as M(amx.cluster.job_plan) returns it.
    type: dict
  stack:
    description: The stack that O(run) uses.
    type: dict
  role_files:
    description: The directory on the control node that has the programs which start and supervise ranks.
    type: path
  project:
    description: The project of the run, as M(amx.cluster.job_read) returns it. Empty for a run without one.
    type: dict
    default: {}
  store:
    description: The directory on the host that has the contents of the project's files, each under its SHA-256.
    type: path
  cached:
    description: The paths of models, data and metrics in the host's cache, by their names there. They are linked.
    type: dict
    default: {}
  links:
    description: The target of each symbolic link, by its path in the job directory.
    type: dict
    default: {}
  job_env:
    description: Values of the variables that C(env_from) of O(run) names. They become O(secrets).
    type: dict
    default: {}
  override:
    description: The fields that won over those of the job file in O(run), as M(amx.cluster.job_read) received them.
    type: raw
  secrets:
    description:
      - Environment variables of the ranks that are in no other file than C(secrets.json), which the supervisor removes
        when the job ends. They win over those of O(run).
    type: dict
    default: {}
  keep_earlier:
    description:
      - Whether the directory of a previous run is moved aside. With V(false), the directory is that of a derived job,
        and replaces one that carries the mark of such a job; anything else is moved aside.
    type: bool
    default: true
  resume:
    description:
      - Whether the run resumes from the last complete checkpoint of the previous one. What the host has of checkpoints
        is linked into the new directory. It fails where the job's head has none.
    type: bool
    default: false
  host:
    description: The host's name in the inventory, by which it is locked.
    type: str
    default: this host
seealso:
  - module: amx.cluster.job_plan
  - module: amx.cluster.job_info
"""

EXAMPLES = r"""
- name: Create the job directory
  amx.cluster.job_directory:
    path: /opt/amx-cluster/jobs/demo
    files:
      hostfile: |
        node0
        node1
    links:
      models/minilm: /opt/amx-cluster/packages/minilm-1.0/model
"""

RETURN = r"""
path:
  description: The job directory.
  returned: success
  type: str
moved_to:
  description: Where the directory of the previous run is now.
  returned: when there was one
  type: str
"""

import contextlib
import json
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._jobs import checkpoints, directory


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "files": {"type": "dict", "default": {}},
            **{name: {"type": "dict"} for name in ("run", "plan", "stack")},  # rendered by the action
            "role_files": {"type": "path"},
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
        },
        supports_check_mode=True,
    )
    folder = Path(module.params["path"])
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
        module.fail_json(
            msg=f"{folder} has no complete checkpoint to resume from: start the job from the beginning, without resume"
        )
    keep = module.params["keep_earlier"]
    try:
        start = settings.get("start", "") if keep else ""
        replacing = directory.replacing(folder, module.params["host"], start)
        with contextlib.nullcontext() if module.check_mode else replacing:
            replaced = not keep and directory.is_derived(folder)
            earlier = None if replaced else directory.set_aside(folder)
            if earlier:
                result["moved_to"] = str(earlier)
            if module._diff:
                names = sorted([*module.params["files"], *module.params["links"]])
                result["diff"] = {"before_header": str(folder), "after_header": str(folder), "before": ""}
                result["diff"]["after"] = "".join(f"{name}\n" for name in names)
            if not module.check_mode:
                if earlier:
                    folder.rename(earlier)
                    if _ownership.is_own(earlier):
                        directory.close(earlier)
                elif replaced:
                    _ownership.remove(folder)
                resumed = directory.to_resume(earlier) if earlier and module.params["resume"] else []
                secrets = module.params["secrets"]
                content = module.params["project"]
                tree = (content, Path(module.params["store"])) if content else None
                what = directory.JOB if keep else directory.DERIVED
                files, links = module.params["files"], module.params["links"]
                directory.create(folder, files, links, resumed, secrets, tree, what)
    except ValueError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=f"the job directory {folder} cannot be created: {error}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
