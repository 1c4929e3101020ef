# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures of inference: each draws rows of its table, and there is none where they hold nothing to draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._measure.report import style
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.figures_of_sweeps import errors
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.style import Drawn, colour, of_series
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.tables import (
    Row,
    Table,
    figure,
    grouped,
    shown,
)
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.tables_of_inference import (
    by_instances,
    by_rate,
    instances,
    measured,
    setting,
)

# Above this ratio of the highest to the lowest latency their axis is logarithmic.
LOGARITHMIC = 20

# How opaque the bars of settings are that do not keep the limit of the latency.
PALE = 0.35


def throughput(table: Table) -> Drawn | None:
    """A bar with its confidence interval for each precision and result, a panel for each model."""
    models = {model: rows for model, rows in grouped(table.rows, "model").items() if measured(rows)}
    if not models:
        return None
    results = list(grouped(table.rows, "results"))
    heights = [0.4 + len(rows) for rows in models.values()]
    made, panels = style.figure(0.5 + 0.27 * sum(heights) + 0.28 * len(models), len(models), heights)
    for axes, (model, rows) in zip(panels, models.items()):
        _bars(axes, rows, results)
        axes.set_title(style.short(model, 60), loc="left", fontsize=10, fontweight="bold", color=colour("ink"), pad=4)
    panels[-1].set_xlabel("samples/s; each model has its own scale", color=colour("muted"), fontsize=9)
    if len(results) > 1:
        style.legend(made, panels)
    there = measured(table.rows)
    sentence = "; ".join(
        ", ".join(filter(None, [row["results"] if len(results) > 1 else "", row["model"], row["precision"]]))
        + f": {figure(row['samples_per_second'])} samples/s"
        + (f", {shown(row['over_fp32'], 'ratio')} fp32" if row["over_fp32"] and row["precision"] != "fp32" else "")
        for row in there
    )
    slow = any(row["within_limit"] is False for row in there)
    note = "Of each model and precision the fastest setting. Error bars: 95 % confidence interval."
    note += " Pale: no setting keeps the limit of the latency." if slow else ""
    return Drawn("inference_throughput", "Throughput", f"Samples per second. {sentence}.", made, table, note)


def _bars(axes: Any, rows: Sequence[Row], results: Sequence[str]) -> None:
    """Draw the bars of one model: those of a precision stand together."""
    by_precision = grouped(rows, "precision")
    places: dict[int, float] = {}
    ticks, at = [], 0.0
    for mine in by_precision.values():
        for place, row in enumerate(mine):
            places[id(row)] = at + place
        ticks.append(at + (len(mine) - 1) / 2)
        at += len(mine) + 0.25
    for label, mine in grouped(measured(rows), "results").items():
        shade = of_series(results.index(label))
        low, high = errors(mine, "samples_per_second")
        bars = axes.barh(
            [places[id(row)] for row in mine],
            [row["samples_per_second"] for row in mine],
            0.78,
            xerr=[low, high],
            color=shade,
            ecolor=colour("ink"),
            capsize=3,
            label=style.short(label),
        )
        for part, row in zip(bars, mine):
            part.set_alpha(PALE if row["within_limit"] is False else None)
            over = row["over_fp32"] if row["precision"] != "fp32" else None
            caption = figure(row["samples_per_second"]) + (f" ({shown(over, 'ratio')})" if over else "")
            style.note(axes, caption, (row["samples_per_second_high"], places[id(row)]), (6, 0), va="center")
    for row in rows:
        if not measured([row]):
            axes.text(0, places[id(row)], f" {row['state']}", va="center", fontsize=9, color=colour("bad"))
    axes.set_yticks(ticks, [style.short(name, 20) for name in by_precision])
    axes.set_ylim(at - 0.75, -0.6)
    axes.set_xlim(0, max(row["samples_per_second_high"] for row in measured(rows)) * 1.24)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False)


def latencies(table: Table) -> list[Drawn]:
    """Latency against throughput as instances grow, a figure for each model."""
    figures = []
    for model, rows in grouped(table.rows, "model").items():
        lines = by_instances(rows)
        drawn = curves(
            Curves("inference_latency", "Latency as instances grow", "samples_per_second", "samples/s", "samples/s"),
            model,
            lines,
            table,
            lambda row: f"{row['instances_per_node']:.0f}",
        )
        if drawn:
            fixed = ", ".join(dict.fromkeys(_without_instances(line[0]) for line in lines))
            note = f"Beside each point: instances on each host. Lines: p99, dashed: p50. Measured with {fixed}."
            figures.append(replace(drawn, note=note))
    return numbered(figures)


