# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of inference: cells of a benchmark, and what follows from them by model and precision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._measure.report.sources import (
    Source,
    entries,
    mapping,
    number,
    text,
)
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.tables import (
    TIMES,
    Column,
    Row,
    Table,
    grouped,
    named,
    read_row,
    spread_columns,
)
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.tables_of_sweeps import spread

_WHICH = named("results", "model", "precision", form="name")
# What a cell is besides its model, precision and number of instances.
_OTHERWISE = ("engine", "channels_last", "batch_size", "sequence_length", "new_tokens", "hosts")
_SETTINGS = (
    Column("engine", "engine"),
    Column("channels_last", "channels last"),
    Column("batch_size", "batch", "int"),
    Column("sequence_length", "tokens", "int"),
    Column("new_tokens", "new tokens", "int"),
    Column("hosts", "hosts", "int"),
    Column("instances_per_node", "instances/host", "int"),
    Column("threads_per_instance", "threads each", "int"),
)
_LATENCIES = tuple(Column(f"{name}_ms", f"{name}, ms", "figure") for name in ("mean", "p50", "p90", "p99"))
_P50_P99 = _LATENCIES[1::2]
_SPEED = spread_columns("samples_per_second", "samples/s", "figure")


def all_of(inferences: Sequence[Source]) -> list[Table]:
    """Return the tables of inference."""
    measured = cells(inferences)
    return [
        measured,
        best(measured),
        recommended(inferences, measured),
        agreement(measured),
        generation(inferences, measured),
        open_loop(inferences, measured),
        not_measured(measured),
    ]


def _precision(cell: Mapping[str, Any]) -> str:
    """Return a cell's precision as it is shown: with int8's route, autocast, and whether the CPU had to emulate it."""
    name, route = text(cell.get("precision")), text(cell.get("int8"))
    label = f"{name} {route}".strip() if name == "int8" else name + " autocast" * (cell.get("autocast") is True)
    return f"{label}, emulated" if cell.get("emulated") is True else label


def _latencies(given: object) -> dict[str, float | None]:
    return {f"{name}_ms": number(mapping(given).get(name)) for name in ("mean", "p50", "p90", "p99")}


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def cells(inferences: Sequence[Source]) -> Table:
    """Return a row for each cell, measured or not."""
    columns = (
        *_WHICH[:2],
        Column("task", "task"),
        _WHICH[2],
        *_SETTINGS,
        Column("state", "state"),
        *_SPEED,
        *_LATENCIES,
        Column("requests", "requests", "int", "latency_ms.count"),
        Column("limit_p99_ms", "limit of p99, ms", "figure"),
        Column("within_limit", "within the limit"),
        Column("recommended", "recommended"),
        Column("first_call_seconds", "first call", "seconds"),
        Column("peak_memory_bytes", "memory of an instance", "gib"),
        Column("isa", "instruction set"),
        Column("int8_route", "int8 by"),
        Column("overhead", "overhead of the driver", "share"),
        Column("equal", "equal to fp32", "share", "agreement.equal"),
        Column("largest_difference", "largest difference", "figure", "agreement.largest_difference"),
        Column("compared", "compared", "int", "agreement.samples"),
        Column("compared_on", "on", path="agreement.data"),
        Column("reason", "reason"),
        Column("instances", "instances", "int"),
        Column("cell", "cell", path="id"),
    )
    rows = []
    for source in inferences:
        limit = number(source.content.get("limit_p99_ms"))
        chosen = {
            text(mapping(setting).get("cell")) for setting in mapping(source.content.get("recommended")).values()
        } - {""}
        for cell in entries(source.content.get("cells")):
            speed = mapping(cell.get("throughput"))
            own: dict[str, Any] = {
                "results": source.label,
                "precision": _precision(cell),
                "channels_last": _flag(cell.get("channels_last")),
                **spread({**speed, "median": speed.get("value")}, "samples_per_second"),
                **_latencies(cell.get("latency_ms")),
                "limit_p99_ms": limit,
                "recommended": text(cell.get("id")) in chosen,
            }
            own["within_limit"] = None if limit is None or own["p99_ms"] is None else own["p99_ms"] <= limit
            rows.append(read_row(columns, cell, **own))
    return Table("inference", "Cells of the inference benchmark", columns, rows)


