#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: venv
short_description: Install wheels into a virtual environment
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Creates a virtual environment and installs locked wheels into it, each verified by its SHA-256. Neither pip nor
    ensurepip needs to be on the host, pip is run out of its own wheel.
  - An interrupted installation is resumed by the next run. One that is still running is waited for.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.idempotent_module
  - amx.cluster.package_indexes
options:
  path:
    description: The path of the virtual environment. Its parent directory must exist.
    type: path
    required: true
  python:
    description:
      - The path of the interpreter that the virtual environment is made with. By default the one that Ansible uses.
    type: path
  wheels:
    description: The wheels to install, as M(amx.cluster.wheelhouse) returns them. One of them must be pip's.
    type: list
    elements: dict
    required: true
  wheel_directory:
    description:
      - The directory on the host with the files of O(wheels), or only with pip's where O(index_urls) has the others.
    type: path
    required: true
  index_urls:
    description:
      - Package indexes for the wheels that are not in O(wheel_directory), the main one first; V(default) in its place
        is the one that pip uses by itself. By default there are none, and no network is used.
    type: list
    elements: str
    default: []
  find_links:
    description: Directories of wheels, and pages with links to wheels, for those not in O(wheel_directory).
    type: list
    elements: str
    default: []
  lock_timeout:
    description: Seconds to wait for another installation into the same virtual environment.
    type: int
    default: 900
seealso:
  - module: amx.cluster.venv_info
  - module: amx.cluster.wheelhouse
"""

EXAMPLES = r"""
- name: Install the wheels
  amx.cluster.venv:
    path: /opt/amx-cluster/envs/native-cp311-d5eecbc6f7c9
    wheel_directory: /opt/amx-cluster/wheels/cp311-d5eecbc6f7c9
    wheels: "{{ wheelhouse.wheels }}"
"""

RETURN = r"""
path:
  description: The path of the virtual environment.
  returned: success
  type: str
repaired:
  description: The packages that an interrupted installation had left incomplete.
  returned: when something was installed
  type: list
  elements: str
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._stacks import indexes, requirements, venv
from ansible_collections.amx.cluster.plugins.module_utils._text import masked


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "python": {"type": "path"},
            "wheels": {"type": "list", "elements": "dict", "required": True},
            "wheel_directory": {"type": "path", "required": True},
            "index_urls": {"type": "list", "elements": "str", "default": []},
            "find_links": {"type": "list", "elements": "str", "default": []},
            **indexes.ARGUMENTS,
            "lock_timeout": {"type": "int", "default": 900},
        },
        supports_check_mode=True,
    )
    options = module.params
    module.no_log_values.update(indexes.logins(options))
    env = Path(options["path"])
    pip = next((str(wheel["file"]) for wheel in options["wheels"] if wheel["name"] == "pip"), "")
    if not pip:
        module.fail_json(msg="pip is not among the wheels: add it to the packages of the stack")
    prefix = env.parent.parent
    result: dict[str, Any] = {"changed": True, "path": str(env)}
    if (env / venv.MARKER).exists():
        module.exit_json(changed=False, path=str(env))
    if module.check_mode:
        module.exit_json(**result)

    def run(*command: str, **variables: str) -> None:
        # pip inherits the lock, which is released when pip ends, also when this module was killed.
        code, output, errors = module.run_command(list(command), environ_update=variables, pass_fds=[descriptor])
        if code:
            module.fail_json(msg=venv.explain(errors or output, prefix), rc=code)

    try:
        lock = _ownership.locked(env.with_name(f".{env.name}.lock"), options["lock_timeout"])
        with lock as descriptor, tempfile.TemporaryDirectory() as scratch:
            python = str(env / "bin" / "python")
            if not Path(python).exists():
                venv.begin(env)
                run(options["python"] or sys.executable, "-m", "venv", "--without-pip", str(env))
            _ownership.claim(env, "virtual environment")
            result["repaired"] = venv.remove_incomplete(env)
            listed = Path(scratch, "requirements.txt")
            listed.write_text(requirements.hashed(options["wheels"]), encoding="utf-8")
            # Modules are compiled when they are first imported, which most of them never are.
            words = ["--quiet", "--no-deps", "--no-compile", "--require-hashes", f"--requirement={listed}"]
            variables = {
                **indexes.search_from_host(options, options["wheel_directory"]),
                **indexes.variables(options, Path(scratch)),
            }
            run(python, str(Path(options["wheel_directory"], pip, "pip")), "install", *words, **variables)
    except OSError as error:
        module.fail_json(msg=venv.explain(str(error), prefix))
    except ValueError as error:
        module.fail_json(msg=masked(str(error)))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
