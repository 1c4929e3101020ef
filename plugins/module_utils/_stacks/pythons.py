# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Python the virtual environment of each host is made with: the same minor version everywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from ansible_collections.amx.cluster.plugins.module_utils._hosts import systems
from ansible_collections.amx.cluster.plugins.module_utils._text import names

DIRECTORIES = ("/usr/bin", "/usr/local/bin")
# What an interpreter says of itself; one without the module venv makes no virtual environment.
ASK = "import json, sys, venv; print(json.dumps([sys.executable, '%d.%d' % sys.version_info[:2]]))"


class Host(NamedTuple):
    """Pythons of a host. own: the minor version of the Python that Ansible uses, and its path. others: paths of further
    Pythons by minor version. fixed: the minor version and the path that torch_stack_python names. error: why that one
    does not run. system: as the host reports it, "rocky 9.4"."""

    own: tuple[str, str]
    others: Mapping[str, str] = MappingProxyType({})
    fixed: tuple[str, str] | None = None
    error: str = ""
    system: str = ""


class Choice(NamedTuple):
    """The Python of a host: its path, and the package to install first, or ""."""

    path: str
    package: str


def ask(path: str) -> tuple[str, str]:
    """Return (minor version, path) of an interpreter. Raises ValueError where it does not run."""
    try:
        ran = subprocess.run([path, "-c", ASK], capture_output=True, text=True, timeout=30, check=False)
        executable, version = json.loads(ran.stdout)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ValueError(f"{path} does not run: {error}") from None
    except ValueError:
        lines = ran.stderr.strip().splitlines() or [f"exit code {ran.returncode}"]
        raise ValueError(f"{path} cannot make virtual environments: {lines[-1]}") from None
    return version, executable


def installed(directories: Iterable[str] = DIRECTORIES) -> dict[str, str]:
    """Return {minor version: path} of the interpreters named python3.N in these directories that run."""
    pythons: dict[str, str] = {}
    for directory in directories:
        for path in sorted(Path(directory).glob("python3.[0-9]*")):
            if not path.name.removeprefix("python3.").isdigit() or not os.access(path, os.X_OK):
                continue
            try:
                version, _executable = ask(str(path))
            except ValueError:
                continue
            pythons.setdefault(version, str(path))
    return pythons


def gather(fixed: str, directories: Iterable[str] = DIRECTORIES) -> dict[str, Any]:
    """Return {own, others, fixed, error} of this host, see Host. fixed: a path in place of all others, or ""."""
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    made: dict[str, Any] = {"own": [own, sys.executable], "fixed": [], "error": ""}
    if fixed:
        try:
            made["fixed"] = list(ask(fixed))
        except ValueError as error:
            made["error"] = str(error)
    return {**made, "others": {} if fixed else installed(directories)}


def ways(host: Host, install: bool) -> dict[str, Choice]:
    """Return {minor version: how the host comes to it}, what is there before what is installed.

    install: whether packages may be installed.
    """
    if host.error:
        return {}
    if host.fixed:
        return {host.fixed[0]: Choice(host.fixed[1], "")}
    found_ways = {host.own[0]: Choice(host.own[1], "")}
    for version, path in host.others.items():
        found_ways.setdefault(version, Choice(path, ""))
    if install:
        for version, package in systems.newer(host.system).items():
            found_ways.setdefault(version, Choice(f"{systems.DIRECTORY}/python{version}", package))
    return found_ways


def choose(hosts: Mapping[str, Host], wanted: Collection[str], install: bool) -> tuple[str, dict[str, Choice]]:
    """Choose the Python of all hosts: (minor version, {host: its Python}).

    Ranks of one job need the same minor version. Of those that all hosts can have it is the one for which the fewest
    install a package, then the one that is most hosts' own, then the first in the order of the first host's ways.
    wanted: the minor versions with wheels. install: whether packages may be installed. Raises ValueError that names
    the hosts that have none of them, or that have no common one.
    """
    possible = {
        host: {version: choice for version, choice in ways(described, install).items() if version in wanted}
        for host, described in hosts.items()
    }
    without = [host for host, choices in possible.items() if not choices]
    if without:
        raise ValueError("\n".join(_unfit(host, hosts[host], wanted, install) for host in without))
    order = list(next(iter(possible.values())))
    common = [version for version in order if all(version in choices for choices in possible.values())]
    if not common:
        raise ValueError(_different(possible))
    version = min(
        common,
        key=lambda minor: (
            sum(bool(choices[minor].package) for choices in possible.values()),
            sum(described.own[0] != minor for described in hosts.values()),
        ),
    )
    return version, {host: choices[version] for host, choices in possible.items()}


def _unfit(name: str, host: Host, wanted: Collection[str], install: bool) -> str:
    """Return why a host has no Python of the stack, and what to do."""
    listed = ", ".join(wanted)
    if host.error:
        return f"- {name}: torch_stack_python: {host.error}"
    if host.fixed:
        return (
            f"- {name}: torch_stack_python is {host.fixed[1]}, which is Python {host.fixed[0]}, and the stack has "
            f"wheels for Python {listed}: name another one"
        )
    offered = [version for version in systems.newer(host.system) if version in wanted]
    if offered and not install:
        remedy = f"install the package python{offered[0]} there (roles may not use sudo), or "
    else:
        remedy = ""
    has = ", ".join(dict.fromkeys([host.own[0], *host.others]))
    return (
        f"- {name} ({host.system or 'unknown system'}) has Python {has}, and the stack has wheels for Python {listed}: "
        f"{remedy}set torch_stack_python to the path of such a Python on this host"
    )


def _different(possible: Mapping[str, Mapping[str, Choice]]) -> str:
    """Return which hosts can have which Pythons, where they have none in common."""
    groups: dict[str, list[str]] = {}
    for host, choices in possible.items():
        groups.setdefault(", ".join(choices), []).append(host)
    lines = [f"- Python {versions}: {names(hosts)}" for versions, hosts in groups.items()]
    return "\n".join(
        [
            "ranks of one job need the same Python, and these hosts can have no common one for this stack:",
            *lines,
            "Install a common one and set torch_stack_python to its path, or make a cluster of each group",
        ]
    )


def described(reported: Mapping[str, Any]) -> Host:
    """Return a host of the facts that host_info returned there: {pythons, os}."""
    pythons = reported["pythons"]
    fixed = [str(value) for value in pythons["fixed"]]
    return Host(
        (str(pythons["own"][0]), str(pythons["own"][1])),
        {str(version): str(path) for version, path in pythons["others"].items()},
        (fixed[0], fixed[1]) if fixed else None,
        str(pythons["error"]),
        str(reported["os"]),
    )
