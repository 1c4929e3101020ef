# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Predicted cost of exchanging gradients, from measured all_reduce."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._measure.model_size import gradient_bytes

# DistributedDataParallel's buckets: the first, so that the exchange begins early, and all others (bucket_cap_mb).
FIRST_BUCKET, BUCKET = 1 << 20, 25 << 20

Point = tuple[int, float]


def interpolated(points: Sequence[Point], size: float) -> float:
    """Return the time for a size, from (size, time) that were measured: on the straight line between two sizes.

    Below the smallest it is that one's time, beyond the largest it grows as the size does. Raises ValueError without
    any.
    """
    ordered = sorted(dict(points).items())
    if not ordered:
        raise ValueError("no size was measured")
    if size <= ordered[0][0]:
        return ordered[0][1]
    for (low, before), (high, after) in zip(ordered, ordered[1:]):
        if size <= high:
            return before + (after - before) * (size - low) / (high - low)
    return ordered[-1][1] * size / ordered[-1][0]


def buckets(size: int) -> list[int]:
    """Return the sizes of the buckets for so many bytes of gradients."""
    first = min(size, FIRST_BUCKET)
    full, rest = divmod(size - first, BUCKET)
    return [first, *[BUCKET] * full, *([rest] if rest else [])]


def predict(
    collectives: Sequence[Mapping[str, Any]],
    parameters: int,
    backend: str,
    compression: str = "none",
    step_compute_seconds: float | None = None,
) -> dict[str, Any] | None:
    """Return the prediction for a model: {parameters, bytes, step_compute_seconds, communication_seconds, share, text}.

    collectives: what was measured; all_reduce of torch.distributed with the job's backend counts. None without it.
    step_compute_seconds: the time of a step without communication. share: of communication in a step in which nothing
    overlaps, which is the most that it can be; None without that time.
    """
    rows = [
        row
        for row in collectives
        if (row["tool"], row["backend"], row["operation"]) == ("torch", backend, "all_reduce")
    ]
    if not rows:
        return None
    points = [(int(row["bytes"]), row["microseconds"] / 1e6) for row in rows]
    size = gradient_bytes(parameters, compression)
    seconds = sum(interpolated(points, bucket) for bucket in buckets(size))
    share = seconds / (seconds + step_compute_seconds) if step_compute_seconds else None
    ranks = rows[0]["ranks"]
    text = (
        f"{parameters / 1e6:.1f} million parameters, {size / 1e6:.1f} MB of gradients in each step: {seconds:.3g} s of "
        f"all_reduce with {backend} between {ranks} ranks"
    )
    if share is None:
        text += ". With -e step_compute_seconds=N, the time of a step on one host, its share of a step is shown"
    else:
        text += f", at most {share:.0%} of a step that computes for {step_compute_seconds:g} s"
        text += ": what overlaps with the backward pass costs less"
    if max(size for size, _seconds in points) < BUCKET:
        text += f". Buckets of {BUCKET >> 20} MiB were not measured, the largest size was {max(points)[0] / 1e6:.3g} MB"
    return {
        "parameters": parameters,
        "bytes": size,
        "step_compute_seconds": step_compute_seconds,
        "communication_seconds": round(seconds, 6),
        "share": None if share is None else round(share, 4),
        "text": f"{text}.",
    }
