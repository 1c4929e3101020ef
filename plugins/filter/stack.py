# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.amx.cluster.plugins.module_utils._stacks import intel_mpi
from ansible_collections.amx.cluster.plugins.module_utils._stacks.catalogue import (
    choose,
    environment_problems,
    lacking,
    wheel_versions,
)


def _choose(
    catalogue: dict[str, Any], name: str, pythons: Iterable[str], known_good: Iterable[dict[str, Any]] = ()
) -> dict[str, Any]:
    try:
        return choose(catalogue, name, pythons, known_good)
    except ValueError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """What is derived from the catalogue of stacks."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "stack": _choose,
            "lacking_requirements": lacking,
            "wheel_versions": wheel_versions,
            "environment_problems": environment_problems,
            "mpi_environment": lambda env, stack: intel_mpi.mpi_environment(env, intel_mpi.bindings_folder(stack)),
        }
