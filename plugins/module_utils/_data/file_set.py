# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Folders of files that are the same on several hosts: listed with their SHA-256, compared, and completed.

A listing is [{file: path in the folder, sha256, bytes}]. Large files are not read again as long as their size and time
are those of the last reading, which is kept in a file beside the folder.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


class Known:
    """The SHA-256 sums of files that were read before, by path, size and time; kept in `record`, if there is one."""

    def __init__(self, record: Path | None) -> None:
        self.record = record
        self.seen: dict[str, list[Any]] = {}
        if record:
            try:
                self.seen = json.loads(record.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                self.seen = {}  # none, or a damaged one: everything is read again

    def sha256(self, path: Path) -> str:
        """Return the SHA-256 of a file, reading it only if it changed since it was read last."""
        told = path.stat()
        known = self.seen.get(str(path))
        if not known or known[:2] != [told.st_size, told.st_mtime_ns]:
            known = [told.st_size, told.st_mtime_ns, sha256(path)]
            self.seen[str(path)] = known
        return str(known[2])

    def save(self) -> None:
        """Keep what was read for the next time."""
        if self.record:
            self.record.parent.mkdir(parents=True, exist_ok=True)
            beside = self.record.with_name(self.record.name + ".new")
            beside.write_text(json.dumps(self.seen), encoding="utf-8")
            beside.replace(self.record)


def listing(folder: Path, known: Known) -> list[dict[str, Any]]:
    """List the files in a folder and those below it, links followed, hidden folders left out.

    Raises ValueError when there is no such folder, or nothing in it.
    """
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}")
    found = []
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in inside.parts[:-1]):
            found.append({"file": str(inside), "sha256": known.sha256(path), "bytes": path.stat().st_size})
    if not found:
        raise ValueError(f"the folder {folder} holds no files")
    return found


def changed(folder: Path, files: Iterable[Mapping[str, Any]], known: Known) -> dict[str, str]:
    """Return {file: "is missing" or "is damaged"} of the listed files that are not in `folder` as they should be."""
    found = {}
    for entry in files:
        path = folder / entry["file"]
        if not path.is_file():
            found[entry["file"]] = "is missing"
        elif path.stat().st_size != entry.get("bytes", path.stat().st_size) or known.sha256(path) != entry["sha256"]:
            found[entry["file"]] = "is damaged"
    return found


def key(files: Iterable[Mapping[str, Any]]) -> str:
    """Return a short name of a folder's content: it changes when any file in it does."""
    content = json.dumps(sorted((entry["file"], entry["sha256"]) for entry in files))
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def by_folder(files: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Return [(folder, [files in it])] of files' paths, for programs that copy into one folder at a time."""
    found: dict[str, list[str]] = {}
    for file in sorted(files):
        found.setdefault(file.rpartition("/")[0], []).append(file)
    return sorted(found.items())
