# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts about a host: read on the host itself, evaluated by the checks on the control node.

Ansible's own setup is not asked for these: its subset network needs the ip command, hardware walks all mounts, devices
and DMI tables, and neither has available memory, the size of /dev/shm, the C library, or what a process may do.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import ipaddress
import os
import platform
import shutil
import socket
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import cpu_quota
from ansible_collections.amx.cluster.plugins.module_utils._hosts import loader, peers, systems
from ansible_collections.amx.cluster.plugins.module_utils._hosts.amx import judge, probe, probe_with

# Linux, include/uapi/asm-generic and arch/x86/entry/syscalls/syscall_64.tbl.
SYS_SET_MEMPOLICY = 238
SYS_PROCESS_VM_READV = 310


def existing_ancestor(path: Path) -> Path:
    """Return `path`, or the nearest directory above it that exists."""
    while True:
        try:
            if path.exists():
                return path
        except PermissionError:
            pass  # it is below a directory that this user may not enter
        path = path.parent


def addresses(route: Path = Path("/proc/net/route")) -> list[dict[str, Any]]:
    """Read the host's IPv4 addresses, also where the ip command is not installed.

    Returns one entry {interface, address, network (CIDR), default} for each; default: whether the default route leaves
    by that interface. Asks the kernel by SIOCGIFCONF and SIOCGIFNETMASK (netdevice(7)); names are of 16 bytes,
    an entry of 40.
    """
    default = ""
    for line in route.read_text(encoding="ascii").splitlines()[1:]:
        device, destination, _gateway, _flags, _count, _use, _metric, mask = line.split()[:8]
        if destination == mask == "00000000":
            default = default or device
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        buffer = bytearray(40 * 1024)
        pinned = (ctypes.c_char * len(buffer)).from_buffer(buffer)
        length, _address = struct.unpack(
            "iP", fcntl.ioctl(asker, 0x8912, struct.pack("iP", len(buffer), ctypes.addressof(pinned)))
        )
        for start in range(0, length, 40):
            label = buffer[start : start + 16].split(b"\0")[0]
            mask_of = fcntl.ioctl(asker, 0x891B, struct.pack("16sH14s8x", label, socket.AF_INET, b""))
            address, mask = socket.inet_ntoa(buffer[start + 20 : start + 24]), socket.inet_ntoa(mask_of[20:24])
            # A second address of eth0 may carry the label eth0:1; the interface is eth0.
            interface = label.decode().partition(":")[0]
            network = ipaddress.ip_interface(f"{address}/{mask}").network
            found.append(
                {"interface": interface, "address": address, "network": str(network), "default": interface == default}
            )
    return found


def read(prefix: Path, python: Sequence[str] = (), amx_root: str = "/", system_root: str = "/") -> dict[str, Any]:
    """Read the facts about this host.

    prefix: the directory for virtual environments and jobs, which need not exist. python: the command of the ranks'
    interpreter, by default that of the virtual environment in `prefix`, else this one. amx_root: where probe reads, for
    a captured machine. system_root: where etc/os-release is, likewise.

    Returns machine (as uname -m), glibc ("2.36", or "" for another C library), os, system (see systems.describe),
    python, python_executable, isa (the best of ISAS that can be used), amx (see judge), cpu_model, cpus (that this
    process may run on), cpu_quota (the number of CPUs whose time its cgroup may use, None for no limit), memory_bytes
    and memory_available_bytes, shm_bytes, home_writable, prefix, prefix_ancestor (see existing_ancestor),
    prefix_free_bytes, jobs_free_bytes, prefix_writable (by this process), addresses (see `addresses`), name and
    name_addresses (its own name, and how that resolves), tcmalloc (the file, or "") and denied_calls. Raises OSError
    and ValueError.
    """
    ancestor = existing_ancestor(prefix)
    library, version = platform.libc_ver()
    memory = _memory()
    amx = judge(**_probe(prefix, python, amx_root))
    name = socket.gethostname()
    jobs = prefix / "jobs"
    system = _os_name(Path(system_root, "etc/os-release"))
    return {
        "machine": platform.machine(),
        "glibc": version if library == "glibc" else "",
        "os": system,
        "system": systems.describe(system),
        "python": platform.python_version(),
        "python_executable": sys.executable,
        "isa": amx["isa"],
        "amx": amx,
        "cpu_model": amx["cpu"]["model"],
        "cpus": len(os.sched_getaffinity(0)),
        "cpu_quota": cpu_quota(Path("/")),
        "memory_bytes": memory.get("MemTotal", 0),
        "memory_available_bytes": memory.get("MemAvailable", 0),
        "shm_bytes": shutil.disk_usage("/dev/shm").total if Path("/dev/shm").is_dir() else 0,
        "home_writable": os.access(Path.home(), os.W_OK | os.X_OK),
        "prefix": str(prefix),
        "prefix_ancestor": str(ancestor),
        "prefix_free_bytes": shutil.disk_usage(ancestor).free,
        "jobs_free_bytes": shutil.disk_usage(existing_ancestor(jobs)).free,
        "prefix_writable": ancestor.is_dir() and os.access(ancestor, os.W_OK | os.X_OK),
        "addresses": addresses(),
        "name": name,
        "name_addresses": peers.resolve([name])[name],
        "tcmalloc": loader.tcmalloc(),
        "denied_calls": denied_calls(),
    }


def _probe(prefix: Path, python: Sequence[str], amx_root: str) -> dict[str, Any]:
    installed = prefix / "env" / "bin" / "python"
    if amx_root != "/":
        return probe(amx_root)
    if not python and installed.exists():
        python = [str(installed), "-S"]
    return probe_with(python) if python else probe()


def _memory(path: Path = Path("/proc/meminfo")) -> dict[str, int]:
    lines = (line.split() for line in path.read_text(encoding="ascii").splitlines())
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines if words[-1] == "kB"}


def _os_name(path: Path) -> str:
    """Return a distribution's name and version, such as "debian 12"."""
    if not path.exists():
        return ""
    pairs = (line.partition("=") for line in path.read_text(encoding="utf-8").splitlines())
    values = {name: value.strip("\"'") for name, _equals, value in pairs}
    return f"{values.get('ID', '')} {values.get('VERSION_ID', '')}".strip()


def denied_calls() -> list[str]:
    """Return which system calls of MPI and NUMA placement are forbidden here, as they are in some containers."""
    if platform.machine() != "x86_64":
        return []
    call = ctypes.CDLL(None, use_errno=True).syscall
    source, target = ctypes.create_string_buffer(b"x"), ctypes.create_string_buffer(1)
    vector = ctypes.c_uint64 * 2
    local, remote = (vector(ctypes.addressof(buffer), 1) for buffer in (target, source))
    one, none = ctypes.c_ulong(1), ctypes.c_ulong(0)
    calls = {
        SYS_SET_MEMPOLICY: (ctypes.c_long(0), None, none),
        SYS_PROCESS_VM_READV: (ctypes.c_long(os.getpid()), local, one, remote, one, none),
    }
    names = {SYS_SET_MEMPOLICY: "set_mempolicy", SYS_PROCESS_VM_READV: "process_vm_readv"}
    denied = []
    for number, arguments in calls.items():
        ctypes.set_errno(0)
        if call(ctypes.c_long(number), *arguments) == -1 and ctypes.get_errno() in (errno.EPERM, errno.ENOSYS):
            denied.append(names[number])
    return denied
