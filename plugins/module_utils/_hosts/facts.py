# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts about a host: read on the host itself, evaluated by the checks on the control node.

Ansible's own setup is not asked for these: its subset network needs the ip command, hardware walks all mounts, devices
and DMI tables, and neither has available memory, the size of /dev/shm, the C library, or what a process may do.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import ipaddress
import os
import platform
import socket
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._hosts import cluster_network, machine, peers, systems
from ansible_collections.amx.cluster.plugins.module_utils._hosts.amx import judge, probe, probe_with
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks import catalogue


def addresses(route: Path = Path("/proc/net/route"), chosen: str = "", reached: str = "") -> list[dict[str, Any]]:
    """Read the host's IPv4 addresses, also where the ip command is not installed.

    Returns one entry {interface, address, network (CIDR), default, named} for each, those of an interface in the
    order of the kernel, which has secondary ones last; default: whether the default route leaves by that interface;
    named: the variable that names it, see cluster_network.interface, or "". chosen, reached: the values of these,
    an address, and an address or a name. Raises ValueError where this host does not have the chosen one.
    Asks the kernel by SIOCGIFCONF and SIOCGIFNETMASK (netdevice(7)); names are of 16 bytes,
    an entry of 40.
    """
    default = ""
    for line in route.read_text(encoding="ascii").splitlines()[1:]:
        device, destination, _gateway, _flags, _count, _use, _metric, mask = line.split()[:8]
        if destination == mask == "00000000":
            default = default or device
    rows = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        buffer = bytearray(40 * 1024)
        pinned = (ctypes.c_char * len(buffer)).from_buffer(buffer)
        length, _address = struct.unpack(
            "iP", fcntl.ioctl(asker, 0x8912, struct.pack("iP", len(buffer), ctypes.addressof(pinned)))
        )
        for start in range(0, length, 40):
            label = buffer[start : start + 16].split(b"\0")[0]
            mask_of = fcntl.ioctl(
                asker, 0x891B, struct.pack("16sH2x4s16x", label, socket.AF_INET, buffer[start + 20 : start + 24])
            )
            address, mask = socket.inet_ntoa(buffer[start + 20 : start + 24]), socket.inet_ntoa(mask_of[20:24])
            # A second address of eth0 may carry the label eth0:1; the interface is eth0.
            interface = label.decode().partition(":")[0]
            network = ipaddress.ip_interface(f"{address}/{mask}").network
            rows.append(
                {"interface": interface, "address": address, "network": str(network), "default": interface == default}
            )
    known = [str(row["address"]) for row in rows]
    if chosen and chosen not in known:
        raise ValueError(f"cluster_address is {chosen}, and this host has {', '.join(known) or 'none'}")
    # A name is looked up where it decides something.
    names = peers.resolve([reached])[reached] if reached and len(known) > 2 else []
    for row in rows:
        by_name = "ansible_host" if row["address"] in names else ""
        row["named"] = "cluster_address" if row["address"] == chosen else by_name
    return rows


def read(
    prefix: Path,
    python: Sequence[str] = (),
    amx_root: str = "/",
    system_root: str = "/",
    chosen: str = "",
    reached: str = "",
    network: str = "",
    slurm: bool = False,
) -> dict[str, Any]:
    """Read the facts about this host.

    prefix: the directory for virtual environments and jobs, which need not exist. python: the command of the ranks'
    interpreter, by default that of the virtual environment in `prefix`, else this one. amx_root: where probe and
    machine.read read, for a captured machine. system_root: where etc/os-release is, likewise. slurm: whether to ask
    Slurm.

    Returns machine (as uname -m), os, system (see systems.describe), python, python_executable, isa (the best of ISAS
    that can be used), amx (see judge), cpu_model, cpus (that this process may run on), prefix, addresses (see
    `addresses`), network (see cluster_network.of_host), network_given (whether the inventory names it),
    machine_settings (see machine.read), and what the checks look at besides. Raises OSError and ValueError.
    """
    amx = judge(**_probe(prefix, python, amx_root))
    own = addresses(chosen=chosen, reached=reached)
    system = _os_name(Path(system_root, "etc/os-release"))
    return {
        "machine": platform.machine(),
        "os": system,
        "system": systems.describe(system),
        "python": platform.python_version(),
        "python_executable": sys.executable,
        "isa": amx["isa"],
        "amx": amx,
        "cpu_model": amx["cpu"]["model"],
        "cpus": len(os.sched_getaffinity(0)),
        "prefix": str(prefix),
        "addresses": own,
        "network": cluster_network.of_host(own, network),
        "network_given": bool(network),
        "machine_settings": machine.read(Path(amx_root)),
        **catalogue.gather(prefix, slurm),
    }


def _probe(prefix: Path, python: Sequence[str], amx_root: str) -> dict[str, Any]:
    installed = prefix / "env" / "bin" / "python"
    if amx_root != "/":
        return probe(amx_root)
    if not python and installed.exists():
        python = [str(installed), "-S"]
    return probe_with(python) if python else probe()


def _os_name(path: Path) -> str:
    """Return a distribution's name and version, such as "debian 12"."""
    if not path.exists():
        return ""
    pairs = (line.partition("=") for line in path.read_text(encoding="utf-8").splitlines())
    values = {name: value.strip("\"'") for name, _equals, value in pairs}
    return f"{values.get('ID', '')} {values.get('VERSION_ID', '')}".strip()


def make_remote_tmp(setting: str | None) -> None:
    """Make the user's directory of ansible_remote_tmp, which root's first module would else make for itself."""
    with contextlib.suppress(OSError):
        Path(setting or "~").expanduser().mkdir(mode=0o700, parents=True, exist_ok=True)
