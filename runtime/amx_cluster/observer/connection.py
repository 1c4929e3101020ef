"""The connection to the job's supervisor, which the script may break at any time."""

from __future__ import annotations

import contextlib
import errno
import os
import socket

# Those of ConnectionError and TimeoutError are not among them.
UNREACHABLE = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN)


def is_unreachable(error: BaseException) -> bool:
    """Return whether an error says that the supervisor cannot be reached, and not that this process lacks something."""
    return isinstance(error, (ConnectionError, TimeoutError, socket.timeout)) or (
        isinstance(error, OSError) and error.errno in UNREACHABLE
    )


class Connection:
    """Connection for all messages.

    It needs no new descriptor when the script has used up its own, and 800 ranks do not make the supervisor accept 400
    connections a second.
    """

    def __init__(self, supervisor: str) -> None:
        """Connect with the first message. supervisor: ADDRESS:PORT:TOKEN."""
        address, port, self.token = supervisor.split(":", 2)
        self.target = (address, int(port))
        self.socket: socket.socket | None = None
        self.inode = 0

    def send(self, message: bytes) -> None:
        """Send bytes on the connection, or on a new one where that fails. Raises OSError."""
        if self.socket is not None and self.is_ours(self.socket):
            try:
                self.socket.sendall(message)
            except OSError:
                self.close()
            else:
                return
        new = socket.create_connection(self.target, timeout=5)
        try:
            # Sent and not acknowledged for so long, it is an error: the other host is gone.
            new.setsockopt(socket.IPPROTO_TCP, getattr(socket, "TCP_USER_TIMEOUT", 18), 10_000)
            new.sendall(f"{self.token}\n".encode() + message)
            self.inode = os.fstat(new.fileno()).st_ino
        except BaseException:
            new.close()
            raise
        self.socket = new

    def is_ours(self, connection: socket.socket) -> bool:
        """Return whether the socket is what it was: a script may close all descriptors, and get its number anew."""
        with contextlib.suppress(OSError):
            if os.fstat(connection.fileno()).st_ino == self.inode:
                return True
        connection.detach()
        self.socket = None
        return False

    def close(self) -> None:
        """Close the connection; the next message opens another one."""
        if self.socket is not None:
            self.socket.close()
            self.socket = None
