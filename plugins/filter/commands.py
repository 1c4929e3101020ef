# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
name: commands
short_description: Write each playbook in a message as the command that runs it with the inventory in use
extends_documentation_fragment: amx.cluster.internal
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.amx.cluster.plugins.plugin_utils import inventory_in_use


class FilterModule:
    """The filter commands."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"commands": inventory_in_use.commands}
