# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
name: cluster_interface
short_description: Find the interface of a host on the cluster network
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Returns the one interface of a host whose address lies in a network.
  - Fails if the network is no CIDR, or if not exactly one address of the host lies in it.
positional: network
options:
  _input:
    description: The addresses of the host, as M(amx.cluster.host_info) returns them.
    type: list
    elements: dict
    required: true
  network:
    description: The network as a CIDR. Without one, the interface of the default route is returned.
    type: str
    default: ""
  default:
    description: What is returned instead of a failure.
    type: dict
seealso:
  - module: amx.cluster.host_info
"""

EXAMPLES = r"""
- name: Show the address of a host on the cluster network
  ansible.builtin.debug:
    msg: "{{ (preflight_host.host.addresses | amx.cluster.cluster_interface('10.0.0.0/24')).address }}"
"""

RETURN = r"""
_value:
  description: The interface with its address and network.
  type: dict
  sample: {interface: eth0, address: 10.0.0.5, network: 10.0.0.0/24}
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
