"""A served model, asked over HTTP as by any client."""

from __future__ import annotations

import http.client
import json
import random
import socket
from contextlib import closing
from typing import Any


def free_ports() -> int:
    """Return a port that is free, as is the next one: below those that the kernel gives to connections."""
    while True:
        port = random.randrange(20000, 32000, 2)
        with socket.socket() as first, socket.socket() as second:
            try:
                first.bind(("127.0.0.1", port))
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port


def ask(port: int, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Any, dict[str, str]]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request("POST" if body is not None else "GET", path, body, headers)
        answer = connection.getresponse()
        text = answer.read()
        document = json.loads(text) if text.startswith(b"{") else text.decode()
        return answer.status, document, {name.lower(): value for name, value in answer.getheaders()}
