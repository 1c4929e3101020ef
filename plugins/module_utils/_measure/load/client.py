# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A client of a served model: connections that are kept, requests from many threads, and answers with their times."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from ansible_collections.amx.cluster.plugins.module_utils._text import masked

OK = "200"
# Outcomes without a code.
NO_ANSWER, NO_CONNECTION, CLOSED, BROKEN = "no answer", "no connection", "connection closed", "broken stream"
STREAM = "text/event-stream"


@dataclass(frozen=True)
class Answer:
    """An answer, with times of time.monotonic(). code: of HTTP, or an outcome without one. ended: its last byte.

    first, last: the first and the last token of a stream. tokens: how many it had. text: the body of an error.
    """

    code: str
    ended: float
    text: str = ""
    first: float | None = None
    last: float | None = None
    tokens: int = 0


def read_url(text: str) -> SplitResult:
    """Return the URL of a server without a slash at its end. Raises ValueError."""
    try:
        parts = urlsplit(text.rstrip("/"))
        wrong = parts.port == 0
    except ValueError:
        parts, wrong = urlsplit(""), True
    if wrong or parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise ValueError(f"{masked(text)} is no URL such as http://HOST:8000")
    if parts.query or parts.fragment:
        raise ValueError(f"{masked(text)} has more than a path: name http://HOST:PORT, or http://HOST:PORT/v1")
    return parts


class Client:
    """Requests to the addresses of a server, from any thread."""

    def __init__(self, urls: Sequence[str], key: str = "", seconds: float = 60.0) -> None:
        """seconds: after which a connection or the next byte of an answer is given up. Raises ValueError."""
        self.urls = [read_url(url) for url in urls]
        self.headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        self.seconds = seconds
        self.stopped = False
        self._tls = ssl.create_default_context()
        self._kept: list[deque[http.client.HTTPConnection]] = [deque() for _url in urls]
        self._open: set[socket.socket] = set()

    def get(self, place: int, path: str) -> tuple[int, bytes]:
        """Return code and body of a path of one of the addresses. Raises ValueError naming the address."""
        url = self.urls[place]
        connection = self._connection(place)
        try:
            connection.request("GET", url.path + path, headers=self.headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise ValueError(f"{url.geturl()}: {self._reason(error)}") from None
        finally:
            connection.close()

    def post(self, number: int, path: str, body: bytes) -> Answer:
        """Send a request to the address whose turn it is, and return its answer, or how it failed."""
        place = number % len(self.urls)
        while True:
            try:
                # The one that is unused for longest: without HAProxy, instances are chosen by connection.
                connection, is_kept = self._kept[place].popleft(), True
            except IndexError:
                connection, is_kept = self._connection(place), False
            answer = self._post(connection, place, path, body)
            # The server may close an idle connection at any time, as that of any client.
            if not (is_kept and answer.code == CLOSED and not answer.text):
                return answer

    def _post(self, connection: http.client.HTTPConnection, place: int, path: str, body: bytes) -> Answer:
        """Send a request. CLOSED has a text where an answer had begun."""
        used: socket.socket | None = None
        began = False
        try:
            if connection.sock is None:
                connection.connect()
            used = connection.sock
            self._open.add(used)
            if self.stopped:  # meanwhile
                raise TimeoutError
            connection.request("POST", self.urls[place].path + path, body, self.headers)
            response = connection.getresponse()
            began = True
            answer = _read(response)
            if not response.will_close:
                self._kept[place].append(connection)
            return answer
        except (OSError, http.client.HTTPException, ValueError) as error:
            connection.close()
            code = NO_CONNECTION if used is None else BROKEN if isinstance(error, ValueError) else CLOSED
            if self.stopped or isinstance(error, TimeoutError):
                code, error = NO_ANSWER, TimeoutError()
            return Answer(code, time.monotonic(), "" if code == CLOSED and not began else self._reason(error))
        finally:
            if used is not None:
                self._open.discard(used)

    def give_up(self) -> None:
        """End all requests under way: their answers are NO_ANSWER."""
        self.stopped = True
        for used in list(self._open):
            with contextlib.suppress(OSError):  # it has ended
                socket.socket.shutdown(used, socket.SHUT_RDWR)  # TLS, too, at once

    def _connection(self, place: int) -> http.client.HTTPConnection:
        url = self.urls[place]
        if url.scheme == "https":
            return http.client.HTTPSConnection(str(url.hostname), url.port, timeout=self.seconds, context=self._tls)
        return http.client.HTTPConnection(str(url.hostname), url.port, timeout=self.seconds)

    def _reason(self, error: Exception) -> str:
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({error.verify_message}): SSL_CERT_FILE=FILE names one that is"
        if isinstance(error, TimeoutError):
            return f"there is no answer within {self.seconds:g} s"
        if isinstance(error, OSError):
            return error.strerror or str(error)
        return f"no HTTP ({type(error).__name__})"


def _read(response: http.client.HTTPResponse) -> Answer:
    code = str(response.status)
    if code == OK and response.getheader("Content-Type", "").startswith(STREAM):
        return _read_stream(response)
    body = response.read()
    return Answer(code, time.monotonic(), "" if code == OK else body[:1000].decode(errors="replace").strip())


def _read_stream(response: http.client.HTTPResponse) -> Answer:
    """Read server-sent events as OpenAI's interface has them. Tokens are counted by its `usage`, else by parts."""
    first = last = None
    parts, tokens, text = 0, 0, "the stream ended without [DONE]"
    for line in response:
        now = time.monotonic()
        data = line[5:].strip() if line.startswith(b"data:") else b""
        if data == b"[DONE]":
            text = text if "error" in text else "" if first else "the stream has no text"
        elif data:
            event = json.loads(data)
            if not isinstance(event, dict):
                raise ValueError("an event is no mapping")
            if event.get("error"):
                text = f"error: {json.dumps(event['error'])[:1000]}"
            elif event.get("choices"):
                first, last, parts = first or now, now, parts + 1
            usage = event.get("usage")
            tokens = int((usage.get("completion_tokens") if isinstance(usage, dict) else 0) or tokens)
    return Answer(BROKEN if text else OK, time.monotonic(), text, first, last, tokens or parts)
