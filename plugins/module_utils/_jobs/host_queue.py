# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The queue for hosts: which job has which of them, which one waits, and whose turn it is.

Every job that was started from a head has an entry there until it ends: a file among the job directories that all can
read who may start jobs there, also where they cannot read the job directories of others. Its supervisor locks it
(flock(2)) as long as it lives, so that an entry whose process was killed, or whose host was restarted, counts no more.

A job begins when no job that runs has any of its hosts, and no job before it in the queue waits for any of them. Before
it are jobs with a higher priority, then earlier ones; who has waited for a day goes before all priorities, the earliest
first. So no later job takes a host from one that waits for several, the first in the queue always begins once the jobs
that run have ended, and before a job that has waited for a day come only those that arrived earlier.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._documents import Document
from ansible_collections.amx.cluster.plugins.module_utils._io import read_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory
from ansible_collections.amx.cluster.plugins.module_utils._text import count, names

# Seconds of waiting after which priorities of others count no more.
AGED = 86400.0
# Seconds after which nobody waits for a job whose supervisor has not looked at the queue, as one that was stopped
# (SIGSTOP); it is in its place again once it goes on. A clock that jumps, or a head that was suspended, can let others
# pass, too; no two jobs have a host for that.
ABSENT = 600.0
# Entries of the queue, and what keeps others from changing it meanwhile, among the job directories.
FORM, LOCK = ".*.queue", ".lock"
# Numbers of an entry are smaller; infinity and NaN are not.
LARGEST = 1e15
# Jobs that the text on a waiting job names.
SHOWN = 5
# Group and others, as permission bits for writing.
OTHERS = 0o022


class NotFreeError(Exception):
    """Other jobs have hosts of a job, or wait for them, and it is not to wait."""


@dataclass(frozen=True)
class Entry(Document):
    """A job in the queue.

    hosts: those of its plan. number: in the order of arrival. arrived: seconds since the epoch. user, since: who has
    started it, and when, as run.Settings has them. waits: whether it has not begun.
    """

    job: str
    hosts: list[str]
    number: int = 0
    arrived: float = 0.0
    priority: int = 0
    user: str = ""
    since: str = ""
    waits: bool = True

    def line(self, hosts: Sequence[str]) -> str:
        """Return what this job, which is before another one, has to do with the hosts of that."""
        common = [host for host in hosts if host in self.hosts]
        if not self.waits:
            locked = f"{names(common)} {'is' if len(common) == 1 else 'are'} locked by job {self.job}"
            return f"{locked} of {self.user} since {self.since}"
        priority = f" (priority {self.priority})" if self.priority else ""
        return f"job {self.job} of {self.user}{priority} waits for {names(common)}"


def ordered(entries: Sequence[Entry], now: float) -> list[Entry]:
    """Return the jobs that wait, the next one first. now: seconds since the epoch."""

    def rank(entry: Entry) -> tuple[bool, int, int]:
        has_aged = now - entry.arrived >= AGED
        return not has_aged, 0 if has_aged else -entry.priority, entry.number

    return sorted((entry for entry in entries if entry.waits), key=rank)


def ahead(own: Entry, entries: Sequence[Entry], now: float) -> list[Entry]:
    """Return the jobs whose end or begin a job has to wait for; none when it is its turn. entries: of all, also its
    own."""
    waiting = ordered(entries, now)
    before = [entry for entry in entries if not entry.waits and entry.number != own.number]
    before += waiting[: [entry.number for entry in waiting].index(own.number)]
    return [entry for entry in before if not set(entry.hosts).isdisjoint(own.hosts)]


def standing(own: Entry, entries: Sequence[Entry], now: float) -> dict[str, Any]:
    """Return how a job that waits stands, as JSON: {place in the queue, of how many, priority, ahead: the jobs that it
    waits for, text}; empty when it is its turn."""
    before = ahead(own, entries, now)
    if not before:
        return {}
    waiting = [entry.number for entry in ordered(entries, now)]
    place = {"place": waiting.index(own.number) + 1, "of": len(waiting), "priority": own.priority}
    jobs = [{name: getattr(entry, name) for name in ("job", "user", "hosts", "waits")} for entry in before]
    lines = [entry.line(own.hosts) for entry in before[:SHOWN]]
    lines += [f"{count(len(before) - SHOWN, 'more job')} before it"] if before[SHOWN:] else []
    return {**place, "ahead": jobs, "text": f"place {place['place']} of {place['of']} in the queue: {'; '.join(lines)}"}


def read(jobs: Path, looked: float = 0.0) -> list[Entry]:
    """Return the entries of the jobs whose supervisors live. jobs: the directory of the job directories.

    looked: jobs that wait are left out if they have last looked at the queue before (seconds, of the clock of files).
    """
    return [entry for path in _paths(jobs) if (entry := _read(path, looked))]


