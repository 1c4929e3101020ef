# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fabrics of hosts: which fast networks they have, whether MPI can use them, and which one all hosts of a job share.

The kernel lists RDMA devices in /sys/class/infiniband (Documentation/ABI/stable/sysfs-class-infiniband; the formats are
those of drivers/infiniband/core/sysfs.c): `ports/N/state` is "4: ACTIVE" on a port that carries data, `phys_state`
"5: LinkUp", `rate` "200 Gb/sec (4X HDR)", `link_layer` InfiniBand, Ethernet or Unknown, `node_type` "1: CA", and
"4: RNIC" of iWARP. Programs open /dev/infiniband/uverbsN, whose device is in /sys/class/infiniband_verbs/uverbsN/ibdev.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.amx.cluster.plugins.module_utils._text import size

INFINIBAND, ROCE, IWARP, OMNI_PATH, EFA = "InfiniBand", "RoCE", "iWARP", "Omni-Path", "EFA"
AUTO, TCP = "auto", "tcp"
# The links that each fabric works over, as libfabric's provider of that name does. Intel's guide (OFI providers
# support) has mlx for NVIDIA's InfiniBand, psm2 for Omni-Path, and psm3 for Ethernet; libfabric's fi_verbs(7) has verbs
# for any verbs device. That mlx works over RoCE is not checked: its library reads the vendor, not the link layer.
FABRICS: dict[str, tuple[str, ...]] = {
    "psm3": (ROCE,),
    "mlx": (INFINIBAND, ROCE),
    "efa": (EFA,),
    "verbs": (INFINIBAND, ROCE, IWARP),
    "psm2": (OMNI_PATH,),
}
VALUES = (AUTO, TCP, *FABRICS)
# What `auto` takes, the first that all hosts have.
PREFERRED = (
    ("efa", EFA),
    ("psm2", OMNI_PATH),
    ("mlx", INFINIBAND),
    ("verbs", INFINIBAND),
    ("psm3", ROCE),
    ("verbs", ROCE),
    ("verbs", IWARP),
)
# PCI vendors (drivers/infiniband/hw/efa/efa_main.c, include/linux/pci_ids.h).
AMAZON, MELLANOX, INTEL = "0x1d0f", "0x15b3", "0x8086"
# PCI devices of Intel's Omni-Path adapters (drivers/infiniband/hw/hfi1/chip.h).
HFI1 = ("0x24f0", "0x24f1")
# The part of the memory that each rank must be allowed to lock: an estimate of what is never all sent from.
LOCKABLE = 0.5
# What has the libraries that libfabric's providers load, on Debian and Ubuntu, and on RHEL.
PACKAGES = {
    "libucp.so.0": "UCX (libucx0 on Debian and Ubuntu, ucx and ucx-ib on RHEL)",
    "libibverbs.so.1": "libibverbs (libibverbs1 and ibverbs-providers on Debian and Ubuntu, libibverbs on RHEL)",
    "librdmacm.so.1": "librdmacm (librdmacm1 on Debian and Ubuntu, librdmacm on RHEL)",
    "libefa.so.1": "libefa (ibverbs-providers on Debian and Ubuntu, libibverbs on RHEL, or the installer of EFA)",
    "libpsm2.so.2": "libpsm2 (libpsm2-2 on Debian and Ubuntu, libpsm2 on RHEL)",
}


@dataclass(frozen=True)
class Port:
    """A port of an RDMA device. vendor: of its PCI device, empty for a device that is software. link: one of the links
    above, or what the kernel calls it. interfaces: the device's network interfaces. closed: the file in /dev that this
    user cannot open, or an empty string."""

    device: str
    number: int
    vendor: str
    link: str
    state: str
    physical: str
    rate: str
    interfaces: tuple[str, ...]
    closed: str

    def __str__(self) -> str:
        return f"{self.device} port {self.number}"

    @property
    def active(self) -> bool:
        """Return whether the port carries data."""
        return self.state == "ACTIVE"


class Lack(NamedTuple):
    """Obstacle to a fabric on a host ("no active port"), and what to do, without a full stop."""

    text: str
    advice: str


@dataclass(frozen=True)
class Choice:
    """The fabric of a job: tcp, or one of FABRICS. note: what to say about it, empty for nothing."""

    name: str
    note: str = ""


def read(root: str = "/", memory_bytes: int = 0) -> dict[str, Any]:
    """Read the RDMA devices of this host, and how much memory a process of this user may lock.

    root: where sys and dev are, for a captured machine. Returns {ports: [a Port as a dict], memlock_bytes (None for no
    limit), memory_bytes}.
    """
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    return {
        "ports": [asdict(port) for port in ports(Path(root))],
        "memlock_bytes": None if limit == resource.RLIM_INFINITY else limit,
        "memory_bytes": memory_bytes,
    }


