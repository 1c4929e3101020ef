# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ownership of what the collection has made, by a mark that was written then. It deletes nothing else.

A file has the mark in its first bytes, a directory in its file MARK. A symbolic link has it in a file beside it, with
its target, so that another link of that name is another's. What lies in a marked directory belongs to it, unless it is
a directory of others (CONTAINER), which goes only when nothing but its mark is left in it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._io import read_json, write_json

# What the first bytes of a file have in them; templates of roles have it in their first line.
SIGNATURE = "Made by amx.cluster"
FIRST = 1024
# In each directory that the collection has made.
MARK = ".amx-cluster.json"
# What directories of others are, each of which has its own mark.
CONTAINER = "container"


@dataclass(frozen=True)
class Places:
    """Paths where a package or a role keeps what it makes. A reset removes those with the mark.

    piece: of a reset. directories, links: below cluster_prefix; for downloads, below cluster_cache on the control node.
    files: below the root of a host.
    """

    piece: str
    directories: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def make(path: Path, kind: str, mode: int = 0o777, **fields: Any) -> bool:
    """Make a directory with its mark, and its missing parents as containers; return whether it was missing.

    kind: what it is. mode: its permission bits, less the umask. fields: further entries of its mark. One that is there
    is left as it is. Raises OSError.
    """
    if path.is_dir():
        return False
    make(path.parent, CONTAINER)
    try:
        path.mkdir(mode)
    except FileExistsError:
        if path.is_dir():  # another process was faster
            return False
        raise
    mark(path, kind, **fields)
    return True


def mark(path: Path, kind: str, **fields: Any) -> None:
    """Write the mark of a directory that was made a moment ago, for those who can read it. Raises OSError."""
    write_json(path / MARK, {"mark": SIGNATURE, "what": kind, **fields}, path.stat().st_mode & 0o644)


def claim(path: Path, kind: str) -> None:
    """Make a directory with its mark unless it is there with it. Raises ValueError for one without, and OSError.

    An empty one is taken: an interrupted run did not come to its mark, or left the mark's own temporary file.
    """
    if path.is_dir() and not path.is_symlink() and all(each.name.startswith(f".{MARK}.") for each in path.iterdir()):
        mark(path, kind)
    if os.path.lexists(path) and not (path.is_dir() and is_own(path)):
        raise ValueError(f"{path} was not made by this collection, which needs that place: rename it or move it away")
    make(path, kind)


def read(path: Path) -> dict[str, Any]:
    """Return the mark of a directory; empty for none, and for a link."""
    with contextlib.suppress(OSError):
        mark = {} if path.is_symlink() else read_json(path / MARK) or {}
        return mark if mark.get("mark") == SIGNATURE else {}
    return {}


def is_own(path: Path) -> bool:
    """Return whether a directory, file or link carries the collection's mark."""
    try:
        if path.is_symlink():
            beside = read_json(_beside(path)) or {}
            return beside.get("mark") == SIGNATURE and beside.get("target") == str(path.readlink())
        if path.is_dir():
            return bool(read(path))
        if not path.is_file():
            return False
        with path.open("rb") as stream:
            return SIGNATURE.encode() in stream.read(FIRST)
    except OSError:
        return False


def denied(error: Exception) -> str:
    """Return whose file this process may not open, by an error of the system; empty for another error."""
    if not isinstance(error, PermissionError) or not error.filename:
        return ""
    path = Path(os.fsdecode(error.filename))
    for there in (path, *path.parents):
        with contextlib.suppress(OSError):
            owner, me = (user_name(uid) for uid in (there.stat().st_uid, os.geteuid()))
            return f"{path}: permission denied: {there} belongs to user {owner}, and this is user {me}"
    return ""


def user_name(uid: int) -> str:
    """Return a user's name; the number of one that has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def described(path: Path) -> str:
    """Return by which mark a path is known to be the collection's, for a person."""
    if path.is_symlink():
        return f"link, recorded in {_beside(path).name}"
    return f"{read(path).get('what')}, by {MARK} in it" if path.is_dir() else f"file, by '{SIGNATURE}' in it"


def write_file(path: Path) -> None:
    """Make a file that has nothing but the mark, such as one that is only locked; one that is there stays as it is."""
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as stream:
            stream.write(f"{SIGNATURE}\n")


@contextlib.contextmanager
def locked(path: Path, seconds: float) -> Iterator[int]:
    """Lock a file of the collection, and wait for another process that has locked it.

    Yields the file descriptor, for a child process that is to keep the lock although this process is killed: the kernel
    releases it when all that have the descriptor have ended. Raises TimeoutError.
    """
    write_file(path)
    until = time.monotonic() + seconds
    with path.open("ab") as stream:
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise TimeoutError(
                        f"{path} is locked by another process, for more than {seconds:.0f} s: wait until it has "
                        f"finished, or end it (fuser {path} shows it)"
                    ) from None
                time.sleep(0.5)
        yield stream.fileno()


def link(path: Path, target: Path, check: bool = False) -> bool:
    """Point a symbolic link to a target, at once; return whether it did not. Its parent directory must be there.

    check: only return that.

    Raises ValueError when something is in its place that the collection has not made, and OSError.
    """
    there = os.path.lexists(path)
    if path.is_symlink() and str(path.readlink()) == str(target):
        return False
    if there and not is_own(path):
        raise ValueError(f"{path} was not made by this collection, which needs that place: rename it or remove it")
    if check:
        return True
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.symlink_to(target)
    write_json(_beside(path), {"mark": SIGNATURE, "what": "link", "target": str(target)})
    new.replace(path)
    return True


def remove(path: Path) -> bool:
    """Remove what carries the mark, with all that is in it; return whether it did. Links are not followed.

    A container goes only when nothing else is in it. What has no mark stays. Raises OSError.
    """
    if not is_own(path):
        return False
    if path.is_symlink():
        path.unlink()
        _beside(path).unlink()
    elif not path.is_dir():
        path.unlink()
    elif read(path)["what"] == CONTAINER:
        if any(entry.name != MARK for entry in path.iterdir()):
            return False
        (path / MARK).unlink()
        path.rmdir()
    else:
        # Its mark last: what an interrupted run leaves is still the collection's.
        for entry in path.iterdir():
            if entry.name != MARK:
                shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        (path / MARK).unlink()
        path.rmdir()
    return True


def _beside(link: Path) -> Path:
    return link.with_name(f".{link.name}{MARK}")
