# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ranks of a pod: torchrun as a child, its log on the volume and on the container's, what failed noted."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.pod import rounds

GRACE = 10  # seconds that torchrun has to end its ranks after SIGTERM
READ = 30  # seconds in which what it has printed is read when it has ended
RECENT = 1 << 20  # characters of the log that are searched for tracebacks when a rank has failed
# Where the kernel counts the processes of a container that it has ended because it was out of memory.
COUNTERS = (Path("/sys/fs/cgroup/memory.events"), Path("/sys/fs/cgroup/memory/memory.oom_control"))


def oom_kills(counters: Sequence[Path] = COUNTERS) -> int:
    """Return how many processes of this container the kernel has ended because it was out of memory."""
    for path in counters:
        with contextlib.suppress(OSError):
            match = re.search(r"^oom_kill (\d+)$", path.read_text(encoding="ascii"), re.MULTILINE)
            if match:
                return int(match[1])
    return 0


class Ranks:
    """torchrun of this pod, from its start to its end."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], here: Path, kept: Path, log: Path) -> None:
        """Start it. here: the pod's job directory. kept: the job's on the volume. log: to which lines are added."""
        self.here, self.kept = here, kept
        self._recent = ""
        self._kills = oom_kills()
        self.process = subprocess.Popen(
            list(command),
            cwd=here,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        if self.process.stdout is None:
            raise RuntimeError("torchrun has no output")
        self._reader = threading.Thread(target=self._read, args=(self.process.stdout, log), daemon=True)
        self._reader.start()

    def _read(self, lines: IO[bytes], log: Path) -> None:
        """Copy the output, and note what torchrun says about failures. A volume that is full loses lines only."""
        with contextlib.ExitStack() as stack:
            output = None
            with contextlib.suppress(OSError):
                output = stack.enter_context(log.open("ab", buffering=0))
            for line in lines:
                with contextlib.suppress(OSError):
                    sys.stdout.buffer.write(line)
                    sys.stdout.buffer.flush()
                with contextlib.suppress(OSError):
                    if output:
                        output.write(line)
                self._note(line.decode("utf-8", errors="replace"))

    def _note(self, line: str) -> None:
        self._recent = (self._recent + line)[-RECENT:]
        match = rounds.FAILED.search(line)
        if match:
            kills = oom_kills()
            exitcode, local = int(match[1]), int(match[2])
            out_of_memory = kills > self._kills and exitcode == -signal.SIGKILL
            rounds.fail(self.kept, self.here, exitcode, local, self._recent, out_of_memory)
            self._kills, self._recent = kills, ""

    def poll(self) -> int | None:
        """Return torchrun's exit code when it has ended and all that it printed is read, else None."""
        code = self.process.poll()
        if code is not None:
            self._reader.join(READ)
        return code

    def end(self) -> int:
        """End torchrun, which ends its ranks; they end with it in any case (rank.py). Returns its exit code."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.process.poll() is None:
                with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                    os.killpg(self.process.pid, number)
                    self.process.wait(GRACE)
        self.process.wait()
        self._reader.join(READ)
        return self.process.returncode
