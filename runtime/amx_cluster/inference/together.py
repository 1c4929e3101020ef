"""The instances of one host begin each measurement together: files in the job directory are their barrier.

An instance that has failed in a cell, or whose process has ended, is not waited for. Nothing here hangs: every wait has
a time limit.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from ansible_collections.amx.cluster.plugins.module_utils._jobs.directory import is_locked

# Seconds between two looks, and how long an instance that was never seen may take to start.
LOOK, START_SECONDS = 0.01, 120.0


class Host:
    """The instances of this host: `number` of `count`, which meet in a directory of their own.

    Files there: alive.N (locked as long as the instance's first process lives; new.PID.N until it is),
    CELL.POINT.N (it is there), gone.CELL.N (it does not take part in the cell any more), NAME.said (what the first
    instance announced).
    """

    def __init__(self, directory: Path, number: int, count: int) -> None:
        self.directory = directory
        self.number = number
        self.count = count
        directory.mkdir(parents=True, exist_ok=True)
        self.began = time.monotonic()
        # What an earlier start of the job left behind; of the others, the locks that nobody holds any more.
        for old in directory.glob(f"*.{number}"):
            if not old.name.startswith(("alive.", "new.")):
                old.unlink()
        self.earlier = {_identity(path) for path in directory.glob("alive.*") if not is_locked(path)}
        if number == 0:
            for old in directory.glob("*.said"):
                old.unlink()
        # Others see the file only once it is locked: an unlocked one means that its instance has ended.
        new = directory / f"new.{os.getpid()}.{number}"
        self.lock = os.open(new, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        new.replace(directory / f"alive.{number}")

    def leave(self) -> None:
        """In a child of the instance: do not keep the lock when the instance itself has ended."""
        os.close(self.lock)

    def gone(self, cell: str) -> None:
        """This instance does not take part in the cell any more."""
        (self.directory / f"gone.{cell}.{self.number}").touch()

    def wait(self, cell: str, point: str, seconds: float) -> bool:
        """Wait until every instance that takes part in the cell is at the point; return whether all of them were."""
        (self.directory / f"{cell}.{point}.{self.number}").touch()
        end = time.monotonic() + seconds
        others = [number for number in range(self.count) if number != self.number]
        complete = True
        while others:
            for number in list(others):
                takes_part = self._takes_part(cell, number)  # first: it may come to the point and end just now
                if (self.directory / f"{cell}.{point}.{number}").exists():
                    others.remove(number)
                elif not takes_part:
                    others.remove(number)
                    complete = False
            if time.monotonic() > end:
                return False
            if others:
                time.sleep(LOOK)
        return complete

    def announce(self, name: str, text: str) -> None:
        """Announce a decision of the first instance to the others, once."""
        path = self.directory / f"{name}.said"
        part = path.with_suffix(".part")
        part.write_text(text, encoding="utf-8")
        part.replace(path)

    def hear(self, name: str, cell: str, seconds: float) -> str | None:
        """Return what the first instance announced; None when it does not take part any more, or in time."""
        path = self.directory / f"{name}.said"
        end = time.monotonic() + seconds
        while not path.exists():
            if not self._takes_part(cell, 0) and not path.exists():  # it may have announced it and ended
                return None
            if time.monotonic() > end:
                return None
            time.sleep(LOOK)
        return path.read_text(encoding="utf-8")

    def _takes_part(self, cell: str, number: int) -> bool:
        if (self.directory / f"gone.{cell}.{number}").exists():
            return False
        path = self.directory / f"alive.{number}"
        if not path.exists() or _identity(path) in self.earlier:
            return time.monotonic() - self.began < START_SECONDS
        return is_locked(path)


def _identity(path: Path) -> tuple[int, int]:
    """Return what tells a file from others of its name; the number alone is used again when the file is removed."""
    seen = path.stat()
    return seen.st_ino, seen.st_ctime_ns
