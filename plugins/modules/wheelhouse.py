#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: wheelhouse
short_description: Collect the wheels of pinned Python packages for other hosts
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Resolves pinned packages for the Python and the C library of the hosts, which may differ from those of the machine
    it runs on, and downloads their wheels into a directory, with a manifest of versions and SHA-256 checksums.
  - Fails before it downloads anything when the resolution has CUDA packages, unless O(cuda_build=allow).
  - The directory appears complete or not at all. An interrupted download is resumed by the next run. One
    that is still running is waited for, up to an hour.
  - Runs where a package index can be reached, normally on the control node, with pip as it is configured there. Where
    there is none, wheels can be taken from an O(archive).
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.idempotent_module
  - amx.cluster.package_indexes
  - amx.cluster.package_indexes.choice
options:
  path:
    description:
      - The directory with the wheelhouses. Each wheelhouse is a directory in it, named after the request.
    type: path
    required: true
  requirements:
    description: The packages to collect, pinned as C(NAME==VERSION).
    type: list
    elements: str
    required: true
  constraints:
    description: A constraints file for pip, which pins the dependencies of O(requirements).
    type: path
  dependencies:
    description: Whether the dependencies of O(requirements) are collected, too.
    type: bool
    default: true
  wheels:
    description:
      - Wheels on this machine that are collected as well, with their dependencies. They take precedence over those of
        package indexes.
    type: list
    elements: path
    default: []
  built:
    description:
      - A directory with wheels that were built on this machine. Those that O(requirements) request, for the hosts'
        Python and C library, are treated as O(wheels). It need not exist, and is not used with O(archive).
    type: path
  installed:
    description:
      - Versions that the hosts have already, by the names of packages. The collected wheels must be compatible with
        them, and they themselves are left out.
    type: dict
    default: {}
  unpack:
    description: Whether the wheels are also unpacked, into the directory C(packages) of the wheelhouse.
    type: bool
    default: false
  excluded:
    description: Packages that are left out, with what they alone require, although others require them.
    type: list
    elements: str
    default: []
  cuda_build:
    description: Whether the resolution may have CUDA packages, as the CUDA build of torch requires them.
    type: str
    choices: [refuse, allow]
    default: refuse
  python:
    description: The minor version of the hosts' Python, such as V(3.11).
    type: str
    required: true
  glibc:
    description: The versions of the hosts' GNU C library, such as V(2.36). The oldest decides.
    type: list
    elements: str
    required: true
  only:
    description:
      - The packages whose wheels are downloaded; all are resolved, and are in the manifest with their SHA-256. Use it
        for hosts that fetch the others themselves. All by default.
    type: list
    elements: str
  archive:
    description:
      - A wheelhouse that was collected elsewhere, as a directory or as a tar file of one. Nothing is downloaded then.
        Its wheels are verified by its manifest.
    type: path
seealso:
  - module: amx.cluster.venv
  - module: amx.cluster.stack_info
"""

EXAMPLES = r"""
- name: Collect the wheels once, on the control node
  amx.cluster.wheelhouse:
    path: ~/.cache/amx.cluster/wheelhouse
    requirements: [torch==2.13.0+cpu, transformers==5.23.0]
    python: "3.11"
    glibc: ["2.36", "2.31"]
    index_urls: [https://download.pytorch.org/whl/cpu]
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
path:
  description: The directory of the wheelhouse.
  returned: success
  type: str
key:
  description: Its name, which changes when anything in the request does.
  returned: success
  type: str
wheels:
  description:
    - Its wheels, C(bytes) and C(unpacked) being the bytes of the file and of its content; empty in check mode when
      there is no such wheelhouse yet.
  returned: success
  type: list
  elements: dict
  sample:
    - file: torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl
      name: torch
      version: 2.13.0+cpu
      sha256: 5f04b2bd1f9f7a9e
      bytes: 190000000
      unpacked: 700000000
built:
  description: The paths of the wheels of O(built) that are among them.
  returned: success
  type: list
  elements: str
unreachable_indexes:
  description: The indexes that did not answer, each with the reason.
  returned: when wheels were collected
  type: list
  elements: str
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._stacks import answers, archive, indexes, wheelhouse, wheels
from ansible_collections.amx.cluster.plugins.module_utils._text import masked


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "requirements": {"type": "list", "elements": "str", "required": True},
            "constraints": {"type": "path"},
            "dependencies": {"type": "bool", "default": True},
            "wheels": {"type": "list", "elements": "path", "default": []},
            "built": {"type": "path"},
            "installed": {"type": "dict", "default": {}},
            "unpack": {"type": "bool", "default": False},
            "excluded": {"type": "list", "elements": "str", "default": []},
            "cuda_build": {"type": "str", "choices": ["refuse", "allow"], "default": "refuse"},
            "python": {"type": "str", "required": True},
            "glibc": {"type": "list", "elements": "str", "required": True},
            "only": {"type": "list", "elements": "str"},
            "archive": {"type": "path"},
            **indexes.CHOICE,
            **indexes.ARGUMENTS,
        },
        supports_check_mode=True,
    )
    options = module.params
    module.no_log_values.update(indexes.logins(options))
    run, ask = answers.on_behalf_of(module)

    try:
        glibc = wheels.oldest(options["glibc"])
        manifest: dict[str, Any] = {}
        built: list[str] = []
        if options["archive"]:
            manifest = archive.read(Path(options["archive"]))
            archive.check(manifest, options["requirements"], options["python"], glibc)
            key = wheelhouse.key_of_archive(manifest, options["python"])
        else:
            if options["built"]:
                built = wheelhouse.built(Path(options["built"]), options["requirements"], options["python"], glibc)
                options["wheels"] = [*options["wheels"], *built]
                if options["only"] is not None:  # no index that hosts reach needs to have them
                    options["only"] = [*options["only"], *(Path(path).name.partition("-")[0] for path in built)]
            key = wheelhouse.key(options, glibc)
        # Where only some wheels are kept, they are no wheelhouse of that key.
        target = Path(options["path"], key if options["only"] is None else key + "-lock")
        result: dict[str, Any] = {"changed": not target.is_dir(), "path": str(target), "key": key, "wheels": []}
        result["built"] = built
        if not result["changed"]:
            result["wheels"] = wheelhouse.read(target)
        elif manifest and not module.check_mode:
            result["wheels"] = wheelhouse.unpack(Path(options["archive"]), target, manifest)
        elif not module.check_mode:
            result["wheels"], result["unreachable_indexes"] = wheelhouse.collect(options, target, glibc, run, ask)
    except (OSError, ValueError) as error:
        module.fail_json(msg=masked(str(error)))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
