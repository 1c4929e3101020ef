#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_fetch
short_description: Fetch a job's directory from the volume
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Has the pod of M(amx.cluster.kubernetes_reader) pack the job's directory on the volume, without data and models, and
    fetches it in parts, each of which is tried again where the connection breaks. The whole is verified by its SHA-256.
  - A directory of the same name on the control node is not changed. Only O(path) is written.
extends_documentation_fragment:
  - amx.cluster.attributes
options:
  kubernetes:
    description: The inventory's C(cluster_kubernetes), which names the cluster, its namespace and volume.
    type: raw
    required: true
  job:
    description: The name of the job. Empty is for the directories of all jobs.
    type: str
    default: ""
  reader:
    description: The name of the pod of M(amx.cluster.kubernetes_reader), which must run.
    type: str
    required: true
  path:
    description: The file on the control node.
    type: path
  list:
    description: Whether the job directories of the volume are listed, and nothing is fetched.
    type: bool
    default: false
attributes:
  check_mode:
    support: none
  diff_mode:
    support: none
  idempotent:
    support: none
"""

EXAMPLES = r"""
- name: Fetch the packed job directory
  amx.cluster.kubernetes_fetch:
    kubernetes: "{{ cluster_kubernetes }}"
    job: demo
    reader: "{{ reader.name }}"
    path: /tmp/demo.tar
"""

RETURN = r"""
bytes:
  description: The size of the file.
  returned: when a directory was fetched
  type: int
sha256:
  description: The SHA-256 of the file, as computed in the pod and on the control node.
  returned: when a directory was fetched
  type: str
directory:
  description: The directory on the volume.
  returned: when a directory was fetched
  type: str
  sample: jobs/demo-4f1c2a
outcome:
  description: The content of the job's C(results.json), or C(status.json) where it has none.
  returned: when a directory was fetched
  type: dict
jobs:
  description: The job directories, each with C(name), C(start), C(state), C(reason), C(started), C(ended) and C(bytes).
  returned: when they are listed
  type: list
  elements: dict
"""
