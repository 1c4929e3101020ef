# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operating systems that hosts may have: names of packages, the Python of each, and the newer ones it offers.

Roles, checks, the roles' metadata and docs/operating_systems.md take these from here alone. Nothing is known of other
systems, and their hosts are refused unless cluster_unknown_os is ALLOW.
"""

from __future__ import annotations

from typing import Any, NamedTuple

# The values of cluster_unknown_os.
REFUSE, ALLOW = "refuse", "allow"
# Where the distributions put the interpreter of a package such as python3.12.
DIRECTORY = "/usr/bin"


class System(NamedTuple):
    """An operating system in one major version.

    names: what people call it. ids, version: ID of /etc/os-release, and the beginning of VERSION_ID. python: the
    minor version of its own Python. newer: minor versions that it has besides, the preferred one first, as packages
    python3.N. newer_from: what a host needs for them. tcmalloc: the package, without its profilers where they are
    separate. tcmalloc_from: the package source that must be enabled for it. seen: how far this project has seen the
    system work. unchecked: what of this row was not compared with data of the distribution.
    """

    names: tuple[str, ...]
    ids: tuple[str, ...]
    version: str
    python: str
    newer: tuple[str, ...]
    newer_from: str
    tcmalloc: str
    tcmalloc_from: str = ""
    seen: str = "package names"
    unchecked: str = ""

    @property
    def title(self) -> str:
        return f"{', '.join(self.names)} {self.version}"


EL_NAMES, EL_IDS = ("RHEL", "Rocky Linux", "AlmaLinux", "CentOS Stream"), ("rhel", "rocky", "almalinux", "centos")
SYSTEMS = (
    System(
        ("Debian",),
        ("debian",),
        "12",
        python="3.11",
        newer=(),
        newer_from="",
        tcmalloc="libtcmalloc-minimal4",
        seen="all scenarios",
    ),
    System(
        ("Debian",),
        ("debian",),
        "13",
        python="3.13",
        newer=(),
        newer_from="",
        tcmalloc="libtcmalloc-minimal4t64",
        seen="the scenario trust, a job on two hosts",
    ),
    System(
        ("Ubuntu",),
        ("ubuntu",),
        "22.04",
        python="3.10",
        newer=("3.11",),
        newer_from="universe (a release candidate of 3.11.0)",
        tcmalloc="libtcmalloc-minimal4",
    ),
    System(
        ("Ubuntu",),
        ("ubuntu",),
        "24.04",
        python="3.12",
        newer=(),
        newer_from="",
        tcmalloc="libtcmalloc-minimal4t64",
    ),
    System(
        EL_NAMES,
        EL_IDS,
        "9",
        python="3.9",
        newer=("3.12", "3.11"),
        newer_from="AppStream of 9.4 or later (3.11: 9.2)",
        tcmalloc="gperftools-libs",
        tcmalloc_from="EPEL",
    ),
    System(
        EL_NAMES,
        EL_IDS,
        "10",
        python="3.12",
        newer=(),
        newer_from="",
        tcmalloc="gperftools-libs",
        tcmalloc_from="EPEL",
    ),
    System(
        ("Amazon Linux",),
        ("amzn",),
        "2023",
        python="3.9",
        newer=("3.11", "3.12", "3.13", "3.14"),
        newer_from="its own repository",
        tcmalloc="gperftools-libs",
        unchecked="the package of tcmalloc",
    ),
)


def find(name: str) -> System | None:
    """Return the system of a host, which reports "ID VERSION_ID" ("rocky 9.4"), or None if it is not known."""
    identifier, _space, version = name.partition(" ")
    for system in SYSTEMS:
        if identifier in system.ids and f"{version}.".startswith(f"{system.version}."):
            return system
    return None


def packages(name: str) -> dict[str, str]:
    """Return {what roles install: its package} for a host that reports this name; of an unknown system only those that
    have the same name on all that are known."""
    system = find(name)
    return {"nftables": "nftables", **({"tcmalloc": system.tcmalloc} if system else {})}


def newer(name: str) -> dict[str, str]:
    """Return {minor version: package} of the Pythons that a host may install besides its own, preferred ones first."""
    system = find(name)
    return {version: f"python{version}" for version in system.newer} if system else {}


def known() -> str:
    """Return the known systems, for messages."""
    by_names: dict[tuple[str, ...], list[str]] = {}
    for system in SYSTEMS:
        by_names.setdefault(system.names, []).append(system.version)
    return "; ".join(f"{', '.join(titles)} {' and '.join(versions)}" for titles, versions in by_names.items())


def describe(name: str) -> dict[str, Any]:
    """Return what roles need of a host's system: whether it is known, and packages() of it."""
    return {"known": find(name) is not None, "packages": packages(name)}


# What to do about an unknown system, without a full stop.
ADVICE = (
    f"Use a known system ({known()}), or set cluster_unknown_os to {ALLOW} in the inventory to go on at your own risk: "
    "then neither tcmalloc nor a newer Python is installed on such a host (docs/operating_systems.md)"
)
