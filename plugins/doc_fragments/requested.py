# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """What requests of all measurements of a job have; the arguments are plugin_utils/requested.ARGUMENTS."""

    DOCUMENTATION = r"""
options:
  file:
    description: The job file, on the control node. A relative path is taken from where C(ansible-playbook) was started.
    type: str
    default: ""
  override:
    description: A mapping of fields that win over the file's. A mapping in it is merged with the file's.
    type: raw
  hosts:
    description: The hosts that may be used, the head first.
    type: list
    elements: str
    required: true
  results:
    description:
      - The directory on the control node with results. What is measured is in C(JOB-scale/sweep.json),
        C(JOB-tune/tune.json) or C(JOB-inference/inference.json) there.
    type: path
    required: true
  again:
    description: Whether what there is already of this job is moved aside.
    type: bool
    default: false
"""
