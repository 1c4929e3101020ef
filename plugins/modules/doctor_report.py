#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: doctor_report
short_description: Judge what the hosts of a cluster said, and show all that is wrong
version_added: 0.1.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - An action that runs on the control machine only. It fails if any check failed, after it has shown all of them.
  - The checks are listed in C(docs/doctor.md).
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
options:
  answers:
    description:
      - By host, the head first, the results of the tasks that asked it, C(facts), C(info), C(sudo), C(listener) and
        C(peers). A task that did not run has an empty result.
    type: dict
    required: true
  wanted:
    description: What the cluster has to meet, by the names of the fields of C(_hosts.doctor.Wanted).
    type: dict
    default: {}
  format:
    description:
      - V(table) shows a table of all findings and a line that sums them up.
      - V(json) shows the same as one line of JSON.
      - V(failures) shows nothing unless a check failed.
    type: str
    choices: [table, json, failures]
    default: table
"""

EXAMPLES = r"""
- name: Judge what the hosts said
  amx.cluster.doctor_report:
    answers:
      node0:
        facts: "{{ hostvars.node0.facts }}"
        info: "{{ hostvars.node0.info }}"
  run_once: true
"""

RETURN = r"""
findings:
  description: What is not as it should be, in the order of the hosts.
  returned: always
  type: list
  elements: dict
  contains:
    host:
      description: The host.
      type: str
      returned: success
    check:
      description: The check, a name from C(docs/doctor.md).
      type: str
      returned: success
    severity:
      description: V(failure) or V(warning).
      type: str
      returned: success
    found:
      description: What was found.
      type: str
      returned: success
    advice:
      description: What to do.
      type: str
      returned: success
summary:
  description: How the cluster stands, in a line.
  returned: always
  type: str
  sample: 28 checks on 3 host(s), no failure(s), no warning(s)
"""
