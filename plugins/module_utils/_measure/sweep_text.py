# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A sweep as text for a person."""

from __future__ import annotations

from ansible_collections.amx.cluster.plugins.module_utils._measure.repeated import Spread
from ansible_collections.amx.cluster.plugins.module_utils._measure.sweep import Count, Sweep
from ansible_collections.amx.cluster.plugins.module_utils._measure.sweep_request import Run
from ansible_collections.amx.cluster.plugins.module_utils._text import columns, count, duration, wrapped


def table(sweep: Sweep, path: str) -> str:
    """Return the table of a sweep, what holds the job back, its notes, and where it lies: `path`, of sweep.json."""
    scaling = "constant global batch" if sweep.constant_global_batch else f"{sweep.scaling} scaling"
    facts = ", ".join(str(value) for value in (sweep.stack, sweep.precision, sweep.backend) if value)
    lines = [f"Job {sweep.job}: {scaling}, {facts or 'nothing measured yet'}", ""]
    rows = [["hosts", "ranks", "samples/s", "speed-up", "efficiency", "over one process", "time per epoch"]]
    alone = sweep.one_process
    if alone and any(run.baseline for run in sweep.runs):
        rows.append(_row("1, one process", alone))
    rows += [_row(str(entry.hosts), entry) for entry in sweep.counts]
    lines += columns(rows) if len(rows) > 1 else ["No run has ended."]
    lines.append("")
    if any(entry.epoch_seconds for entry in sweep.counts):
        lines.append(f"time per epoch: extrapolated from {sweep.steps} steps")
    split = _split(sweep)
    if split:
        lines.append(split)
    if sweep.limits:
        lines += wrapped("what holds it back: ", sweep.limits["text"])
    for note in sweep.notes:
        lines += wrapped("- ", note)
    for run in sweep.runs:
        if run.state == "failed":
            lines += wrapped(f"- {run.job} failed: ", " ".join(run.reason.split())[:400])
    pending = [run for run in sweep.runs if run.state == "pending"]
    if pending:
        lines.append(f"{count(len(pending), 'run')} left: the same command continues")
    lines += ["", f"All figures: {path}", f"As a page: playbooks/report.yml -e of={path.rpartition('/')[0]}"]
    return "\n".join(lines)


def planned(sweep: Sweep) -> str:
    """Return what a sweep would run, for check mode."""
    first = [sweep.sanity] if sweep.sanity else []
    pending = [run.job for run in [*first, *sweep.runs] if run.state == "pending"]
    return "\n".join(wrapped("Would be run: ", ", ".join(pending) or "nothing"))


def _row(hosts: str, entry: Count) -> list[str]:
    failed = entry.failed
    speed = _spread(entry.samples_per_second, ".1f") or "failed"
    if failed and entry.samples_per_second:
        speed += f", {failed} failed"
    epoch = entry.epoch_seconds
    return [
        hosts,
        str(entry.ranks or "-"),
        speed,
        _spread(entry.speedup, ".2f") or "-",
        _spread(entry.efficiency, ".0%") or "-",
        _spread(entry.speedup_over_one_process, ".2f") or "-",
        _time(epoch["median"]) if epoch else "-",
    ]


def _time(seconds: float) -> str:
    """Return a duration; a short one with its tenths."""
    return f"{seconds:.1f} s" if seconds < 10 else duration(seconds)


def _spread(spread: Spread | None, form: str) -> str:
    """Return a median with what it lies between, where that is not the same."""
    if not spread:
        return ""
    middle, low, high = (format(spread[name], form) for name in ("median", "low", "high"))
    return middle if low == high else f"{middle} ({low} to {high})"


def _split(sweep: Sweep) -> str:
    """Return where the time of a step went on the most hosts."""
    for entry in reversed(sweep.counts):
        if entry.split:
            parts = ", ".join(f"{name} {share:.0%}" for name, share in entry.split.items() if share >= 0.005)
            return f"a step on {count(entry.hosts, 'host')}: {parts}"
    return ""


def line(run: Run, step: int, steps: int) -> str:
    """Return the outcome of a run in one line, the `step`th of `steps`."""
    place = f"[{step}/{steps}] {run.job} on {count(run.hosts, 'host')}"
    if run.state == "failed":
        return f"{place} failed: {' '.join(run.reason.split())[:300]}"
    ranks = f", {count(run.ranks, 'rank')}" if run.ranks else ""
    return f"{place}{ranks}: {run.samples_per_second:.1f} samples/s"
