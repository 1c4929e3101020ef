# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that several processes read and write: replaced at once, and never seen half written."""

from __future__ import annotations

import json
import os
import re
import stat
import tempfile
from pathlib import Path
from typing import Any

# What is written where a file system cannot take more: by the kernel, by Rust, and by PyTorch, which hides the cause.
_DISK = (
    (
        re.compile(
            r"No space left on device|\bos error 28\b|PytorchStreamWriter failed writing|unexpected pos \d+ vs \d+"
            r"|Wrote only \d+ of \d+ bytes"
        ),
        "is full: free some of it",
    ),
    (re.compile(r"Disk quota exceeded|\bos error 122\b"), "has no more room for this user (quota): free some of it"),
    (re.compile(r"Read-only file system|\bos error 30\b"), "is read-only: see why (dmesg), and mount it for writing"),
)
_NAMED = re.compile(r"['\"](/[^'\"\n]+)['\"]")


def disk_problem(text: str, host: str, path: str = "") -> str:
    """Return on which host a file system is full or read-only, by the text of an error; else an empty string.

    path: in that file system, if the text names none.
    """
    if "the file system of" in text:  # it is said already
        return ""
    for line in text.splitlines():
        for form, problem in _DISK:
            if match := form.search(line):
                named = [*_NAMED.findall(line, match.end()), *_NAMED.findall(line)]
                place = f" of {named[0] if named else path}" if named or path else ""
                return f"the file system{place} on {host} {problem}"
    return ""


def is_same(path: Path, other: Path) -> bool:
    """Return whether two paths name one directory, whatever they are called: links and bind mounts have several
    names."""
    try:
        return path.samefile(other)
    except OSError:
        return path == other


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the mapping in a JSON file; None when the file is missing, not complete JSON, or no mapping.

    A named pipe, which another user may have put there, is no file: whoever opens it waits.
    """
    try:
        if stat.S_ISFIFO(path.stat().st_mode):
            return None
        document = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, RecursionError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def write_text(path: Path, text: str, mode: int = 0o644) -> None:
    """Replace the file at `path` by one with this text and these permission bits. Raises OSError."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
            os.fchmod(descriptor, mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def tail(path: Path, offset: int, most: int) -> str:
    """Return what a file has from the byte `offset` on; where that is more than `most` bytes, the last of them.

    Raises OSError.
    """
    with path.open("rb") as stream:
        stream.seek(max(offset, path.stat().st_size - most))
        return stream.read(most).decode("utf-8", errors="replace")


def write_json(path: Path, document: Any, mode: int = 0o644) -> None:
    """Replace the file at `path` by one with this content as indented JSON. Raises OSError."""
    write_text(path, json.dumps(document, indent=1) + "\n", mode)
