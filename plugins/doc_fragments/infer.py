# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The request of an inference benchmark; the arguments are plugin_utils/infers.ARGUMENTS."""

    DOCUMENTATION = r"""
options:
  file:
    description:
      - The job file of kind C(inference), on the control node. A relative path is taken from where C(ansible-playbook)
        was started.
    type: str
    default: ""
  override:
    description: A mapping of fields that win over the file's. A mapping in it is merged with the file's.
    type: raw
  hosts:
    description: The hosts of the cluster, the head first.
    type: list
    elements: str
    required: true
  results:
    description:
      - The directory on the control node with results. The benchmark is in C(JOB-inference/inference.json) there.
    type: path
    required: true
  prefix:
    description: The directory on every host with the jobs.
    type: path
    required: true
  budget:
    description: Minutes that all trials together may take, instead of the job file's.
    type: raw
  p99_ms:
    description: Milliseconds that p99 of the recommended setting may have at most, instead of the job file's.
    type: raw
  agreement:
    description: >-
      The share of predictions of the recommended setting that are equal to fp32's at least, instead of the job file's.
    type: raw
  again:
    description: Whether a benchmark of this job that there is already is moved aside.
    type: bool
    default: false
"""
