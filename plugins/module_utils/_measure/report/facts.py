# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The further figures under a report's answer, and what is to be known of its figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs.cost import Price, host_seconds
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.sources import (
    APART,
    Source,
    Sources,
    figure_or_name,
    mapping,
    number,
    text,
)
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.tables import Table, figure, shown
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.tables_of_inference import (
    measured as measured_cells,
)
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.tables_of_sweeps import measured
from ansible_collections.amx.cluster.plugins.module_utils._text import count

MOST = 6
GROWING_BATCH = (
    "Strong scaling with the same batch on each rank: the global batch grows with the hosts, so that an epoch has "
    "fewer steps."
)
EXTRAPOLATED = "The time of an epoch is extrapolated from the measured steps."


def of(sources: Sources, tables: Mapping[str, Table], price: Price | None) -> list[tuple[str, str]]:
    """Return (value, caption) of further figures, at most MOST."""
    entries = [*_of_sweep(tables["scaling"], price)]
    if sources.of("job"):
        entries += _of_job(sources.of("job")[0], price, bool(entries))
    if sources.of("inference"):
        entries += _of_inference(tables)
    return entries[:MOST]


def _of_sweep(scaling: Table, price: Price | None) -> list[tuple[str, str]]:
    rows = measured(scaling)
    # Of several sweeps the figures beside the big number are those of the first.
    rows = [row for row in rows if row["results"] == rows[0]["results"]]
    if not rows:
        return []
    best = max(rows, key=lambda row: float(row["samples_per_second"]))
    entries = [(f"{figure(best['samples_per_second'])}/s", f"samples, on {count(best['hosts'], 'host')}")]
    timed = [row for row in rows if row["epoch_seconds"] is not None]
    if timed:
        first, last = (choose(timed, key=lambda row: int(row["hosts"])) for choose in (min, max))
        on_last = f"an epoch on {count(last['hosts'], 'host')}"
        if first["hosts"] != last["hosts"]:
            entries.append((shown(first["epoch_seconds"], "seconds"), f"an epoch on {count(first['hosts'], 'host')}"))
        entries.append((shown(last["epoch_seconds"], "seconds"), on_last))
        if price and last["cost_per_epoch"] is not None:
            entries.append((price.shown(last["cost_per_epoch"]), f"cost of {on_last}"))
    over = [row for row in rows if row["speedup_over_one_process"] is not None]
    if over:
        entries.append((shown(over[-1]["speedup_over_one_process"], "ratio"), "over one process on one host"))
    return entries


def _of_job(source: Source, price: Price | None, after_sweep: bool) -> list[tuple[str, str]]:
    metrics = mapping(source.content.get("metrics"))
    entries = []
    if not after_sweep:
        training, steps = number(metrics.get("train_runtime")), number(source.content.get("steps"))
        if training is not None:
            entries.append((shown(training, "seconds"), f"training, {steps:.0f} steps" if steps else "training"))
        hosts, seconds = number(source.content.get("hosts")), number(source.content.get("seconds"))
        attempts = [mapping(attempt) for attempt in source.content.get("attempts") or []]
        cost = price.of(1, host_seconds(attempts, hosts, seconds)) if price else None
        if price and cost is not None:
            entries.append((price.shown(cost), "cost of the job (estimate)"))
    for key, name in (("eval_accuracy", "accuracy"), ("eval_f1", "F1"), ("eval_loss", "evaluation loss")):
        value, before = (figure_or_name(metrics.get(name)) for name in (key, key.replace("eval_", "eval_before_")))
        if value is not None:
            entries.append((shown(value, "figure"), f"{name}, {shown(before, 'figure')} before" if before else name))
    restarts = number(source.content.get("restarts"))
    if restarts:
        entries.append((f"{restarts:.0f}", "restart" if restarts == 1 else "restarts"))
    return entries


def _of_inference(tables: Mapping[str, Table]) -> list[tuple[str, str]]:
    """Return what lower precision gains of the first result's first model, and what it costs."""
    best = measured_cells(tables["inference_throughput"].rows)
    mine = [row for row in best if (row["results"], row["model"]) == (best[0]["results"], best[0]["model"])]
    entries = [
        (shown(row["over_fp32"], "ratio"), f"{row['precision']} over fp32, {row['model']}")
        for row in mine
        if row["over_fp32"] and row["precision"] != "fp32"
    ]
    return entries + [
        (shown(row["equal"], "share"), f"equal to fp32, {row['precision']}")
        for row in tables["inference_agreement"].rows
        if mine and (row["results"], row["model"]) == (mine[0]["results"], mine[0]["model"])
    ]


def notes(sources: Sources, tables: Mapping[str, Table]) -> list[str]:
    """Return what is to be known of the figures, each once."""
    texts: list[str] = []
    for source in sources.all:
        given = source.content.get("notes")
        own = [text(note) for note in given] if isinstance(given, list) else []
        texts += own or (_of_a_sweep_without(source, tables["scaling"]) if source.kind == "sweep" else [])
        texts.append(text(mapping(source.content.get("prediction")).get("text")))
    training = [source for source in sources.all if source.kind not in ("network", *APART)]
    for compared in (training, *map(sources.of, APART)):
        for attribute in ("job", "model", "stack", "precision", "backend"):
            values = sorted({_value(source, attribute) for source in compared} - {""})
            if len(values) > 1:
                texts.append(f"These results differ in {attribute}: {', '.join(values)}.")
    return [note for note in dict.fromkeys(texts) if note]


def _of_a_sweep_without(sweep: Source, scaling: Table) -> list[str]:
    """Return what a sweep is to say of itself, where it says nothing."""
    texts = []
    if sweep.content.get("scaling") == "strong" and sweep.content.get("constant_global_batch") is False:
        texts.append(GROWING_BATCH)
    if any(row["epoch_extrapolated"] and row["results"] == sweep.label for row in scaling.rows):
        texts.append(EXTRAPOLATED)
    return texts


def _value(source: Source, attribute: str) -> str:
    value: Any = getattr(source, attribute) if attribute in ("job", "model", "stack") else source.content.get(attribute)
    return text(value)
