# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
name: cloud_error
short_description: Say which call EC2 refused in the results of tasks, and what to do
extends_documentation_fragment: amx.cluster.internal
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._cloud import errors


class FilterModule:
    """The filter cloud_error."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"cloud_error": errors.of_results}
