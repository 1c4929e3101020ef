"""A server of this machine that receives messages about the end of jobs."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECRET = "secret-of-the-hook"
logins: list[str] = []
"""The headers Authorization that came."""


@contextmanager
def listening(*answers: int) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Answer requests with these codes, the last one again and again; yield the URL, with SECRET, and what came."""
    came: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            came.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])), parse_constant=int))
            logins.append(self.headers["Authorization"])
            self.send_response(answers[min(len(came), len(answers)) - 1])
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def do_GET(self) -> None:  # where a redirect would be followed
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_words: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook/{SECRET}", came
    finally:
        server.shutdown()
        server.server_close()
