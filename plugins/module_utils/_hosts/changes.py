# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes that site.yml makes on hosts for the first time, outside of what only the collection uses, in groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._documents import Document
from ansible_collections.amx.cluster.plugins.module_utils._text import columns, names


@dataclass(frozen=True)
class Requested(Document):
    """Settings that the variables of a host request.

    user: who runs ranks. become: whether root's rights may be used. package: of tcmalloc, haproxy, linger: what is to
    be installed or enabled; empty and false also where it is there. kernel: {path below the root: value}. nofile,
    memlock: limits; empty to leave them. shm_gib: of /dev/shm at least, 0 to leave it. firewall: present, open
    (where ufw or firewalld is in use), absent or ignored. ssh_mode: full or head.
    """

    user: str
    prefix: str
    become: bool
    package: str
    haproxy: bool
    linger: bool
    kernel: dict[str, str]
    nofile: str
    memlock: str
    shm_gib: float
    firewall: str
    ssh_mode: str
    ssh_name: str
    network: str


def of_host(requested: Requested, made: Mapping[str, Any], is_head: bool, is_alone: bool) -> Iterator[tuple[str, str]]:
    """Yield the changes of a host that are not made yet, as (group, change).

    made: {piece: what reset_info returned}, what the collection has made there already. is_alone: whether the cluster
    has no other host.
    """
    if not made["environments"]["paths"]:
        yield "directories", f"{requested.prefix}: all that is installed, for {requested.user}"
    if not is_alone and not made["ssh"]["paths"] and (is_head or requested.ssh_mode == "full"):
        yield "SSH", f"files ~/.ssh/{requested.ssh_name}*: a key pair, and what ~/.ssh/config includes"
    if not is_alone and not made["ssh"]["keys"]:
        yield (
            "SSH",
            f"authorized_keys of {requested.user}: this key, from the cluster's addresses in {requested.network}",
        )
    if not requested.become:
        return
    if requested.package:
        yield "packages", f"{requested.package}: the allocator tcmalloc"
    if requested.haproxy:
        yield "packages", "haproxy, for served models; its own service is disabled"
    if requested.linger:
        yield "users", f"lingering of {requested.user}, so that served models start at boot (loginctl)"
    files = [name for name in made["tuning"]["paths"] if Path(name).suffix == ".conf"]
    if requested.kernel and not any(Path(name).parent.name in ("sysctl.d", "tmpfiles.d") for name in files):
        shown = ", ".join(f"/{path} {value}" for path, value in requested.kernel.items())
        yield "kernel settings", f"now and at boot: {shown}"
    limits = {"open files": requested.nofile, "locked memory": requested.memlock}
    if any(limits.values()) and not files:
        shown = ", ".join(f"{limit} {value}" for limit, value in limits.items() if value)
        yield "limits", f"of {requested.user}: {shown} (/etc/security/limits.d)"
    if requested.shm_gib and not files:
        yield "boot unit", f"/dev/shm of at least {requested.shm_gib:g} GiB (amx-cluster-shm.service)"
    if requested.firewall == "present" and not made["firewall"]["paths"] + made["firewall"]["rules"]:
        yield (
            "firewall",
            "drops new connections, but for those between hosts, of administrators and in firewall_allow",
        )
    if requested.firewall == "open" and not made["firewall"]["rules"]:
        yield "firewall", "accepts TCP between hosts, by rules in ufw or firewalld; nothing else changes in it"
    if requested.firewall == "absent" and made["firewall"]["rules"]:
        yield "firewall", "the rules of an earlier run are removed"


def beside(services: Sequence[str]) -> list[tuple[str, str]]:
    """Return what else runs on a host that is to be changed, as a line of its changes. services: as services.known."""
    return [("other use", f"runs {', '.join(services)}: jobs take cores and memory from it")] if services else []


def text(changes: Mapping[str, Sequence[tuple[str, str]]]) -> str:
    """Return the changes as a table for a person; empty where there are none.

    changes: {host: its changes, as of_host yields them}.
    """
    hosts_of: dict[tuple[str, str], list[str]] = {}
    for host, own in changes.items():
        for change in own:
            hosts_of.setdefault(change, []).append(host)
    groups = list(dict.fromkeys(group for group, _change in hosts_of))
    ordered = sorted(hosts_of.items(), key=lambda item: groups.index(item[0][0]))
    shown = {len(changes): "all hosts"} if len(changes) > 1 else {}
    rows = [(f"  {group}", change, shown.get(len(on)) or names(on)) for (group, change), on in ordered]
    if not rows:
        return ""
    return "\n".join(
        [
            "On these hosts, site.yml will change:",
            *columns(rows),
            "playbooks/reset.yml -e reset=all undoes it, but for other packages and lingering.",
        ]
    )
