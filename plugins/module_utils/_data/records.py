# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records of files that were read once, so that large ones are not read again as long as they have not changed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._io import read_json, write_json


class Record:
    """Digests of files by path, each valid as long as the file's size and time of modification are those at its entry.

    path: the JSON file that keeps them with its mark, {file: [bytes, nanoseconds, digest]}; None for a record that is
    not kept.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.entries: dict[str, list[Any]] = {}
        if path:
            with contextlib.suppress(OSError):  # it cannot be read, so all files are
                self.entries = {name: entry for name, entry in (read_json(path) or {}).items() if name != "mark"}

    def digest(self, file: Path) -> str | None:
        """Return the digest of a file that has not changed since its entry was made, else None."""
        entry = self.entries.get(str(file))
        return str(entry[2]) if entry and entry[:2] == stamp(file) else None

    def enter(self, file: Path, stamped: list[int], digest: str) -> None:
        """Enter the digest of a file, which had this stamp before it was read; empty where no digest is known."""
        self.entries[str(file)] = [*stamped, digest]

    def keep_only(self, files: Iterable[Path]) -> None:
        """Remove the entries of all other files."""
        names = {str(file) for file in files}
        self.entries = {name: entry for name, entry in self.entries.items() if name in names}

    def is_current(self) -> bool:
        """Return whether there are entries, and no file has changed since its entry was made."""
        return bool(self.entries) and all(self.digest(Path(name)) is not None for name in self.entries)

    def save(self) -> None:
        """Write the record, if it is kept. Raises OSError."""
        if self.path:
            _ownership.make(self.path.parent, _ownership.CONTAINER)
            write_json(self.path, {"mark": _ownership.SIGNATURE, **self.entries})


def stamp(file: Path) -> list[int]:
    """Return a file's size in bytes and its time of modification in nanoseconds; empty when there is no such file."""
    try:
        status = file.stat()
    except OSError:
        return []
    return [status.st_size, status.st_mtime_ns]
