# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All checks of the doctor, in the order in which findings and documentation list them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks import (
    capacity,
    cpu,
    fabric,
    jobs,
    kernel,
    login,
    network,
    slurm,
    software,
    ssh,
    system,
)
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.check import Check

TOPICS = (login, system, cpu, kernel, capacity, network, ssh, software, fabric, jobs, slurm)
CHECKS = tuple(check for topic in TOPICS for check in vars(topic).values() if isinstance(check, Check))
LIMITS = tuple(limit for each in CHECKS for limit in each.limits)


def gather(prefix: Path, slurm: bool = False) -> dict[str, Any]:
    """Return what the checks look at on this host. prefix: the directory of the cluster. slurm: also of Slurm.

    Raises OSError.
    """
    checks = [check for check in CHECKS if check.gather and (slurm or not check.of_slurm)]
    return {name: value for each in checks if each.gather for name, value in each.gather(prefix).items()}
