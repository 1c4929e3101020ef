# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which setting of an inference benchmark is recommended for each model, and what is said about the others."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._measure import repeated
from ansible_collections.amx.cluster.plugins.module_utils._measure.inference_document import Benchmark, Cell
from ansible_collections.amx.cluster.plugins.module_utils._text import count

# What a recommended setting consists of, in its file and in inference.json.
SETTING = (
    *("model", "task", "precision", "autocast", "int8", "engine", "channels_last", "batch_size"),
    *("sequence_length", "instances_per_node", "threads_per_instance"),
)

# A part of a cell's `isa`: the product, its implementation, and behind the colon the instruction set.
_REPORTED = re.compile(r"\w+ [^ :]+:\w")


def concluded(benchmark: Benchmark) -> Benchmark:
    """Return a benchmark with its recommended settings, and notes on what keeps others from being so."""
    recommended: dict[str, Any] = {}
    notes: list[str] = []
    for name in benchmark.models:
        cells = benchmark.in_state("measured", name)
        if not cells:
            continue
        chosen, reasons = _of_model(benchmark, name, cells)
        notes += reasons
        if chosen:
            recommended[name] = chosen
    skipped = sum(cell.state == "skipped" or bool(cell.cut) for cell in benchmark.cells)
    if skipped:
        notes.append(f"{count(skipped, 'cell')} were not measured for the full time: see their reasons in the file")
    return replace(benchmark, recommended=recommended, notes=notes)


def _of_model(benchmark: Benchmark, name: str, cells: list[Cell]) -> tuple[dict[str, Any] | None, list[str]]:
    lengths, cells = _longest(cells)
    notes = _at_batch_one(name, cells)
    limit, least = benchmark.limit_p99_ms, benchmark.least_agreement
    within = [cell for cell in cells if _is_within(cell.latency(), limit)]
    if not within:
        lowest = min(cells, key=lambda cell: cell.latency())
        notes.append(
            f"{name}: no setting keeps p99 under {limit:g} ms; the lowest is {lowest.latency():.1f} ms "
            f"({described(lowest)})"
        )
        return None, notes
    chosen, reasons = _confirmed(benchmark, name)
    notes += reasons
    best = next((cell for cell in cells if chosen and cell.id == chosen["cell"]), None)
    faster = [cell for cell in within if disagreement(cell, least) and (best is None or cell.speed() > best.speed())]
    for cell in sorted(faster, key=Cell.speed, reverse=True)[:2]:
        times = f" ({cell.speed() / best.speed():.2f} x)" if best else ""
        notes.append(f"{name}: {described(cell)} is faster{times} and not recommended: {disagreement(cell, least)}")
    if best and len(lengths) > 1:
        notes.append(f"{name}: recommended for sequence length {lengths[-1]}, the longest that was measured")
    return chosen, notes


def usable(benchmark: Benchmark, name: str) -> list[Cell]:
    """Return the cells of a model that can be recommended by what was measured of them, the fastest first."""
    cells = benchmark.in_state("measured", name)
    limit, least = benchmark.limit_p99_ms, benchmark.least_agreement
    candidates = [
        cell for cell in _longest(cells)[1] if _is_within(cell.latency(), limit) and not disagreement(cell, least)
    ]
    return sorted(candidates, key=lambda cell: (-cell.speed(), cell.id))


def _longest(cells: list[Cell]) -> tuple[list[int], list[Cell]]:
    """Return the lengths of texts, and the cells with the longest: shorter ones are faster, and cut off more."""
    lengths = sorted({cell.sequence_length for cell in cells if cell.sequence_length})
    return lengths, [cell for cell in cells if not lengths or cell.sequence_length == lengths[-1]]


def _is_within(p99: float, limit: float | None) -> bool:
    return limit is None or p99 <= limit


