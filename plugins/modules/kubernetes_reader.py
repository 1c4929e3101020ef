#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_reader
short_description: Describe the pod that reads the volume of jobs
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Returns a small pod with the volume of the jobs and a name of its own, so that several users can read the volume at
    the same time. With O(wait_for) it waits until such a pod runs. It does not create or remove one.
  - Fails where this user may not create pods and run commands in them, or the claim is not there.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
options:
  kubernetes:
    description: The inventory's C(cluster_kubernetes), which names the cluster, its namespace and volume.
    type: raw
    required: true
  job:
    description: The name of the job. Empty is for the directories of all jobs.
    type: str
    default: ""
  wait_for:
    description: The name of a pod that was created. If set, it waits until this pod runs, and describes no other.
    type: str
    default: ""
  patience:
    description: Seconds that the pod has to start.
    type: float
    default: 300
"""

EXAMPLES = r"""
- name: Describe the reader pod
  amx.cluster.kubernetes_reader:
    kubernetes: "{{ cluster_kubernetes }}"
    job: demo
  register: reader
"""

RETURN = r"""
pod:
  description: The pod, for M(kubernetes.core.k8s).
  returned: when O(wait_for) is not set
  type: dict
name:
  description: The name of the pod.
  returned: success
  type: str
  sample: demo-reader-9f3c01ab
namespace:
  description: The namespace of the pod.
  returned: success
  type: str
ended:
  description: The names of such pods in the namespace that have ended and can be removed. Their plays were interrupted.
  returned: when O(wait_for) is not set
  type: list
  elements: str
"""
