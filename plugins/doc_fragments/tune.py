# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The request of a tuning; the arguments are plugin_utils/tunes.ARGUMENTS."""

    DOCUMENTATION = r"""
options:
  budget:
    description: Minutes that all trials together may take.
    type: raw
    default: 30
  steps:
    description: Steps of a trial in the first round that are measured. Each further round has twice as many.
    type: raw
    default: 10
  warmup_steps:
    description: Steps of each trial that come before, and are not measured.
    type: raw
    default: 3
  repeats:
    description: How often the winner and the job as it is are run in the final comparison, each.
    type: raw
    default: 3
  tune_batch:
    description: Whether other batch sizes are tried, too. They change what the job learns, and are never the winner.
    type: bool
    default: false
  vary:
    description:
      - The settings that are changed, a list or text such as V(ranks_per_node,backend). Empty is all of
        V(ranks_per_node), V(comm_cores), V(reserved_cores), V(threads_per_core) and V(backend).
    type: raw
    default: []
"""
