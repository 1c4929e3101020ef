# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages and libfabric providers of a virtual environment."""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._io import read_json
from ansible_collections.amx.cluster.plugins.module_utils._stacks import intel_mpi, libfabric
from ansible_collections.amx.cluster.plugins.module_utils._stacks.requirements import canonical
from ansible_collections.amx.cluster.plugins.module_utils._stacks.venv import MARKER


def describe(env: Path, software: bool = True) -> dict[str, Any]:
    """Describe the virtual environment that `env` points to; empty when it is not there.

    Returns {env (its own directory), key, name, path (see own_env), pinned: {package: version}}, and with `software`
    also {versions: what is installed, providers: the libfabric providers as "NAME of INTERFACE", provider_error}.
    """
    marker = read_json(env / MARKER)
    if marker is None:
        return {}
    described = {
        "env": str(env.resolve()),
        "key": marker.get("key", ""),
        "name": marker.get("name", ""),
        "path": marker.get("path", ""),
        "pinned": {canonical(name): version for name, version in marker.get("packages", {}).items()},
    }
    if not software:
        return described
    providers, error = fabric_providers(env.resolve(), marker.get("mpi", {}))
    return {
        **described,
        "versions": packages([str(path) for path in env.glob("lib/python3*/site-packages")]),
        "providers": providers,
        "provider_error": error,
    }


def unusable_fabrics(env: Path, names: Sequence[str]) -> dict[str, str]:
    """Return {fabric: why the libfabric of a virtual environment cannot use it here, or ""}; empty without one."""
    marker = read_json(env / MARKER)
    if marker is None:
        return {}
    return libfabric.unusable(marker.get("mpi") or intel_mpi.mpi_environment(str(env.resolve())), names)


def packages(path: Sequence[str]) -> dict[str, str]:
    """Return {package: version} of what is installed in the directories of a library path; the first one counts."""
    versions: dict[str, str] = {}
    for distribution in importlib.metadata.distributions(path=list(path)):
        name = distribution.metadata["Name"]
        if name:
            versions.setdefault(canonical(name), distribution.version)
    return versions


def requires(package: str, path: Sequence[str]) -> list[str]:
    """Return what a package that is installed in a library path requires, as its metadata has it."""
    for distribution in importlib.metadata.distributions(path=list(path)):
        if canonical(distribution.metadata["Name"] or "") == package:
            return list(distribution.requires or [])
    return []


def fabric_providers(env: Path, mpi: Mapping[str, str], provider: str = "tcp") -> tuple[list[str], str]:
    """Ask libfabric in a virtual environment for a provider: (sorted "NAME of INTERFACE", why there is none or "").

    mpi: the variables of Intel MPI that are recorded, see intel_mpi. Both are empty where the environment's Intel MPI
    brings no program fi_info along.
    """
    variables = dict(mpi) or intel_mpi.mpi_environment(str(env))
    # bin/fi_info of the wheel is a wrapper for another layout of directories.
    tool = env / "bin" / "libfabric" / "fi_info"
    if mpi:
        known = shutil.which("fi_info", path=variables["PATH"]) or ""
        if env not in Path(known).parents:
            return [], ""
        tool = Path(known)
    try:
        ran = subprocess.run(
            [str(tool), "-p", provider],
            env=variables,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return [], f"{tool} does not run: {error}"
    providers, name = set(), ""
    for line in ran.stdout.splitlines():
        key, _colon, value = (part.strip() for part in line.partition(":"))
        if key == "provider":
            name = value
        elif key == "domain":
            providers.add(f"{name} of {value}")
    return sorted(providers), "" if providers else " ".join(
        (ran.stderr or ran.stdout).split()
    ) or "fi_info lists nothing"
