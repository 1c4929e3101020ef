# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answer what the plan of a job needs of a host, in one call, since the start of a job waits for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._cores import memory
from ansible_collections.amx.cluster.plugins.module_utils._cores.allocation import Request
from ansible_collections.amx.cluster.plugins.module_utils._cores.core_map import described
from ansible_collections.amx.cluster.plugins.module_utils._cores.host_allocation import allocate_host
from ansible_collections.amx.cluster.plugins.module_utils._hosts import loader
from ansible_collections.amx.cluster.plugins.module_utils._io import read_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import archive, directory, processes
from ansible_collections.amx.cluster.plugins.module_utils._jobs.inference_requests import CORES
from ansible_collections.amx.cluster.plugins.module_utils._jobs.servers import held
from ansible_collections.amx.cluster.plugins.module_utils._stacks import catalogue, venv


def answer(prefix: str, host: str, question: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the plan of a job needs of this host.

    prefix: the directory for virtual environments and jobs. host: this host's name in the inventory. question: as
    requests.question returns it. Raises OSError and ValueError.
    """
    base = Path(prefix)
    jobs, starting, example = base / "jobs", question["starting"], question["example"]
    request = question["request"] if host in question["hosts"] else None
    return {
        **of_plan(base, question["backends"], question["runtime"], request, held.cpus(jobs, host, starting)),
        "jobs": directory.jobs(jobs),
        "previous": directory.previous(jobs / starting),
        "verified": read_json(jobs / starting / directory.VERIFIED) or {},
        "example": _example(base / "examples", example) if example else {},
        **processes.locked(jobs, host, starting),
    }


def of_plan(
    base: Path,
    backends: Mapping[str, str],
    runtime: str,
    request: Mapping[str, Any] | None,
    in_use: Mapping[str, frozenset[int]] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return what the plan itself needs of this host, without a look at the jobs on it.

    base: the directory for virtual environments and jobs. backends, runtime, request: as in requests.question; without
    a request no cores are allocated. in_use: the CPUs that this host's servers have, as held.cpus returns them.
    """
    path, stack = venv.active_stack(base)
    return {
        "venv": path,
        "runtime": str(base / archive.DIRECTORY / runtime),
        "stack": stack,
        "allocation": {} if request is None else _allocate(request, backends[catalogue.backend_key(stack)], in_use),
        "tcmalloc": loader.tcmalloc(),
        "memory_bytes": memory.total(Path("/")),
    }


def _allocate(request: Mapping[str, Any], backend: str, in_use: Mapping[str, frozenset[int]]) -> dict[str, Any]:
    """Return the allocation of the cores, as the module core_allocation returns it, and the host's memory.

    {failed, msg} where the request does not fit: all hosts share one message.
    """
    wanted = dict(request)
    cores = wanted.pop(CORES, None)
    try:
        made = described(allocate_host(Request(**wanted, backend=backend), cores, in_use))
        seen = memory.read(Path("/")).to_json()
    except ValueError as error:
        return {"failed": True, "msg": str(error)}
    return {**made, "memory": seen}


def _example(examples: Path, script: str) -> dict[str, Any]:
    """Return {exists: whether the script is there, examples: whether any are, link: where they are, requirements}."""
    listed = examples / Path(script).parent / "requirements.txt"
    return {
        "exists": (examples / script).exists(),
        "examples": examples.exists(),
        "link": str(examples.resolve()),
        "requirements": listed.read_text(encoding="utf-8").splitlines() if listed.exists() else [],
    }