def confirming(summary: Mapping[str, Any], turn: int) -> dict[str, Any]:
    """Return what a confirming run of a cell found: {turn, state, reason, samples_per_second, p99_ms}."""
    measured = summary["state"] == "measured"
    return {
        **{"turn": turn, "state": summary["state"], "reason": summary["reason"]},
        "samples_per_second": float(summary["throughput"]["value"]) if measured else None,
        "p99_ms": summary["latency_ms"]["p99"] if measured else None,
    }


def _confirmed(benchmark: Benchmark, name: str) -> tuple[dict[str, Any] | None, list[str]]:
    """Return the recommended setting of a model by its confirming runs, and notes.

    The cell that was the fastest before these runs stays so unless another one is faster in them, by
    repeated.FASTER: were it the fastest of these runs, its figure would be lucky again.
    """
    cells = usable(benchmark, name)
    if len(cells) == 1:
        return _recommended(cells[0], cells[0].throughput or {}, cells[0].latency(), ""), []
    confirm = benchmark.confirm
    if not cells or not confirm:
        return None, []
    good, notes = [], []
    for cell in cells:
        runs = cell.confirming
        if cell.id not in confirm["cells"] or len(runs) < 2:
            continue
        failed = next((run for run in runs if run["state"] != "measured"), None)
        p99 = statistics.median(run["p99_ms"] for run in runs) if not failed else 0.0
        if failed:
            notes.append(f"{name}: {described(cell)} is not recommended: a confirming run failed: {failed['reason']}")
        elif not _is_within(p99, benchmark.limit_p99_ms):
            notes.append(f"{name}: {described(cell)} is not recommended: its confirming runs have p99 {p99:.1f} ms")
        else:
            good.append((cell, [float(run["samples_per_second"]) for run in runs], p99))
    if not good:
        if benchmark.ended:
            notes.append(f"{name}: no setting is recommended: {confirm['reason'] or 'none was confirmed'}")
        return None, notes
    best = good[0]
    for other in good[1:]:
        ratio = repeated.paired(list(zip(best[1], other[1])))
        best = other if ratio and ratio.low > 1 else best
    for other in good:
        ratio = repeated.paired(list(zip(best[1], other[1])))
        if other is not best and ratio and ratio.high > 1:
            notes.append(
                f"{name}: {described(other[0])} may be as fast: {ratio.ratio:.2f} x ({ratio.low:.2f} to "
                f"{ratio.high:.2f}, at a level of {1 - repeated.FASTER:.0%})"
            )
    cell, speeds, p99 = best
    low, high = repeated.interval(speeds, 0.025)
    value = {"value": statistics.fmean(speeds), "low": max(0.0, low), "high": high}
    return _recommended(cell, value, p99, f" in {len(speeds)} confirming runs"), notes


def _recommended(cell: Cell, value: Mapping[str, Any], p99: float, runs: str) -> dict[str, Any]:
    between = f" ({value['low']:.1f} to {value['high']:.1f})" if value["low"] and value["high"] else ""
    text = f"{described(cell)}: {value['value']:.1f} samples/s{between}{runs}, p99 {p99:.1f} ms"
    if instructions(cell) != "-":
        text += f", {instructions(cell)}"
    if cell.emulated:
        text += ", emulated"
    settings = {key: getattr(cell, key) for key in SETTING}
    return {"cell": cell.id, "settings": settings, "throughput": dict(value), "p99_ms": p99, "text": text}


def disagreement(cell: Cell, least: float) -> str:
    """Return how predictions of a cell differ from those of fp32 more than is allowed; empty where they do not."""
    agreement = cell.agreement
    if cell.precision == "fp32" and cell.engine == "eager" and not cell.channels_last:
        return ""
    if not agreement:
        return "" if cell.precision == "fp32" else "its predictions were not compared with fp32's"
    equal = agreement["equal"]
    on = f" on {agreement['data']}" if agreement.get("data") else ""
    if equal is None:
        return (
            f"its predictions could not be compared: the model has one logit, which is the same{on} for all inputs; "
            "give it evaluation data (inference: {evaluation: ...})"
        )
    return "" if equal >= least else f"{agreeing(agreement)}{on}, below agreement {least:g}"


