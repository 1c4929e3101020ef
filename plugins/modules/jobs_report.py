# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: jobs_report
short_description: Show the status of jobs
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Prints a table of all jobs, or one job in full.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
  - amx.cluster.document
options:
  jobs:
    description: The jobs, as M(amx.cluster.jobs_info) returns them from the head.
    type: list
    elements: dict
    required: true
  ranks:
    description: By host, the ranks that M(amx.cluster.jobs_info) returns.
    type: dict
    default: {}
  removed:
    description:
      - By host, the files with secrets of jobs that have ended that were removed there. A host with a list has none any
        more, also where the status of a job names it in C(secrets_left); one that did not answer has none here.
    type: dict
    default: {}
  name:
    description: The job that is shown in full. Empty shows all jobs, a line each.
    type: str
    default: ""
  kubernetes:
    description:
      - The jobs on Kubernetes, which are shown in the same table. C(jobs), C(missing) and C(problem), as
        M(amx.cluster.kubernetes_jobs_info) returns them, C(volume), the job directories of the volume, and C(listed),
        whether it was looked at.
      - Without it, only jobs on hosts are shown.
    type: dict
seealso:
  - module: amx.cluster.jobs_info
  - module: amx.cluster.kubernetes_jobs_info
"""

EXAMPLES = r"""
- name: Show all jobs
  amx.cluster.jobs_report:
    jobs: "{{ status.jobs }}"
"""

RETURN = r""" # """
