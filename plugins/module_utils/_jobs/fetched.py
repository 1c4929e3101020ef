# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results on the control node: one directory for each job, of its last run that was fetched."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from ansible_collections.amx.cluster.plugins.module_utils._io import disk_problem, read_json


def unpack(packed: Path, to: Path, started: str) -> Path | None:
    """Unpack a job directory into `to`, which nobody else can read; return where other results were moved.

    packed: a tar file. started: when the run was started; results of another run in `to` are moved aside, those of the
    same run are written over. Nothing there is changed until all is unpacked beside it. Raises OSError, and ValueError
    where the file cannot be unpacked.
    """
    part = Path(tempfile.mkdtemp(prefix=f".{to.name}.", suffix=".new", dir=to.parent))  # with mode 0700
    try:
        ran = subprocess.run(
            ["tar", "--extract", f"--file={packed}", f"--directory={part}"], capture_output=True, text=True, check=False
        )
        if ran.returncode:
            full = disk_problem(ran.stderr, socket.gethostname(), str(to.parent))
            raise ValueError(f"{packed} cannot be unpacked: {full or ran.stderr.strip()}")
        part.chmod(0o700)
        if to.exists() and (read_json(to / "results.json") or {}).get("started", "") == started:
            to.chmod(0o700)
            _merge(part, to)
            return None
        aside = None
        if to.exists():
            stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(to.stat().st_mtime))
            aside = to.with_name(f"{to.name}.{stamp}")
            to.rename(aside)
        part.rename(to)
        return aside
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _merge(part: Path, to: Path) -> None:
    """Move all that is in a directory to the same place in another one; what is there besides stays."""
    for place, directories, names in os.walk(part):
        there = to / Path(place).relative_to(part)
        links = [name for name in directories if Path(place, name).is_symlink()]
        for name in set(directories) - set(links):
            (there / name).mkdir(exist_ok=True)
        for name in [*names, *links]:
            Path(place, name).replace(there / name)
