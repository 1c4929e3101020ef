# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
name: cluster_interface
short_description: Find the interface of a host on the cluster network
extends_documentation_fragment: amx.cluster.internal
"""

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.amx.cluster.plugins.module_utils._hosts import inventory


def cluster_interface(
    addresses: list[dict[str, Any]], network: str | None = "", default: dict[str, str] | None = None
) -> dict[str, str]:
    """See inventory.cluster_interface; a host without such an interface gets `default`, if that is given."""
    try:
        return inventory.cluster_interface(addresses, network or "")
    except ValueError as error:
        if default is not None:
            return default
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """The filter cluster_interface."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"cluster_interface": cluster_interface}
