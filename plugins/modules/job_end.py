#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: job_end
short_description: End a job on a host, or what it has left there
extends_documentation_fragment: amx.cluster.internal
options:
  path: {type: path, required: true, description: The job directory}
  grace: {type: int, default: 20, description: Seconds that each process has to end by itself}
  patience: {type: int, default: 150,
    description: Seconds that the supervisor has to end the ranks on all hosts and to fetch what they have written}
  host: {type: str, default: this host, description: "The host's name in what is returned"}
"""
EXAMPLES = "\n# Internal\n"

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
            # Where the supervisor had ended before, what has run launch.sh writes what came of the job.
            deadline = time.monotonic() + module.params["patience"]
            while directory.running(folder) and not status and time.monotonic() < deadline:
                time.sleep(0.2)
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
