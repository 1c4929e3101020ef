# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of extractive question answering, for the evaluation of a training and for predictions alike."""

from __future__ import annotations

from collections.abc import Sequence

# How many of the best first and last tokens are combined.
CANDIDATES = 20


def best_span(
    start: Sequence[float], end: Sequence[float], offsets: Sequence[Sequence[int] | None], max_tokens: int
) -> tuple[float, tuple[int, int]] | None:
    """Return the best answer in a part of a context as (score, (first character, character after the last)), or None.

    start, end: logits by token, of which the first len(offsets) count. offsets: the characters of each token in the
    context, None for tokens outside it. The score is the sum of two logits, as in SQuAD's scripts. None where no span
    of at most max_tokens tokens is among the best candidates.
    """
    inside = {token: offset for token, offset in enumerate(offsets) if offset is not None}
    starts = sorted(inside, key=lambda token: -start[token])[:CANDIDATES]
    ends = sorted(inside, key=lambda token: -end[token])[:CANDIDATES]
    spans = [(start[i] + end[j], (i, j)) for i in starts for j in ends if i <= j < i + max_tokens]
    if not spans:
        return None
    score, (i, j) = max(spans)
    return score, (inside[i][0], inside[j][1])
