#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_log
short_description: Show the log of a job on Kubernetes
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Prints what a pod of the job prints, and goes on until the job ends, also across restarts of the pod.
  - Fails with the reason when the job did not succeed.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
options:
  kubernetes:
    description: The inventory's C(cluster_kubernetes), which names the cluster, its namespace and volume.
    type: raw
    required: true
  job:
    description: The name of the job. It is required.
    type: str
    default: ""
  pod:
    description: The number of the pod.
    type: int
    default: 0
  reader:
    description:
      - The name of the pod of M(amx.cluster.kubernetes_reader), by which the log is read from the volume. Empty shows
        the log of the job's own pod.
    type: str
    default: ""
  interval:
    description: Seconds between two looks at a job whose pod does not run.
    type: float
    default: 2
"""

EXAMPLES = r"""
- name: Follow the log of the job
  amx.cluster.kubernetes_log:
    kubernetes: "{{ cluster_kubernetes }}"
    job: demo
"""

RETURN = r"""
shown:
  description: Whether a log was shown; false where the job's pods are gone.
  returned: success
  type: bool
status:
  description: The status of the job, as C(status.json) has it.
  returned: when the log is that of a pod
  type: dict
"""
