# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.amx.cluster.plugins.module_utils._data import file_set
from ansible_collections.amx.cluster.plugins.module_utils._hosts import inventory


def _cluster_interface(
    addresses: list[dict[str, Any]], network: str = "", default: dict[str, str] | None = None
) -> dict[str, str]:
    """See inventory.cluster_interface; a host without one gets `default`, if that is given."""
    try:
        return inventory.cluster_interface(addresses, network or "")
    except ValueError as error:
        if default is not None:
            return default
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """What is derived from the inventory and from what hosts say of themselves and have."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "inventory_errors": inventory.errors,
            "by_folder": file_set.by_folder,
            "host_order": inventory.host_order,
            "cluster_interface": _cluster_interface,
        }
