# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures of jobs and networks: each draws the rows of its table, and is None where they hold nothing to draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._measure.report import style
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.style import Drawn, colour, of_series
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.tables import (
    TIMES,
    Row,
    Table,
    data_size,
    figure,
    grouped,
)
from ansible_collections.amx.cluster.plugins.module_utils._text import duration, names

# With more hosts than this, only the line of the least busy one is named.
LINES = 8
# With more hosts than this, a heat map has no figures in its cells.
CELLS = 9


def losses(table: Table) -> Drawn | None:
    """Losses by step, those of all jobs over each other: lines of the training's, points of the evaluation's."""
    groups = {
        label: rows for label, rows in grouped(table.rows, "results").items() if any(_has_loss(row) for row in rows)
    }
    if not groups:
        return None
    # Jobs with different batches make different steps of the same epoch.
    by_epoch = len(groups) > 1 and all(row["epoch"] is not None for rows in groups.values() for row in rows)
    key = "epoch" if by_epoch else "step"
    made, (axes,) = style.figure(3.3)
    sentences = []
    for place, (label, rows) in enumerate(groups.items()):
        for name, look in (("loss", "-"), ("eval_loss", "none")):
            points = [row for row in rows if row[name] is not None and row[key] is not None]
            if not points:
                continue
            kind = "training" if name == "loss" else "evaluation"
            axes.plot(
                [row[key] for row in points],
                [row[name] for row in points],
                linestyle=look if len(points) > 2 else "none",  # two points are no curve
                linewidth=2,
                marker="o" if look == "none" or len(points) < 3 else None,
                markersize=7,
                markerfacecolor=colour("paper"),
                markeredgewidth=2,
                color=of_series(place),
                label=style.short(f"{label}, {kind}" if len(groups) > 1 else kind),
                zorder=3 + (name == "eval_loss"),
                clip_on=False,  # a marker on an axis is drawn whole
            )
            ends = " to ".join(figure(point[name]) for point in (points[0], points[-1])[: len(points)])
            sentences.append(f"{label}, {kind}: {ends}")
    axes.set_ylim(bottom=0)
    style.labels(axes, key, "loss")
    style.legend(made, axes, 2)
    return Drawn("losses", "Loss", f"Loss by {key}. {'; '.join(sentences)}.", made, table)


def _has_loss(row: Row) -> bool:
    return row["loss"] is not None or row["eval_loss"] is not None


def utilization(table: Table, attempts: Table, label: str) -> Drawn | None:
    """Draw what the hosts of one job used over time, with its restarts and faults on the time line."""
    groups = {
        host: rows
        for host, rows in grouped([row for row in table.rows if row["results"] == label], "host").items()
        if any(row["busy_cpus"] is not None for row in rows)
    }
    if not groups:
        return None
    panels = [
        ("CPUs busy", _share, lambda value, _place: f"{value * 100:.0f} %"),
        ("memory, GiB", lambda row: _scaled(row["memory_bytes"], 2**30), None),
        ("network, MB/s", lambda row: _scaled(row["network_bytes_per_second"], 1e6), None),
    ]
    panels = [panel for panel in panels if any(panel[1](row) is not None for rows in groups.values() for row in rows)]
    percent = all(row["cpus"] for rows in groups.values() for row in rows)
    made, axes = style.figure(1.0 + 1.25 * len(panels), len(panels))
    end = max(row["seconds"] for rows in groups.values() for row in rows)
    scale, unit = (60.0, "minutes") if end >= 300 else (1.0, "seconds")
    means = {host: _mean([_share(row) for row in rows]) for host, rows in groups.items()}
    least = min(means, key=lambda host: means[host])
    for axis, (title, value, form) in zip(axes, panels):
        for place, (host, rows) in enumerate(groups.items()):
            many = len(groups) > LINES
            points = [(row["seconds"] / scale, value(row)) for row in rows if value(row) is not None]
            marked = many and host == least
            axis.plot(
                [x for x, _y in points],
                [y for _x, y in points],
                linewidth=1.6 if not many or marked else 0.8,
                color=colour("c2") if marked else colour("reference") if many else of_series(place),
                label=(f"{host}, least busy" if marked else None) if many else style.short(host, 18),
                zorder=3 if marked else 2,
            )
        axis.set_ylim(bottom=0)
        axis.margins(x=0.01)
        if form and percent:
            axis.yaxis.set_major_formatter(form)
        style.labels(axis, "", title)
        axis.yaxis.label.set_fontsize(8)
    marks = _marks(axes, [row for row in attempts.rows if row["results"] == label], scale)
    made.align_ylabels(axes)
    axes[-1].set_xlabel(f"{unit} since the start", color=colour("muted"), fontsize=9)
    style.legend(made, axes[0], 4)
    averages = ", ".join(
        f"{host} {means[host] * 100:.0f} %" if percent else f"{host} {figure(means[host])} CPUs" for host in groups
    )
    most = f"{names(list(groups), LINES)}; least busy {least} with {means[least] * 100:.0f} %"
    return Drawn(
        "utilization",
        "Hosts over time",
        f"CPUs of the ranks that were busy, on average: {averages if len(groups) <= LINES else most}."
        f" Over {duration(end)}.{marks}",
        made,
        table,
        "Dashed lines: a fault, and the restart after it." if marks else "",
    )


