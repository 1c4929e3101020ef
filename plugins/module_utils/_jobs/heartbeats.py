# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Receive the heartbeats of a job's ranks, so that nobody else who connects is in their way.

A rank (runtime/amx_cluster/observer/) keeps one connection, and sends on it a line with the token
and then messages, a line of JSON each. A connection may also be made for one message. Nothing is sent back.
"""

from __future__ import annotations

import hmac
import json
import secrets
import selectors
import socket
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._clock import CLOCK, Clock
from ansible_collections.amx.cluster.plugins.module_utils._jobs.wire import REQUIRED

# Seconds that a client has for the token, from when it connects, and for a message, from its first byte.
TOKEN_SECONDS = 5.0
MESSAGE_SECONDS = 10.0
# Seconds without a message after which a connection is closed: the rank makes another one when it has something to say.
IDLE_SECONDS = 120.0
# Bytes of a message. The largest is rank 0's with world.json: some 700 bytes for each rank.
LARGEST = 4 << 20
# Bytes that are read of a connection before the next one has its turn.
PIECE = 1 << 16
# Connections that are accepted before those that are there have their turn, and that there may be without a token.
ACCEPTED = 256
STRANGERS = 512


class Connection:
    """A client: what it has sent of a line, since when it is waited for, whether it has shown the token, its rank."""

    def __init__(self, client: socket.socket, now: float) -> None:
        self.client = client
        self.buffer = bytearray()
        self.since = now
        self.trusted = False
        self.rank: int | None = None

    def deadline(self) -> float:
        """Return when this connection will be closed if nothing more comes."""
        if not self.trusted:
            return self.since + TOKEN_SECONDS
        return self.since + (MESSAGE_SECONDS if self.buffer else IDLE_SECONDS)


class Receiver:
    """Listens on one address, at a port that is free, for those who know the token."""

    def __init__(self, address: str, clock: Clock = CLOCK) -> None:
        """Listen. Raises OSError where this host does not have the address."""
        self.clock = clock
        self._token = secrets.token_hex(16)
        self._listener = socket.create_server((address, 0), backlog=1024)
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._connections: dict[int, Connection] = {}
        self.endpoint = f"{address}:{self._listener.getsockname()[1]}:{self._token}"
        """ADDRESS:PORT:TOKEN, for the environment variable wire.SUPERVISOR."""
        self.ended: list[int] = []
        """The ranks whose connection has ended, in that order: the process of the first was the first to end."""

    def __enter__(self) -> Receiver:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections, and listen no more."""
        for connection in list(self._connections.values()):
            self._drop(connection)
        self._selector.close()
        self._listener.close()

    def receive(self, seconds: float) -> list[dict[str, Any]]:
        """Listen for so many seconds, and return the messages that came; with 0 those that are there.

        Whatever clients do, this takes hardly longer. Each message is a wire.Heartbeat with at least REQUIRED.
        """
        messages: list[dict[str, Any]] = []
        end = self.clock.monotonic() + seconds
        # With 0 seconds: enough to accept a client, and to read its token and a message of the usual size.
        rounds = 8
        while True:
            ready = self._selector.select(max(0.0, end - self.clock.monotonic()))
            for key, _events in ready:
                if key.data is None:
                    self._accept()
                else:
                    messages += self._read(key.data)
            self._close_overdue()
            rounds -= 1
            if not ready or (rounds <= 0 and self.clock.monotonic() >= end):
                return messages

    def _accept(self) -> None:
        """Accept who has connected."""
        for _client in range(ACCEPTED):
            try:
                client, _address = self._listener.accept()
            except BlockingIOError:
                break
            except OSError:
                # This process has too many open files. They wait in the kernel: without a pause they would be seen at
                # once again.
                self.clock.sleep(0.05)
                break
            client.setblocking(False)
            connection = Connection(client, self.clock.monotonic())
            self._connections[client.fileno()] = connection
            self._selector.register(client, selectors.EVENT_READ, connection)
        strangers = [connection for connection in self._connections.values() if not connection.trusted]
        for connection in strangers[: max(0, len(strangers) - STRANGERS)]:
            self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        self._selector.unregister(connection.client)
        del self._connections[connection.client.fileno()]
        connection.client.close()

    def _close_overdue(self) -> None:
        """Close the connections of those who take longer than they may."""
        now = self.clock.monotonic()
        for connection in [connection for connection in self._connections.values() if connection.deadline() < now]:
            self._drop(connection)

    def _read(self, connection: Connection) -> list[dict[str, Any]]:
        """Read what a client has sent; of one that has not shown the token yet, nothing but that."""
        first = len(self._token) + 1
        try:
            data = connection.client.recv(PIECE if connection.trusted else first - len(connection.buffer))
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self._drop(connection)
            if connection.rank is not None and connection.rank not in self.ended:
                self.ended.append(connection.rank)
            return []
        if connection.trusted:
            return self._lines(connection, data)
        connection.buffer += data
        if len(connection.buffer) == first:
            if not hmac.compare_digest(bytes(connection.buffer), f"{self._token}\n".encode()):
                self._drop(connection)
                return []
            connection.trusted, connection.since = True, self.clock.monotonic()
            connection.buffer.clear()
        return []

    def _lines(self, connection: Connection, data: bytes) -> list[dict[str, Any]]:
        """Add what came to what there is of a message, and return those that are complete."""
        *complete, rest = data.split(b"\n")
        messages = []
        for line in complete:
            messages.append(parse(bytes(connection.buffer) + line))
            connection.buffer.clear()
        if complete or not connection.buffer:
            connection.since = self.clock.monotonic()
        connection.buffer += rest
        if len(connection.buffer) > LARGEST:
            self._drop(connection)
        received = [message for message in messages if message is not None]
        for message in received:
            connection.rank = message["rank"]
        return received


def parse(line: bytes) -> dict[str, Any] | None:
    """Return the message in a line; None when it is not one, or lacks something."""
    try:
        message = json.loads(line)
    except ValueError:
        return None
    if isinstance(message, dict) and all(isinstance(message.get(name), kind) for name, kind in REQUIRED.items()):
        return message
    return None
