# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which setting of an inference benchmark is recommended for each model, and what is said about the others."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._measure.inference import speed
from ansible_collections.amx.cluster.plugins.module_utils._text import count

# What a recommended setting consists of, in its file and in inference.json.
SETTING = (
    *("model", "task", "precision", "int8", "engine", "channels_last", "batch_size", "sequence_length"),
    *("instances_per_node", "threads_per_instance"),
)


def concluded(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a benchmark with its recommended settings, and notes on what keeps others from being so."""
    recommended: dict[str, Any] = {}
    notes: list[str] = []
    for name in content["models"]:
        cells = [cell for cell in content["cells"] if cell["model"] == name and cell["state"] == "measured"]
        if not cells:
            continue
        chosen, said = _of_model(content, name, cells)
        notes += said
        if chosen:
            recommended[name] = chosen
    skipped = sum(cell["state"] == "skipped" or bool(cell["cut"]) for cell in content["cells"])
    if skipped:
        notes.append(f"{count(skipped, 'cell')} were not measured for the full time: see their reasons in the file")
    return {**content, "recommended": recommended, "notes": notes}


def _of_model(
    content: Mapping[str, Any], name: str, cells: list[dict[str, Any]]
) -> tuple[dict[str, Any] | None, list[str]]:
    lengths = sorted({cell["sequence_length"] for cell in cells if cell["sequence_length"]})
    if lengths:  # shorter texts are faster, and cut off more: the longest is what the data may need
        cells = [cell for cell in cells if cell["sequence_length"] == lengths[-1]]
    notes = _at_batch_one(name, cells)
    limit, least = content["limit_p99_ms"], content["least_agreement"]
    within = [cell for cell in cells if limit is None or cell["latency_ms"]["p99"] <= limit]
    if not within:
        lowest = min(cells, key=lambda cell: cell["latency_ms"]["p99"])
        notes.append(
            f"{name}: no setting keeps p99 under {limit:g} ms; the lowest is {lowest['latency_ms']['p99']:.1f} ms "
            f"({described(lowest)})"
        )
        return None, notes
    agreeing = [cell for cell in within if disagreement(cell, least) == ""]
    best = max(agreeing, key=lambda cell: (speed(cell), cell["id"]), default=None)
    faster = [cell for cell in within if cell not in agreeing and (best is None or speed(cell) > speed(best))]
    for cell in sorted(faster, key=speed, reverse=True)[:2]:
        times = f" ({speed(cell) / speed(best):.2f} x)" if best else ""
        notes.append(f"{name}: {described(cell)} is faster{times} and not recommended: {disagreement(cell, least)}")
    if best is None:
        return None, notes
    value = best["throughput"]
    between = f" ({value['low']:.1f} to {value['high']:.1f})" if value["low"] and value["high"] else ""
    text = f"{described(best)}: {speed(best):.1f} samples/s{between}, p99 {best['latency_ms']['p99']:.1f} ms"
    if best["emulated"]:
        text += ", emulated"
    if len(lengths) > 1:
        notes.append(f"{name}: recommended for sequence length {lengths[-1]}, the longest that was measured")
    settings = {key: best[key] for key in SETTING}
    return {
        "cell": best["id"],
        "settings": settings,
        "throughput": value,
        "p99_ms": best["latency_ms"]["p99"],
        "text": text,
    }, notes


def disagreement(cell: Mapping[str, Any], least: float) -> str:
    """Say why the predictions of a cell are not those of fp32, as far as they have to be; empty where they are."""
    found = cell["agreement"]
    if cell["precision"] == "fp32" and cell["engine"] == "eager" and not cell["channels_last"]:
        return ""
    if not found:
        return "" if cell["precision"] == "fp32" else "its predictions were not compared with fp32's"
    equal = found["equal"]
    if equal is None or equal >= least:
        return ""
    on = f" on {found['data']}" if found.get("data") else ""
    return f"{equal:.1%} of its predictions equal fp32's{on}, below agreement {least:g}"


def described(cell: Mapping[str, Any]) -> str:
    """Return the setting of a cell in words."""
    number = cell["instances_per_node"]
    instances = (
        f"{number} x {count(cell['threads_per_instance'], 'thread')}" if cell["threads_per_instance"] else str(number)
    )
    return f"{variant(cell)}, {shape(cell)}, {instances}"


def variant(cell: Mapping[str, Any]) -> str:
    """Return the precision and the engine of a cell."""
    words = [cell["precision"] + (f" {cell['int8']}" if cell["int8"] else ""), cell["engine"]]
    return " ".join([*words, *(["channels_last"] if cell["channels_last"] else [])])


def shape(cell: Mapping[str, Any]) -> str:
    """Return the batch of a cell, and the length of its texts."""
    return f"batch {cell['batch_size']}" + (f" x {cell['sequence_length']}" if cell["sequence_length"] else "")


def _at_batch_one(name: str, cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """Compare the instances at batch 1, where several of one core and one of all cores differ most."""
    best: dict[tuple[int, int], Mapping[str, Any]] = {}
    for cell in cells:
        key = (cell["instances_per_node"], cell["threads_per_instance"])
        if cell["batch_size"] == 1 and (key not in best or speed(cell) > speed(best[key])):
            best[key] = cell
    if len(best) < 2:
        return []
    each = [
        f"{number} x {count(threads, 'thread')} {speed(cell):.1f} samples/s, p99 {cell['latency_ms']['p99']:.1f} ms"
        for (number, threads), cell in sorted(best.items(), key=lambda item: -speed(item[1]))
    ]
    return [f"{name}: instances on each host at batch 1: {'; '.join(each)}"]


def setting_file(content: Mapping[str, Any], name: str) -> str:
    """Return recommended-MODEL.yml: the setting with its model's source, and what was measured in comments."""
    found = content["recommended"][name]
    cell = next(each for each in content["cells"] if each["id"] == found["cell"])
    about = content["models"][name]
    source = about["source"] or {kind: about[kind] for kind in ("small", "configured") if about[kind]}
    values = {**found["settings"], "source": source}
    order = ("model", "source", *SETTING[1:])
    lines = [
        f"# {_ownership.SIGNATURE}: the recommended setting of {name}, for playbooks/predict.yml -e setting=FILE.",
        f"# Measured by playbooks/infer.yml, job {content['job']}, on {count(content['hosts'], 'host')}"
        f"{' with ' + content['cpu'] if content['cpu'] else ''}, {content['ended']}:",
        f"# {found['text']}",
    ]
    if cell["int8_route"]:
        lines.append(f"# int8: {cell['int8_route']}")
    if cell["agreement"] and cell["agreement"]["equal"] is not None:
        lines.append(f"# {cell['agreement']['equal']:.1%} of predictions equal fp32's, on {cell['agreement']['data']}")
    return "\n".join([*lines, "---", *(f"{key}: {json.dumps(values[key])}" for key in order)]) + "\n"


def file_name(model: str) -> str:
    """Return the name of a model's recommended setting among the results."""
    return f"recommended-{model.replace(':', '-')}.yml"
