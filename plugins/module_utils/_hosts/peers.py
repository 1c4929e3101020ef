# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts about a host's peers: names, real connections, their clocks, and whether it can log in there.

Every host listens on a port that the kernel chooses and sends its clock to whoever connects; then every host connects
to all others at once. So all pairs are tested with two module runs on each host.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from ansible_collections.amx.cluster.plugins.module_utils._hosts import ssh_mesh

GREETING = "amx.cluster"
# Connections, or logins, that are under way at a time.
AT_ONCE = 32
_Answer = TypeVar("_Answer")


def listen(address: str, seconds: float, visitors: int) -> int:
    """Start a process that sends this host's clock to whoever connects to `address`, and return its port.

    It ends by itself, when `visitors` different addresses have connected and at the latest after `seconds`. Raises
    OSError when the address is not this host's.

    The module cannot be run with Ansible's `async` and `poll: 0` instead: the kernel chooses the port, and the result
    of such a task, which would return it, is known only when the listener has ended. Nor can async tasks be checked.
    """
    server = socket.create_server((address, 0), backlog=256)
    port: int = server.getsockname()[1]
    if os.fork() == 0:
        try:
            _become_independent(server.fileno())
            serve(server, seconds, visitors)
        finally:
            os._exit(0)
    server.close()
    return port


def _become_independent(keep: int) -> None:
    """Continue as a daemon in a session of its own, with all files but `keep` closed, so that the module can end."""
    os.setsid()
    if os.fork():
        os._exit(0)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    os.closerange(3, keep)
    os.closerange(keep + 1, 65536)


def serve(server: socket.socket, seconds: float, visitors: int) -> None:
    """Send the clock to whoever connects, until the end that `listen` describes."""
    end = time.monotonic() + seconds
    seen: set[str] = set()
    while len(seen) < visitors and (left := end - time.monotonic()) > 0:
        server.settimeout(left)
        with contextlib.suppress(OSError):
            connection, (address, _port) = server.accept()
            with connection:
                connection.sendall(f"{GREETING} {time.time():.6f}\n".encode())
            seen.add(address)


def connect(address: str, port: int, timeout: float) -> dict[str, Any]:
    """Connect to a listener and read its clock.

    Returns {"error": ""; offset: seconds that its clock is ahead of this host's; uncertainty: half the time that the
    request took} or {"error": why not}.
    """
    try:
        with socket.create_connection((address, port), timeout) as connection:
            began = time.time(), time.monotonic()
            with connection.makefile(encoding="ascii", errors="replace") as stream:
                greeting, _space, clock = stream.readline().partition(" ")
            took = time.monotonic() - began[1]
        if greeting != GREETING:
            return {"error": "something else answers on that port"}
        return {"error": "", "offset": float(clock) - (began[0] + took / 2), "uncertainty": took / 2}
    except ValueError:
        return {"error": "something else answers on that port"}
    except OSError as error:
        return {"error": "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)}


def resolve(names: Iterable[str], seconds: float = 6) -> dict[str, list[str]]:
    """Return the IPv4 addresses of each name, as programs on this host get them; none if that takes over `seconds`.

    By itself the C library waits up to half a minute for a name server that does not answer.
    """
    os.environ.setdefault("RES_OPTIONS", "timeout:2 attempts:2")
    by_name: dict[str, list[str]] = {name: [] for name in names}

    def ask(name: str) -> None:
        with contextlib.suppress(OSError, UnicodeError):
            answers = socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)
            by_name[name] = list(dict.fromkeys(str(answer[4][0]) for answer in answers))

    threads = [threading.Thread(target=ask, args=(name,), daemon=True) for name in by_name]
    end = time.monotonic() + seconds
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return {name: list(addresses) for name, addresses in by_name.items()}


def look(peers: Sequence[Mapping[str, Any]], logins: bool, timeout: float) -> dict[str, Any]:
    """Test names, connections and, with `logins`, logins to all peers.

    peers: {name, address, port (None when it does not listen)}.

    Returns {names: as `resolve` does; connections: {name: as `connect` does}; logins: {name: why not, or ""}}.
    """
    names = [str(peer["name"]) for peer in peers]
    listening = {str(peer["name"]): peer for peer in peers if peer["port"] is not None}

    def reach(name: str) -> dict[str, Any]:
        return connect(str(listening[name]["address"]), int(listening[name]["port"]), timeout)

    tried = ssh_mesh.log_in_everywhere(names, timeout, AT_ONCE) if logins else []
    return {
        "names": resolve(names),
        "connections": _at_once(reach, listening),
        "logins": {login["host"]: login["message"] for login in tried},
    }


def _at_once(ask: Callable[[str], _Answer], names: Iterable[str]) -> dict[str, _Answer]:
    names = list(names)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(names, pool.map(ask, names)))
