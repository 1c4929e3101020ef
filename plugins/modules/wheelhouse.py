#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: wheelhouse
short_description: Collect the wheels of pinned Python packages for other hosts
version_added: 0.1.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Resolves pinned packages for the Python and the C library of the hosts, which may differ from those of the machine
    it runs on, and downloads their wheels into a folder, with a manifest of versions and SHA-256 sums.
  - Fails before it downloads anything when the resolution holds CUDA packages.
  - The folder appears whole or not at all. An interrupted download is taken up again by the next run.
  - Runs where there is a way to a package index, normally on the control machine, with pip as it is configured there.
extends_documentation_fragment:
  - amx.cluster.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  path:
    description:
      - The folder under which wheelhouses are kept. The wheelhouse is a folder in it, named for what was asked.
    type: path
    required: true
  requirements:
    description: What to collect, pinned as C(NAME==VERSION).
    type: list
    elements: str
    required: true
  constraints:
    description: A constraints file for pip, which pins what the requirements bring along.
    type: path
  dependencies:
    description: Whether what the requirements depend on is collected too.
    type: bool
    default: true
  python:
    description: The minor version of the hosts' Python, such as V(3.11).
    type: str
    required: true
  glibc:
    description: The versions of the hosts' GNU C library, such as V(2.36). The oldest decides.
    type: list
    elements: str
    required: true
  index_urls:
    description: Further package indexes. One that does not answer within O(index_timeout) is left out.
    type: list
    elements: str
    default: []
  index_timeout:
    description: Seconds that an index of O(index_urls) has to answer.
    type: int
    default: 5
"""

EXAMPLES = r"""
- name: Collect the wheels once, on the control machine
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
  description: The wheelhouse.
  returned: success
  type: str
key:
  description: Its name, made from what was asked; it changes when anything of that does.
  returned: success
  type: str
wheels:
  description: What it holds; empty in check mode when there is none yet.
  returned: success
  type: list
  elements: dict
  sample:
    - file: torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl
      name: torch
      version: 2.13.0+cpu
      sha256: 5f04b2bd1f9f7a9e
      bytes: 190000000
unreachable_indexes:
  description: Those of O(index_urls) that did not answer, each with the reason.
  returned: when wheels were collected
  type: list
  elements: str
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url
from ansible_collections.amx.cluster.plugins.module_utils import _stack


def probe(urls: list[str], timeout: int) -> tuple[list[str], list[str]]:
    """Return the indexes that answer, and for each other one why not."""
    answering, silent = [], []
    for url in urls:
        try:
            open_url(url, method="HEAD", timeout=timeout)
            answering.append(url)
        except Exception as error:  # anything at all may go wrong on the way, and every reason is told
            silent.append(f"{url}: {error}")
    return answering, silent


def pip(module: AnsibleModule, arguments: list[str], silent: list[str]) -> None:
    """Run pip and fail the module with its last words."""
    code, output, errors = module.run_command([sys.executable, "-m", "pip", *arguments])
    if code:
        said = [line for line in (errors or output).splitlines() if line.strip() and not line.startswith("WARNING")]
        tried = "".join(f"\nNot reachable: {line}" for line in silent)
        module.fail_json(msg="pip could not collect the wheels: " + "\n".join(said[-6:]) + tried, rc=code)


def collect(module: AnsibleModule, staging: Path, glibc: str) -> list[str]:
    """Fill `staging` with the wheels; return the indexes that did not answer."""
    asked = module.params
    answering, silent = probe(asked["index_urls"], asked["index_timeout"])
    common = ["--quiet", "--no-input", "--disable-pip-version-check", *_stack.pip_arguments(asked["python"], glibc)]
    for url in answering:
        common += ["--extra-index-url", url]
    pinned = asked["requirements"]
    if asked["dependencies"]:
        with tempfile.TemporaryDirectory() as scratch:
            report = Path(scratch, "report.json")
            limits = ["--constraint", asked["constraints"]] if asked["constraints"] else []
            pip(
                module,
                [
                    "install",
                    "--dry-run",
                    "--ignore-installed",
                    "--target",
                    scratch,
                    "--report",
                    str(report),
                    *common,
                    *limits,
                    *pinned,
                ],
                silent,
            )
            pinned = _stack.requirements(_stack.check_resolution(json.loads(report.read_text(encoding="utf-8"))))
    staging.mkdir(parents=True, exist_ok=True)
    pip(module, ["download", "--no-deps", "--dest", str(staging), *common, *pinned], silent)
    return silent


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "requirements": {"type": "list", "elements": "str", "required": True},
            "constraints": {"type": "path"},
            "dependencies": {"type": "bool", "default": True},
            "python": {"type": "str", "required": True},
            "glibc": {"type": "list", "elements": "str", "required": True},
            "index_urls": {"type": "list", "elements": "str", "default": []},
            "index_timeout": {"type": "int", "default": 5},
        },
        supports_check_mode=True,
    )
    asked = module.params
    try:
        limits = Path(asked["constraints"]).read_text(encoding="utf-8") if asked["constraints"] else ""
        glibc = _stack.oldest(asked["glibc"])
        key = _stack.wheelhouse_key(asked["requirements"], limits, asked["python"], glibc)
        house = Path(asked["path"], key)
        result: dict[str, Any] = {"changed": False, "path": str(house), "key": key, "wheels": []}
        if house.is_dir():
            result["wheels"] = json.loads((house / _stack.MANIFEST).read_text(encoding="utf-8"))["wheels"]
            module.exit_json(**result)
        result["changed"] = True
        if not module.check_mode:
            staging = house.with_name(key + ".partial")
            result["unreachable_indexes"] = collect(module, staging, glibc)
            made = _stack.manifest(staging)
            (staging / "requirements.txt").write_text(_stack.locked_requirements(made), encoding="utf-8")
            (staging / _stack.MANIFEST).write_text(json.dumps(made, indent=1), encoding="utf-8")
            staging.replace(house)
            result["wheels"] = made["wheels"]
    except (OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
