# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """What describes a measurement; the arguments are plugin_utils/measurements.ARGUMENTS."""

    DOCUMENTATION = r"""
options:
  kind:
    description:
      - V(sweep) is the job on several numbers of hosts, V(tuning) with other ranks, cores and backends, V(inference) a
        benchmark of models.
    type: str
    required: true
  request:
    description:
      - What is requested, C(job), the path of its file, C(override), fields that win over the file's, C(again), whether
        what there is already is moved aside, and the options that the playbook of this kind takes.
      - What is set with C(-e) on the command line wins.
    type: dict
    default: {}
  hosts:
    description: The hosts that may be used, the head first.
    type: list
    elements: str
    required: true
  results:
    description: The directory on the control node with results.
    type: path
    default: results
  prefix:
    description: The directory on every host with the jobs.
    type: path
    default: ""
  backend:
    description: The inventory's backend, for jobs that leave it open.
    type: str
    default: auto
  cores:
    description: The inventory's cores, for jobs that leave them open.
    type: raw
    default: {}
"""
