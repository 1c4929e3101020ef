"""Wait for what other processes do."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any


def until(condition: Callable[[], Any], seconds: float = 240) -> Any:
    """Wait for a condition, and return what it gave. seconds: of a machine that is ten times as busy as usual."""
    end = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.02)
    return result


@contextmanager
def started(command: Sequence[str], **how: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program whose input stays open, wait until it has printed a line, and kill it in the end."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **how) as process:
        try:
            assert process.stdout
            assert process.stdout.readline(), "it has ended"
            yield process
        finally:
            process.kill()
