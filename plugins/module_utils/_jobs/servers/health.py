# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask an instance of a served model whether it is healthy, without waiting for what it answers."""

from __future__ import annotations

import contextlib
import socket
import time

ANSWER = 10.0
"""Seconds within which an instance answers whether it is healthy."""
EVERY = 1.0
"""Seconds between two questions to one that was healthy."""
REQUEST = b"GET /health HTTP/1.1\r\nHost: instance\r\nConnection: close\r\n\r\n"


class Probe:
    """Questions to what listens on a Unix socket, one after the other."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.asked: socket.socket | None = None
        self.until = self.due = 0.0

    def look(self) -> int | None:
        """Return the HTTP status of an answer that has come, 0 where none came in time, None while there is no news."""
        now = time.monotonic()
        if self.asked is None and now < self.due:
            return None
        try:
            if self.asked is None:
                self.asked, self.until = socket.socket(socket.AF_UNIX), now + ANSWER
                self.asked.setblocking(False)
                self.asked.connect(self.path)
                self.asked.sendall(REQUEST)
            words = self.asked.recv(64).split(b" ", 2)
        except BlockingIOError:
            if now < self.until:
                return None
            words = []
        except OSError:
            words = []
        self.close()
        status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
        self.due = now + EVERY if status == 200 else 0.0
        return status

    def close(self) -> None:
        """Give a question up."""
        with contextlib.suppress(OSError):
            if self.asked is not None:
                self.asked.close()
        self.asked = None
