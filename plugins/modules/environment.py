#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: environment
short_description: Install wheels into a virtual environment of their own
version_added: 0.1.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Makes a virtual environment and installs locked wheels into it, each verified by its SHA-256. Neither pip nor
    ensurepip needs to be on the host, pip comes out of its own wheel.
  - An interrupted installation is taken up again by the next run. One that is still going on is waited for.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.idempotent_module
  - amx.cluster.package_indexes
options:
  path:
    description: The environment. The folder above it must be there.
    type: path
    required: true
  wheels:
    description: What is installed, as M(amx.cluster.wheelhouse) returns it. One of the wheels is pip's.
    type: list
    elements: dict
    required: true
  folder:
    description: The folder on the host with the wheels, or with pip's alone where O(index_urls) has the others.
    type: path
    required: true
  index_urls:
    description:
      - Package indexes from which what is not in O(folder) is fetched, the main one first; V(default) in its place is
        the one that pip asks by itself. By default there are none, and no network is used.
    type: list
    elements: str
    default: []
  find_links:
    description: Pages with links to wheels, and folders with wheels, for the same.
    type: list
    elements: str
    default: []
  lock_timeout:
    description: Seconds to wait for another installation into the same environment.
    type: int
    default: 900
"""

EXAMPLES = r"""
- name: Install the wheels
  amx.cluster.environment:
    path: /opt/amx-cluster/envs/native-cp311-d5eecbc6f7c9
    folder: /opt/amx-cluster/wheels/cp311-d5eecbc6f7c9
    wheels: "{{ wheelhouse.wheels }}"
"""

RETURN = r"""
path:
  description: The environment.
  returned: success
  type: str
again:
  description: The packages that an interrupted installation had not finished.
  returned: when something was installed
  type: list
  elements: str
"""

import fcntl
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._io import MARKER
from ansible_collections.amx.cluster.plugins.module_utils._stacks import catalogue, indexes, venv


def lock(stream: BinaryIO, seconds: int) -> None:
    """Take the lock; raises TimeoutError. The system gives it back when this process and pip have ended, however."""
    until = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > until:
                raise TimeoutError(f"another installation has held {stream.name} for {seconds} s: end it") from None
            time.sleep(1)


def pip_environment(asked: dict[str, Any], scratch: str) -> dict[str, str]:
    """Return the variables by which pip finds the wheels, and nothing of this host's own configuration."""
    variables = {"PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
    links = [asked["folder"], *asked["find_links"]]
    variables["PIP_FIND_LINKS"] = " ".join(links)
    urls = asked["index_urls"]
    if urls[:1] != ["default"]:
        variables["PIP_INDEX_URL"] = urls[0] if urls else ""
    variables["PIP_EXTRA_INDEX_URL"] = " ".join(urls[1:])
    # Plain HTTP will do for what is verified by its SHA-256 anyway.
    plain = [urlsplit(url).netloc.rpartition("@")[2] for url in [*urls, *links] if url.startswith("http://")]
    variables["PIP_TRUSTED_HOST"] = " ".join(plain)
    if not urls:
        variables["PIP_NO_INDEX"] = "1"
    variables.update(PIP_RETRIES="1", PIP_TIMEOUT=str(asked["index_timeout"]))
    return {**variables, **indexes.variables(asked, Path(scratch))}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "wheels": {"type": "list", "elements": "dict", "required": True},
            "folder": {"type": "path", "required": True},
            "index_urls": {"type": "list", "elements": "str", "default": []},
            "find_links": {"type": "list", "elements": "str", "default": []},
            **indexes.ARGUMENTS,
            "lock_timeout": {"type": "int", "default": 900},
        },
        supports_check_mode=True,
    )
    asked = module.params
    env = Path(asked["path"])
    pip = next((str(wheel["file"]) for wheel in asked["wheels"] if wheel["name"] == "pip"), "")
    if not pip:
        module.fail_json(msg="pip is not among the wheels: add it to the packages of the stack")
    prefix = env.parent.parent
    result: dict[str, Any] = {"changed": True, "path": str(env)}
    if (env / MARKER).exists():
        module.exit_json(changed=False, path=str(env))
    if module.check_mode:
        module.exit_json(**result)

    def run(*command: str, **variables: str) -> None:
        # The lock is inherited: it holds as long as pip runs, also when this module was killed.
        code, output, errors = module.run_command(list(command), environ_update=variables, pass_fds=[stream.fileno()])
        if code:
            module.fail_json(msg=venv.explain(errors or output, prefix), rc=code)

    try:
        with env.with_name(f".{env.name}.lock").open("ab") as stream, tempfile.TemporaryDirectory() as scratch:
            lock(stream, asked["lock_timeout"])
            if not (env / "bin" / "python").exists():
                run(sys.executable, "-m", "venv", "--without-pip", "--clear", str(env))
            result["again"] = venv.remove_halves(env)
            # Modules are compiled when they are first imported, which most of them never are.
            requirements = Path(scratch, "requirements.txt")
            requirements.write_text(catalogue.locked_requirements({"wheels": asked["wheels"]}), encoding="utf-8")
            run(
                *(
                    str(env / "bin" / "python"),
                    str(Path(asked["folder"], pip, "pip")),
                    "install",
                    "--quiet",
                    "--no-deps",
                ),
                *("--no-compile", "--require-hashes", f"--requirement={requirements}"),
                **pip_environment(asked, scratch),
            )
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"{venv.explain(str(error), prefix)}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
