# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: firewall_rules
short_description: Derive the firewall rules of a cluster
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Returns which connections the hosts of a cluster accept, in the syntax of nftables and of firewalld.
  - This is an action that runs on the control node and contacts no host. The role P(amx.cluster.firewall#role) applies
    the rules.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
options:
  addresses:
    description:
      - The addresses of the hosts on the cluster network. All TCP between these is accepted, because MPI and gloo
        listen on ephemeral ports.
    type: list
    elements: str
    default: []
  admin_networks:
    description: Networks, as CIDRs, from which SSH connections are accepted.
    type: list
    elements: str
    default: []
  ssh_port:
    description: The port on which sshd listens.
    type: int
    default: 22
  allow:
    description:
      - Further connections that are accepted, each with C(port), C(protocol) (V(tcp) or V(udp)) and C(networks).
    type: list
    elements: dict
    default: []
  backend:
    description:
      - What applies the rules. V(nftables) has nothing but them; V(ufw) and V(firewalld) have others, too, which stay
        as they are, also where one of them equals a rule of the collection.
    type: str
    choices: [nftables, ufw, firewalld]
    default: nftables
  listed:
    description:
      - The rules that the host has. With O(backend=ufw) the lines of C(/etc/ufw/user.rules) and
        C(/etc/ufw/user6.rules), with O(backend=firewalld) what C(firewall-cmd --list-all-zones) prints, once without
        and once with C(--permanent).
    type: str
    default: ""
  recorded:
    description:
      - The rules that previous runs added to firewalld. Those of ufw are known by their comment.
    type: list
    elements: dict
    default: []
  connection:
    description:
      - The value of C(SSH_CONNECTION) in Ansible's session on the host. Empty if Ansible does not connect by SSH.
    type: str
    default: ""
  zones:
    description: The zones of firewalld in which the rules are made.
    type: list
    elements: str
    default: []
seealso:
  - module: amx.cluster.host_info
"""

EXAMPLES = r"""
- name: Derive the firewall rules
  amx.cluster.firewall_rules:
    addresses: [10.0.0.5, 10.0.0.6]
    admin_networks: [192.0.2.0/24]
  register: firewall
"""

RETURN = r"""
rules:
  description:
    - The rules, without duplicates, and without those that ufw or firewalld has already and that do not carry the
      mark of the collection.
  returned: success
  type: list
  elements: dict
  contains:
    network:
      description: The network from which connections are accepted, as a CIDR.
      type: str
      returned: success
    protocol:
      description: V(tcp) or V(udp).
      type: str
      returned: success
    port:
      description: The port; V(0) stands for all ports.
      type: int
      returned: success
    zone:
      description: The zone of firewalld.
      type: str
      returned: if O(zones) is set
    nft_rule:
      description: The rule in the syntax of nftables.
      type: str
      returned: success
    rich_rule:
      description: The rule in firewalld's rich language.
      type: str
      returned: success
  sample:
    - network: 192.0.2.0/24
      protocol: tcp
      port: 22
      nft_rule: ip saddr 192.0.2.0/24 tcp dport 22 accept
      rich_rule: rule priority="26843" family="ipv4" source address="192.0.2.0/24" port port="22" protocol="tcp" accept
stale:
  description: The rules that carry the mark of the collection and are no longer in use, with the keys of RV(rules).
  returned: success
  type: list
  elements: dict
change:
  description: The commands that add the missing rules of RV(rules), then those that remove RV(stale).
  returned: success
  type: list
  elements: str
  sample: ["ufw allow from 192.0.2.0/24 to any port 22 proto tcp comment amx_cluster"]
rollback:
  description: The commands that undo RV(change) in firewalld.
  returned: success
  type: list
  elements: str
mark:
  description: The comment of the table of nftables, and of each rule of ufw.
  returned: success
  type: str
  sample: amx_cluster
cut_off:
  description:
    - Why Ansible could not connect to the host again under these rules; empty if it could. In ufw and firewalld only
      a rule that is removed can be the reason.
  returned: success
  type: str
  sample: Ansible connects from 203.0.113.5 to port 22, which no rule accepts
"""
