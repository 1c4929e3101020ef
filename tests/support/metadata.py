"""The instance metadata service of a rented host (IMDSv2), as the observer of a rank asks it.

STAND-IN for http://169.254.169.254, in the form of docs.aws.amazon.com/AWSEC2/latest/UserGuide/
spot-instance-termination-notices.html: a token first, 401 without it, 404 while there is no notice.
"""

from __future__ import annotations

import json
import threading
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Metadata:
    """A service at an address and `port`. requests: {"METHOD path": how often}."""

    def __init__(self, address: str = "127.0.0.1", port: int = 0) -> None:
        self.token = "token-0"
        self.notice: dict[str, str] | None = None
        self.status = 0
        self.requests: dict[str, int] = {}
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                lifetime = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "")
                right = self.path == "/latest/api/token" and lifetime.isdigit() and 0 < int(lifetime) <= 21600
                self.answer(200 if right else 400, service.token if right else "")

            def do_GET(self) -> None:
                if self.headers.get("X-aws-ec2-metadata-token") != service.token:
                    self.answer(401)
                elif self.path == "/latest/meta-data/instance-id":
                    self.answer(200, "i-0123456789abcdef0")
                elif self.path != "/latest/meta-data/spot/instance-action" or service.notice is None:
                    self.answer(404)
                else:
                    self.answer(200, json.dumps(service.notice))

            def answer(self, status: int, text: str = "") -> None:
                request = f"{self.command} {self.path}"
                service.requests[request] = service.requests.get(request, 0) + 1
                self.send_response(service.status or status)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer((address, port), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def take_back(self, seconds: float = 120.0) -> None:
        """Announce that the host is terminated in so many seconds."""
        end = datetime.now(timezone.utc) + timedelta(seconds=seconds)
        self.notice = {"action": "terminate", "time": end.strftime("%Y-%m-%dT%H:%M:%SZ")}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
