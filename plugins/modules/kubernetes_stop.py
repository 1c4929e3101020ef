#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_stop
short_description: Stop a job on Kubernetes
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Has the supervisor in the job's first pod end the job and write its state to the volume, and waits until it has.
  - Deletes nothing itself. It returns what is to be deleted, and fails where this user may not.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.idempotent_module
options:
  kubernetes:
    description: The inventory's C(cluster_kubernetes), which names the cluster, its namespace and volume.
    type: raw
    required: true
  job:
    description: The name of the job. It is required.
    type: str
    default: ""
  patience:
    description: Seconds that the job has to end.
    type: float
    default: 150
  remove:
    description: Whether all objects of the job are to be deleted, and not only those that run pods.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Stop the job
  amx.cluster.kubernetes_stop:
    kubernetes: "{{ cluster_kubernetes }}"
    job: demo
"""

RETURN = r"""
was_running:
  description: Whether the job was running, or waiting for nodes.
  returned: success
  type: bool
state:
  description: The state of the job now.
  returned: success
  type: str
objects:
  description:
    - What is to be deleted, in this order. Only objects with the labels of the job and of the collection are among
      them, and no claim.
  returned: success
  type: list
  elements: dict
  sample:
    - {api_version: batch/v1, kind: Job, name: demo}
lines:
  description: RV(objects) as a line for each.
  returned: success
  type: list
  elements: str
annotations:
  description: What is recorded in the job's ConfigMap.
  returned: success
  type: dict
config:
  description: Whether the job has a ConfigMap that stays, and in which its state is to be recorded.
  returned: success
  type: bool
directory:
  description: The directory of the job on the volume, which stays.
  returned: success
  type: str
namespace:
  description: The namespace of the objects.
  returned: success
  type: str
name:
  description: The name of the objects.
  returned: success
  type: str
"""
