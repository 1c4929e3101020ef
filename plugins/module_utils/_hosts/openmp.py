# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The OpenMP runtimes in a process: which are loaded, and which have threads of their own."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

# Intel's and LLVM's are one family: of theirs, a process starts only one.
GNU, KMP = ("libgomp",), ("libiomp5", "libomp")
# {file: the (first, last + 1) addresses at which it is mapped}
Mapped = Mapping[str, "list[tuple[int, int]]"]


def runtimes(maps: str) -> dict[str, list[tuple[int, int]]]:
    """Return where OpenMP runtimes are mapped, from the content of /proc/PID/maps.

    Memory without a file that follows on a library is of its variables.
    """
    ranges: dict[str, list[tuple[int, int]]] = {}
    file, end = "", -1
    for line in maps.splitlines():
        words = line.split(None, 5)
        first, last = (int(address, 16) for address in words[0].split("-"))
        if len(words) == 6:
            file = words[5] if PurePosixPath(words[5]).name.startswith(GNU + KMP) else ""
        elif first != end:
            file = ""
        if file:
            ranges.setdefault(file, []).append((first, last))
        end = last
    return ranges


def active(mapped: Mapped, counters: Iterable[int], registration: str) -> list[str]:
    """Return the runtimes that have started.

    counters: where each thread of the process is in its program; threads of GNU's runtime wait within it.
    registration: what Intel's and LLVM's have registered, "ADDRESS-VALUE-NAME" with an address in the library.
    """
    addresses = list(counters)
    own = re.match(r"(?:0x)?([0-9a-f]+)-", registration)
    started = []
    for file, ranges in mapped.items():
        known = addresses if PurePosixPath(file).name.startswith(GNU) else [int(own[1], 16)] if own else []
        if any(first <= address < last for address in known for first, last in ranges):
            started.append(file)
    return sorted(started)


def read() -> dict[str, bool]:
    """Return the OpenMP runtimes in this process, and whether each has started; its threads must wait now."""
    mapped = runtimes(Path("/proc/self/maps").read_text(encoding="utf-8"))
    counters = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):  # it has ended, or runs: then its place is not known
            counters.append(int((task / "syscall").read_text(encoding="ascii").split()[-1], 16))
    started = active(mapped, counters, _registration())
    return {file: file in started for file in sorted(mapped)}


def _registration() -> str:
    """Return what Intel's or LLVM's runtime has registered for this process: in shared memory, else in a variable."""
    name = f"__KMP_REGISTERED_LIB_{os.getpid()}"
    for path in (Path(f"/dev/shm/{name}_{os.getuid()}"), Path(f"/tmp/{name}_{os.getuid()}")):
        with contextlib.suppress(OSError):
            return path.read_text(encoding="ascii", errors="replace")
    getenv = ctypes.CDLL(None).getenv  # os.environ does not have what a library has set
    getenv.restype = ctypes.c_char_p
    return (getenv(name.encode()) or b"").decode(errors="replace")
