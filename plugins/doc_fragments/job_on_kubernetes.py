# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """What a job's objects on Kubernetes follow from; the arguments are plugin_utils/job_on_kubernetes.ARGUMENTS."""

    DOCUMENTATION = r"""
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
"""
