# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An inference benchmark as text for a person."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._measure import inference_choice
from ansible_collections.amx.cluster.plugins.module_utils._measure.inference_document import Benchmark, Cell, Trial
from ansible_collections.amx.cluster.plugins.module_utils._text import columns, count, names, wrapped

HEADER = [
    "setting",
    "shape",
    "instances",
    "samples/s",
    "p50 ms",
    "p99 ms",
    "equal to fp32",
    "memory",
    "instructions",
    "",
]
# Rows of a model's table; the file has all cells.
ROWS = 12


def report(benchmark: Benchmark, path: str) -> str:
    """Return a table for each model, the recommended settings with the commands that use them, notes and the file."""
    facts = ", ".join(filter(None, (benchmark.stack, benchmark.cpu, names(benchmark.names))))
    used = f"{benchmark.used_minutes:.1f} of {benchmark.budget_minutes:g} min used"
    limit = f", p99 limit {benchmark.limit_p99_ms:g} ms" if benchmark.limit_p99_ms else ""
    lines = [f"Inference {benchmark.job}: {facts}; {used}{limit}", ""]
    for name in benchmark.models:
        lines += [*_table(benchmark, name, path), ""]
    for note in benchmark.notes:
        lines += wrapped("- ", note)
    for trial in benchmark.trials:
        if trial.state == "failed":
            lines += wrapped(f"- {trial.job} failed: ", " ".join(trial.reason.split())[:400])
    if benchmark.state != "complete":
        lines.append("The same command continues; with a larger budget where this one is used up.")
    return "\n".join([*lines, f"All cells: {path}", f"As a page: playbooks/report.yml -e of={Path(path).parent}"])


def planned(benchmark: Benchmark) -> str:
    """Return what a benchmark would measure, for check mode."""
    pending = [cell for cell in benchmark.cells if cell.state == "pending"]
    lines = wrapped(
        "Would be measured: ",
        f"as many of {count(len(pending), 'cell')} as {benchmark.budget_minutes:g} min allow, of which "
        f"{benchmark.used_minutes:.1f} are used:",
    )
    for cell in pending:
        instances = f"{cell.instances_per_node} x {count(cell.threads_per_instance, 'thread')}"
        lines.append(f"  {cell.model}: {inference_choice.variant(cell)}, {inference_choice.shape(cell)}, {instances}")
    return "\n".join(lines)


def _table(benchmark: Benchmark, name: str, path: str) -> list[str]:
    cells = [cell for cell in benchmark.cells if cell.model == name]
    measured = sorted((cell for cell in cells if cell.state == "measured"), key=Cell.speed, reverse=True)
    recommended = benchmark.recommended.get(name)
    shown = measured[:ROWS]
    if recommended:
        shown += [cell for cell in measured[ROWS:] if cell.id == recommended["cell"]]
    task = next((cell.task for cell in cells if cell.task), "task not known")
    lines = [f"{name}, {task}: {len(measured)} of {count(len(cells), 'cell')} measured"]
    if shown:
        lines += [f"  {line}" for line in columns([HEADER, *(_row(cell, recommended) for cell in shown)])]
    if len(measured) > len(shown):
        lines.append(f"  ({count(len(measured) - len(shown), 'slower one')} in the file)")
    reasons: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        if cell.state not in ("measured", "pending"):
            reasons.setdefault((cell.state, " ".join(cell.reason.split())), []).append(cell.id)
    for (state, reason), ids in reasons.items():
        lines += [f"  {line}" for line in wrapped(f"{count(len(ids), 'cell')} {state}: ", reason[:400])]
    if recommended:
        lines += [f"  {line}" for line in wrapped("recommended: ", recommended["text"])]
        file = Path(path).with_name(inference_choice.file_name(name))
        of = f"-e job={name[4:]}" if name.startswith("job:") else "-e model=DIRECTORY"
        lines.append(f"  to use it: playbooks/predict.yml {of} -e setting={file} -e data=FILE")
    return lines


def _row(cell: Cell, recommended: Mapping[str, Any] | None) -> list[str]:
    agreement, memory = cell.agreement, cell.peak_memory_bytes
    marks = ["recommended"] if recommended and recommended["cell"] == cell.id else []
    marks += ["emulated"] if cell.emulated else []
    marks += ["round 1 only"] if cell.cut else []
    value = cell.throughput or {}
    half = (value["high"] - value["low"]) / 2 if value["high"] is not None and value["low"] is not None else None
    return [
        inference_choice.variant(cell),
        inference_choice.shape(cell),
        f"{cell.instances_per_node} x {count(cell.threads_per_instance, 'thread')}",
        f"{cell.speed():.1f}" + (f" +-{half:.1f}" if half is not None else ""),
        f"{cell.latency('p50'):.1f}",
        f"{cell.latency('p99'):.1f}",
        f"{agreement['equal']:.1%}" if agreement and agreement["equal"] is not None else "-",
        f"{memory / 2**30:.2f} GiB" if memory else "-",
        inference_choice.instructions(cell),
        ", ".join(marks),
    ]


def line(benchmark: Benchmark, trial: Trial) -> str:
    """Return the outcome of a trial in one line."""
    if trial.state != "succeeded" and not any(
        cell.state == "measured" for cell in benchmark.cells if cell.id in trial.cells
    ):
        return f"{trial.job} failed: {' '.join(trial.reason.split())[:300]}"
    states = [cell.state for cell in benchmark.cells if cell.id in trial.cells]
    each = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    setting = benchmark.settings[trial.setting]
    left = sum(cell.state == "pending" for cell in benchmark.cells)
    threads = count(setting["threads"], "thread")
    return (
        f"{trial.job}, round {trial.round}, {setting['instances']} x {threads} on each host: {each}; {left} not "
        f"tried yet, {benchmark.used_minutes:.1f} of {benchmark.budget_minutes:g} min used"
    )
