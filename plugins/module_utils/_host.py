# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host is and whether it can do the work: read on the host, judged on the control machine."""

from __future__ import annotations

import ctypes
import fcntl
import ipaddress
import os
import platform
import re
import shutil
import socket
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _amx, _inventory

GIB = 2**30
# What Ansible puts before ssh's own words; which of the two depends on the moment at which ssh ended.
WRAPPING = re.compile(
    r"^(Task failed: )?(Data could not be sent to remote host .* over ssh: |Failed to connect to the host via ssh: )?"
)


def existing_ancestor(path: Path) -> Path:
    """Return `path`, or the nearest folder above it that is there."""
    while True:
        try:
            if path.exists():
                return path
        except PermissionError:
            pass  # it is behind a folder that this user may not enter
        path = path.parent


def addresses(route: Path = Path("/proc/net/route")) -> list[dict[str, Any]]:
    """Read the host's IPv4 addresses, also where the ip command is not installed.

    Returns one entry {interface, address, network (CIDR), default} for each; default tells whether the default route
    leaves by that interface. Asks the kernel by SIOCGIFCONF and SIOCGIFNETMASK (netdevice(7)); names are of 16 bytes,
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


def read(prefix: Path, cpuinfo: Path = Path("/proc/cpuinfo")) -> dict[str, Any]:
    """Read what a host says of itself.

    prefix: where the environments and jobs are to live; it need not be there yet.

    Returns machine (as uname -m), glibc ("2.36", or "" for another C library), isa (see _amx.ISAS), cpu_model, prefix,
    prefix_free_bytes, prefix_ancestor (the folder of prefix that is there), prefix_writable (by this process),
    addresses (see `addresses`).
    """
    text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    models = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    ancestor = existing_ancestor(prefix)
    library, version = platform.libc_ver()
    return {
        "machine": platform.machine(),
        "glibc": version if library == "glibc" else "",
        "isa": _amx.best_isa(_amx.cpu_flags(text)),
        "cpu_model": models[0] if models else "",
        "prefix": str(prefix),
        "prefix_ancestor": str(ancestor),
        "prefix_free_bytes": shutil.disk_usage(ancestor).free,
        "prefix_writable": ancestor.is_dir() and os.access(ancestor, os.W_OK | os.X_OK),
        "addresses": addresses(),
    }


def problems(
    host: str,
    facts: Mapping[str, Any],
    info: Mapping[str, Any],
    sudo: Mapping[str, Any],
    needed_bytes: int,
    become: bool,
    network: str,
    glibc: tuple[int, int] = (2, 28),
) -> list[dict[str, str]]:
    """Judge what a host answered: one entry {host, what, advice} for each thing that is in the way.

    facts, info, sudo: results of the tasks that gathered facts, ran `read` there (under the key "host") and tried sudo.
    needed_bytes: free space that must be on the prefix's file system. become: whether roles may use sudo, so that a
    folder which the user may not write is no hindrance. network: the cluster network as a CIDR, or "". glibc: the
    oldest that the wheels run with (manylinux_2_28 is torch's).
    """
    if facts.get("unreachable"):
        return _plain(
            host,
            (
                f"cannot be reached: {_message(facts)}",
                "Check its ansible_host and ansible_user, and that ssh from this machine to it works "
                "without a question",
            ),
        )
    for answer in (facts, info):
        if answer.get("failed"):
            return _plain(
                host,
                (f"could not be asked: {_message(answer)}", "It needs Python 3.9 or newer for Ansible's modules"),
            )
    return _plain(
        host, *_shortcomings(info["host"], sudo, needed_bytes, become, glibc), *_network(info["host"], network)
    )


def _message(result: Mapping[str, Any]) -> str:
    text = " ".join(str(result.get("msg") or result.get("module_stderr") or "no reason was given").split())
    return WRAPPING.sub("", text).rstrip(".")


def _plain(host: str, *found: tuple[str, str]) -> list[dict[str, str]]:
    return [{"host": host, "what": what, "advice": advice} for what, advice in found]


def _shortcomings(
    info: Mapping[str, Any], sudo: Mapping[str, Any], needed_bytes: int, become: bool, glibc: tuple[int, int]
) -> Iterator[tuple[str, str]]:
    if info["machine"] != "x86_64":
        yield f"its architecture is {info['machine']}", "The wheels are for x86_64 only"
    version = tuple(int(part) for part in info["glibc"].split(".")[:2]) if info["glibc"] else (0, 0)
    if version < glibc:
        yield (
            f"its C library is {'glibc ' + info['glibc'] if info['glibc'] else 'not glibc'}",
            f"The wheels need glibc {glibc[0]}.{glibc[1]} or newer (Debian 10, Ubuntu 20.04, RHEL 8)",
        )
    if info["prefix_free_bytes"] < needed_bytes:
        yield (
            f"{info['prefix_free_bytes'] / GIB:.1f} GiB are free for {info['prefix']} and "
            f"{needed_bytes / GIB:.1f} GiB are needed",
            f"Make room under {info['prefix_ancestor']}, or set cluster_prefix to a folder on a larger file system",
        )
    if not info["prefix_writable"] and not become:
        yield (
            f"the user cannot write {info['prefix_ancestor']}, where {info['prefix']} is to be made",
            "Set cluster_prefix to a folder of the user's, or cluster_become to true",
        )
    if become and sudo.get("failed"):
        yield (
            f"sudo does not work: {_message(sudo)}",
            "Let the user use sudo without a password, or run with --ask-become-pass, or set cluster_become to false",
        )


def _network(info: Mapping[str, Any], network: str) -> Iterator[tuple[str, str]]:
    try:
        _inventory.cluster_interface(info["addresses"], network)
    except ValueError as error:
        yield str(error), "Name in cluster_network the network over which ranks talk"