def measured(rows: Iterable[Row]) -> list[Row]:
    """Return the rows of cells that were measured: those with a throughput."""
    return [row for row in rows if row["state"] == "measured" and (row["samples_per_second"] or 0) > 0]


def comparable(rows: Iterable[Row]) -> list[Row]:
    """Return the rows of the longest texts of each result and model: shorter ones are faster with any setting."""
    comparable_rows: list[Row] = []
    for mine in grouped(rows, "results", "model").values():
        longest = max((row["sequence_length"] or 0 for row in measured(mine)), default=None)
        comparable_rows += [row for row in mine if longest is None or (row["sequence_length"] or 0) == longest]
    return comparable_rows


def fastest(rows: Sequence[Row]) -> Row | None:
    """Return the cell with the most throughput, of those within the limit of the latency if there are any."""
    there = measured(rows)
    within = [row for row in there if row["within_limit"] is not False]
    return max(within or there, key=lambda row: float(row["samples_per_second"]), default=None)


def fastest_of_models(rows: Sequence[Row]) -> list[Row]:
    """Return the fastest row of each model, of those that were measured."""
    return [row for mine in grouped(rows, "model").values() if (row := fastest(mine))]


def best(table: Table) -> Table:
    """Return the fastest cell of each model and precision; where none was measured, why."""
    rows: list[dict[str, Any]] = []
    for mine in grouped(comparable(table.rows), "results", "model", "precision").values():
        rows.append({**(fastest(mine) or mine[0]), "over_fp32": None})
    fp32 = {
        (row["results"], row["model"]): row["samples_per_second"]
        for row in measured(rows)
        if row["precision"] == "fp32"
    }
    for row in rows:
        before = fp32.get((row["results"], row["model"]))
        if before and measured([row]):
            row["over_fp32"] = row["samples_per_second"] / before
    columns = (
        *_WHICH,
        Column("state", "state"),
        *_SPEED,
        Column("over_fp32", "over fp32", "ratio"),
        *_P50_P99,
        Column("within_limit", "p99 within the limit"),
        *_SETTINGS,
        Column("reason", "reason"),
    )
    return Table("inference_throughput", "Fastest setting of each model and precision", columns, rows)


def setting(row: Row) -> str:
    """Return the settings of a cell in words, without its model and precision."""
    batch, tokens = row["batch_size"], row["sequence_length"]
    size = f"batch {batch:.0f}" + (f" {TIMES} {tokens:.0f} tokens" if tokens else "") if batch else ""
    return ", ".join(filter(None, [row["engine"], size, instances(row)]))


def instances(row: Row) -> str:
    """Return the instances of a host in words."""
    number_, threads = row["instances_per_node"], row["threads_per_instance"]
    if not number_:
        return ""
    each = f" of {threads:.0f} thread{'s'[: threads != 1]}" if threads else ""
    return f"{number_:.0f} instance{'s'[: number_ != 1]}{each} per host"


def recommended(inferences: Sequence[Source], measured: Table) -> Table:
    """Return the recommended setting of each model."""
    rows: list[Row] = []
    for source in inferences:
        for model, given in mapping(source.content.get("recommended")).items():
            setting = mapping(given)
            cell = text(setting.get("cell"))
            there = [row for row in measured.rows if (row["results"], row["cell"]) == (source.label, cell)]
            rows += [{**row, "model": text(model)} for row in there[:1]]
    columns = (*_WHICH, _SPEED[0], *_P50_P99, *_SETTINGS)
    return Table("inference_recommended", "Recommended settings", columns, rows)


def agreement(measured: Table) -> Table:
    """Return how far predictions agree with fp32, the least of all cells of a model, precision and engine."""
    compared = [row for row in measured.rows if row["equal"] is not None]
    rows = []
    for mine in grouped(compared, "results", "model", "precision", "engine", "int8_route", "compared_on").values():
        least = min(mine, key=lambda row: float(row["equal"]))
        largest = max((row["largest_difference"] or 0.0 for row in mine), default=None)
        rows.append({**least, "largest_difference": largest})
    columns = (
        *_WHICH,
        Column("equal", "equal predictions", "share"),
        Column("largest_difference", "largest difference", "figure"),
        Column("compared", "compared", "int"),
        Column("compared_on", "on"),
        Column("int8_route", "int8 by"),
        Column("engine", "engine"),
    )
    return Table("inference_agreement", "Agreement with fp32", columns, rows)


