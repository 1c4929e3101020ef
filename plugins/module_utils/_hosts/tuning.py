# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel settings whose previous values are recorded, so that each can be restored."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ansible_collections.amx.cluster.plugins.module_utils import _io, _ownership

SHM = "dev/shm"
# The previous values, which the role host_tuning keeps.
STATE = "var/lib/amx-cluster/kernel_settings.json"
PLACES = _ownership.Places(
    "tuning",
    files=(
        "etc/tmpfiles.d/amx-cluster.conf",
        "etc/sysctl.d/90-amx-cluster.conf",
        "etc/security/limits.d/90-amx-cluster.conf",
        "etc/systemd/system/amx-cluster-shm.service",
        STATE,
        "var/lib/amx-cluster/tcmalloc_package",
    ),
)
Remount = Callable[[Path, int], str]


@dataclass
class Outcome:
    """Settings that were changed, and how. They are named by their pattern below the root, as in the request."""

    changed: list[dict[str, str]] = field(default_factory=list)  # {path, before, after}
    applied: dict[str, str] = field(default_factory=dict)  # patterns whose every file has the requested value
    refused: list[dict[str, str]] = field(default_factory=list)  # {setting, reason}
    missing: list[str] = field(default_factory=list)  # patterns of which this kernel has no file


def read(path: Path) -> str:
    """Return a setting's value. Of a choice, `always [madvise] never`, the chosen one."""
    text = path.read_text(encoding="ascii").strip()
    chosen = re.search(r"\[(\S+)\]", text)
    return chosen.group(1) if chosen else text


def load(state: Path) -> dict[str, dict[str, str]]:
    """Read the previous values: {path below the root: {before, set}}; empty when none are recorded.

    Raises ValueError when the file is not one that `store` wrote.
    """
    try:
        remembered = json.loads(state.read_text(encoding="utf-8"))["before"]
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{state} is no record of previous settings: repair or remove it") from None
    return dict(remembered)


def store(state: Path, remembered: Mapping[str, Mapping[str, str]]) -> None:
    """Write the previous values, or remove the file when there is nothing to restore."""
    if not remembered:
        if _ownership.is_own(state):
            state.unlink()
        return
    state.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    _io.write_json(state, {"mark": _ownership.SIGNATURE, "before": dict(remembered)})


def recorded(root: Path = Path("/")) -> int:
    """Return how many kernel settings have a previous value that would be restored."""
    try:
        return len(load(root / STATE))
    except (OSError, ValueError):
        return 0


def least_shm(gib: float, meminfo: str) -> int:
    """Return the bytes that /dev/shm must have at least: `gib`, but no more than half of the memory.

    meminfo: the content of /proc/meminfo. The kernel's own default is half of the memory, too.
    """
    match = re.search(r"^MemTotal:\s+(\d+) kB$", meminfo, re.MULTILINE)
    if not match:
        raise ValueError("/proc/meminfo has no MemTotal")
    return min(int(gib * 2**30), int(match.group(1)) * 1024 // 2)


def apply(
    settings: Mapping[str, str],
    shm_bytes: int,
    remembered: dict[str, dict[str, str]],
    root: Path,
    remount: Remount,
    check: bool = False,
) -> Outcome:
    """Apply the requested settings, and restore those of a previous run that are not requested any more.

    settings: {pattern below the root: value}. shm_bytes: the least size of /dev/shm, 0 to leave it unchanged; it is
    never made smaller than it was. remembered: the previous values, which are updated. remount: gives a mounted tmpfs
    that size and returns what went wrong, empty if nothing. With `check` nothing is written, and what would be is
    predicted.
    """
    outcome = Outcome()
    wanted: set[str] = set()
    for pattern, value in settings.items():
        paths = sorted(root.glob(pattern))
        if not paths:
            outcome.missing.append(pattern)
            continue
        wanted |= {str(path.relative_to(root)) for path in paths}
        reasons = [_set(path, value, remembered, root, outcome, check) for path in paths]
        _judge(pattern, value, reasons, outcome)
    if shm_bytes:
        wanted.add(SHM)
        reason = _grow(root / SHM, shm_bytes, remembered, remount, outcome, check)
        _judge(SHM, str(shm_bytes), [reason], outcome)
    for name in sorted(set(remembered) - wanted):
        reason = _restore(name, remembered[name], root, remount, outcome, check)
        if reason:
            outcome.refused.append({"setting": name, "reason": reason})
        else:
            del remembered[name]
    return outcome


def _judge(pattern: str, value: str, reasons: list[str], outcome: Outcome) -> None:
    bad = sorted({reason for reason in reasons if reason})
    if bad:
        outcome.refused.append({"setting": pattern, "reason": "; ".join(bad)})
    else:
        outcome.applied[pattern] = value


def _write(path: Path, value: str, check: bool) -> str:
    """Write a setting; returns what went wrong, empty if nothing."""
    if check:
        return "" if os.access(path, os.W_OK) else "it cannot be written"
    try:
        path.write_text(value, encoding="ascii")
        now = read(path)
    except OSError as error:
        return f"the kernel refuses {value}: {error.strerror}"
    return "" if now == value else f"the kernel has {now} after {value} was written"


def _set(
    path: Path, value: str, remembered: dict[str, dict[str, str]], root: Path, outcome: Outcome, check: bool
) -> str:
    name = str(path.relative_to(root))
    try:
        now = read(path)
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    if now == value:
        return ""
    reason = _write(path, value, check)
    if not reason:
        before = remembered.get(name, {}).get("before", now)
        remembered[name] = {"before": before, "set": value}
        outcome.changed.append({"path": name, "before": now, "after": value})
    return reason


def _size(path: Path) -> int:
    status = os.statvfs(path)
    return status.f_blocks * status.f_frsize


def _grow(
    path: Path, least: int, remembered: dict[str, dict[str, str]], remount: Remount, outcome: Outcome, check: bool
) -> str:
    try:
        now = _size(path)
    except OSError as error:
        return f"its size cannot be read: {error.strerror}"
    page = os.sysconf("SC_PAGE_SIZE")
    if now + page > least:  # sizes are whole pages
        return ""
    reason = "" if check else remount(path, least)
    if not reason:
        before = remembered.get(SHM, {}).get("before", str(now))
        remembered[SHM] = {"before": before, "set": str(least)}
        outcome.changed.append({"path": SHM, "before": str(now), "after": str(least)})
    return reason


def _restore(name: str, memory: Mapping[str, str], root: Path, remount: Remount, outcome: Outcome, check: bool) -> str:
    """Restore one setting, unless somebody else has changed it since. Returns what went wrong."""
    path = root / name
    if not path.exists():
        return ""  # such as a CPU that is gone
    if name == SHM:
        now = str(_size(path))
        if abs(int(now) - int(memory["set"])) > os.sysconf("SC_PAGE_SIZE"):
            return ""
        reason = "" if check else remount(path, int(memory["before"]))
    else:
        now = read(path)
        if now != memory["set"]:
            return ""
        reason = _write(path, memory["before"], check)
    if not reason:
        outcome.changed.append({"path": name, "before": now, "after": memory["before"]})
    return reason