def ports(root: Path) -> list[Port]:
    """Return the ports of all RDMA devices below `root`, sorted by device and number."""
    ports = []
    for device in sorted(root.glob("sys/class/infiniband/*")):
        vendor = _text(device / "device/vendor")
        interfaces = tuple(sorted(path.name for path in device.glob("device/net/*")))
        closed = _closed(root, device.name)
        for port in sorted(device.glob("ports/*"), key=lambda path: int(path.name)):
            ports.append(
                Port(
                    device.name,
                    int(port.name),
                    vendor,
                    _link(device, vendor, _text(port / "link_layer")),
                    _word(_text(port / "state")),
                    _word(_text(port / "phys_state")),
                    _text(port / "rate"),
                    interfaces,
                    closed,
                )
            )
    return ports


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _word(text: str) -> str:
    """The word of a value that the kernel writes as "4: ACTIVE"."""
    return text.partition(":")[2].strip() or text


def _link(device: Path, vendor: str, layer: str) -> str:
    if vendor == AMAZON:
        return EFA
    if device.name.startswith("hfi1_") or (vendor == INTEL and _text(device / "device/device") in HFI1):
        return OMNI_PATH
    if layer == "Ethernet":
        return IWARP if _word(_text(device / "node_type")) == "RNIC" else ROCE
    return layer or "Unknown"


def _closed(root: Path, device: str) -> str:
    """Return the file through which programs use a device, where this user may not; empty where it may."""
    verbs = [path.parent.name for path in root.glob("sys/class/infiniband_verbs/*/ibdev") if _text(path) == device]
    names = [f"infiniband/{name}" for name in sorted(verbs)] or [f"infiniband/uverbs of {device}"]
    if device.startswith("hfi1_"):
        names.append(device)
    return next((f"/dev/{name}" for name in names if not os.access(root / "dev" / name, os.R_OK | os.W_OK)), "")


def possible(facts: Mapping[str, Any]) -> list[str]:
    """Return the fabrics that this host has an adapter for, whatever else they need."""
    links = {port.link for port in _ports(facts)}
    return [name for name, own in FABRICS.items() if links.intersection(own)]


def find_lack(name: str, link: str, facts: Mapping[str, Any]) -> Lack | None:
    """Return why a host cannot use a fabric over a link; None when it can.

    facts: as `read` returns them, with `providers`, {fabric: why libfabric does not have it, or ""}, where a virtual
    environment is installed. An empty mapping stands for a host that has nothing.
    """
    named = [port for port in _ports(facts) if port.link == link]
    suitable = [port for port in named if name != "mlx" or port.vendor == MELLANOX]
    if not suitable:
        other = f" that {name} works with: {', '.join(map(str, named))}" if named else ""
        return Lack(
            f"no {link} adapter{other}",
            "check with lspci and dmesg that the adapter and its driver are there",
        )
    active = [port for port in suitable if port.active]
    if not active:
        states = ", ".join(f"{port} is {port.state} ({port.physical})" for port in suitable)
        manager = ", and that a subnet manager runs" if link in (INFINIBAND, OMNI_PATH) else ""
        return Lack(f"no active {link} port: {states}", f"check cable and switch{manager}")
    lacks = list(filter(None, (_closed_lack(active), _provider_lack(name, facts), _memlock_lack(facts))))
    if not lacks:
        return None
    return Lack(", and ".join(lack.text for lack in lacks), "; ".join(lack.advice for lack in lacks))


def _closed_lack(active: Sequence[Port]) -> Lack | None:
    if not all(port.closed for port in active):
        return None
    return Lack(
        f"no access to {active[0].closed}, through which programs use {active[0].device}",
        "give the user of the jobs read and write access to it (udev rules of rdma-core; --device for a container)",
    )


def _provider_lack(name: str, facts: Mapping[str, Any]) -> Lack | None:
    why = facts.get("providers", {}).get(name, "")
    if not why:
        return None
    library = why.split()[0]
    advice = (
        f"install {PACKAGES[library]}"
        if library in PACKAGES
        else "check with ibv_devinfo that programs see the adapter"
    )
    return Lack(f"no provider {name} in libfabric: {why}", advice)


def _memlock_lack(facts: Mapping[str, Any]) -> Lack | None:
    limit = facts.get("memlock_bytes")
    if limit is None or limit >= LOCKABLE * facts.get("memory_bytes", 0):
        return None
    return Lack(
        f"a limit of {size(limit)} for locked memory, which fabrics send from",
        "set memlock to unlimited (site.yml does, see host_tuning_memlock) and log in again",
    )


def find_lack_everywhere(name: str, facts: Mapping[str, Any]) -> Lack | None:
    """Return why a host cannot use a fabric over any of its links; None when it can."""
    links = {port.link for port in _ports(facts)}
    lacks = {}
    for link in FABRICS[name]:
        lack = find_lack(name, link, facts)
        if lack is None:
            return None
        lacks[link] = lack
    there = next((lack for link, lack in lacks.items() if link in links), None)
    return there or Lack(f"no {' or '.join(lacks)} adapter", lacks[FABRICS[name][0]].advice)


