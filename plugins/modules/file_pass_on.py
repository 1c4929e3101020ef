#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: file_pass_on
short_description: Copy files from the head to other hosts, which pass them on
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Runs on the head. In each round every host that has the files passes them on to one that does not, so that n hosts
    take log2(n) rounds.
  - The head logs in on every host by SSH and sends files over that connection. Other hosts, which cannot log in
    anywhere, send them over TCP on the cluster network, not encrypted, to a port for which the head gives both hosts a
    token that is used once.
  - A host that could not be served is served by another one in a later round, and at last by the head, three times.
  - Files are overwritten. They are not compared; see M(amx.cluster.file_set).
extends_documentation_fragment:
  - amx.cluster.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: none
    details:
      - Copies what it is set to copy.
options:
  path:
    description: The directory that gets the files on every host.
    type: path
    required: true
  source:
    description: The directory that has them on the head. By default it is O(path).
    type: path
  names:
    description: Files that every host lacks, and directories, as paths in O(path).
    type: list
    elements: str
    default: []
  head:
    description: The name of the head.
    type: str
    required: true
  hosts:
    description: The other hosts.
    type: list
    elements: dict
    required: true
    suboptions:
      host:
        description: The name of the host, by which the head logs in on it.
        type: str
        required: true
      address:
        description: The address of the host on the cluster network.
        type: str
        required: true
      python:
        description: The path of a Python interpreter on the host, 3.9 or newer.
        type: str
        required: true
      missing:
        description:
          - The files that the host lacks besides, as M(amx.cluster.file_set) returns them in C(differences). A host
            that lacks none passes them on; one without this option and O(names) is left out.
        type: dict
  seconds:
    description: Seconds within which a connection between two hosts must be made, and something be transferred.
    type: float
    default: 60
seealso:
  - module: amx.cluster.file_set
  - module: amx.cluster.file_set_info
"""

EXAMPLES = r"""
- name: Copy a file to two hosts
  amx.cluster.file_pass_on:
    path: /opt/amx-cluster/wheels
    head: node0
    names: [pip-26.3-py3-none-any.whl]
    hosts:
      - {host: node1, address: 10.0.0.6, python: /usr/bin/python3}
      - {host: node2, address: 10.0.0.7, python: /usr/bin/python3}
"""

RETURN = r"""
rounds:
  description: How many rounds there were.
  returned: success
  type: int
  sample: 2
failures:
  description: The hosts that did not get the files, with the reason.
  returned: success
  type: dict
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._data.pass_on import Spread, Transfers, spread


def main() -> None:
    host = {
        "host": {"type": "str", "required": True},
        "address": {"type": "str", "required": True},
        "python": {"type": "str", "required": True},
        "missing": {"type": "dict"},
    }
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "source": {"type": "path"},
            "names": {"type": "list", "elements": "str", "default": []},
            "head": {"type": "str", "required": True},
            "hosts": {"type": "list", "elements": "dict", "required": True, "options": host},
            "seconds": {"type": "float", "default": 60},
        },
        supports_check_mode=True,
    )
    options = module.params
    head, path = options["head"], Path(options["path"])
    source = Path(options["source"] or path)
    hosts = {
        one["host"]: {**one, "names": sorted({*options["names"], *(one["missing"] or {})})} for one in options["hosts"]
    }
    # A host that has not compared its files may lack some.
    having = [name for name, one in hosts.items() if one["missing"] == {} and not one["names"]]
    plan = Spread(head, having, [name for name, one in hosts.items() if one["names"]])
    changed = bool(plan.waiting)
    if module.check_mode:
        module.exit_json(changed=changed, rounds=0, failures={})
    names = {name for one in hosts.values() for name in one["names"]}
    missing = sorted(name for name in names if not (source / name).exists())
    if missing:
        module.fail_json(msg=f"{head} has no {', '.join(missing)} in {source}: run again")
    rounds = spread(plan, Transfers(head, hosts, source, path, options["seconds"]))
    if plan.failed:
        lines = "".join(f"\n- {name}: {reason}" for name, reason in sorted(plan.failed.items()))
        module.fail_json(
            msg=f"{path} could not be copied to these hosts:{lines}\nCheck them with playbooks/doctor.yml, then run "
            "again, which copies what is missing.",
            changed=changed,
            rounds=rounds,
            failures=plan.failed,
        )
    module.exit_json(changed=changed, rounds=rounds, failures={})


if __name__ == "__main__":
    main()
