"""Rank of this process, and its files in the job directory."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections import deque
from collections.abc import Iterator
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs import wire


class Rank:
    """The process that rank.py became."""

    def __init__(self, observed: dict[str, Any], supervisor: str) -> None:
        """Read the environment. observed: what rank.py's observed() returned. supervisor: ADDRESS:PORT:TOKEN."""
        self.pid: int = observed["pid"]
        self.number: int = observed["rank"]
        self.size: int = observed["size"]
        # The ranks that write to the same output directory.
        self.together: list[int] = observed["together"]
        self.host: str = observed["host"]
        self.interface: str = observed["interface"]
        self.job: str = observed["job"]
        # Where the host's metadata service is asked whether the host is taken back, by the first of its ranks; empty
        # where there is none.
        self.notices: str = observed.get("notices", "")
        self.is_first = os.environ.get("LOCAL_RANK", "0") == "0"
        self.watch: dict[str, bool] = observed["watch"]
        self.measure: dict[str, Any] | None = observed.get("measure")
        # The module that registers the job's backend, how gradients are compressed, and what is sharded; empty where
        # there is none.
        self.bindings = os.environ.get(wire.BINDINGS, "")
        self.compression = os.environ.get(wire.COMPRESSION, "")
        self.sharding = os.environ.get(wire.SHARDING, "")
        # The parts of a step that are optimized.
        self.optimize = [part for part in os.environ.get(wire.OPTIMIZE, "").split(",") if part]
        self._start = f"{supervisor} {os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        # What was written since the last heartbeat, for a supervisor on another host.
        self.unsent: dict[str, Any] = {}
        # What the Trainer has logged since then.
        self.logged: deque[dict[str, Any]] = deque(maxlen=wire.LOGGED_KEPT)

    def speaks(self) -> bool:
        """Return whether this process is the rank. A forked child has all that the rank had, but is not."""
        return self.pid == os.getpid()

    def is_watched(self, name: str) -> bool:
        """Return whether one of the job file's switches under `watch` is on, as it is by default."""
        return bool(self.watch.get(name, True))

    def attempt(self) -> str:
        """Return what is the same for all ranks of this start of the job, and for no other start."""
        import hashlib

        return hashlib.sha256(self._start.encode()).hexdigest()[:16]

    @contextlib.contextmanager
    def logged_until_sent(self) -> Iterator[list[dict[str, Any]]]:
        """Take the oldest entries of `logged` for a message; they are put back where it cannot be sent."""
        taken = [self.logged.popleft() for _entry in range(min(len(self.logged), wire.LOGGED))]
        try:
            yield taken
        except BaseException:
            self.logged.extendleft(reversed(taken))
            raise

    def write(self, name: str, document: Any) -> None:
        """Put a JSON file into the job directory, complete or not at all, and have the next heartbeat bring it."""
        if not self.speaks():
            return
        self.unsent[name] = document
        with contextlib.suppress(OSError):  # a disk that is full is no reason to end the script
            path = os.path.join(self.job, name)
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            replace(path, json.dumps(document, indent=1))


def group() -> Any:
    """Return the module torch.distributed.distributed_c10d when this process is in a group, else None."""
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    return c10d if c10d is not None and c10d.is_initialized() else None


def replace(path: str, text: str) -> None:
    """Replace a file by one with this text, which nobody else can read, at once. Raises OSError."""
    directory, name = os.path.split(path)
    part = os.path.join(directory, f".{name.lstrip('.')}.{os.getpid()}")
    try:
        # The umask is the script's.
        with open(part, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as stream:
            stream.write(text)
        os.replace(part, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise


def read(path: str) -> str:
    """Return the text of a file. Raises OSError."""
    with open(path, encoding="utf-8", errors="replace") as stream:
        return stream.read()
