# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One rank of a served model: it keeps an instance (server.py) running, and starts it again where it was ended.

While one instance loads its model again, the others answer.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

# Seconds that an instance serves at least, or is started again after a pause of so many.
STEADY, PAUSE = 60, 5


class Served:
    """Tells the job's supervisor, with the observer's heartbeats, that the model is served, and of how many rows."""

    def __init__(self) -> None:
        self.told: dict[str, Any] = {"rows": 0, "of": None, "first": 0, "began": time.time()}
        self.observer = getattr(sys.modules.get("amx_cluster.observer"), "observer", None)
        if self.observer is not None:
            self.observer.activity.step()  # a job that fails from now on is worth being started again

    def tell(self, count: int) -> None:
        """Report so many rows."""
        self.told = {**self.told, "rows": count, "time": time.time()}
        if self.observer is not None:
            self.observer.heartbeat.rows = self.told
            self.observer.activity.note()


class Rank:
    """A rank, and its instance."""

    def __init__(self) -> None:
        self.instance: subprocess.Popen[bytes] | None = None
        self.served: Served | None = None
        self.ending = False

    def end(self, *_signal: object) -> None:
        """End the instance, which answers the requests that it has."""
        self.ending = True
        if self.instance is not None:
            self.instance.terminate()

    def serve(self) -> int:
        """Serve until this process is asked to end; return its exit code: of an instance that never came to serve."""
        before = 0  # rows of earlier instances
        while True:
            began, ready = time.monotonic(), False
            for count in self.started():
                self.served = self.served or Served()
                self.served.tell(before + count)
                rows, ready = count, True
            assert self.instance is not None
            code = self.instance.wait()
            if self.ending:
                return 0
            if not ready:
                return code if code > 0 else 1
            before += rows
            how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
            print(f"the instance on {os.environ['AMX_CLUSTER_HOST']} ended {how} and is started again", flush=True)
            if time.monotonic() - began < STEADY:
                time.sleep(PAUSE)

    def started(self) -> Iterator[int]:
        """Start an instance, and yield how many rows it has predicted, until it ends."""
        reading, writing = os.pipe()
        words = ["-m", "amx_cluster.inference.server", "--told", str(writing), *(["--again"] if self.served else [])]
        self.instance = subprocess.Popen([sys.executable, *words], stdin=subprocess.PIPE, pass_fds=[writing])
        os.close(writing)
        if self.ending:
            self.instance.terminate()
        with os.fdopen(reading) as lines:
            for line in lines:
                yield int(line)


def main() -> None:
    rank = Rank()
    signal.signal(signal.SIGTERM, rank.end)
    sys.exit(rank.serve())


if __name__ == "__main__":
    main()
