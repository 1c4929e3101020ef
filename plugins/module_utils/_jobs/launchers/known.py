# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The launchers that a job file can name: a new one is a file beside this one and a row here."""

from __future__ import annotations

from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers import (
    instances,
    kubernetes,
    mpirun,
    slurm,
    torchrun,
)
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.launcher import Launcher

LAUNCHERS: dict[str, Launcher] = {
    launcher.name: launcher
    for launcher in (
        mpirun.LAUNCHER,
        torchrun.LAUNCHER,
        kubernetes.LAUNCHER,
        slurm.LAUNCHER,
        instances.LAUNCHER,
    )
}
DEFAULT, SLURM = mpirun.LAUNCHER.name, slurm.LAUNCHER.name