def agreeing(agreement: Mapping[str, Any]) -> str:
    """Describe how many predictions equal fp32's, and what equal means where they are no labels."""
    within = f" to {agreement['tolerance']:.0%} of their standard deviation" if agreement.get("tolerance") else ""
    return f"{agreement['equal']:.1%} of its predictions equal fp32's{within}"


def described(cell: Cell) -> str:
    """Return the setting of a cell in words."""
    number = cell.instances_per_node
    instances = f"{number} x {count(cell.threads_per_instance, 'thread')}" if cell.threads_per_instance else str(number)
    return f"{variant(cell)}, {shape(cell)}, {instances}"


def variant(cell: Cell) -> str:
    """Return the precision and the engine of a cell."""
    words = [cell.precision, *([cell.int8] if cell.int8 else []), *(["autocast"] if cell.autocast else []), cell.engine]
    return " ".join([*words, *(["channels_last"] if cell.channels_last else [])])


def instructions(cell: Cell) -> str:
    """Return the instruction sets that oneDNN reported for a cell, such as avx512_core_bf16; "-" without any."""
    named = [part.split(":")[1].split()[0] for part in (cell.isa or "").split(", ") if _REPORTED.match(part)]
    return ", ".join(dict.fromkeys(named)) or "-"


def shape(cell: Cell) -> str:
    """Return the batch of a cell, and the length of its texts."""
    return f"batch {cell.batch_size}" + (f" x {cell.sequence_length}" if cell.sequence_length else "")


def _at_batch_one(name: str, cells: Sequence[Cell]) -> list[str]:
    """Compare the instances at batch 1, where several of one core and one of all cores differ most."""
    best: dict[tuple[Any, Any], Cell] = {}
    for cell in cells:
        key = (cell.instances_per_node, cell.threads_per_instance)
        if cell.batch_size == 1 and (key not in best or cell.speed() > best[key].speed()):
            best[key] = cell
    if len(best) < 2:
        return []
    each = [
        f"{number} x {count(threads, 'thread')} {cell.speed():.1f} samples/s, p99 {cell.latency():.1f} ms"
        for (number, threads), cell in sorted(best.items(), key=lambda item: -item[1].speed())
    ]
    return [f"{name}: instances on each host at batch 1: {'; '.join(each)}"]


def setting_file(benchmark: Benchmark, name: str) -> str:
    """Return recommended-MODEL.yml: the setting with its model's source, and what was measured in comments."""
    chosen = benchmark.recommended[name]
    cell = next(each for each in benchmark.cells if each.id == chosen["cell"])
    about = benchmark.models[name]
    source = about["source"] or {kind: about[kind] for kind in ("small", "configured") if about[kind]}
    values = {**chosen["settings"], "source": source}
    order = ("model", "source", *SETTING[1:])
    lines = [
        f"# {_ownership.SIGNATURE}: the recommended setting of {name}, for playbooks/predict.yml -e setting=FILE.",
        f"# Measured by playbooks/infer.yml, job {benchmark.job}, on {count(benchmark.hosts, 'host')}"
        f"{' with ' + benchmark.cpu if benchmark.cpu else ''}, {benchmark.ended}:",
        f"# {chosen['text']}",
    ]
    if cell.int8_route:
        lines.append(f"# int8: {cell.int8_route}")
    if cell.agreement and cell.agreement["equal"] is not None:
        lines.append(f"# {agreeing(cell.agreement)}, on {cell.agreement['data']}")
    return "\n".join([*lines, "---", *(f"{key}: {json.dumps(values[key])}" for key in order)]) + "\n"


def file_name(model: str) -> str:
    """Return the name of a model's recommended setting among the results."""
    return f"recommended-{model.replace(':', '-')}.yml"
