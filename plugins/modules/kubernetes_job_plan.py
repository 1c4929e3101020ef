# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_job_plan
short_description: Plan the start of a job on Kubernetes
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Derives the objects of a job as M(amx.cluster.kubernetes_objects) does, and checks that the cluster can run them.
    Nothing is created.
  - Fails with one message that has every reason. Checked are the kubeconfig and its context, the version of the API
    server and the kinds that it has, the rights of the user, the nodes, the claim of the volume, and whether the job
    is running.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
  - amx.cluster.job_on_kubernetes
options:
  user:
    description: Who starts the job, as an annotation of its objects.
    type: str
    default: ""
  since:
    description: When the job is started, as an annotation of its objects.
    type: str
    default: ""
  resume:
    description: Whether the job continues in the directory of its previous run, from the last complete checkpoint.
    type: bool
    default: false
  check_nodes:
    description: Whether a job is refused that no node can take even when nothing else runs there.
    type: bool
    default: true
  secret_of:
    description:
      - The C(start) of a plan. If set, its Secret is returned instead, with the values; the task must set C(no_log).
    type: str
    default: ""
seealso:
  - module: amx.cluster.kubernetes_objects
  - module: amx.cluster.kubernetes_start
  - module: amx.cluster.kubernetes_job_wait
"""

EXAMPLES = r"""
- name: Plan the job and check the cluster
  amx.cluster.kubernetes_job_plan:
    job: jobs/demo.yml
    kubernetes: "{{ cluster_kubernetes }}"
    stack: "{{ chosen.stack }}"
  register: plan
"""

RETURN = r"""
job:
  description: The name of the job.
  type: str
  returned: when O(secret_of) is not set
name:
  description: The name of its objects.
  type: str
  returned: when O(secret_of) is not set
namespace:
  description: The namespace of its objects.
  type: str
  returned: when O(secret_of) is not set
kind:
  description: The kind of its training object.
  type: str
  returned: when O(secret_of) is not set
start:
  description: What tells this start of the job from others, as in the name of its directory on the volume.
  type: str
  returned: when O(secret_of) is not set
resumed:
  description: Whether it continues the previous run.
  type: bool
  returned: when O(secret_of) is not set
kubeconfig:
  description: The kubeconfig in use; several files are separated by colons.
  type: str
  returned: when O(secret_of) is not set
context:
  description: The context in use.
  type: str
  returned: when O(secret_of) is not set
has_secret:
  description: Whether the job has a Secret.
  type: bool
  returned: when O(secret_of) is not set
shared:
  description: The namespace and the claim, if they must be created.
  type: list
  elements: dict
  returned: when O(secret_of) is not set
config:
  description: The ConfigMap of the job, for M(amx.cluster.kubernetes_start).
  type: dict
  returned: when O(secret_of) is not set
version:
  description: The resourceVersion of the ConfigMap that a previous run has left. Empty if there is none.
  type: str
  returned: when O(secret_of) is not set
record:
  description:
    - The ConfigMap of the previous run with the state in which that run has ended, to be restored if this start fails.
      Empty without a previous run.
  type: dict
  returned: when O(secret_of) is not set
first:
  description: The Job that prepares models and data.
  type: list
  elements: dict
  returned: when O(secret_of) is not set
objects:
  description: What trains, to be created when the data are prepared.
  type: list
  elements: dict
  returned: when O(secret_of) is not set
is_prepared:
  description: Whether models or data must be put on the volume first.
  type: bool
  returned: when O(secret_of) is not set
previous:
  description:
    - The objects of a previous run that has ended, without its ConfigMap. C(api_version), C(kind) and C(name) of each.
  type: list
  elements: dict
  returned: when O(secret_of) is not set
secret:
  description:
    - With O(secret_of) the Secret with its values. Else a list that has the Secret without values, empty for a job
      that has none.
  type: raw
  returned: success
"""
