# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_job_wait
short_description: Wait for the pods or the end of a job on Kubernetes
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Waits until models and data are prepared, until all pods of a job run, or until the job has ended. It prints what
    pods wait for, and the progress of a job that runs.
  - Fails with the reason when the pods cannot start or the job fails, and with the traceback of the first rank that
    failed.
  - Interrupting it leaves the job running.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
options:
  kubernetes:
    description: The variable C(cluster_kubernetes) of the inventory.
    type: raw
    required: true
  job:
    description: The name of the job.
    type: str
    required: true
  name:
    description: The name of its objects.
    type: str
    required: true
  start:
    description: The start of the job. The default is the one that runs.
    type: str
    default: ""
  until:
    description: What is waited for.
    type: str
    choices: [prepared, running, ended]
    default: ended
  timeout:
    description: Seconds after which pods that do not run yet are a failure. With V(0) they are waited for indefinitely.
    type: float
    default: 0
  interval:
    description: Seconds between two looks at the job.
    type: float
    default: 2
seealso:
  - module: amx.cluster.kubernetes_job_plan
"""

EXAMPLES = r"""
- name: Follow the job
  amx.cluster.kubernetes_job_wait:
    kubernetes: "{{ cluster_kubernetes }}"
    job: demo
    name: demo
"""

RETURN = r"""
pods:
  description: The names of the pods.
  type: list
  elements: str
  returned: unless O(until) is V(ended)
status:
  description: The last status of the job, as C(status.json) has it.
  type: dict
  returned: when O(until) is V(ended)
progress:
  description: The last progress of the job.
  type: dict
  returned: when O(until) is V(ended)
outcome:
  description: The results of the job, as C(results.json) has them; empty where the pod had ended before they were read.
  type: dict
  returned: when O(until) is V(ended)
"""
