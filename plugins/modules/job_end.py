#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: job_end
short_description: End a job on a host
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - On the head, has the job's supervisor stop the job, and waits until it has.
  - Then ends the job's orphaned processes on this host, by SIGTERM and then by SIGKILL, and removes the
    job's secrets from this host.
  - Fails when the supervisor, or one of these processes, is still there after that.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.idempotent_module
options:
  path:
    description: The job directory.
    type: path
    required: true
  grace:
    description: Seconds that each process has to end by itself.
    type: int
    default: 20
  patience:
    description: Seconds that the supervisor has to end the ranks on all hosts, and to fetch what they have written.
    type: int
    default: 150
  host:
    description: The host's name in RV(lines), such as C(inventory_hostname).
    type: str
    default: this host
seealso:
  - module: amx.cluster.job_info
"""

EXAMPLES = r"""
- name: End the job
  amx.cluster.job_end:
    path: /opt/amx-cluster/jobs/demo
"""

RETURN = r"""
known:
  description: Whether there is a job directory on this host.
  returned: success
  type: bool
was_running:
  description: Whether the job's supervisor was running on this host.
  returned: success
  type: bool
ended:
  description: The processes of the job that were still running on this host after that, and were ended.
  returned: success
  type: list
  elements: dict
  sample:
    - {pid: 4242, rank: 1, command: python train.py}
lines:
  description: RV(ended) as a line for each process.
  returned: success
  type: list
  elements: str
  sample:
    - node1 rank 1 (process 4242)
"""

import contextlib
import os
import time
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory, processes


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "grace": {"type": "int", "default": 20},
            "patience": {"type": "int", "default": 150},
            "host": {"type": "str", "default": "this host"},
        },
        supports_check_mode=True,
    )
    folder = Path(module.params["path"])
    grace = module.params["grace"]
    status = directory.running(folder)
    try:
        if module.check_mode:
            ended = processes.find(folder)
        else:
            if status:
                with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                    os.kill(status["pid"], directory.STOP)
                deadline = time.monotonic() + module.params["patience"]
                while directory.running(folder) and time.monotonic() < deadline:
                    time.sleep(0.2)
            ended = processes.end(folder, grace)
            directory.remove_secrets(folder)
            if directory.running(folder):
                raise TimeoutError(
                    f"its supervisor (process {status['pid'] if status else '?'}) has not ended within "
                    f"{module.params['patience']} s; {folder}/supervise.log may tell why. Run this again"
                )
    except (OSError, TimeoutError) as error:
        module.fail_json(msg=f"the job in {folder} cannot be stopped: {error}")
    module.exit_json(
        changed=bool(status or ended),
        known=folder.is_dir(),
        was_running=status is not None,
        ended=ended,
        lines=[f"{module.params['host']} rank {process['rank']} (process {process['pid']})" for process in ended],
    )


if __name__ == "__main__":
    main()
