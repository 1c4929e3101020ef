#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: jobs_info
short_description: Gather the status of all jobs on a host
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Lists the job directories of the host with their states (on the head), the ranks that run on it now with their CPU
    use and memory, and which jobs have locked the host.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
options:
  path:
    description: The directory of the job directories.
    type: path
    required: true
  seconds:
    description: How long CPU use is measured, in seconds. With 0 it is not.
    type: float
    default: 0.5
  starting:
    description: The name of a job that is about to start. RV(locks) leaves out those of its own.
    type: str
    default: ""
  host:
    description: The host's name in RV(locks), such as C(inventory_hostname).
    type: str
    default: this host
seealso:
  - module: amx.cluster.job_info
  - module: amx.cluster.jobs_report
"""

EXAMPLES = r"""
- name: Gather the status of all jobs
  amx.cluster.jobs_info:
    path: /opt/amx-cluster/jobs
"""

RETURN = r"""
jobs:
  description: The jobs that were started from this host, the newest first, each C(path), C(user), C(status) and
      C(progress).
  returned: success
  type: list
  elements: dict
ranks:
  description: The ranks that run on this host now.
  returned: success
  type: list
  elements: dict
  sample:
    - {pid: 4242, job: /opt/amx-cluster/jobs/demo, rank: 1, threads: 12, cpus: 8-15, rss_bytes: 1500000000, cpu: 7.9}
locked_by:
  description: Which jobs have locked this host, who started them and when.
  returned: success
  type: list
  elements: dict
  sample:
    - {job: demo, user: ubuntu, since: "2026-11-20T13:00:00+00:00"}
locks:
  description:
    - RV(locked_by) as a line for each other job, and a line for each launcher that other users, or jobs outside of
      O(path), run on this host.
  returned: success
  type: list
  elements: str
  sample:
    - node1 is locked by job demo of ubuntu since 2026-11-20T13:00:00+00:00
environments:
  description: The names of the virtual environments that the jobs use which were started from this host and run now.
  returned: success
  type: list
  elements: str
  sample: [native-cp311-d5eecbc6f7c9]
secrets_left:
  description: The files with secrets of jobs that have ended, as a host has them that did not answer at a job's end.
  returned: success
  type: list
  elements: str
  sample: [/opt/amx-cluster/jobs/demo/secrets.json]
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory, reset
from ansible_collections.amx.cluster.plugins.module_utils._jobs.processes import find, locked, usage


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "seconds": {"type": "float", "default": 0.5},
            "starting": {"type": "str", "default": ""},
            "host": {"type": "str", "default": "this host"},
        },
        supports_check_mode=True,
    )
    folder = Path(module.params["path"])
    try:
        seconds = module.params["seconds"]
        processes = usage(None, seconds) if seconds else find()
        module.exit_json(
            changed=False,
            jobs=directory.jobs(folder),
            ranks=[process for process in processes if process["kind"] == "rank"],
            environments=reset.environments_in_use(folder),
            secrets_left=directory.ended_with_secrets(folder, module.params["host"]),
            **locked(folder, module.params["host"], module.params["starting"]),
        )
    except OSError as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
