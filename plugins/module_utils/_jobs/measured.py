# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Merge what the ranks of a job measured of their steps. docs/where_the_time_goes.md says what each figure is."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean, median
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs import profiles
from ansible_collections.amx.cluster.plugins.module_utils._jobs.wire import PARTS, SHARES


def merge(
    beats: Mapping[int, Mapping[str, Any]],
    measure: Mapping[str, Any] | None,
    backend: str,
    samples: float | None,
    isas: Mapping[str, str] | None = None,
) -> dict[str, Any] | None:
    """Return what results.json has under "measured"; None for a job that was not measured, or in too few steps.

    beats: {rank: its last heartbeat}, with "measured" as the timers of the rank's observer sum it up. measure: the
    plan's. samples: those of a step over all ranks, None where it is not known. isas: {host: its best instruction
    set}. Times are in seconds, means per step; the percentiles are the medians of the ranks'.
    """
    timed = {rank: (beat["host"], figures) for rank, beat in sorted(beats.items()) if (figures := _complete(beat))}
    if not measure or not timed:
        return None
    steps = [figures["step_seconds"] for _host, figures in timed.values()]
    mean = fmean(step["mean"] for step in steps)
    collectives = [figures for _host, figures in timed.values() if "bytes" in figures]
    return {
        "warmup_steps": measure["warmup_steps"],
        "steps": min(figures["steps"] for _host, figures in timed.values()),
        "samples_per_step": samples,
        "step_seconds": {
            **{name: median(step[name] for step in steps) for name in SHARES},
            "mean": mean,
            "count": min(step["count"] for step in steps),
        },
        "samples_per_second": samples / mean if samples and mean else None,
        "ranks": [
            {
                "rank": rank,
                "host": host,
                "step_seconds": figures["step_seconds"]["mean"],
                **{part: figures.get(part) for part in (*PARTS, "compute_blocks")},
            }
            for rank, (host, figures) in timed.items()
        ],
        "collectives": {
            "calls": fmean(figures["calls"] for figures in collectives),
            "bytes": fmean(figures["bytes"] for figures in collectives),
            "backend": backend,
        }
        if len(collectives) == len(timed)
        else None,
        "overhead": None,
        **({"profile": profiles.merge(beats, isas or {})} if measure.get("profile") else {}),
    }


def note(beats: Mapping[int, Mapping[str, Any]], measure: Mapping[str, Any] | None) -> str:
    """Return why a job that was to be measured was not; an empty string where it was, or was not to be."""
    if not measure or any(_complete(beat) for beat in beats.values()):
        return ""
    profiled = measure.get("profile")
    left_out = measure["warmup_steps"] + (profiled + 1 if profiled else 0)
    made = max((figures.get("made", 0) for beat in beats.values() if (figures := beat.get("measured"))), default=0)
    return (
        f"nothing was measured: {made} step(s) of an optimizer were seen, and the first {left_out} are left out "
        f"(measure: {{warmup_steps: ...{', profile: ...' if profiled else ''}}}), at least one"
    )


def _complete(beat: Mapping[str, Any]) -> dict[str, Any] | None:
    figures = beat.get("measured")
    return figures if isinstance(figures, dict) and figures.get("steps") and "step_seconds" in figures else None
