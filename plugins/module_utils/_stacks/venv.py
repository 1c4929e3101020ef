# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The environments on a host: PREFIX/envs/NAME, and the link PREFIX/env to the one in use.

An environment has passed its check when the file amx-cluster.json is in it; its time is when the environment was last
in use. Nothing here touches one that is in use.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._io import MARKER
from ansible_collections.amx.cluster.plugins.module_utils._stacks import catalogue

# What pip says, and what it means on a host.
CAUSES = (
    ("No space left on device", "there is no space left under {prefix}: free some, or set cluster_prefix elsewhere"),
    ("Disk quota exceeded", "the user's quota under {prefix} is used up: raise it, or set cluster_prefix elsewhere"),
    (
        "THESE PACKAGES DO NOT MATCH THE HASHES",
        "a wheel is not the one that was locked: it was damaged on the way, or the index has another of that name",
    ),
    ("is not a supported wheel on this platform", "a wheel is for another Python, architecture or C library"),
    (
        "No matching distribution found",
        "no index that this host reaches has that version for it; torch_stack_source: wheelhouse needs none",
    ),
    ("Read-only file system", "{prefix} is on a file system that cannot be written to"),
    ("Permission denied", "this user may not write under {prefix}"),
)


def current(prefix: Path) -> tuple[str, dict[str, Any]]:
    """Return where the environment lies that PREFIX/env points to, and its stack as it was installed; both may be
    empty."""
    link = prefix / "env"
    if not link.is_symlink():
        return "", {}
    try:
        return str(link.readlink()), dict(json.loads((link / MARKER).read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError):
        return "", {}  # it was removed by hand


def in_use(prefix: Path) -> str:
    """Return the name of the environment that PREFIX/env points to, or an empty string."""
    link = prefix / "env"
    return link.readlink().name if link.is_symlink() else ""


def installed(prefix: Path) -> list[str]:
    """Return the names of the environments that have passed their check, the one last in use first."""
    marks = [(path.stat().st_mtime, path.parent.name) for path in (prefix / "envs").glob(f"*/{MARKER}")]
    return [name for _time, name in sorted(marks, reverse=True)]


def choose(prefix: Path, wanted: str) -> str:
    """Return the name of the installed environment that `wanted` means: a name, the end of one, or "previous".

    Raises ValueError when there is none, naming those that there are.
    """
    names, now = installed(prefix), in_use(prefix)
    there = f"{prefix} has {', '.join(names) or 'none'}" + (f", and {now} is in use" if now else "")
    if wanted == "previous":
        others = [name for name in names if name != now]
        if not others:
            raise ValueError(f"torch_stack_use: there is no earlier environment to go back to: {there}")
        return others[0]
    found = [name for name in names if name == wanted] or [name for name in names if name.endswith("-" + wanted)]
    if len(found) != 1:
        raise ValueError(f"torch_stack_use: there is no environment {wanted!r}: {there}")
    return found[0]


def use(prefix: Path, name: str) -> None:
    """Point PREFIX/env to an environment, at once: whoever looks finds the old one or the new one."""
    before = in_use(prefix)
    if before and before != name and (prefix / "envs" / before / MARKER).exists():
        (prefix / "envs" / before / MARKER).touch()
    beside = prefix / ".env.new"
    beside.unlink(missing_ok=True)
    beside.symlink_to(prefix / "envs" / name)
    beside.replace(prefix / "env")


def surplus(prefix: Path, keep: int, proc: Path = Path("/proc")) -> list[str]:
    """Return the environments that may go: all but the one in use, the `keep` last before it, and busy ones."""
    now = in_use(prefix)
    old = [name for name in installed(prefix) if name != now]
    return [name for name in old[keep:] if not busy(prefix / "envs" / name, proc)]


def busy(env: Path, proc: Path = Path("/proc")) -> bool:
    """Whether a process on this host was started from an environment, as far as this user may see."""
    inside = os.fsencode(f"{env}{os.sep}")
    for path in proc.glob("[0-9]*/cmdline"):
        try:
            if any(word.startswith(inside) for word in path.read_bytes().split(b"\0")):
                return True
        except OSError:  # it has ended, or is another user's
            continue
    return False


def needed_bytes(wheels: Iterable[Mapping[str, Any]], copied: bool) -> int:
    """Return the room that an installation takes: what is in the wheels, and the wheels if they are copied."""
    return sum(wheel.get("unpacked", 0) + (wheel.get("bytes", 0) if copied else 0) for wheel in wheels)


def problems(
    prefix: Path, wheels: list[Mapping[str, Any]], copied: bool, machine: str, python: str, glibc: str
) -> list[str]:
    """Return why an environment of these wheels cannot be installed under `prefix`, each with what to do.

    copied: whether the wheels take room here, too. machine, python ("3.11"), glibc ("2.36"): this host's.
    """
    if machine != "x86_64":
        return [f"this host is {machine} and the wheels are for x86_64: take it out of the inventory"]
    found = []
    unfit = catalogue.unfit_wheels(wheels, python, glibc)
    if unfit:
        found.append(
            f"this host has Python {python} and glibc {glibc}, which cannot use {', '.join(unfit)}: "
            "set ansible_python_interpreter, or take a host with a newer system"
        )
    folder = next(path for path in (prefix, *prefix.parents) if path.exists())
    free, need = shutil.disk_usage(folder).free, needed_bytes(wheels, copied)
    if free < need:
        found.append(
            f"{folder} has {free / 1e9:.1f} GB free and the installation takes {need / 1e9:.1f} GB: free some, "
            "or set cluster_prefix elsewhere"
        )
    return found


def remove_halves(env: Path) -> list[str]:
    """Remove the records of packages that an interrupted pip has not finished, so that it installs them again.

    pip writes INSTALLER after a package's files. Returns the records' names.
    """
    halves = [path for path in env.glob("lib/python*/site-packages/*.dist-info") if not (path / "INSTALLER").exists()]
    for path in halves:
        shutil.rmtree(path)
    return [path.name for path in halves]


def explain(said: str, prefix: Path) -> str:
    """Return pip's last words with the cause and the remedy in front of them."""
    words = [line.strip() for line in catalogue.masked(said).splitlines() if line.strip()]
    told = next(
        (cause.format(prefix=prefix) for sign, cause in CAUSES if sign in said), "pip could not install the wheels"
    )
    return "\n".join([told, *words[-8:]])


def marker(env: Path) -> dict[str, Any]:
    """Return what an environment's marker holds: its stack. Raises ValueError when it has not passed its check."""
    try:
        return dict(json.loads((env / MARKER).read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise ValueError(f"{env} has not passed its check: {error}") from error
