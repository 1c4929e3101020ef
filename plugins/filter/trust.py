# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.amx.cluster.plugins.module_utils._hosts import firewall, ssh_mesh


def _told(function: Callable[..., Any]) -> Callable[..., Any]:
    """Say as a filter what the function says as ValueError."""

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except ValueError as error:
            raise AnsibleFilterError(str(error)) from error

    return call


class FilterModule:
    """Who may log in where, and what the wire lets through."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "firewall_cut_off": _told(firewall.cut_off),
            "firewall_rich_rule": firewall.rich_rule,
            "firewall_rules": _told(firewall.rules),
            "ssh_authorized_lines": ssh_mesh.authorized_lines,
            "ssh_changed_hosts": _told(ssh_mesh.changed_hosts),
            "ssh_host_keys": ssh_mesh.host_keys,
            "ssh_rotated": ssh_mesh.rotated,
            "ssh_stale_keys": ssh_mesh.stale_keys,
        }
