#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: job_stop
short_description: End a job on this host
version_added: 0.1.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Where the job's supervisor runs (its head), asks it to stop the job and waits until it has.
  - Then ends whatever of the job is still running on this host, first asking, then by force. Ranks whose supervisor
    died are found, too.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.idempotent_module
options:
  path:
    description: The job directory.
    type: path
    required: true
  grace:
    description: Seconds that the supervisor, and then each process, has to end by itself.
    type: int
    default: 20
"""

EXAMPLES = r"""
- name: End the job
  amx.cluster.job_stop:
    path: /opt/amx-cluster/jobs/demo
"""

RETURN = r"""
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
"""

import contextlib
import os
import time
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory, processes


def main() -> None:
    module = AnsibleModule(
        argument_spec={"path": {"type": "path", "required": True}, "grace": {"type": "int", "default": 20}},
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
                deadline = time.monotonic() + grace
                while directory.running(folder) and time.monotonic() < deadline:
                    time.sleep(0.2)
            ended = processes.end(folder, grace)
    except (OSError, TimeoutError) as error:
        module.fail_json(msg=f"the job in {folder} cannot be ended: {error}")
    module.exit_json(changed=bool(status or ended), was_running=status is not None, ended=ended)


if __name__ == "__main__":
    main()
