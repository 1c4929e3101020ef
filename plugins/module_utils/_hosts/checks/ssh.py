# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks that the head can log in on every host, as mpirun does to start ranks there."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.check import FAILURE, Cluster, Found, check
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.network import seen

CHANGED = "REMOTE HOST IDENTIFICATION HAS CHANGED"


@check(
    FAILURE,
    cause="mpirun cannot start ranks on the host (unable to run bstrap_proxy, exit code 65280)",
    advice="Run site.yml, which sets up the head's logins; check that sshd listens on the cluster network",
    full=True,
)
def login(cluster: Cluster) -> Iterator[Found]:
    for host, message in _refused(cluster):
        if CHANGED in message:
            continue  # the check host_key reports it
        if "host key is known" in message or "Host key verification failed" in message:
            yield Found(host, "the head has no pinned key of this host")
        else:
            yield Found(host, f"the head cannot log in: {' '.join(message.split())[-200:]}")


@check(
    FAILURE,
    cause="The host was reinstalled, or another machine answers for it",
    advice="Find out why. If the host was installed anew, run site.yml with -e ssh_mesh_accept_changed_keys=HOST, "
    "which pins the key that it reads over Ansible's own connection",
    full=True,
)
def host_key(cluster: Cluster) -> Iterator[Found]:
    for host, message in _refused(cluster):
        if CHANGED in message:
            shown = re.search(r"(SHA256:[\w+/]+)", message)
            detail = f": it shows {shown[1]}" if shown else ""
            yield Found(host, f"its host key is not the one pinned on the head{detail}")


def _refused(cluster: Cluster) -> Iterator[tuple[str, str]]:
    for peers in seen(cluster).values():
        for host, message in peers["logins"].items():
            # A host that does not answer Ansible either is reported already.
            if message and host in cluster.answers:
                yield host, message
