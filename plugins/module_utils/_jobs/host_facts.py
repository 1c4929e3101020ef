# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answer what there is to know about a host: hardware, system, software, fabrics, and the jobs on it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._hosts import fabrics, facts, links, login_shell, services
from ansible_collections.amx.cluster.plugins.module_utils._jobs import processes
from ansible_collections.amx.cluster.plugins.module_utils._stacks import installed, pythons

# The options of the module host_info, as Ansible checks them.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "prefix": {"type": "path", "required": True},
    "python": {"type": "list", "elements": "str"},
    "amx_root": {"type": "path", "default": "/"},
    "system_root": {"type": "path", "default": "/"},
    "stack_python": {"type": "path"},
    "fabric_root": {"type": "path", "default": "/"},
    "address": {"type": "str", "default": ""},
    "reached": {"type": "str", "default": ""},
    "network": {"type": "str", "default": ""},
    "interpreters": {"type": "bool", "default": True},
    "software": {"type": "bool", "default": True},
    "slurm": {"type": "bool", "default": False},
}


def hardware(
    base: Path,
    python: Sequence[str] = (),
    amx_root: str = "/",
    system_root: str = "/",
    fabric_root: str = "/",
    address: str = "",
    reached: str = "",
    network: str = "",
    slurm: bool = False,
) -> dict[str, Any]:
    """Return what there is to know about this host without a look at the jobs on it. Raises OSError and ValueError."""
    own = facts.read(base, python, amx_root, system_root, address, reached, network, slurm)
    fabric = fabrics.read(fabric_root, own["memory_bytes"])
    providers = installed.unusable_fabrics(base / "env", fabrics.possible(fabric))
    return {**own, "fabric": {**fabric, "providers": providers}}


def answer(
    prefix: str,
    python: Sequence[str] | None = None,
    amx_root: str = "/",
    system_root: str = "/",
    stack_python: str | None = None,
    fabric_root: str = "/",
    address: str = "",
    reached: str = "",
    network: str = "",
    interpreters: bool = True,
    software: bool = True,
    slurm: bool = False,
) -> dict[str, Any]:
    """Return {host: facts} of this host, for options as the module host_info documents them.

    Raises ValueError where they cannot be gathered.
    """
    base = Path(prefix)
    try:
        jobs_here = processes.find_in(base / "jobs")
        own = hardware(base, python or (), amx_root, system_root, fabric_root, address, reached, network, slurm)
        host = {
            **own,
            "stack": installed.describe(base / "env", software),
            "links": links.read([row["interface"] for row in own["addresses"]], fabric_root),
            # What only the set-up of a host looks at.
            **({"pythons": pythons.gather(stack_python or ""), "services": services.running()} if interpreters else {}),
            "login_variables": login_shell.exported() if software else {},
            "processes": jobs_here,
            "running_jobs": processes.running_jobs(base / "jobs", jobs_here),
        }
    except (OSError, ValueError) as error:
        raise ValueError(f"facts about the host cannot be gathered: {error}") from None
    return {"host": host}
