# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wheels of packages in Git repositories, built once for each commit on the control node."""

from __future__ import annotations

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

COMMIT = re.compile(r"[0-9a-f]{40}")


def commit(requirement: str, run: pip.Run) -> str:
    """Return the commit that a requirement's ref means now, as its repository says. Raises ValueError."""
    parts = packaging_files.GIT.fullmatch(requirement)
    if not parts:
        raise ValueError(f"{requirement} is not git+URL@REF")
    if COMMIT.fullmatch(parts["ref"]):
        return parts["ref"]
    command = ["git", "ls-remote", "--exit-code", "--", parts["url"], parts["ref"], f"{parts['ref']}^{{}}"]
    code, output, errors = run(command, {"GIT_TERMINAL_PROMPT": "0"})
    if code == 2:
        raise ValueError(
            f"{masked(parts['url'])} has no branch or tag {parts['ref']}; a commit is named with 40 digits"
        )
    if code:
        raise ValueError(f"{masked(parts['url'])} cannot be read: {masked(errors.strip() or f'exit code {code}')}")
    found = [line.split("\t") for line in output.splitlines()]
    peeled = [digest for digest, name in found if name.endswith("^{}")]  # of an annotated tag
    return (peeled or [digest for digest, _name in found])[0]


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

    options: those of the module git_wheels. Raises ValueError, OSError.
    """
    exact = pinned_to(requirement, commit(requirement, run))
    name = hashlib.sha256(f"{exact} {options['python']}".encode()).hexdigest()[:16]
    place = Path(options["path"], name)
    there = sorted(place.glob("*.whl"))
    if there:
        return packaging_files.wheel(there[0]), False
    _ownership.make(Path(options["path"]), _ownership.CONTAINER)
    with tempfile.TemporaryDirectory(dir=options["path"]) as scratch:
        tool = wheelhouse.pip_of(options, Path(scratch), glibc, run, ask)
        target = Path(scratch, "wheel")
        words = [
            "wheel",
            "--quiet",
            "--no-input",
            "--disable-pip-version-check",
            "--no-deps",
            "--wheel-dir",
            str(target),
        ]
        code, output, errors = run([sys.executable, "-m", "pip", *words, exact], tool.variables)
        built = sorted(target.glob("*.whl"))
        if code or len(built) != 1:
            last = "\n".join((errors or output).strip().splitlines()[-6:])
            raise ValueError(f"{masked(requirement)} could not be built: {masked(last)}")
        if wheels.unfit([{"file": built[0].name}], options["python"], glibc):
            raise ValueError(
                f"{masked(requirement)} has compiled parts: {built[0].name} does not fit the hosts. Build its wheel on "
                "a system like theirs, and name it under `wheels` in the job file"
            )
        _ownership.mark(target, "wheel of a commit")
        target.rename(place)
    return packaging_files.wheel(place / built[0].name), True
