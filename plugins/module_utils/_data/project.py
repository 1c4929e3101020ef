# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The project of a job: a directory of the user's own, of which every run gets a copy on every host.

On the control node the files are listed, without those that ignore files leave out. Every host keeps their contents in
a store, each under its SHA-256 (`<cluster_prefix>/cache/projects/files`), so that only contents which no earlier run
had are copied there. The job directory gets the tree, copied from the store: what a script writes into its project is
its own, and the store stays as it is.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._data import file_set, ignore
from ansible_collections.amx.cluster.plugins.module_utils._documents import Document
from ansible_collections.amx.cluster.plugins.module_utils._text import count

# The directory of the job directory that has the project, the one in it that has what an installation adds, and
# the file that lists it.
DIRECTORY = "project"
INSTALLED = f"{DIRECTORY}/.installed"
LISTING = "project.json"
# What scripts write: directories of the job directory that are linked into the project.
WRITTEN = ("output", "data")
MB = 1_000_000
IGNORE_HINT = "name what is not needed in .clusterignore (the syntax of .gitignore)"
# How many files and directories a message names at most.
NAMED = 5


@dataclass(frozen=True)
class Project(Document):
    """Files of a project's directory that are copied to the hosts.

    files: each {file: its path, sha256, bytes, executable}. links: symbolic links by their path, each with its target.
    """

    directory: Path
    files: list[dict[str, Any]]
    links: dict[str, str]

    def digest(self) -> str:
        """Return the SHA-256 of all of it: paths, contents, what is executable, links."""
        entries = sorted((entry["file"], entry["sha256"], entry["executable"]) for entry in self.files)
        return hashlib.sha256(json.dumps([entries, sorted(self.links.items())]).encode()).hexdigest()

    def size(self) -> int:
        return sum(entry["bytes"] for entry in self.files)

    def summary(self) -> dict[str, Any]:
        """Return {directory, digest, files, bytes}: what plan and results have of it."""
        return {
            "directory": str(self.directory),
            "digest": self.digest(),
            "files": len(self.files),
            "bytes": self.size(),
        }

    def contents(self) -> list[dict[str, Any]]:
        """Return the entries of the store: each content once, {file: its SHA-256, sha256, bytes, source}."""
        entries = {
            entry["sha256"]: {
                "file": entry["sha256"],
                "sha256": entry["sha256"],
                "bytes": entry["bytes"],
                "source": str(self.directory / entry["file"]),
            }
            for entry in self.files
        }
        return list(entries.values())


def megabytes(size: int) -> str:
    """Return a size for a message."""
    return f"{size / MB:.1f} MB" if size >= MB / 10 else f"{size / 1000:.1f} kB"


def describe(summary: Mapping[str, Any]) -> str:
    """Return a project for a person: its name, its digest and its size."""
    name = PurePosixPath(summary["directory"]).name
    return f"{name} {summary['digest'][:12]} ({count(summary['files'], 'file')}, {megabytes(summary['bytes'])})"


def scan(directory: Path, max_mb: int) -> Project:
    """List what of a directory goes to the hosts.

    Raises ValueError, with what to do, for a project of more than max_mb megabytes, links that leave it or lead to what
    stays here, files that cannot be read, and one without any file.
    """
    try:
        paths = list(ignore.walk(directory))
    except UnicodeDecodeError as error:
        raise ValueError(f"an ignore file in {directory} is not UTF-8: {error}") from error
    except OSError as error:
        raise ValueError(
            f"{error.filename} cannot be read ({error.strerror}): change its permissions, or {IGNORE_HINT}"
        ) from error
    sizes, links, others = {}, {}, []
    for path in paths:
        status = (directory / path).lstat()
        if stat.S_ISLNK(status.st_mode):
            links[path] = str((directory / path).readlink())
        elif stat.S_ISREG(status.st_mode):
            sizes[path] = status.st_size
        else:
            others.append(path)
    if others:
        raise ValueError(f"{_named(others)} in {directory} is neither a file nor a directory: {IGNORE_HINT}")
    if not sizes:
        raise ValueError(f"{directory} has no files, or its ignore files leave out all of them")
    total = sum(sizes.values())
    if total > max_mb * MB:
        there = ", ".join(f"{name} {megabytes(size)}" for name, size in largest(sizes))
        raise ValueError(
            f"{directory} has {megabytes(total)} in {count(len(sizes), 'file')}, more than project_max_mb ({max_mb}): "
            f"{there}. {IGNORE_HINT[0].upper()}{IGNORE_HINT[1:]}, provide data and models by `data` and `models`, or "
            "set project_max_mb"
        )
    return Project(directory, _hashed(directory, sizes), _checked_links(directory, links, sizes))


