# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Served models under load: the table of all steps, the figures of latency by rate, and the highest rates held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._measure.load import steps
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.figures_of_inference import (
    Curves,
    curves,
    numbered,
)
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.sources import (
    Source,
    entries,
    mapping,
    number,
    text,
)
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.style import Drawn
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.tables import (
    Column,
    Row,
    Table,
    figure,
    grouped,
    named,
    read_row,
)
from ansible_collections.amx.cluster.plugins.module_utils._text import count

_OF_ANSWERS = tuple(Column(f"{name}_ms", f"{name}, ms", "figure") for name in ("p50", "p90", "p99", "max"))
_OF_FIRST_TOKENS = tuple(Column(f"first_{name}_ms", f"first token {name}, ms", "figure") for name in ("p50", "p99"))


def table(loads: Sequence[Source]) -> Table:
    """Return a row for each step of all runs."""
    columns = (
        *named("results", "model", "served_by", form="name"),
        Column("run", "run", "int"),
        Column("rate", "requests/s", "figure"),
        Column("achieved", "answered/s", "figure"),
        Column("requests", "requests", "int"),
        *_OF_ANSWERS,
        *_OF_FIRST_TOKENS,
        Column("token_p50_ms", "token p50, ms", "figure"),
        Column("tokens_per_second", "tokens/s", "figure"),
        Column("held", "held"),
        Column("remark", "remark"),
        Column("state", "state"),
        Column("limit_p99_ms", "limit of p99, ms", "figure"),
        Column("late_p99_ms", "sent late p99, ms", "figure"),
        Column("started", "run of"),
    )
    rows = []
    for source in loads:
        for place, run in enumerate(entries(source.content.get("runs")), 1):
            for step in entries(run.get("steps")):
                if number(step.get("rate")) is None:
                    continue
                own: dict[str, Any] = {
                    "results": source.label,
                    "model": text(run.get("model")),
                    "run": place,
                    "served_by": served_by(run, step),
                    "held": step.get("held") is True,
                    "limit_p99_ms": number(run.get("limit_p99_ms")),
                    "started": text(run.get("started")).replace("T", " "),
                    "token_p50_ms": _ms(step, "seconds_per_token", "p50"),
                    "late_p99_ms": _ms(step, "lateness_seconds", "p99"),
                    **{column.key: _ms(step, "latency_seconds", column.key[:-3]) for column in _OF_ANSWERS},
                    **{column.key: _ms(step, "first_token_seconds", column.key[6:-3]) for column in _OF_FIRST_TOKENS},
                }
                rows.append(read_row(columns, step, **own))
    return Table("load", "Steps of all loads", columns, rows)


def _ms(step: Mapping[str, Any], part: str, name: str) -> float | None:
    value = number(mapping(step.get(part)).get(name))
    return None if value is None else value * 1000


def served_by(run: Mapping[str, Any], step: Mapping[str, Any]) -> str:
    """Return what has answered a step in words; empty where the number of instances changed."""
    numbers = step.get("instances")
    first, *others = numbers if isinstance(numbers, list) and numbers else [None]
    if any(other != first for other in others):
        return ""
    return ", ".join(filter(None, [count(first, "instance") if first else "server", text(run.get("precision"))]))


def latest(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the rows of the last run of each number of instances that has measured something, by rate."""
    there = [row for row in rows if row["served_by"] and (row["held"] or row["state"] == steps.MEASURED)]
    by_server = grouped(there, "results", "model", "served_by")
    return [
        sorted((row for row in mine if row["run"] == mine[-1]["run"]), key=lambda row: float(row["rate"]))
        for mine in (by_server[key] for key in sorted(by_server))
    ]


def figures(steps_table: Table) -> list[Drawn]:
    """Return latency by rate of each model, or time to the first token; a line for each number of instances."""
    drawn = []
    for model, rows in grouped(steps_table.rows, "model").items():
        lines = [[row for row in line if row["state"] == steps.MEASURED and row["p99_ms"]] for line in latest(rows)]
        texts = any(row["first_p99_ms"] for line in lines for row in line)
        title = "Time to the first token by rate of requests" if texts else "Latency by rate of requests"
        if texts:
            first = {"p50_ms": "first_p50_ms", "p99_ms": "first_p99_ms"}
            lines = [[{**row, **{name: row[key] for name, key in first.items()}} for row in line] for line in lines]
        look = Curves("load", title, "rate", "requests/s", "/s", line="served_by")
        made = curves(look, model, [line for line in lines if line], steps_table, None)
        if made:
            note = "Lines: p99, dashed: p50, from when a request was due. Left out: steps overloaded or not measured."
            drawn.append(replace(made, note=note))
    return numbered(drawn)


def verdict(source: Source, steps_table: Table) -> tuple[str, str, str]:
    """Return (highest rate that is held, its unit, a sentence)."""
    mine = latest([row for row in steps_table.rows if row["results"] == source.label])
    held = [max(rows, key=lambda row: float(row["rate"])) for line in mine if (rows := [r for r in line if r["held"]])]
    name = f"Load of {source.label}" if source.label else "Load"
    if not held:
        return "", "", f"{name}: no rate of requests was held within the limit."
    several = len({row["model"] for row in held}) > 1
    parts = "; ".join(
        (f"{row['model']} by " if several else "") + f"{row['served_by']}: {figure(row['rate'])} requests/s"
        for row in held
    )
    best = max(held, key=lambda row: float(row["rate"]))
    limit = f"99 % within {best['limit_p99_ms'] / 1000:g} s" if best["limit_p99_ms"] else "within the limit"
    return figure(best["rate"]), f"requests/s held by {best['served_by']}", f"{name}, {limit}: {parts}."
