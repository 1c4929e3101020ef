"""A small HTTP server that answers as an API server does, with what a test gives it, and a kubeconfig for it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

VERSION = {"major": "1", "minor": "30+", "gitVersion": "v1.30.1-eks-1"}


def status(code: int, message: str) -> tuple[int, dict[str, Any]]:
    """Return an answer with which the API refuses a request."""
    return code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}


@dataclass
class Server:
    """answers: by path, an object, (status code, object), text, or what returns one of them for a request.

    What is iterated over is text in parts, each sent when it comes.
    """

    url: str
    answers: dict[str, Any] = field(default_factory=dict)
    requests: list[dict[str, Any]] = field(default_factory=list)

    def kubeconfig(self, folder: Path, *contexts: str) -> str:
        """Write a kubeconfig whose contexts, the first of them current, are all this server. Returns its path."""
        names = contexts or ("test",)
        path = folder / "config"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": names[0],
            "clusters": [{"name": "here", "cluster": {"server": self.url}}],
            "users": [{"name": "me", "user": {"token": "t0ken"}}],
            "contexts": [{"name": name, "context": {"cluster": "here", "user": "me"}} for name in names],
        }
        path.write_text(yaml.safe_dump(content))
        return str(path)


@contextmanager
def api_server(answers: dict[str, Any] | None = None) -> Iterator[Server]:
    """Run a server with these answers; /version has one."""
    server = Server("", {"/version": VERSION, **(answers or {})})

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_args: Any) -> None:
            """Print nothing."""

        def answer(self) -> None:
            parts = urlsplit(self.path)
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            request = {"method": self.command, "path": parts.path, "query": query, "body": body}
            server.requests.append({**request, "token": self.headers.get("Authorization", "")})
            found = server.answers.get(parts.path, status(404, f"{parts.path} not found"))
            if isinstance(found, Callable):  # type: ignore[arg-type]
                found = found(request)
            code, content = found if isinstance(found, tuple) else (200, found)
            if isinstance(content, Iterator):
                self.send_response(code)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for part in content:
                    self.wfile.write(f"{len(part):x}\r\n{part}\r\n".encode())
                self.wfile.write(b"0\r\n\r\n")
                return
            data = content.encode() if isinstance(content, str) else json.dumps(content).encode()
            try:
                self.send_response(code)
                self.send_header("Content-Type", "text/plain" if isinstance(content, str) else "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except ConnectionError:  # the client has not waited
                self.close_connection = True

        do_GET = do_POST = do_PATCH = answer

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{httpd.server_address[1]}"
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()
