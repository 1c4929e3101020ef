# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: verification_report
short_description: Compare what ranks observed with their plan
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Prints what each rank observed of itself, and fails with every difference from the plan.
  - Names the OpenMP run times that ranks loaded besides, and warns of those that have started threads, too.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
  - amx.cluster.document
options:
  plan:
    description: The plan, as M(amx.cluster.job_plan) returns it.
    type: dict
    required: true
  observed:
    description: The report of each rank, from C(observed.json) of a verification.
    type: list
    elements: dict
    required: true
seealso:
  - module: amx.cluster.job_plan
"""

EXAMPLES = r"""
- name: Compare the observations with the plan
  amx.cluster.verification_report:
    plan: "{{ demo.plan }}"
    observed: "{{ (observed.content | b64decode | from_json).ranks }}"
"""

RETURN = r""" # """
