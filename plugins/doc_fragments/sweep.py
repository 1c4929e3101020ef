# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The request of a sweep; the arguments are plugin_utils/sweeps.ARGUMENTS."""

    DOCUMENTATION = r"""
options:
  counts:
    description: Numbers of hosts, a list or text such as V(1,2,4). Empty is 1, 2, 4, ... and all.
    type: raw
    default: []
  repeats:
    description: How often the job is run on each number of hosts.
    type: raw
    default: 3
  steps:
    description: Steps of each run that are measured.
    type: raw
    default: 75
  warmup_steps:
    description: Steps of each run that come before, and are not measured.
    type: raw
    default: 5
  scaling:
    description: V(strong) is the same dataset on every number of hosts, V(weak) one that grows with them.
    type: str
    default: strong
  constant_global_batch:
    description: Whether the global batch stays that of one host.
    type: bool
    default: false
"""
