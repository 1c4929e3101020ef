# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ports of this host: why one cannot be listened on, and who has it."""

from __future__ import annotations

import contextlib
import socket

from ansible_collections.amx.cluster.plugins.module_utils._jobs import processes


def problem_of(address: str, port: int) -> str:
    """Return why a port cannot be listened on; empty where it can."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((address, port))
            tried.listen()
        except OSError as error:
            return f"{error.strerror}{_listener(port)}"
    return ""


def _listener(port: int) -> str:
    """Return who listens on a port, as far as this user may see."""
    for entry in processes.PROC.glob("[0-9]*"):
        if port in processes.listening_ports(entry):
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                return f" (process {entry.name}: {command[:80]})"
    return ""