def _hashed(directory: Path, sizes: Mapping[str, int]) -> list[dict[str, Any]]:
    entries, unreadable = [], []
    for path, size in sizes.items():
        try:
            executable = bool((directory / path).stat().st_mode & stat.S_IXUSR)
            digest = file_set.sha256(directory / path)
        except OSError:
            unreadable.append(path)
            continue
        entries.append({"file": path, "sha256": digest, "bytes": size, "executable": executable})
    if unreadable:
        raise ValueError(
            f"{_named(unreadable)} in {directory} cannot be read: change the permissions, or {IGNORE_HINT}"
        )
    return entries


def _checked_links(directory: Path, links: Mapping[str, str], sizes: Mapping[str, int]) -> dict[str, str]:
    """Return links as they are made on hosts, all of them relative."""
    top = directory.resolve()
    there = {*sizes, *links, *(str(parent) for path in (*sizes, *links) for parent in PurePosixPath(path).parents)}
    checked = {}
    for path, target in links.items():
        leads_to = ((directory / path).parent / target).resolve()
        if not leads_to.is_relative_to(top):
            raise ValueError(
                f"{path} in {directory} is a symbolic link to {target}, outside of the project: copy the file, provide "
                f"it by `data` or `models`, or {IGNORE_HINT}"
            )
        if str(leads_to.relative_to(top)) not in there:
            raise ValueError(
                f"{path} in {directory} is a symbolic link to {target}, which "
                f"{'is not copied' if leads_to.exists() else 'does not exist'}: {IGNORE_HINT}"
            )
        checked[path] = os.path.relpath(leads_to, (top / path).parent)
    return checked


def _named(paths: Sequence[str]) -> str:
    rest = len(paths) - NAMED
    return ", ".join(paths[:NAMED]) + (f" and {rest} more" if rest > 0 else "")


def largest(sizes: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return the largest files and directories (these end in "/"), none in another: [(path, bytes)], largest first.

    Instead of a directory, what in it takes nearly all of it. What takes less than a hundredth of all is left out.
    """
    totals: Counter[str] = Counter()
    for path, size in sizes.items():
        totals[path] += size
        for parent in PurePosixPath(path).parents:
            if str(parent) != ".":
                totals[f"{parent}/"] += size

    def inside(directory: str) -> list[str]:
        depth = directory.count("/")
        return [
            path
            for path in totals
            if path.startswith(directory) and path != directory and path.rstrip("/").count("/") == depth
        ]

    candidates = []
    for path in inside(""):
        while path.endswith("/"):
            child = max(inside(path), key=totals.__getitem__)
            if totals[child] < 0.9 * totals[path]:
                break
            path = child
        candidates.append((path, totals[path]))
    candidates = [(path, size) for path, size in candidates if size > sum(sizes.values()) / 100]
    return sorted(candidates, key=lambda item: -item[1])[:NAMED]


def taken(project: Project, names: Iterable[str]) -> str:
    """Return which of these paths, where a run puts something, the project has itself; an empty string for none."""
    paths = [entry["file"] for entry in project.files] + list(project.links)
    for name in names:
        if any(f"{path}/".startswith(f"{name}/") or name.startswith(f"{path}/") for path in paths):
            return (
                f"{project.directory} has {name}, where the job directory has one of its own: rename it, or write "
                f"/{name} into .clusterignore"
            )
    return ""


def make(document: Mapping[str, Any], store: Path, target: Path) -> None:
    """Make the tree of a project in the new directory `target`. document: as to_json returns it. Raises OSError."""
    for entry in document["files"]:
        path = target / entry["file"]
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(store / entry["sha256"], path)
        path.chmod(0o700 if entry["executable"] else 0o600)
    for name, leads_to in document["links"].items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(leads_to)
