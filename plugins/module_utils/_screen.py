# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Capabilities of the screen, and text that fits it: widths in terminal cells, bars, and the standard colours."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# What changes colours (SGR), and other escape sequences of terminals (ECMA-48), which have no width.
ESCAPE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
# The standard colours only, which the terminal's theme makes readable on dark and light.
DIM, BOLD, RED, GREEN, YELLOW = "2", "1", "31", "32", "33"
WIDE = 160  # columns of a file or pipe
_SEPARATOR = "  "


@dataclass(frozen=True)
class Screen:
    """Capabilities of the output.

    columns: its width. redraws: whether a line can be drawn again in its place. colours: whether escape sequences may
    set them. characters: whether it shows more than ASCII.
    """

    columns: int = WIDE
    redraws: bool = False
    colours: bool = False
    characters: bool = False


def detect(environ: Mapping[str, str], terminal: bool, columns: int, colours: bool) -> Screen:
    """Return what the output can show.

    environ: the environment variables. terminal: whether the output is one. columns: its width, 0 where it is not
    known. colours: whether Ansible uses them there (NO_COLOR, ANSIBLE_NOCOLOR, ANSIBLE_FORCE_COLOR).
    """
    dumb = environ.get("TERM", "dumb") in ("dumb", "unknown", "")
    return Screen(
        columns=(columns or 80) if terminal else WIDE,
        redraws=terminal and not dumb,
        colours=colours and not (terminal and dumb),
        characters=_locale(environ).lower().replace("-", "").endswith("utf8"),
    )


def _locale(environ: Mapping[str, str]) -> str:
    """Return the locale of characters that the user has set: Python itself sets LC_CTYPE to C.UTF-8 where none is."""
    chosen = environ.get("LC_ALL") or environ.get("LC_CTYPE", "")
    if environ.get("LC_ALL") or chosen not in ("", "C.UTF-8"):
        return chosen.partition("@")[0]
    return environ.get("LANG", "").partition("@")[0]


def plain(text: str) -> str:
    """Return a text without escape sequences."""
    return ESCAPE.sub("", text)


def cells(text: str) -> int:
    """Return how many columns a text takes on a terminal."""
    return sum(map(_width, plain(text)))


def _width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Cc", "Cf", "Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def fit(text: str, columns: int, characters: bool = False) -> str:
    """Return a text without escape sequences as one line of at most `columns` cells, its end cut off where needed."""
    text = _CONTROL.sub(" ", plain(text))
    if cells(text) <= columns:
        return text
    mark = "…" if characters else "..."
    room = columns - len(mark)
    if room < 0:
        mark, room = "", columns
    kept = ""
    for character in text:
        room -= _width(character)
        if room < 0:
            break
        kept += character
    return kept.rstrip() + mark


def padded(text: str, columns: int) -> str:
    """Return a text with spaces up to a width in cells."""
    return text + " " * max(0, columns - cells(text))


def gauge(done: float, total: float, columns: int, characters: bool = False) -> str:
    """Return a bar of `columns` cells that is as full as `done` is of `total`."""
    share = min(1.0, max(0.0, done / total)) if total > 0 else 0.0
    full = int(share * columns)
    return ("█" * full + "░" * (columns - full)) if characters else ("#" * full + "." * (columns - full))


def painted(text: str, code: str, colours: bool = True) -> str:
    """Return a text in a colour, or dim or bold, line by line; as it is without colours."""
    if not colours or not code or not text:
        return text
    return "\n".join(f"\x1b[{code}m{line}\x1b[0m" if line else line for line in text.split("\n"))


def joined(parts: Sequence[str]) -> str:
    """Return the parts of a line that are not empty with space between them."""
    return _SEPARATOR.join(filter(None, parts))
