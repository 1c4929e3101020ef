# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_objects
short_description: Render the objects of a job for Kubernetes
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Derives from a job file, a stack and the description of the nodes what runs the job on Kubernetes, and writes each
    object to a file of its own, for Git and review. No cluster is contacted.
  - The objects are a PersistentVolumeClaim, a ConfigMap with the job and its scripts, a Job that puts models and data
    on the volume, and a PyTorchJob, a TrainJob with its TrainingRuntime, or an Indexed Job with a headless Service.
  - Fails, before it writes a file, with every field of the job that pods do not have, and every wrong setting.
  - Files of an earlier rendering that the job no longer has are removed.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.idempotent_module
  - amx.cluster.document
options:
  job:
    description: The job file.
    type: str
    default: ""
  override:
    description: Fields that win over the job file's.
    type: raw
  kubernetes:
    description: The variable C(cluster_kubernetes) of the inventory.
    type: raw
    required: true
  stack:
    description: The stack of the image, as M(amx.cluster.stack_info) returns it.
    type: dict
    required: true
  backend:
    description: The backend of a job that leaves it open.
    type: str
    default: auto
  job_env:
    description: The variables that the job may take from the inventory. Their values are in nothing that is returned.
    type: raw
    default: {}
  path:
    description: The directory of the files. The default is C(manifests/NAME) in the current directory.
    type: path
  secret:
    description:
      - Whether the Secret of a job with O(job_env) is written, too, to C(secret.yml), which only its owner can read and
        C(.gitignore) names.
    type: bool
    default: false
seealso:
  - module: amx.cluster.stack_info
"""

EXAMPLES = r"""
- name: Render the objects of a job
  amx.cluster.kubernetes_objects:
    job: jobs/squad-bert-large.yml
    kubernetes:
      image: registry.example.com/amx-cluster:native
      workers: 4
      cpus: 200
      memory: 128Gi
      kind: PyTorchJob
    stack: "{{ chosen.stack }}"
"""

RETURN = r"""
path:
  description: The directory of the files.
  type: str
  returned: success
files:
  description: The names of the files, in the order in which the objects are created.
  type: list
  elements: str
  returned: success
derived:
  description:
    - What was derived, C(pods), C(least_pods), C(ranks) of a pod, C(backend), C(precision), C(requests) and C(limits),
      C(shm) (the bytes of C(/dev/shm)), and C(notes) for a person.
  type: dict
  returned: success
"""
