#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: job_info
short_description: Get the status of a job
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Reads the state, the log and the results of a job from its directory on the head.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
options:
  path:
    description: The job directory.
    type: path
    required: true
  log_offset:
    description: The byte of the log from which on it is returned.
    type: int
    default: 0
seealso:
  - module: amx.cluster.jobs_info
  - module: amx.cluster.job_log
"""

EXAMPLES = r"""
- name: Get the status of the job
  amx.cluster.job_info:
    path: /opt/amx-cluster/jobs/demo
"""

RETURN = r"""
status:
  description:
    - The content of the job's C(status.json). The state is V(lost) when the job's supervisor died, or was ended with
      its host. C(advice) is how to resume a job that ended early.
  returned: success
  type: dict
  sample: {job: demo, state: running, ranks: 2, hosts: 1}
progress:
  description: The progress of transformers' Trainer; empty before it begins, and for scripts without it.
  returned: success
  type: dict
  sample: {step: 40, max_steps: 94, epoch: 0.43, samples_per_step: 32, metrics: {loss: 0.61}}
ranks:
  description: The last heartbeat of each rank, by its number; empty before the first.
  returned: success
  type: dict
  sample:
    "0": {host: node0, cpu_seconds: 42.1, rss_bytes: 537272320, network_bytes: 7138184, idle: 0.1}
outcome:
  description: The content of C(results.json), empty while the job runs.
  returned: success
  type: dict
log:
  description: The log from O(log_offset) on, at most 64 KiB of it.
  returned: success
  type: str
log_offset:
  description: The byte of the log up to which it was returned.
  returned: success
  type: int
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "log_offset": {"type": "int", "default": 0},
        },
        supports_check_mode=True,
    )
    folder = Path(module.params["path"])
    try:
        module.exit_json(changed=False, **directory.look(folder, module.params["log_offset"]))
    except (OSError, ValueError) as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
