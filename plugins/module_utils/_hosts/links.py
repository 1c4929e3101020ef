# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nominal speeds of network interfaces, as the kernel has them in /sys/class/net.

`speed` is in Mbit/s, -1 or unreadable where the driver knows none (Documentation/ABI/testing/sysfs-class-net). Bonds,
VLANs and bridges have links `lower_NAME` to the interfaces below them. An interface with hardware has a link `device`;
a veth or a tunnel has none, and a speed that means nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from ansible_collections.amx.cluster.plugins.module_utils._hosts import fabrics

RATE = re.compile(r"([\d.]+) Gb/sec")


def read(interfaces: Iterable[str], root: str = "/") -> dict[str, int | None]:
    """Return {interface: nominal speed in Mbit/s, None where it is unknown}. root: where sys is."""
    rates = _infiniband(Path(root))
    return {name: _speed(Path(root, "sys/class/net"), name, rates, ()) for name in dict.fromkeys(interfaces)}


def _speed(net: Path, name: str, rates: dict[str, int], above: tuple[str, ...]) -> int | None:
    """The speed of an interface. above: those that lie on it, against loops."""
    if name in rates:
        return rates[name]
    if (net / name / "device").exists():
        return _own_speed(net / name)
    lower = [path.name.partition("_")[2] for path in sorted((net / name).glob("lower_*"))]
    hardware = [
        speed
        for interface in lower
        if interface not in above
        if (speed := _speed(net, interface, rates, (*above, name)))
    ]
    # Virtual interfaces of a bridge, such as those of containers, carry nothing to other hosts.
    if not hardware:
        return None
    # One connection goes through one interface of a bond, and a bond's own speed is that of all together.
    return min(hardware)


def _own_speed(interface: Path) -> int | None:
    try:
        speed = int((interface / "speed").read_text(encoding="ascii"))
    except (OSError, ValueError):  # the link is down, or the driver has none
        return None
    # 4294967295 is -1 of kernels that print it without a sign.
    return speed if 0 < speed < 2**31 else None


def _infiniband(root: Path) -> dict[str, int]:
    """The rates of InfiniBand ports by network interface, in Mbit/s; that of the fastest active port of a device."""
    rates: dict[str, int] = {}
    for port in fabrics.ports(root):
        rate = RATE.match(port.rate)
        if rate and port.active and port.link in (fabrics.INFINIBAND, fabrics.OMNI_PATH):
            for name in port.interfaces:
                rates[name] = max(rates.get(name, 0), round(float(rate[1]) * 1000))
    return rates
