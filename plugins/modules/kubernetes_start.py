#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_start
short_description: Claim a job on Kubernetes for one start
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Writes the ConfigMap of a job, unless somebody else has written it since it was read. Of several starts of a job at
    the same time, the API server takes one. The others fail, with who has started the job.
  - While a start is marked as not complete (O(starting)), M(amx.cluster.kubernetes_job_plan) refuses another one, for
    10 minutes at most.
extends_documentation_fragment:
  - amx.cluster.attributes
options:
  kubernetes:
    description: The inventory's C(cluster_kubernetes), which names the cluster and its namespace.
    type: raw
    required: true
  job:
    description: The name of the job, for messages.
    type: str
    default: ""
  config:
    description: The ConfigMap.
    type: dict
    required: true
  version:
    description: The resourceVersion that the ConfigMap on the cluster must have. Empty if there must be none.
    type: str
    default: ""
  starting:
    description: Whether the start is not complete, because what trains is not created yet.
    type: bool
    default: true
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: none
seealso:
  - module: amx.cluster.kubernetes_job_plan
"""

EXAMPLES = r"""
- name: Claim the job for this start
  amx.cluster.kubernetes_start:
    kubernetes: "{{ cluster_kubernetes }}"
    job: "{{ plan.job }}"
    config: "{{ plan.config }}"
    version: "{{ plan.version }}"
"""

RETURN = r"""
method:
  description: How the ConfigMap was written, V(create) or V(patch).
  returned: success, not in check mode
  type: str
version:
  description: The resourceVersion of the ConfigMap now.
  returned: success, not in check mode
  type: str
result:
  description: The ConfigMap, without its files.
  returned: success, not in check mode
  type: dict
"""