def _paths(jobs: Path) -> list[Path]:
    """Return the files of the queue; whoever opens a named pipe waits indefinitely."""
    return [path for path in jobs.glob(FORM) if path.is_file()]


def _read(path: Path, looked: float) -> Entry | None:
    # It has ended, is of a user with whom this one shares no jobs, or is no entry.
    with contextlib.suppress(OSError, OverflowError, ValueError, TypeError, AttributeError):
        document = read_json(path)
        if document and directory.is_locked(path):
            entry = Entry.from_json(document)
            is_entry = isinstance(entry.hosts, list) and all(isinstance(host, str) for host in entry.hosts)
            is_entry &= all(abs(each) < LARGEST for each in (entry.number, entry.arrived, entry.priority))
            f"{entry.job}{entry.user}{entry.since}".encode()  # which is shown
            return None if not is_entry or (entry.waits and path.stat().st_mtime < looked) else entry
    return None


@contextlib.contextmanager
def changing(jobs: Path) -> Iterator[None]:
    """Keep other supervisors from changing the queue meanwhile. Raises OSError."""
    with directory.locked(jobs / LOCK, _others(jobs) | _others(jobs) << 1):
        yield


def _others(jobs: Path) -> int:
    """Return the permission bits of those, besides its owner, who may start jobs in a directory: who can write."""
    return jobs.stat().st_mode & OTHERS


class Place:
    """The place of a job in the queue: its entry and the file that has it, locked by this process."""

    def __init__(self, jobs: Path, entry: Entry, waits: bool) -> None:
        """Join the queue, and begin at once where it is the job's turn.

        waits: whether the job stays in the queue otherwise. Raises NotFreeError, and OSError.
        """
        self.jobs, self.path = jobs, jobs / f".{entry.job}.{os.getpid()}.queue"
        self.stream: IO[bytes] | None = None
        with changing(jobs):
            _clean(jobs)
            others = read(jobs)
            number = max((other.number for other in others), default=0) + 1
            self.entry = replace(entry, number=number, arrived=time.time())
            # One of the same job has its directory, too: directory.begin refuses a second run there.
            others = [other for other in others if other.job != entry.job]
            before = ahead(self.entry, [*others, self.entry], time.time())
            if not waits:  # also after those with a lower priority
                before = [other for other in others if not set(other.hosts).isdisjoint(entry.hosts)]
            if before and not waits:
                raise NotFreeError("; ".join(other.line(entry.hosts) for other in before))
            self.entry = replace(self.entry, waits=bool(before))
            self.stream = self.path.open("w+b", buffering=0)
            try:
                fcntl.flock(self.stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                directory.share(self.stream.fileno(), jobs, _others(jobs) << 1)
                self._write()
            except OSError:
                self.leave()
                raise

    def look(self) -> dict[str, Any]:
        """Begin where it is the job's turn; return how it stands, empty once it has begun. Raises OSError."""
        if self.entry.waits:
            # Without the lock first: only who may be the next one takes it.
            now = time.time()
            seen = standing(self.entry, self._all(), now)
            if seen:
                return seen
            with changing(self.jobs):
                seen = standing(self.entry, self._all(), now)
                if not seen:
                    self.entry = replace(self.entry, waits=False)
                    self._write()
                return seen
        return {}

    def keep(self, hosts: list[str]) -> None:
        """Keep these of its hosts, and give up the others. Raises OSError."""
        self.entry = replace(self.entry, hosts=hosts)
        with changing(self.jobs):  # else another job that looks for its turn could read a half of it
            self._write()

    def leave(self) -> None:
        """Leave the queue."""
        if self.stream:
            with contextlib.suppress(OSError):
                self.path.unlink()
            self.stream.close()
            self.stream = None

    def _all(self) -> list[Entry]:
        """Return all entries but those of ABSENT ones, and note when; the own one also where it was removed by hand."""
        looked = 0.0
        if self.stream:  # its file shows when; all are of one clock, also where hosts share them
            with contextlib.suppress(OSError):  # such as a full quota: then it waits for all
                os.utime(self.stream.fileno())
                looked = os.fstat(self.stream.fileno()).st_mtime - ABSENT
        return [*(other for other in read(self.jobs, looked) if other.number != self.entry.number), self.entry]

    def _write(self) -> None:
        """Write the entry, in place and as long as before, so that it is complete also on a full disk."""
        if self.stream:
            descriptor = self.stream.fileno()
            text = json.dumps({"mark": _ownership.SIGNATURE, **self.entry.to_json()}).encode()
            text = text.ljust(os.fstat(descriptor).st_size or len(text) + 1)
            if os.pwrite(descriptor, text, 0) < len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))


def _clean(jobs: Path) -> None:
    """Remove the entries whose processes were killed, as far as this user may."""
    for path in _paths(jobs):
        with contextlib.suppress(OSError):
            if not directory.is_locked(path):
                path.unlink()
