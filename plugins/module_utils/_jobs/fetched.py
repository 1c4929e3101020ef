# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results on the control node: one directory for each job, of its last run that was fetched."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from ansible_collections.amx.cluster.plugins.module_utils._io import read_json


def unpack(packed: Path, to: Path, started: str) -> Path | None:
    """Unpack a job directory into `to`, which nobody else can read then; return where other results were moved.

    packed: a tar file. started: when the run was started; results of another run in `to` are moved aside, those of the
    same run are written over. Raises OSError, and ValueError where the file cannot be unpacked.
    """
    aside = None
    if to.exists() and (read_json(to / "results.json") or {}).get("started", "") != started:
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(to.stat().st_mtime))
        aside = to.with_name(f"{to.name}.{stamp}")
        to.rename(aside)
    to.mkdir(exist_ok=True)
    ran = subprocess.run(
        ["tar", "--extract", f"--file={packed}", f"--directory={to}"], capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise ValueError(f"{packed} cannot be unpacked: {ran.stderr.strip()}")
    to.chmod(0o700)
    return aside
