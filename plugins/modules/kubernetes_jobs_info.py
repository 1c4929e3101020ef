#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_jobs_info
short_description: Gather the jobs on Kubernetes
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Finds jobs by the objects that the collection has labelled, with their states, pods and nodes. Nothing is changed.
  - The state is that of the supervisor in a job's first pod where O(live) is set and it runs, else what its pods and
    its training object say.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
options:
  kubernetes:
    description: The inventory's C(cluster_kubernetes), which names the cluster, its namespace and volume.
    type: raw
    required: true
  job:
    description: The name of the job. Empty is all jobs of the namespace.
    type: str
    default: ""
  on_hosts:
    description: Whether the hosts of the inventory have a job of this name, which is meant then.
    type: bool
    default: false
  required:
    description: Whether it fails when there is no such job, or the cluster cannot be reached.
    type: bool
    default: false
  live:
    description: Whether running jobs are asked for their progress.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Gather the jobs on Kubernetes
  amx.cluster.kubernetes_jobs_info:
    kubernetes: "{{ cluster_kubernetes }}"
    live: true
"""

RETURN = r"""
jobs:
  description:
    - The jobs, each with C(name), C(path) (its directory on the volume), C(status), C(progress), C(ranks) and
      C(kubernetes), which is its C(namespace), C(kind), C(name), C(start), C(user) and C(pods).
  returned: success
  type: list
  elements: dict
meant:
  description: Whether the job that was named is one on Kubernetes.
  returned: success
  type: bool
missing:
  description: The message for a job that was named and is not there, with those that are; empty otherwise.
  returned: success
  type: str
problem:
  description: Why jobs on Kubernetes are not known; empty when they are.
  returned: success
  type: str
  sample: "cannot reach https://10.0.0.1:6443: Connection refused"
"""
