# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Notes in the documentation of every internal module and action."""

    DOCUMENTATION = r"""
options: {}
author: The amx.cluster maintainers (@amx-cluster)
description:
  - This is internal to the collection. Its name, options and return values may change in any release; use the role or
    playbook that calls it.
"""