def choose(wanted: str, hosts: Mapping[str, Mapping[str, Any]], backend: str = "", uses_it: bool = True) -> Choice:
    """Return the fabric of a job.

    wanted: one of VALUES. hosts: {host: its facts, see find_lack}. backend: the job's. uses_it: whether that one
    exchanges tensors through MPI; others use TCP whatever there is. Raises ValueError when a host does not have the
    fabric that is wanted.
    """
    if wanted == TCP:
        return Choice(TCP)
    if wanted != AUTO:
        refused = refusal(wanted, hosts)
        if refused:
            raise ValueError(refused)
        return Choice(wanted) if uses_it else Choice(TCP, _unused(wanted, backend))
    share = shared(hosts)
    if share and not uses_it:
        return Choice(TCP, _unused(share, backend))
    if share or not uses_it:
        return Choice(share or TCP)
    return Choice(TCP, fallback(hosts))


def shared(hosts: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the first fabric of PREFERRED that all hosts have; empty without one, and for a host alone."""
    if len(hosts) < 2:
        return ""
    for name, link in PREFERRED:
        if not any(find_lack(name, link, _hardware(facts)) for facts in hosts.values()):
            return name
    return ""


def kept_back(hosts: Mapping[str, Mapping[str, Any]]) -> tuple[str, str, dict[str, Lack]]:
    """Return (fabric, link, {host: what it lacks}) of the fabric that some host has hardware for, and not all can use.

    Both names are empty where there is none: no host has a fabric, or all can use one.
    """
    if len(hosts) > 1 and not shared(hosts):
        links = {port.link for facts in hosts.values() for port in _ports(_hardware(facts))}
        for name, link in PREFERRED:
            if link in links:
                lacks = {host: find_lack(name, link, _hardware(facts)) for host, facts in hosts.items()}
                return name, link, {host: lack for host, lack in lacks.items() if lack}
    return "", "", {}


def fallback(hosts: Mapping[str, Mapping[str, Any]]) -> str:
    """Return which hosts keep all on TCP although there is a fabric, and why; empty where that is not so."""
    name, link, lacks = kept_back(hosts)
    if not lacks:
        return ""
    reasons = "; ".join(f"{_have(names)} {lack.text} ({lack.advice})" for lack, names in _alike(lacks).items())
    return (
        f"all ranks communicate over TCP instead of {link} ({name}), because {reasons}. cluster_fabric: tcp accepts "
        "that, without this note"
    )


def refusal(wanted: str, hosts: Mapping[str, Mapping[str, Any]]) -> str:
    """Return why hosts cannot use the fabric that the inventory names; empty when they can."""
    lacks = {host: lack for host, facts in hosts.items() if (lack := find_lack_everywhere(wanted, facts))}
    if lacks:
        lines = [f"- {_have(names)} {lack.text}: {lack.advice}" for lack, names in _alike(lacks).items()]
        return "\n".join(
            [
                f"cluster_fabric is {wanted}, which not all hosts can use (with auto, jobs would use TCP then):",
                *lines,
            ]
        )
    links = {
        host: [link for link in FABRICS[wanted] if not find_lack(wanted, link, facts)] for host, facts in hosts.items()
    }
    if any(all(link in own for own in links.values()) for link in FABRICS[wanted]):
        return ""
    described = ", ".join(f"{' and '.join(own)} on {host}" for host, own in links.items())
    return f"cluster_fabric is {wanted}, and its hosts share no network ({described}): set cluster_fabric to tcp"


def described(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (link and device, its state) of each port of a host."""
    rows = []
    for port in _ports(facts):
        kind = port.link if port.vendor else f"{port.link} in software"
        state = f"{port.state} ({port.physical}), {port.rate}" if port.active else f"{port.state} ({port.physical})"
        interfaces = f" ({', '.join(port.interfaces)})" if port.interfaces else ""
        rows.append((f"{kind} {port}{interfaces}", state))
    return rows


def lockable(facts: Mapping[str, Any]) -> str:
    """Return how much memory a process may lock."""
    limit = facts.get("memlock_bytes")
    return "unlimited" if limit is None else size(limit)


def _unused(name: str, backend: str) -> str:
    if backend == "ccl":
        return (
            "backend ccl communicates over TCP without mpirun, whatever fabric there is; with launcher: mpirun, ranks "
            f"would use {name}"
        )
    return (
        f"backend {backend} communicates over TCP whatever fabric there is; with a backend that uses MPI, ranks would "
        f"use {name}"
    )


def _ports(facts: Mapping[str, Any]) -> list[Port]:
    return [Port(**{**port, "interfaces": tuple(port["interfaces"])}) for port in facts.get("ports", [])]


def _hardware(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts without devices that are software, which are slower than TCP (Soft-RoCE, Soft-iWARP)."""
    return {**facts, "ports": [port for port in facts.get("ports", []) if port["vendor"]]}


def _alike(lacks: Mapping[str, Lack]) -> dict[Lack, Sequence[str]]:
    alike: dict[Lack, list[str]] = {}
    for host, lack in lacks.items():
        alike.setdefault(lack, []).append(host)
    return dict(alike)


def _have(hosts: Sequence[str]) -> str:
    return f"{', '.join(hosts)} {'has' if len(hosts) == 1 else 'have'}"
