# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Databases and hypervisors that run on a host, by the names of their processes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

# A name as in /proc/PID/comm, of which the kernel keeps 15 characters.
KNOWN = {
    "postgresql": "postgres",
    "mysql": "mysqld|mariadbd",
    "mongodb": "mongod|mongos",
    "redis": "(redis|valkey)-server",
    "oracle": "ora_pmon_.*",
    "clickhouse": "clickhouse-serv",
    "libvirt": "libvirtd|virtqemud",
    "virtual machines": "qemu-system-.*|qemu-kvm|kvm",
    "proxmox": "pmxcfs",  # its file system /etc/pve
}


def known(programs: Iterable[str]) -> list[str]:
    """Return which of KNOWN these programs are."""
    names = set(programs)
    return [service for service, pattern in KNOWN.items() if any(re.fullmatch(pattern, name) for name in names)]


def running(proc: Path = Path("/proc")) -> list[str]:
    """Return which of KNOWN run on this host, as far as this user may see its processes."""
    names = []
    for file in proc.glob("[0-9]*/comm"):
        with suppress(OSError):  # it has ended meanwhile
            names.append(file.read_text(encoding="utf-8", errors="replace").strip())
    return known(names)
