# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
name: cluster_networks
short_description: Choose the network over which ranks communicate
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Returns the interface, address and network of each host that ranks use. Where the inventory does not name the
    network, that is one in which all hosts have an address, that of their default routes if there are several.
options:
  _input:
    description: Of each host, C(info) with what M(amx.cluster.host_info) returned. Others are left out.
    type: dict
    required: true
seealso:
  - module: amx.cluster.host_info
"""

EXAMPLES = r"""
- name: Show the network of each host
  ansible.builtin.debug:
    msg: "{{ {'node0': {'info': first}, 'node1': {'info': second}} | amx.cluster.cluster_networks }}"
"""

RETURN = r"""
_value:
  description: Of each host, C(interface), C(address) and C(network); C(refused) with the reason where there is none.
  type: dict
  sample: {node0: {interface: eth0, address: 192.0.2.10, network: 192.0.2.0/24}}
"""

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._hosts import cluster_network


def cluster_networks(answers: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Return cluster_network.of_hosts of the hosts that answered."""
    known = {host: (answer.get("info") or {}).get("host") for host, answer in answers.items()}
    return cluster_network.of_hosts({host: info for host, info in known.items() if info})


class FilterModule:
    """The filter cluster_networks."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"cluster_networks": cluster_networks}
