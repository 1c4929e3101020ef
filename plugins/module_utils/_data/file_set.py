# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets of files that are the same on several hosts: listed with their SHA-256, compared, and completed.

A listing is [{file: path in the directory, sha256, bytes}]. Large files are not read again as long as they have not
changed since their entry in a record.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._data.records import Record, stamp

MISSING, DAMAGED = "is missing", "is damaged"
# On hosts, and on the control node.
PLACES = _ownership.Places("data", ("cache",))
DOWNLOADS = _ownership.Places("downloads", ("fetched",))


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def recorded_sha256(path: Path, record: Record) -> str:
    """Return the SHA-256 of a file, reading it only if it has changed since its entry in the record."""
    digest = record.digest(path)
    if digest is None:
        before = stamp(path)
        digest = sha256(path)
        record.enter(path, before, digest)
    return digest


def listing(directory: Path, record: Record) -> list[dict[str, Any]]:
    """List the files in a directory and those below it, links followed, hidden directories and marks left out.

    Raises ValueError when there is no such directory, or no file in it, or a link that leads nowhere or in a circle;
    OSError for a directory that cannot be read.
    """
    if not directory.is_dir():
        raise ValueError(f"there is no directory {directory}")
    entries = []
    for path in sorted(_files(directory)):
        digest = recorded_sha256(path, record)
        entries.append({"file": str(path.relative_to(directory)), "sha256": digest, "bytes": path.stat().st_size})
    if not entries:
        raise ValueError(f"the directory {directory} has no files")
    return entries


def _files(directory: Path, above: tuple[Path, ...] = ()) -> Iterator[Path]:
    """Yield the files to list. Not by rglob(), which leaves out what it cannot read, and directories that are links."""
    real = directory.resolve()
    if real in above:
        raise ValueError(f"{directory} is a symbolic link to a directory that it is in: remove it")
    with os.scandir(directory) as entries:
        names = [entry.name for entry in entries]
    for path in (directory / name for name in names):
        if path.is_dir():
            if not path.name.startswith("."):
                yield from _files(path, (*above, real))
        elif path.is_file() and path.name != _ownership.MARK:
            yield path
        elif path.is_symlink() and not path.exists():
            raise ValueError(
                f"{path} is a symbolic link to {path.readlink()}, which does not exist: copy the file there, or remove "
                "the link"
            )


def differences(directory: Path, files: Iterable[Mapping[str, Any]], record: Record | None = None) -> dict[str, str]:
    """Return {file: MISSING or DAMAGED} of the listed files that are not in `directory` as they should be."""
    record = record or Record()
    problems = {}
    for entry in files:
        path = directory / entry["file"]
        if not path.is_file():
            problems[entry["file"]] = MISSING
        elif (
            path.stat().st_size != entry.get("bytes", path.stat().st_size)
            or recorded_sha256(path, record) != entry["sha256"]
        ):
            problems[entry["file"]] = DAMAGED
    return problems


def describe(problems: Mapping[str, str]) -> str:
    """Return differences for a message."""
    return ", ".join(f"{file} {problem}" for file, problem in sorted(problems.items()))


def key(files: Iterable[Mapping[str, Any]]) -> str:
    """Return a short name of a directory's content: it changes when any file in it does."""
    text = json.dumps(sorted((entry["file"], entry["sha256"]) for entry in files))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