def rates(open_loop: Table, cells: Table) -> list[Drawn]:
    """Latency at given rates of requests, a figure for each model."""
    figures = []
    for model, rows in grouped(open_loop.rows, "model").items():
        lines = by_rate(rows, cells)
        drawn = curves(
            Curves("inference_open_loop", "Latency by rate of requests", "rate", "requests/s of an instance", "/s"),
            model,
            lines,
            open_loop,
            None,
        )
        if drawn:
            fixed = ", ".join(dict.fromkeys(setting(line[0]) for line in lines))
            figures.append(replace(drawn, note=f"Lines: p99, dashed: p50. Measured with {fixed}."))
    return numbered(figures)


@dataclass(frozen=True)
class Curves:
    """Labels of curves of latencies. name: of the figure. x: the key of their x axis. unit: of x in words.

    line: the key of what names a line, beside the result.
    """

    name: str
    title: str
    x: str
    axis: str
    unit: str
    line: str = "precision"


def curves(
    labels: Curves, model: str, lines: Sequence[Sequence[Row]], table: Table, mark: Callable[[Row], str] | None
) -> Drawn | None:
    """Draw p99 and p50 of each line, and the limit of p99. mark: what is written beside a point."""
    rows = [row for line in lines for row in line]
    if not rows:
        return None
    from matplotlib.ticker import LogLocator

    made, (axes,) = style.figure(3.6)
    results = list(grouped(rows, "results"))
    several = len(results) > 1
    names = list(dict.fromkeys(row[labels.line] for row in rows))
    sentences = []
    for place, line in enumerate(lines):
        first = line[0]
        parts = [first["results"] if several else "", first[labels.line] if len(names) > 1 or not several else ""]
        label = ", ".join(filter(None, parts))
        shade = of_series(results.index(first["results"]) if several else place)
        look = {"color": shade, "marker": style.MARKERS[names.index(first[labels.line]) % 8]}
        x = [row[labels.x] for row in line]
        # With several results the legend has their colours, and the markers of the names.
        name = f"_{label}" if several else label
        axes.plot(x, [row["p99_ms"] for row in line], linewidth=2, markersize=6, label=name, **look)
        axes.plot(x, [row["p50_ms"] for row in line], linewidth=1.2, markersize=3.5, linestyle=(0, (4, 2)), **look)
        for row in line if mark else ():
            at = (row[labels.x], row["p99_ms"])
            style.note(axes, mark(row) if mark else "", at, (0, 6), ha="center", fontsize=8, color=shade)
        points = ", ".join(
            (f"{instances(row)} " if mark else "")
            + f"{figure(row[labels.x])} {labels.unit} p50 {figure(row['p50_ms'])} ms p99 {figure(row['p99_ms'])} ms"
            for row in line
        )
        sentences.append(f"{label}: {points}" if label else points)
    if several:
        for place, label in enumerate(results):
            axes.plot([], [], color=of_series(place), linewidth=2, label=style.short(label))
        for place, label in enumerate(names):
            look = {"color": colour("muted"), "marker": style.MARKERS[place % 8]}
            axes.plot([], [], linestyle="none", label=label, **look)
    limits = {row["limit_p99_ms"] for row in rows} - {None}
    highest, lowest = max(row["p99_ms"] for row in rows), min(row["p50_ms"] for row in rows)
    for limit in sorted(limits):
        axes.axhline(limit, color=colour("muted"), linewidth=1, linestyle=(0, (1, 2)), label="limit of p99", zorder=1)
    if highest > LOGARITHMIC * lowest > 0:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(lambda value, _place: f"{value:g}")
        axes.yaxis.set_minor_formatter(lambda _value, _place: "")
    else:
        axes.set_ylim(0, max([highest, *limits]) * 1.12)
    axes.set_xlim(left=0)
    axes.margins(x=0.08)
    style.labels(axes, labels.axis, "latency, ms")
    style.legend(made, axes)
    return Drawn(
        labels.name, f"{labels.title}: {model}", f"{model}. {'; '.join(sentences)}.", made, replace(table, rows=rows)
    )


def _without_instances(row: Row) -> str:
    return setting({**row, "instances_per_node": None})


def numbered(figures: Sequence[Drawn]) -> list[Drawn]:
    """Return figures of several models under names that tell them apart."""
    if len(figures) < 2:
        return list(figures)
    return [replace(figure, name=f"{figure.name}_{place}") for place, figure in enumerate(figures, 1)]