def _share(row: Row) -> float | None:
    busy, cpus = row["busy_cpus"], row["cpus"]
    return busy if busy is None or not cpus else busy / cpus


def _scaled(value: float | None, unit: float) -> float | None:
    return None if value is None else value / unit


def _mean(values: Sequence[float | None]) -> float:
    there = [value for value in values if value is not None]
    return sum(there) / len(there) if there else 0.0


def _marks(axes: Sequence[Any], attempts: Sequence[Row], scale: float) -> str:
    """Draw the end of each attempt that failed and the beginning of the next; return them in words."""
    sentences: list[str] = []
    for row in attempts:
        at = row["ended_seconds"]
        if row["reason"] and at is not None:
            for panel in axes:
                panel.axvline(at / scale, color=colour("bad"), linewidth=1.2, linestyle=(0, (4, 2)), zorder=4)
            style.note(
                axes[0],
                f"fault {len(sentences) + 1}",
                (at / scale, 1),
                (0, 2),
                xycoords=("data", "axes fraction"),
                ha="center",
                va="bottom",
                fontsize=8,
                color=colour("bad"),
                zorder=5,
            )
            sentences.append(f"fault after {duration(at)}: {row['reason']}")
        if row["attempt"] > 1 and row["began_seconds"] is not None:
            for panel in axes:
                panel.axvline(row["began_seconds"] / scale, color=colour("c3"), linewidth=1.2, linestyle=(0, (2, 2)))
    return f" {'; '.join(sentences)}." if sentences else ""


