# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The attempts of a job, for a person: why each restart was made, and what it has cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._text import count


def restarts(attempts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each restart: when, why, and the steps that are made once more.

    attempts: of status.json: each {started, from (a checkpoint, or the beginning), reason, step (the last one that its
    ranks have reported; missing where that is not known), predicts (true for a prediction, which keeps its chunks)}.
    """
    return [
        f"restart {number} at {after['started'][11:19]}: {_short(before.get('reason', ''))}; {_cost(before, after)}"
        for number, (before, after) in enumerate(zip(attempts, attempts[1:]), 1)
    ]


def _short(reason: str) -> str:
    """Return a reason without the stacks that may follow."""
    lines = [line.strip().rstrip(":") for line in reason.splitlines() if not line.startswith("  ")]
    return "; ".join(lines[:2]) or "not known why"


def _cost(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    if after.get("predicts"):
        return "continues with the rows that are not predicted"
    origin = str(after["from"])
    since = int(origin[11:]) if origin.startswith("checkpoint-") and origin[11:].isdigit() else 0
    goes_on = f"continues from {origin}"
    if not isinstance(before.get("step"), int):
        return goes_on
    return f"{goes_on}, {count(max(0, before['step'] - since), 'step')} lost"
