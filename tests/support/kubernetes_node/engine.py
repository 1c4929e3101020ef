"""The Docker engine as the second kubelet sees it: engine.py SOCKET OWN_SOCKET.

A kubelet ends every container with a pod's labels that is not of its own pods. Here `io.kubernetes` in what it asks
becomes `ib.kubernetes`, which is as long, and the other way round in what it is answered: it sees its own pods only,
and the first kubelet does not see them.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingUnixStreamServer

OURS, THEIRS = b"io.kubernetes", b"ib.kubernetes"


def copy(source: socket.socket, target: socket.socket, old: bytes, new: bytes) -> None:
    """Copy what comes until it ends, the old name replaced. A beginning of it waits for what follows."""
    text = b""
    with contextlib.suppress(OSError):
        while piece := source.recv(65536):
            text = (text + piece).replace(old, new)
            begun = max(size for size in range(len(old)) if text.endswith(old[:size]))
            target.sendall(text[: len(text) - begun])
            text = text[len(text) - begun :]
        target.sendall(text)
        target.shutdown(socket.SHUT_WR)


class Handler(BaseRequestHandler):
    """A connection of the kubelet, and its own to the engine."""

    engine = ""

    def handle(self) -> None:
        with socket.socket(socket.AF_UNIX) as engine:
            engine.connect(self.engine)
            threading.Thread(target=copy, args=(self.request, engine, OURS, THEIRS), daemon=True).start()
            copy(engine, self.request, THEIRS, OURS)


class Server(ThreadingUnixStreamServer):
    """Listens at the kubelet's socket."""

    daemon_threads = True
    request_queue_size = 64


def main(engine: str, own: str) -> None:
    Handler.engine = engine
    Path(own).unlink(missing_ok=True)
    with Server(own, Handler) as server:
        server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
