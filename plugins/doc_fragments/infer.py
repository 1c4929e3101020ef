# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The request of an inference benchmark; the arguments are plugin_utils/infers.ARGUMENTS."""

    DOCUMENTATION = r"""
options:
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
"""