def pairs(table: Table, label: str) -> Drawn | None:
    """Bandwidth between every pair of hosts of one measurement as a heat map; failed pairs are crossed out."""
    rows = [row for row in table.rows if row["results"] == label]
    hosts = sorted({row[end] for row in rows for end in ("from", "to")})
    measured = [row for row in rows if row["bandwidth_mbyte_s"] is not None]
    if len(hosts) < 2 or not measured:
        return None
    import matplotlib

    side = min(5.0, 1.6 + 0.55 * len(hosts))
    made, (axes,) = style.figure(side)
    grid: list[list[float]] = [[float("nan")] * len(hosts) for _host in hosts]
    for row in measured:
        a, b = hosts.index(row["from"]), hosts.index(row["to"])
        grid[a][b] = grid[b][a] = row["bandwidth_mbyte_s"]
    highest = max(row["bandwidth_mbyte_s"] for row in measured)
    colours = matplotlib.colormaps["YlGnBu"]
    mesh = axes.pcolormesh(grid, cmap=colours, vmin=0, vmax=highest or 1, edgecolors=colour("paper"), linewidth=2)
    for row in rows:
        a, b = hosts.index(row["from"]), hosts.index(row["to"])
        for x, y in ((b, a), (a, b)):
            if row["bandwidth_mbyte_s"] is None:
                axes.text(x + 0.5, y + 0.5, TIMES, ha="center", va="center", fontsize=13, color=colour("bad"))
            elif len(hosts) <= CELLS:
                dark = row["bandwidth_mbyte_s"] > 0.55 * highest
                axes.text(
                    x + 0.5,
                    y + 0.5,
                    figure(row["bandwidth_mbyte_s"]),
                    ha="center",
                    va="center",
                    fontsize=9,
                    color="#ffffff" if dark else "#1a1a1a",
                )
    axes.set_aspect("equal")
    places = [place + 0.5 for place in range(len(hosts))]
    crowded = len(hosts) > 24
    axes.set_xticks([] if crowded else places, [] if crowded else [style.short(host, 12) for host in hosts])
    axes.set_yticks([] if crowded else places, [] if crowded else [style.short(host, 12) for host in hosts])
    if len(hosts) > 6 or max(map(len, hosts)) > 6:
        axes.tick_params(axis="x", rotation=45)
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    scale = made.colorbar(mesh, ax=axes, shrink=0.85, pad=0.02)
    scale.outline.set_visible(False)
    scale.ax.tick_params(colors=colour("muted"), labelcolor=colour("ink"), labelsize=8, length=2)
    scale.set_label("MB/s", color=colour("muted"), fontsize=9)
    worst = min(measured, key=lambda row: row["bandwidth_mbyte_s"])
    best = max(measured, key=lambda row: row["bandwidth_mbyte_s"])
    lost = [f"{row['from']} and {row['to']}" for row in rows if row["bandwidth_mbyte_s"] is None]
    return Drawn(
        "network_pairs",
        "Bandwidth between hosts",
        f"Bandwidth of {len(measured)} pairs of hosts: {worst['from']} and {worst['to']} are the slowest with "
        f"{figure(worst['bandwidth_mbyte_s'])} MB/s, {best['from']} and {best['to']} the fastest with "
        f"{figure(best['bandwidth_mbyte_s'])} MB/s." + (f" Failed: {'; '.join(lost)}." if lost else ""),
        made,
        table,
        "Latency is in the table.",
    )


def collectives(table: Table, label: str) -> Drawn | None:
    """Time of each collective by size, a panel for each tool and backend."""
    rows = [
        row
        for row in table.rows
        if row["results"] == label and row["bytes"] and row["microseconds"] and row["operation"]
    ]
    if not rows:
        return None
    panels = grouped([{**row, "panel": f"{row['tool']}, {row['backend']}"} for row in rows], "panel")
    operations = list(dict.fromkeys(row["operation"] for row in rows))
    made, axes = style.figure(1.0 + 2.5 * len(panels), len(panels))
    for panel, (title, mine) in zip(axes, panels.items()):
        for operation, points in grouped(mine, "operation").items():
            place = operations.index(operation)
            points = sorted(points, key=lambda row: float(row["bytes"]))
            median = [row["microseconds"] for row in points]
            below = [max(0.0, middle - (row["low"] or middle)) for middle, row in zip(median, points)]
            above = [max(0.0, (row["high"] or middle) - middle) for middle, row in zip(median, points)]
            sizes = [row["bytes"] for row in points]
            style.line(panel, sizes, median, [below, above], place, operation, markersize=4, linewidth=1.5, capsize=2)
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.yaxis.set_major_formatter(lambda value, _place: _micro(value))
        panel.minorticks_off()
        style.labels(panel, "", f"{title}: time")
    sizes = sorted({row["bytes"] for row in rows})
    step = max(1, -(-len(sizes) // 7))
    axes[-1].set_xticks(sizes[::step], [data_size(size) for size in sizes[::step]])
    axes[-1].set_xlabel("bytes of each rank", color=colour("muted"), fontsize=9)
    style.legend(made, axes, 3)
    largest = [
        max(points, key=lambda row: float(row["bytes"]))
        for points in grouped(rows, "tool", "backend", "operation").values()
    ]
    sentence = "; ".join(
        f"{row['operation']} ({row['tool']}, {row['backend']}) of {data_size(row['bytes'])} "
        f"{_micro(row['microseconds'])}"
        for row in largest
    )
    return Drawn("collectives", "Collectives", f"Time of collectives by size. {sentence}.", made, table)


def _micro(value: float) -> str:
    """Return microseconds in the unit in which they are short."""
    for size, unit in ((1e6, "s"), (1e3, "ms")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} µs"
