"""Commands on a pseudo terminal, and what that shows."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyte


def shown(written: str, columns: int) -> list[str]:
    """Return the lines that a terminal shows in the end, of which it wraps those that are too long.

    written: with line ends as a program writes them (\\n), to which a terminal adds the carriage return.
    """
    screen = pyte.Screen(columns, written.count("\n") + len(written) // columns + 1)
    pyte.Stream(screen).feed(written.replace("\n", "\r\n"))
    return "\n".join(line.rstrip() for line in screen.display).rstrip("\n").split("\n")


class Command:
    """A command whose input and output are a terminal of its own."""

    def __init__(self, words: Sequence[str], cwd: Path, env: Mapping[str, str], columns: int, lines: int = 50) -> None:
        """Start it."""
        self._began = time.monotonic()
        self._terminal, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self._process = subprocess.Popen(
            words,
            cwd=cwd,
            env=env,
            stdin=side,
            stdout=side,
            stderr=side,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(side)

    def output(self, seconds: float, answer: str = "") -> Iterator[tuple[float, str]]:
        """Yield what it writes, each time with the seconds since its start, until it ends or so many have passed.

        answer: what is typed when nothing follows a question (`?:`, `[y/N]`) for a second. Ansible drops what was typed
        when it begins to read, so that it is typed again while only its echo comes.
        """
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        last, is_asked = "", False
        while (at := time.monotonic() - self._began) < seconds:
            if not select.select([self._terminal], [], [], 1.0)[0]:
                if is_asked:
                    os.write(self._terminal, answer.encode())
                continue
            try:
                data = os.read(self._terminal, 65536)
            except OSError:  # the end of a terminal to which nobody writes any more
                return
            if not data:
                return
            written = decoder.decode(data)
            yield at, written
            last = (last + written)[-10:]
            is_asked = bool(answer) and (
                last.rstrip().endswith(("?:", "[y/N]")) or (is_asked and len(written) <= len(answer) + 4)
            )

    def end(self) -> int:
        """Wait until it has ended, and return its exit code."""
        os.close(self._terminal)
        return self._process.wait(60)
