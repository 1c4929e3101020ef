# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks that the operating system runs the wheels, and is the same on every host."""

from __future__ import annotations

import ctypes
import errno
import platform
from collections.abc import Iterator
from os import getpid

from ansible_collections.amx.cluster.plugins.module_utils._hosts import systems
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.check import (
    FAILURE,
    WARNING,
    Cluster,
    Found,
    check,
    differences,
)

# Linux, include/uapi/asm-generic and arch/x86/entry/syscalls/syscall_64.tbl.
SYS_SET_MEMPOLICY = 238
SYS_PROCESS_VM_READV = 310
ARCHITECTURE = "x86_64"
# The oldest with which the wheels run: torch's are manylinux_2_28.
GLIBC = (2, 28)


@check(
    FAILURE,
    cause="There are no wheels for other architectures",
    advice=f"Use {ARCHITECTURE} servers",
)
def architecture(cluster: Cluster) -> Iterator[Found]:
    for host, info in cluster.infos.items():
        if info["machine"] != ARCHITECTURE:
            yield Found(host, f"the architecture is {info['machine']}")


def version_of_glibc() -> str:
    """Return such as "2.36", and an empty string for another C library."""
    library, version = platform.libc_ver()
    return version if library == "glibc" else ""


@check(
    FAILURE,
    cause="The wheels cannot be loaded",
    advice=f"Use a system with glibc {'.'.join(map(str, GLIBC))} or newer (Debian 12, Ubuntu 22.04, RHEL 9)",
    gather=lambda _prefix: {"glibc": version_of_glibc()},
)
def glibc(cluster: Cluster) -> Iterator[Found]:
    for host, info in cluster.infos.items():
        version = tuple(int(part) for part in info["glibc"].split(".")[:2]) if info["glibc"] else (0, 0)
        if version < GLIBC:
            yield Found(host, f"the C library is {'glibc ' + info['glibc'] if info['glibc'] else 'not glibc'}")


@check(
    FAILURE,
    cause="Roles do not know which packages to install",
    advice=systems.ADVICE,
)
def unknown_os(cluster: Cluster) -> Iterator[Found]:
    if cluster.wanted.unknown_os != systems.ALLOW:
        for host, info in cluster.infos.items():
            if not systems.find(info["os"]):
                yield Found(host, f"the system {info['os'] or '(no /etc/os-release)'} is not known")


@check(
    WARNING,
    cause="Libraries, limits and paths differ between hosts",
    advice="Install the same system on every host, or ignore this if you know the differences",
)
def os(cluster: Cluster) -> Iterator[Found]:
    yield from differences({host: info["os"] for host, info in cluster.infos.items()}, "the system")


def denied_calls() -> list[str]:
    """Return which system calls of MPI and NUMA placement are forbidden here, as they are in some containers."""
    if platform.machine() != "x86_64":
        return []
    call = ctypes.CDLL(None, use_errno=True).syscall
    source, target = ctypes.create_string_buffer(b"x"), ctypes.create_string_buffer(1)
    vector = ctypes.c_uint64 * 2
    local, remote = (vector(ctypes.addressof(buffer), 1) for buffer in (target, source))
    single, none = ctypes.c_ulong(1), ctypes.c_ulong(0)
    calls = {
        SYS_SET_MEMPOLICY: (ctypes.c_long(0), None, none),
        SYS_PROCESS_VM_READV: (ctypes.c_long(getpid()), local, single, remote, single, none),
    }
    names = {SYS_SET_MEMPOLICY: "set_mempolicy", SYS_PROCESS_VM_READV: "process_vm_readv"}
    denied = []
    for number, arguments in calls.items():
        ctypes.set_errno(0)
        if call(ctypes.c_long(number), *arguments) == -1 and ctypes.get_errno() in (errno.EPERM, errno.ENOSYS):
            denied.append(names[number])
    return denied


@check(
    WARNING,
    cause="MPI's shared memory or NUMA placement fails (process_vm_readv, set_mempolicy: Operation not permitted)",
    advice="Start the container with --cap-add=SYS_NICE --cap-add=SYS_PTRACE",
    gather=lambda _prefix: {"denied_calls": denied_calls()},
)
def system_calls(cluster: Cluster) -> Iterator[Found]:
    for host, info in cluster.infos.items():
        denied = info["denied_calls"]
        if denied:
            yield Found(host, f"{' and '.join(denied)} {'is' if len(denied) == 1 else 'are'} forbidden")
