# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wheels of packages in Git repositories, built once for each commit on the control node."""

from __future__ import annotations

import functools
import hashlib
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._stacks import packaging_files, pip, wheelhouse, wheels
from ansible_collections.amx.cluster.plugins.module_utils._text import masked

COMMIT = re.compile(r"[0-9a-fA-F]{40}")


def commit(requirement: str, run: pip.Run) -> str:
    """Return the commit that a requirement's ref means now, as its repository says.

    The ref is a branch or a tag, or the full name of one (refs/heads/main), or HEAD, the repository's default branch.
    Raises ValueError, also where a branch and a tag of that name are at different commits.
    """
    parts = packaging_files.GIT.fullmatch(requirement)
    if not parts:
        raise ValueError(f"{requirement} is not git+URL@REF")
    ref, url = parts["ref"], masked(parts["url"])
    if COMMIT.fullmatch(ref):
        return ref.lower()
    is_full = ref == "HEAD" or ref.startswith(("refs/heads/", "refs/tags/"))
    names = [ref] if is_full else [f"refs/heads/{ref}", f"refs/tags/{ref}"]
    patterns = [*names, *(f"{name}^{{}}" for name in names)]
    command = ["git", "ls-remote", "--exit-code", "--", parts["url"], *patterns]
    code, output, errors = run(command, {"GIT_TERMINAL_PROMPT": "0"})
    if code not in (0, 2):
        raise ValueError(f"{url} cannot be read: {masked(errors.strip() or f'exit code {code}')}")
    # For git these are patterns, which longer names that end like them match, too.
    listed = {name: digest for digest, _tab, name in (line.partition("\t") for line in output.splitlines())}
    # NAME^{}: the commit of an annotated tag.
    commits = {name: listed.get(f"{name}^{{}}", listed[name]) for name in names if name in listed}
    if not commits:
        raise ValueError(f"{url} has no branch or tag {ref}; a commit is named with 40 digits")
    if len(set(commits.values())) > 1:
        ways = " or ".join(f"{name} ({digest[:12]})" for name, digest in commits.items())
        raise ValueError(f"{url} has a branch and a tag {ref}, at different commits: write {ways} instead")
    return next(iter(commits.values()))


def pinned_to(requirement: str, digest: str) -> str:
    """Return a requirement with this commit for its ref."""
    parts = packaging_files.GIT.fullmatch(requirement)
    if not parts:
        raise ValueError(f"{requirement} is not git+URL@REF")
    return requirement[: parts.start("ref")] + digest + requirement[parts.end("ref") :]


def build(
    requirement: str, options: Mapping[str, Any], glibc: str, run: pip.Run, ask: Callable[..., str]
) -> tuple[dict[str, Any], bool]:
    """Return (the wheel of a requirement as packaging_files.wheel describes it, whether it was built now).

    options: those of the module git_wheels. Another process that builds the same is waited for. Raises ValueError,
    OSError.
    """
    exact = pinned_to(requirement, commit(requirement, run))
    name = hashlib.sha256(f"{exact} {options['python']}".encode()).hexdigest()[:16]
    place = Path(options["path"], name)
    there = sorted(place.glob("*.whl"))
    if there:
        return packaging_files.wheel(there[0]), False
    _ownership.make(place.parent, _ownership.CONTAINER)
    with wheelhouse.locked(place) as descriptor:
        there = sorted(place.glob("*.whl"))  # built by another process meanwhile
        if not there:
            _build(requirement, exact, place, options, glibc, functools.partial(run, pass_fds=[descriptor]), ask)
    return packaging_files.wheel(next(place.glob("*.whl"))), not there


def _build(
    requirement: str,
    exact: str,
    place: Path,
    options: Mapping[str, Any],
    glibc: str,
    run: pip.Run,
    ask: Callable[..., str],
) -> None:
    """Build the wheel of a requirement, which `exact` is with its commit, in the new directory `place`."""
    staging = wheelhouse.staging(place)
    _ownership.remove(staging)  # of a run that was killed
    _ownership.claim(staging, "wheel of a commit")
    words = ["wheel", "--quiet", "--no-input", "--disable-pip-version-check", "--no-deps", "--wheel-dir", str(staging)]
    with tempfile.TemporaryDirectory() as scratch:
        tool = wheelhouse.pip_of(options, Path(scratch), glibc, run, ask)
        code, output, errors = run([sys.executable, "-m", "pip", *words, exact], tool.variables)
    try:
        built = sorted(staging.glob("*.whl"))
        if code or len(built) != 1:
            last = "\n".join((errors or output).strip().splitlines()[-6:])
            raise ValueError(f"{masked(requirement)} could not be built: {masked(last)}")
        if wheels.unfit([{"file": built[0].name}], options["python"], glibc):
            raise ValueError(
                f"{masked(requirement)} has compiled parts: {built[0].name} does not fit the hosts. Build its wheel on "
                "a system like theirs, and name it under `wheels` in the job file"
            )
        staging.rename(place)
    finally:
        _ownership.remove(staging)