def _of_cells(inferences: Sequence[Source], measured: Table, part: str) -> list[tuple[Row, Any]]:
    """Return the rows of cells with a part of their content, in their order."""
    given = [cell.get(part) for source in inferences for cell in entries(source.content.get("cells"))]
    return [(row, value) for row, value in zip(measured.rows, given) if value]


def generation(inferences: Sequence[Source], measured: Table) -> Table:
    """Return the time of the prompt and of each further token of cells that generate text."""
    rows = []
    for row, timing in _of_cells(inferences, measured, "generation"):
        part = mapping(timing)
        if part:
            times = {
                f"{name}_{key}": value
                for name in ("prefill", "per_token")
                for key, value in _latencies(part.get(f"{name}_ms")).items()
            }
            rows.append({**row, **times, "tokens_per_second": number(part.get("tokens_per_second"))})
    columns = (
        *_WHICH,
        Column("tokens_per_second", "tokens/s", "figure"),
        *(
            Column(f"{name}_{end}_ms", f"{title} {end}, ms", "figure")
            for name, title in (("prefill", "prefill"), ("per_token", "token"))
            for end in ("p50", "p99")
        ),
        *_SETTINGS,
    )
    return Table("inference_generation", "Token generation", columns, rows)


def open_loop(inferences: Sequence[Source], measured: Table) -> Table:
    """Return the latency of cells at given rates of requests."""
    rows = []
    for row, value in _of_cells(inferences, measured, "open_loop"):
        for entry in entries(value):
            rate = number(entry.get("rate"))
            if rate is not None:
                speed = entry.get("throughput")
                achieved = number(speed) if number(speed) is not None else number(mapping(speed).get("value"))
                rows.append({**row, **_latencies(entry.get("latency_ms")), "rate": rate, "achieved": achieved})
    columns = (
        *_WHICH,
        *_SETTINGS,
        Column("rate", "requests/s of an instance", "figure"),
        *_LATENCIES,
        Column("achieved", "samples/s", "figure"),
    )
    return Table("inference_open_loop", "Latency at given rates of requests", columns, rows)


def not_measured(measured: Table) -> Table:
    """Return why cells were not measured, those with the same reason together."""
    keys = ("results", "model", "precision", "engine", "state", "reason")
    lost = [row for row in measured.rows if row["state"] != "measured"]
    rows = [{**mine[0], "cells": len(mine)} for mine in grouped(lost, *keys).values()]
    columns = (*_WHICH, *named("engine", "state"), Column("cells", "cells", "int"), Column("reason", "reason"))
    return Table("inference_not_measured", "Not measured", columns, rows)


def by_instances(rows: Iterable[Row]) -> list[list[Row]]:
    """Return the cells of each result, model and precision that differ in the number of instances alone, by that.

    Of several such series the one with the fastest cell, if it has two numbers of instances, else the longest.
    """
    several = []
    for mine in grouped(measured(comparable(rows)), "results", "model", "precision").values():
        series = [_one_each(group) for group in grouped(mine, *_OTHERWISE).values()]
        first = fastest(mine)
        series = [group for group in series if len(group) > 1]
        with_fastest = [group for group in series if first in group]
        if series:
            several.append(with_fastest[0] if with_fastest else max(series, key=len))
    return several


def _one_each(rows: Sequence[Row]) -> list[Row]:
    """Return the fastest row of each number of instances, by that; without those that have no latency."""
    there = [row for row in rows if row["instances_per_node"] and row["p50_ms"] and row["p99_ms"]]
    groups = grouped(there, "instances_per_node")
    return [fastest(groups[key]) or groups[key][0] for key in sorted(groups)]


def by_rate(rows: Iterable[Row], measured: Table) -> list[list[Row]]:
    """Return the rows of open_loop of each result, model and precision by rate: of its fastest cell that has them."""
    series = []
    there = [row for row in rows if row["p50_ms"] and row["p99_ms"]]
    for key, mine in grouped(there, "results", "model", "precision").items():
        of_cells = grouped(mine, "cell")
        of_key = [row for row in measured.rows if (row["results"], row["model"], row["precision"]) == key]
        first = fastest([row for row in comparable(of_key) if row["cell"] in of_cells])
        chosen = of_cells[first["cell"]] if first else max(of_cells.values(), key=len)
        series.append(sorted(chosen, key=lambda row: float(row["rate"])))
    return series
