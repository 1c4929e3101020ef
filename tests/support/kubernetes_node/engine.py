"""The Docker engine as the second kubelet sees it: engine.py SOCKET OWN_SOCKET.

A kubelet ends every container with a pod's labels that is not of its own pods. Here `io.kubernetes` in what it asks
becomes `ib.kubernetes`, and the other way round in what it is answered: it sees its own pods only, and the first
kubelet does not see them.
"""

from __future__ import annotations

import http.client
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer

OURS, THEIRS = b"io.kubernetes", b"ib.kubernetes"
# What answers in pieces, for as long as it lasts.
STREAMS = ("/events", "/logs", "/stats", "/attach", "/images/create", "/wait")


class Connection(http.client.HTTPConnection):
    """To the engine."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


class Handler(BaseHTTPRequestHandler):
    """Hands one request after another to the engine."""

    protocol_version = "HTTP/1.1"
    engine = ""

    def handle_request(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            body = self.read_chunks()
        path = self.path.encode().replace(OURS, THEIRS).decode()
        body = body.replace(OURS, THEIRS)
        headers = {
            name: value
            for name, value in self.headers.items()
            if name.lower() not in ("content-length", "transfer-encoding", "connection")
        }
        headers["Content-Length"] = str(len(body))
        upgrades = "upgrade" in {name.lower() for name in headers}
        headers["Connection"] = "Upgrade" if upgrades else "close"
        connection = Connection(self.engine)
        if upgrades:
            self.splice(connection, path, headers, body)
            return
        connection.request(self.command, path, body, headers)
        answer = connection.getresponse()
        plain = path.partition("?")[0]
        streams = plain.endswith(STREAMS)
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        if streams:
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            while piece := answer.read1(65536):
                self.wfile.write(piece)
        else:
            content = answer.read().replace(THEIRS, OURS)
            if self.command != "HEAD" and answer.status not in (204, 304):
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        connection.close()

    do_GET = do_POST = do_HEAD = do_PUT = do_DELETE = handle_request

    def read_chunks(self) -> bytes:
        """Return a body that comes in pieces, each after its size."""
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def splice(self, connection: Connection, path: str, headers: dict[str, str], body: bytes) -> None:
        """Hand bytes to and fro: after such a request the connection is that of a command in a container."""
        connection.connect()
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        connection.sock.sendall(f"{self.command} {path} HTTP/1.1\r\n{head}\r\n".encode() + body)
        engine, client = connection.sock, self.connection

        def forth() -> None:
            # What came with the request may lie in the buffer already.
            while piece := self.rfile.read1(65536):
                engine.sendall(piece)
            engine.shutdown(socket.SHUT_WR)

        there = threading.Thread(target=forth, daemon=True)
        there.start()
        try:
            while piece := engine.recv(65536):
                client.sendall(piece)
            client.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class Server(ThreadingMixIn, UnixStreamServer):
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
