# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text for a person to read: tables, counts and durations."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Sequence
from datetime import datetime, timezone

# The user of a URL, with or without a password, to the last @ before the path: a password may have one that is not
# written %40.
LOGIN = re.compile(r"(?<=://)[^/\s]*@")


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of cells, all of the same length, as lines in which the columns are aligned."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def count(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: 1 rank, 2 ranks; plural: where it is not the noun with an s."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def duration(seconds: float) -> str:
    """Return a duration as 42 s, 3 min 20 s or 2 h 5 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def now() -> str:
    """Return the time as documents have it: 2026-11-20T13:00:00+00:00."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def masked(text: str) -> str:
    """Return text without the user names and passwords of the URLs in it."""
    return LOGIN.sub("***@", text)


def names(hosts: Sequence[str], most: int = 6) -> str:
    """Return names with commas; where there are many, the first ones and the number of the others."""
    shown = hosts if len(hosts) <= most else hosts[: most - 1]
    rest = len(hosts) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def size(number: float) -> str:
    """Return a number of bytes as 12 KiB, 34 MiB or 1.2 GiB."""
    if number >= 2**30:
        return f"{number / 2**30:.1f} GiB"
    return f"{number / 2**20:.0f} MiB" if number >= 2**20 else f"{math.ceil(number / 2**10)} KiB"


def words(given: str | Sequence[object] | None) -> list[str]:
    """Return the words of a list, or of a text with commas between them; none for nothing."""
    each = given.split(",") if isinstance(given, str) else map(str, given or ())
    return [word.strip() for word in each if word.strip()]


def wrapped(head: str, text: str, width: int = 110) -> list[str]:
    """Return a text with its head as lines of at most `width` (20 and more) characters, all but the first indented."""
    return textwrap.wrap(
        f"{head}{text}", max(width, 20), subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
