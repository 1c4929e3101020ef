#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: file_pass_on
short_description: Copy files from the head to other hosts, which pass them on
extends_documentation_fragment: amx.cluster.internal
options:
  path: {type: path, required: true, description: The directory that gets the files on every host}
  source: {type: path, description: The directory that has them on the head. By default it is O(path)}
  names: {type: list, elements: str, default: [],
    description: "Files that every host lacks, and directories, as paths in O(path)"}
  head: {type: str, required: true, description: The name of the head}
  hosts:
    description: The other hosts
    type: list
    elements: dict
    required: true
    suboptions:
      host: {type: str, required: true, description: "The name of the host, by which the head logs in on it"}
      address: {type: str, required: true, description: The address of the host on the cluster network}
      python: {type: str, required: true, description: "The path of a Python interpreter on the host, 3.9 or newer"}
      missing: {type: dict,
        description: "The files that the host lacks besides, as M(amx.cluster.file_set) returns them in
        C(differences). A host that lacks none passes them on; one without this option and O(names) is left out"}
  seconds: {type: float, default: 60,
    description: "Seconds within which a connection between two hosts must be made, and something be transferred"}
"""
EXAMPLES = "\n# Internal\n"

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
        host["host"]: {**host, "names": sorted({*options["names"], *(host["missing"] or {})})}
        for host in options["hosts"]
    }
    # A host that has not compared its files may lack some.
    having = [name for name, host in hosts.items() if host["missing"] == {} and not host["names"]]
    plan = Spread(head, having, [name for name, host in hosts.items() if host["names"]])
    changed = bool(plan.waiting)
    if module.check_mode:
        module.exit_json(changed=changed, rounds=0, failures={})
    names = {name for host in hosts.values() for name in host["names"]}
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
