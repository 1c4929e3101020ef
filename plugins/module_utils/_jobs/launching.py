# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run launch.sh as a child of the supervisor, apart from its module: ranks wait for all that this imports."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from ansible_collections.amx.cluster.plugins.module_utils._jobs.wire import GRACE

ALONE = 75  # seconds that ranks have to end when their supervisor has ended


def launch(path: Path, umask: int) -> None:
    """Run launch.sh, and end with its exit code, as a child of the supervisor.

    Where the supervisor ends first, ranks have as long as they try to reach it (the observer's PATIENCE) to come to
    their end; then they are ended. What came of the job is written here.
    """
    supervisor = os.getppid()
    alone: float | None = None
    launched = subprocess.Popen(["bash", "launch.sh"], cwd=path, umask=umask)
    signals = {signal.SIGCHLD, signal.SIGUSR1}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    ctypes.CDLL(None).prctl(1, signal.SIGUSR1)  # PR_SET_PDEATHSIG: wakes this process when the supervisor ends
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_signal: None)  # launch.sh is in this group, too
    while launched.poll() is None:
        if os.getppid() != supervisor:
            alone = alone or time.monotonic()
            if time.monotonic() - alone > ALONE:
                os.killpg(os.getpgrp(), signal.SIGTERM)
            if time.monotonic() - alone > ALONE + GRACE:
                launched.kill()
        signal.sigtimedwait(signals, GRACE / 2)
    code = launched.returncode if launched.returncode >= 0 else 128 - launched.returncode
    if os.getppid() == supervisor:
        raise SystemExit(code)
    from ansible_collections.amx.cluster.plugins.module_utils._jobs.supervisor import Supervisor  # slow to import

    Supervisor(path, umask).conclude(code)


def main(words: Sequence[str]) -> None:
    """Launch the job in a directory.

    words: that, the umask of scripts, and directory.SUPERVISE[0], by which this process is known where the supervisor
    has ended.
    """
    launch(Path(words[0]), int(words[1], 8))
