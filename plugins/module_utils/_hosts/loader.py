# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shared libraries as the dynamic loader of this host finds them: through its cache, never by a fixed path."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence

# tcmalloc's sonames, the one without a profiler first: a rank needs the allocator only.
TCMALLOC = ("libtcmalloc_minimal.so.4", "libtcmalloc.so.4")
# How ldconfig marks what a 64-bit process of a machine can load.
_MARKS = {"x86_64": "x86-64", "aarch64": "AArch64"}
_LINE = re.compile(r"^\s*(\S+) \(([^)]*)\) => (\S+)$")

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def cached(listing: str, machine: str) -> dict[str, str]:
    """Read what `ldconfig -p` prints: {soname: path} of the libraries for `machine`, as `uname -m` names it.

    Where a soname is there twice the first is what the loader takes.
    """
    mark = _MARKS.get(machine, "")
    paths: dict[str, str] = {}
    for line in listing.splitlines():
        match = _LINE.match(line)
        if match and mark in match.group(2):
            paths.setdefault(match.group(1), match.group(3))
    return paths


def _environment(**variables: str) -> Mapping[str, str]:
    # ldconfig lies in sbin, which is not in every user's path; messages are compared, so they must be in English.
    plain = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    return {**plain, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin", "LC_ALL": "C", **variables}


def find(names: Sequence[str], run: Run = subprocess.run, machine: str = "") -> str:
    """Return the path of the first of the sonames that the loader knows and can preload; empty if there is none.

    Whether it can be preloaded is tested on a process: the loader otherwise prints `cannot be preloaded ... ignored`
    and goes on without it. Raises ValueError when the cache cannot be read.
    """
    try:
        listed = run(["ldconfig", "-p"], capture_output=True, text=True, check=False, env=_environment())
    except OSError as error:
        raise ValueError(f"the loader's cache cannot be read: ldconfig: {error.strerror}") from None
    if listed.returncode:
        raise ValueError(f"the loader's cache cannot be read: ldconfig: {' '.join(listed.stderr.split())}")
    known = cached(listed.stdout, machine or platform.machine())
    for name in names:
        if name in known:
            preload = _environment(LD_PRELOAD=known[name])
            tried = run(["true"], capture_output=True, text=True, check=False, env=preload)
            if tried.returncode == 0 and "cannot be preloaded" not in tried.stderr:
                return known[name]
    return ""


def tcmalloc() -> str:
    """Return the path of the allocator; empty where there is none, or no cache of the loader to find it in."""
    try:
        return find(TCMALLOC)
    except ValueError:
        return ""
