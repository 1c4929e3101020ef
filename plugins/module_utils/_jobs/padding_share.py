# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Share of a training's batches that was padding, and how to have less of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# The share of padding that was computed from which a note is shown.
MUCH = 0.2
ADVICE = (
    "let the script pad each batch to its longest row (`--pad_to_max_length False` of run_glue.py and run_qa.py) and "
    "draw rows of like length together (`--train_sampling_strategy group_by_length`; before transformers 5 "
    "`--group_by_length True`), which changes the order of the rows"
)


def shares(training: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return which share of all positions was padding, and which was padding that was computed.

    training: of progress.json, as a rank's observer counts its own batches: positions, tokens, not_computed. None where
    nothing was counted.
    """
    positions, tokens, left_out = (training.get(name) for name in ("positions", "tokens", "not_computed"))
    if not all(isinstance(each, int) for each in (positions, tokens, left_out)) or not positions:
        return None
    padding = positions - tokens
    return padding / positions, (padding - left_out) / positions


def shown(training: Mapping[str, Any]) -> str | None:
    """Return the shares as a person reads them; None where there was no padding, or nothing was counted."""
    measured = shares(training)
    if measured is None or round(measured[0], 2) == 0:
        return None
    padding, computed = measured
    part = "not" if not computed else "less than 1%" if computed < 0.01 else f"{computed:.0%}"
    return f"{padding:.0%} of the positions in batches" + ("" if computed == padding else f", {part} computed")


def note(training: Mapping[str, Any]) -> str:
    """Return what to do about a training that computed much padding; empty for others."""
    measured = shares(training)
    if measured is None or measured[1] < MUCH:
        return ""
    padding, computed = measured
    share = computed / (1 - padding + computed)
    return f"{share:.0%} of the positions that rank 0 computed were padding: {ADVICE}"
