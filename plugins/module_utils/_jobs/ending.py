# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""End a job on a host, or what it has left there."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory, processes
from ansible_collections.amx.cluster.plugins.module_utils._jobs.slurm import queue


def end(
    path: str, grace: int = 20, patience: int = 150, host: str = "this host", check: bool = False
) -> dict[str, Any]:
    """End the job in a directory; return {changed, known, was_running, ended: processes, lines: the same as text}.

    grace: seconds that each process has to end by itself. patience: seconds that the supervisor has to end the ranks on
    all hosts, and to fetch what they have written. host: this host's name in the inventory. check: change nothing, and
    return what would be ended. Raises ValueError where the job cannot be stopped.
    """
    own = Path(path)
    status = directory.running(own)
    try:
        if check:
            ended = processes.find(own)
        else:
            if status and queue.id_of(status):
                queue.stop(own, status)
                _wait(own, patience)
            elif status:
                with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                    os.kill(status["pid"], directory.STOP)
                _wait(own, patience)
            ended = processes.end(own, grace)
            directory.remove_secrets(own)
            if not status:  # its supervisor had ended before: what has run launch.sh writes what came of the job
                _wait(own, patience)
            if directory.running(own):
                raise TimeoutError(
                    f"its supervisor (process {status['pid'] if status else '?'}) has not ended within {patience} s; "
                    f"{own}/supervise.log may tell why. Run this again"
                )
    except (OSError, TimeoutError) as error:
        raise ValueError(f"the job in {own} cannot be stopped: {error}") from None
    return {
        "changed": bool(status or ended),
        "known": own.is_dir(),
        "was_running": status is not None,
        "ended": ended,
        "lines": [f"{host} rank {process['rank']} (process {process['pid']})" for process in ended],
    }


def _wait(path: Path, seconds: float) -> None:
    """Wait until the supervisor of a job has ended, for so many seconds at most."""
    deadline = time.monotonic() + seconds
    while directory.running(path) and time.monotonic() < deadline:
        time.sleep(0.2)
