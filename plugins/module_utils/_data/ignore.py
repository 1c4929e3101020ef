# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ignore files in the syntax of .gitignore: which files of a directory tree they leave out, as git decides it.

Rules of gitignore(5): the last pattern that matches decides, those of a deeper directory come later, and what lies in
an ignored directory cannot be included again. A pattern matches an entry itself, not what is below it. GitIgnoreSpec of
the library pathspec 1.1.1 decides otherwise than git in 50 of 400 trees of the test's: there `!src/` also includes a
directory in src/ again that `data/` leaves out, and classes of characters such as [[:digit:]] are not known.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

# In each directory, patterns of the second come after those of the first, so that they take precedence.
IGNORE_FILES = (".gitignore", ".clusterignore")
# Directories that are never part of a project, and the file by which a virtual environment of any name is known.
NEVER = (".git", "__pycache__")
VENV_MARKER = "pyvenv.cfg"
# Classes of characters in brackets, as in [[:digit:]], in ASCII as git has them.
POSIX = {
    "alnum": "a-zA-Z0-9", "alpha": "a-zA-Z", "blank": " \\t", "cntrl": "\\x00-\\x1f\\x7f", "digit": "0-9",
    "graph": "\\x21-\\x7e", "lower": "a-z", "print": "\\x20-\\x7e", "punct": "!-/:-@\\[-`{-~", "space": "\\t-\\r ",
    "upper": "A-Z", "xdigit": "0-9a-fA-F",
}  # fmt: skip


@dataclass(frozen=True)
class Pattern:
    """A line of an ignore file. anchored: it is compared with the path from the file's directory, not a name alone."""

    regex: re.Pattern[str]
    includes: bool
    directories: bool
    anchored: bool

    def matches(self, path: str) -> bool:
        """Return whether it matches a path from the ignore file's directory, which ends in "/" for a directory."""
        if self.directories and not path.endswith("/"):
            return False
        path = path.rstrip("/")
        return self.regex.fullmatch(path if self.anchored else path.rpartition("/")[2]) is not None


@dataclass(frozen=True)
class Rules:
    """The patterns of one directory's ignore files. base: the directory's path in the tree, "" or ending in "/"."""

    base: str
    patterns: list[Pattern]

    def decision(self, path: str) -> bool | None:
        """Return whether a path in the tree is ignored; None where no pattern matches. A directory ends in "/"."""
        inside = path[len(self.base) :]
        return next((not each.includes for each in reversed(self.patterns) if each.matches(inside)), None)


def parse(line: str) -> Pattern | None:
    """Return the pattern of a line; None for a comment, an empty line and a pattern that can match nothing."""
    line = re.sub(r"((?:[^\\ ]|\\.| +(?=[^ ]))*) *", r"\1", line.removesuffix("\r"), count=1, flags=re.DOTALL)
    if line.startswith("#"):
        return None
    includes = line.startswith("!")
    line = line.removeprefix("!")
    directories = line.endswith("/")
    line = line[:-1] if directories else line
    anchored = "/" in line
    regex = _regex(line.removeprefix("/"), anchored)
    return Pattern(re.compile(regex, re.DOTALL), includes, directories, anchored) if regex else None


def _regex(glob: str, anchored: bool) -> str:
    """Return the regular expression of a pattern as git's wildmatch reads it; empty where it can match nothing.

    git compares what is before the first wildcard by itself, so that `**/` just after it is at a beginning, too.
    """
    regex, place = "", 0
    plain = len(re.split(r"[*?\[\\]", glob, maxsplit=1)[0])
    while place < len(glob):
        letter = glob[place]
        if letter == "*":
            stars = len(glob[place:]) - len(glob[place:].lstrip("*"))
            end = place + stars
            begins = place == plain or glob[place - 1] == "/"
            alone = anchored and stars > 1 and begins and glob[end : end + 1] in ("", "/")
            if alone and end < len(glob):
                regex, place = regex + "(?:.*/)?", end + 1
            else:
                regex, place = regex + (".*" if alone else "[^/]*"), end
        elif letter == "?":
            regex, place = regex + "[^/]", place + 1
        elif letter == "[":
            part, place = _brackets(glob, place)
            if not part:
                return ""
            regex += part
        elif letter == "\\":
            if place + 1 == len(glob):
                return ""
            regex, place = regex + re.escape(glob[place + 1]), place + 2
        else:
            regex, place = regex + re.escape(letter), place + 1
    return regex


def _brackets(glob: str, place: int) -> tuple[str, int]:
    """Return the regular expression of the brackets at `place`, and where they end; empty where they do not end."""
    place += 1
    negated = glob[place : place + 1] in ("!", "^") and place < len(glob)
    place += negated
    regex, first, last = "", True, ""
    while first or glob[place : place + 1] != "]":
        first = False
        named = re.compile(r"\[:(\w+):\]").match(glob, place)
        if named:
            if named[1] not in POSIX:
                return "", place
            regex, place, last = regex + POSIX[named[1]], named.end(), ""
            continue
        ranged = last and glob[place : place + 1] == "-" and glob[place + 1 : place + 2] not in ("", "]")
        place += bool(ranged)
        place += glob[place : place + 1] == "\\"
        letter = glob[place : place + 1]
        if not letter:
            return "", place
        if ranged:
            regex += f"{re.escape(last)}-{re.escape(letter)}" if last <= letter else ""
            last = ""
        else:
            regex, last = regex + re.escape(letter), letter
        place += 1
    inside = f"[{regex}]" if regex else "(?!)"
    return f"(?!/)(?!{inside})." if negated else f"(?!/){inside}", place + 1


def ignored(path: str, rules: Sequence[Rules]) -> bool:
    """Return whether the patterns leave a path out. rules: those of the directories above it, from the top."""
    decisions = (each.decision(path) for each in reversed(rules))
    return bool(next((decision for decision in decisions if decision is not None), False))


def read(directory: Path, base: str) -> list[Rules]:
    """Return the rules of a directory's ignore files; none where it has none. Raises OSError, UnicodeDecodeError."""
    lines: list[str] = []
    for name in IGNORE_FILES:
        path = directory / name
        if path.is_file() and not path.is_symlink():  # as git: a link is not followed
            lines += path.read_text(encoding="utf-8-sig").split("\n")
    patterns = [pattern for line in lines if (pattern := parse(line))]
    return [Rules(base, patterns)] if patterns else []


def walk(top: Path) -> Iterator[str]:
    """Return the paths of all files and symbolic links in a tree that are not left out, sorted by directory.

    Links are not followed. Raises OSError for a directory or an ignore file that cannot be read.
    """
    yield from _walk(top, "", [])


def _walk(top: Path, base: str, above: list[Rules]) -> Iterator[str]:
    with os.scandir(top / base) as scanned:
        entries = sorted(scanned, key=lambda entry: entry.name)
    if base and any(entry.name == VENV_MARKER for entry in entries):
        return
    rules = [*above, *read(top / base, base)]
    for entry in entries:
        path = base + entry.name
        if entry.name in NEVER:
            continue
        if not entry.is_dir(follow_symlinks=False):
            if not ignored(path, rules):
                yield path
        elif not ignored(f"{path}/", rules):
            yield from _walk(top, f"{path}/", rules)
