# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copy files from the head to other hosts, which pass them on: in each round every host that has them serves one more.

n hosts take log2(n) rounds, and no network interface carries more than one copy in a round.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import secrets
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

from ansible_collections.amx.cluster.plugins.module_utils._data import relay

# Failed attempts after which the head alone serves a host, and after which it is given up.
FROM_WORKERS = 2
FROM_HEAD = 3
# Without a terminal and a prompt; a host that does not answer for a minute has failed.
SSH = ("ssh", "-x", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20", "-o", "ServerAliveInterval=15")
# Copies files from one host to another and returns why not, or "".
Transfer = Callable[[str, str], str]


class Spread:
    """Transfers of files from host to host, and their results.

    sources: the hosts that have them, the head first. waiting: those that have not. failed: {host: why} of those that
    were given up.
    """

    def __init__(self, head: str, having: Sequence[str], waiting: Sequence[str]) -> None:
        self.sources = [head, *(host for host in having if host != head)]
        self.waiting = [host for host in dict.fromkeys(waiting) if host not in self.sources]
        self.failed: dict[str, str] = {}
        self.failures: Counter[str] = Counter()  # of a waiting host, from workers
        self.failures_of_head: Counter[str] = Counter()

    def round(self) -> list[tuple[str, str]]:
        """Return (source, target) of the next round, in which every source serves one host, and all at once.

        A host that workers could not serve gets the files from the head.
        """
        hard = [host for host in self.waiting if self.failures[host] >= FROM_WORKERS]
        first = (hard or self.waiting)[:1]
        others = [host for host in self.waiting if host not in hard and host not in first]
        return [*zip(self.sources[:1], first), *zip(self.sources[1:], others)]

    def note(self, source: str, target: str, error: str) -> None:
        """Enter what a transfer has come to; error: why it failed, or "".

        A target that failed waits for another source, and a worker that failed as a source is not one any more.
        """
        self.waiting.remove(target)
        if not error:
            self.sources.append(target)
            return
        if source == self.sources[0]:
            self.failures_of_head[target] += 1
        else:
            self.sources.remove(source)
            self.failures[target] += 1
        if self.failures_of_head[target] < FROM_HEAD:
            self.waiting.append(target)
        else:
            self.failed[target] = error


def spread(plan: Spread, transfer: Transfer, pause: float = 1) -> int:
    """Carry out the rounds until no host waits. Returns how many there were. pause: seconds after a failed transfer."""
    rounds = 0
    while pairs := plan.round():
        rounds += 1
        with ThreadPoolExecutor(len(pairs)) as pool:
            errors = list(pool.map(lambda pair: transfer(*pair), pairs))
        for (source, target), error in zip(pairs, errors):
            plan.note(source, target, error)
        if any(errors) and plan.waiting:
            time.sleep(pause)
    return rounds


class Transfers:
    """Transfers between hosts, all of which are started from the head, which is this host.

    hosts: {host: {address: on the cluster network; python: the path of its interpreter; names: what it lacks}}.
    origin: where they are on the head. directory: where they get to on every other host. seconds: within which a
    connection must be made, and something be transferred.
    """

    def __init__(
        self, head: str, hosts: Mapping[str, Mapping[str, Any]], origin: Path, directory: Path, seconds: float
    ) -> None:
        self.head = head
        self.hosts = hosts
        self.origin = origin
        self.directory = directory
        self.seconds = seconds

    def __call__(self, source: str, target: str) -> str:
        try:
            return self._from_head(target) if source == self.head else self._between(source, target)
        except (OSError, ValueError) as error:
            return f"{source} to {target}: {error}"

    def _start(self, host: str, **options: Any) -> subprocess.Popen[bytes]:
        """Start the program on a host, see relay."""
        program = inspect.getsource(relay).encode()
        command = f"{self.hosts[host]['python']} -c 'import sys; exec(sys.stdin.buffer.read({len(program)}))'"
        process = subprocess.Popen(
            [*SSH, host, command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        message = json.dumps({**options, "directory": str(self.directory)}).encode()
        with contextlib.suppress(BrokenPipeError):  # a process that has ended says why in its errors
            _pipe(process.stdin).write(program + message + b"\n")
            _pipe(process.stdin).flush()
        return process

    def _from_head(self, target: str) -> str:
        names = self.hosts[target]["names"]
        process = self._start(target, task="receive", names=names)
        sent = -1
        with contextlib.suppress(BrokenPipeError):
            sent = relay.pack(_pipe(process.stdin), self.origin, names)
        output, errors = _end(process)
        if process.returncode or output.split()[-1:] != [str(sent)]:
            return _reason(target, errors, process.returncode)
        return ""

    def _between(self, source: str, target: str) -> str:
        address, names = self.hosts[target]["address"], self.hosts[target]["names"]
        options = {"address": address, "token": secrets.token_hex(relay.TOKEN_BYTES // 2), "names": names}
        listener = self._start(target, task="listen", seconds=self.seconds, **options)
        _pipe(listener.stdin).close()
        port = _pipe(listener.stdout).readline().strip()
        if not port:
            _output, errors = _end(listener)
            return _reason(target, errors, listener.returncode)
        sender = self._start(source, task="send", port=int(port), seconds=self.seconds, **options)
        _output, errors = _end(sender)
        if sender.returncode:
            listener.kill()  # the ssh; the program itself ends when nobody connects
            _end(listener)
            return _reason(source, errors, sender.returncode)
        _output, errors = _end(listener)
        return _reason(target, errors, listener.returncode) if listener.returncode else ""


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise RuntimeError("the process was started without a pipe")
    return stream


def _end(process: subprocess.Popen[bytes]) -> tuple[str, str]:
    """Wait for the end of a process; returns the rest of its output, and its errors."""
    with contextlib.suppress(BrokenPipeError):
        _pipe(process.stdin).close()
    process.stdin = None
    output, errors = process.communicate()
    return output.decode(errors="replace"), errors.decode(errors="replace")


def _reason(host: str, errors: str, code: int) -> str:
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    return f"{host}: {lines[-1] if lines else f'it received less than was sent (exit code {code})'}"
