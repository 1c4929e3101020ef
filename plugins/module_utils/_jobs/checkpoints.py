# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checkpoints that may be resumed from: those that were written to their end."""

from __future__ import annotations

import json
import re
from pathlib import Path

# Written into a checkpoint when all of it is there (roles/job/files/observe/_amx_cluster_observer.py): {file: bytes}.
COMPLETE = "complete.json"
NAME = re.compile(r"checkpoint-([0-9]+)")


def is_complete(folder: Path) -> bool:
    """Tell whether a checkpoint was written to its end and every file still has the size it had then."""
    try:
        files = json.loads((folder / COMPLETE).read_text(encoding="utf-8"))
        return bool(files) and all((folder / name).stat().st_size == size for name, size in files.items())
    except (OSError, ValueError, AttributeError):
        return False


def step(folder: Path) -> int:
    """Return the step that a checkpoint's name tells; -1 for another folder."""
    found = NAME.fullmatch(folder.name)
    return int(found[1]) if found else -1


def last_complete(output: Path) -> Path | None:
    """Return the newest complete checkpoint in `output`, or None. A half-written one is passed over."""
    found = [folder for folder in output.glob("checkpoint-*") if step(folder) >= 0 and is_complete(folder)]
    return max(found, key=step, default=None)
