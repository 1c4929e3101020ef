# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shares of a training that its batches cost for nothing: padding, and waiting for the rank with the longest rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import NormalDist
from typing import Any

# The share of padding that was computed from which a note is shown.
MUCH = 0.2
ADVICE = (
    "let the script pad each batch to its longest row (`--pad_to_max_length False` of run_glue.py and run_qa.py) and "
    "draw rows of like length together (`--train_sampling_strategy group_by_length`; before transformers 5 "
    "`--group_by_length True`), which changes the order of the rows"
)
MEASURED = "with transformers 5, `amx tune JOB --vary sampling` shows what is gained, and whether the model gets worse"
# Batches below which their spread says little, and the share of waiting from which a note is shown.
BATCHES, LONG = 20, 0.1


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
    return f"{share:.0%} of the positions that rank 0 computed were padding: {ADVICE}; {MEASURED}"


def waiting(training: Mapping[str, Any]) -> float | None:
    """Return which share of a step's computing a rank waits, on average, for the one with the most positions.

    training: as of shares(), with batches, squares and sums, as rank 0's observer counts its own batches. Batches of
    the other ranks are taken to be drawn alike, with a normal distribution, of which the largest of so many is
    expected by Blom's formula (Statistical Estimates and Transformed Beta-Variables, 1958), and time to grow as
    positions do. None for one rank, for batches that are not drawn at random, and for fewer than BATCHES.
    """
    sums, batches = training.get("sums") or {}, training.get("batches") or 0
    ranks, accumulation = sums.get("ranks") or 1, sums.get("accumulation") or 1
    if ranks < 2 or batches < BATCHES:
        return None
    mean = (training["positions"] - training["not_computed"]) / batches
    variance = max(0.0, training["squares"] / batches - mean**2)
    largest = NormalDist().inv_cdf((ranks - 0.375) / (ranks + 0.25))
    added = math.sqrt(variance / accumulation) * largest / mean
    return added / (1 + added)


def waiting_shown(training: Mapping[str, Any]) -> str | None:
    """Return the share of waiting as a person reads it; None where it is below 1 %, or not known."""
    share = waiting(training)
    return (
        None if share is None or share < 0.01 else f"about {share:.0%} of computing, for the rank with the longest rows"
    )


def waiting_note(training: Mapping[str, Any]) -> str:
    """Return what to do about ranks that wait much for one another's rows; empty where they do not."""
    share = waiting(training)
    if share is None or share < LONG:
        return ""
    return (
        f"ranks wait about {share:.0%} of their computing for the one with the longest rows: set "
        f"`--train_sampling_strategy group_by_length`, which also changes the order of the rows; {MEASURED}"
    )
