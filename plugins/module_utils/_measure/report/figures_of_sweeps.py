# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures of sweeps and tuning: each draws the rows of its table, and is None where they hold nothing to draw."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs.wire import OPERATIONS, PARTS
from ansible_collections.amx.cluster.plugins.module_utils._measure.report import style
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.style import Drawn, colour, of_series
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.tables import (
    Row,
    Table,
    figure,
    grouped,
    shown,
)
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.tables_of_sweeps import (
    FORMS,
    measured,
)
from ansible_collections.amx.cluster.plugins.module_utils._text import count

# With more settings than this, the slower ones are in the table alone.
TRIALS = 16


def errors(rows: Sequence[Row], name: str) -> list[list[float]]:
    """Return how far the lowest and the highest value lie from the median, as matplotlib's error bars take it."""
    return [
        [max(0.0, row[name] - row[f"{name}_low"]) for row in rows],
        [max(0.0, row[f"{name}_high"] - row[name]) for row in rows],
    ]


def values_text(rows: Sequence[Row], name: str) -> str:
    """Return a column's values by number of hosts, in words."""
    parts = []
    for label, mine in grouped(rows, "results").items():
        figures = ", ".join(f"{count(row['hosts'], 'host')} {shown(row[name], FORMS[name])}" for row in mine)
        parts.append(f"{label}: {figures}")
    return "; ".join(parts) + "."


def _hosts_axis(axes: Any, rows: Sequence[Row]) -> list[int]:
    hosts = sorted({row["hosts"] for row in rows})
    axes.set_xticks(hosts, [str(number) for number in hosts])
    margin = 0.06 * max(hosts[-1] - hosts[0], 1)
    axes.set_xlim(min(hosts[0], 1) - margin, hosts[-1] + margin * (2.5 if hosts[-1] > 1 else 1))
    return hosts


def _series(axes: Any, rows: Sequence[Row], name: str) -> None:
    """Draw a line with error bars for each result."""
    for place, (label, mine) in enumerate(grouped(rows, "results").items()):
        look = {"markersize": 6, "linewidth": 2, "capsize": 4, "elinewidth": 1.2, "zorder": 3}
        x, y = ([row[key] for row in mine] for key in ("hosts", name))
        style.line(axes, x, y, errors(mine, name), place, style.short(label), **look)


def _last_values(axes: Any, rows: Sequence[Row], name: str) -> None:
    """Write beside the last point of each line what it is."""
    last = {place: mine[-1] for place, mine in enumerate(grouped(rows, "results").values())}
    by_value = sorted(last, key=lambda place: float(last[place][name]))
    for place, row in last.items():
        # Lines end close to each other: the lower ones are named below their ends, the upper ones above.
        above = by_value.index(place) * 2 >= len(last) and len(last) > 1
        style.note(
            axes,
            shown(row[name], FORMS[name]),
            (row["hosts"], row[name]),
            (8, 3 if above else -12),
            color=of_series(place),
            fontsize=10,
            fontweight="bold",
            annotation_clip=False,
        )


def _failed(axes: Any, table: Table) -> str:
    """Mark numbers of hosts of which every run failed; return that in words."""
    hosts = _lost(table)
    if hosts:
        transform = axes.get_xaxis_transform()
        axes.plot(
            hosts,
            [0.03] * len(hosts),
            linestyle="none",
            marker="x",
            markersize=9,
            markeredgewidth=2.5,
            color=colour("bad"),
            transform=transform,
            label="failed",
            clip_on=False,
            zorder=4,
        )
    return _failed_text(hosts)


def _lost(table: Table) -> list[int]:
    """Return the numbers of hosts of which every run failed."""
    return sorted({row["hosts"] for row in table.rows if row["state"] == "failed" and not row["baseline"]})


def _failed_text(hosts: Sequence[int]) -> str:
    return f" Failed: {', '.join(f'{number} hosts' for number in hosts)}." if hosts else ""


def _reference(axes: Any, published: Sequence[Row], hosts: Sequence[int], value: Callable[[Row], float]) -> str:
    """Draw published results as thin lines as far as the measured ones go; return them in words."""
    sentences: list[str] = []
    for name, rows in grouped([row for row in published if row.get("speedup") is not None], "series").items():
        mine = [row for row in rows if row["hosts"] <= max(hosts)]
        if len(mine) < 2:
            continue
        axes.plot(
            [row["hosts"] for row in mine],
            [value(row) for row in mine],
            color=colour("reference"),
            linewidth=1,
            linestyle=(0, (4, 2)),
            marker="o",
            markersize=2.5,
            zorder=1,
            label="published results" if not sentences else None,
        )
        sentences.append(f"{name} {shown(mine[-1]['speedup'], 'ratio')} on {mine[-1]['hosts']}")
    return f" Published results: {'; '.join(sentences)}." if sentences else ""


def speedup(table: Table, published: Sequence[Row]) -> Drawn | None:
    """Speed-up by number of hosts against the ideal, with spread."""
    rows = [row for row in measured(table) if row["speedup"] is not None]
    hosts = {row["hosts"] for row in rows}
    if len(hosts) < 2:
        return None
    made, (axes,) = style.figure(3.7)
    ticks = _hosts_axis(axes, [*rows, *(row for row in table.rows if not row["baseline"])])
    top = max(ticks)
    _series(axes, rows, "speedup")
    axes.plot([1, top], [1, top], color=colour("muted"), linewidth=1, label="ideal", zorder=2)
    sentence = _reference(axes, published, ticks, lambda row: float(row["speedup"]))
    _last_values(axes, rows, "speedup")
    over = False
    for place, mine in enumerate(grouped(rows, "results").values()):
        over_one = [row for row in mine if row["speedup_over_one_process"] is not None]
        if over_one:
            axes.plot(
                [row["hosts"] for row in over_one],
                [row["speedup_over_one_process"] for row in over_one],
                linestyle="none",
                marker="o",
                markersize=6,
                markerfacecolor="none",
                markeredgecolor=of_series(place),
                label=None if over else "over one process",
                zorder=2,
            )
            over = True
    failed = _failed(axes, table)
    axes.set_ylim(bottom=0)
    style.labels(axes, "hosts", "times as fast as 1 host")
    style.legend(made, axes)
    return Drawn(
        "speedup",
        "Speed-up",
        f"Speed-up by number of hosts. {values_text(rows, 'speedup')}{failed}{sentence}",
        made,
        table,
        "Error bars: slowest and fastest repeat." + (" Circles: over one process on one host." if over else ""),
    )


def efficiency(table: Table, published: Sequence[Row]) -> Drawn | None:
    """Share of the ideal speed-up by number of hosts, with spread."""
    rows = [row for row in measured(table) if row["efficiency"] is not None]
    if len({row["hosts"] for row in rows}) < 2:
        return None
    made, (axes,) = style.figure(3.7)
    ticks = _hosts_axis(axes, [*rows, *(row for row in table.rows if not row["baseline"])])
    _series(axes, rows, "efficiency")
    axes.axhline(1, color=colour("muted"), linewidth=1, label="ideal", zorder=2)
    sentence = _reference(axes, published, ticks, lambda row: float(row["speedup"]) / row["hosts"])
    _last_values(axes, rows, "efficiency")
    failed = _failed(axes, table)
    highest = max([1.0, *(row["efficiency_high"] for row in rows)])
    axes.set_ylim(0, highest * 1.1)
    axes.yaxis.set_major_formatter(lambda value, _place: f"{value * 100:.0f} %")
    style.labels(axes, "hosts", "of ideal speed-up")
    style.legend(made, axes)
    return Drawn(
        "efficiency",
        "Efficiency",
        f"Share of the ideal speed-up. {values_text(rows, 'efficiency')}{failed}{sentence}",
        made,
        table,
        "100 %: twice the hosts, twice the speed.",
    )


def _bars(table: Table, name: str, title: str, axis: str, scale: float, note: str) -> Drawn | None:
    """A bar with its spread for each number of hosts and result. scale: what a unit of the axis is."""
    rows = [row for row in measured(table) if row[name] is not None]
    if not rows:
        return None
    made, (axes,) = style.figure(3.3)
    hosts = sorted({row["hosts"] for row in table.rows if not row["baseline"]})
    groups = grouped(rows, "results")
    width = 0.72 / len(groups)
    highest = max(row[f"{name}_high"] for row in rows) / scale
    for place, (label, mine) in enumerate(groups.items()):
        at = [hosts.index(row["hosts"]) + (place - (len(groups) - 1) / 2) * width for row in mine]
        low, high = errors(mine, name)
        axes.bar(
            at,
            [row[name] / scale for row in mine],
            width * 0.92,
            yerr=[[value / scale for value in low], [value / scale for value in high]],
            color=of_series(place),
            ecolor=colour("ink"),
            capsize=3,
            label=style.short(label) if len(groups) > 1 else None,
        )
        for x, row in zip(at, mine):
            at_end = (x, row[f"{name}_high"] / scale)
            style.note(axes, figure(row[name] / scale), at_end, (0, 4), ha="center", fontsize=9 if len(rows) < 9 else 7)
    lost = _lost(table)
    for at_hosts in lost:
        axes.text(hosts.index(at_hosts), 0.02 * highest, "failed", ha="center", fontsize=9, color=colour("bad"))
    axes.set_xticks(range(len(hosts)), [str(number) for number in hosts])
    axes.set_xlim(-0.6, len(hosts) - 0.4)
    axes.set_ylim(0, highest * 1.14 or 1)
    style.labels(axes, "hosts", axis)
    style.legend(made, axes)
    sentence = f"{title} by number of hosts. {values_text(rows, name)}{_failed_text(lost)}"
    return Drawn(name, title, sentence, made, table, note)


def throughput(table: Table) -> Drawn | None:
    """Samples per second by number of hosts."""
    return _bars(
        table, "samples_per_second", "Throughput", "samples/s", 1, "Median of the repeats, slowest and fastest."
    )


def epoch_time(table: Table) -> Drawn | None:
    """Time of an epoch by number of hosts."""
    longest = max((row["epoch_seconds"] or 0 for row in table.rows), default=0)
    scale, unit = (3600.0, "hours") if longest >= 7200 else (60.0, "minutes") if longest >= 120 else (1.0, "seconds")
    extrapolated = any(row["epoch_extrapolated"] for row in table.rows)
    note = "Extrapolated from the measured steps: no epoch was run to its end." if extrapolated else ""
    return _bars(table, "epoch_seconds", "Time of an epoch", unit, scale, note)


def time_split(table: Table) -> Drawn | None:
    """Share of a step's time: a stacked bar for each number of hosts or rank."""
    rows = list(table.rows)
    if len(rows) > 24:  # one bar for each host
        rows = [_mean(mine) for mine in grouped(rows, "host").values()]
    return _stacked(table, rows, dict(zip(PARTS, ("c1", "c2", "c5", "c8"))), "Where a step's time goes")


def operations(table: Table) -> Drawn | None:
    """Share of each kind of operation in a step: a stacked bar for each host, and for what AMX would leave of it."""
    colours = dict(zip(OPERATIONS, (*style.SERIES[:7], "reference", "c8")))
    return _stacked(table, table.rows[:24], colours, "Kinds of operations in a step")


def _stacked(table: Table, rows: Sequence[Row], colours: Mapping[str, str], title: str) -> Drawn | None:
    """Return a figure of a stacked bar for each row. colours: {column with a share: its colour}."""
    if not rows:
        return None
    several = len({row["results"] for row in rows}) > 1
    made, (axes,) = style.figure(1.3 + 0.34 * (len(rows) + several * len({row["results"] for row in rows})))
    names = [_where(row, rows) for row in rows]
    places: list[float] = []
    for row, before in zip(rows, [None, *rows]):
        begins = several and (before is None or before["results"] != row["results"])
        places.append((places[-1] + 1 if places else 0) + begins)
        if begins:
            heading = style.short(row["results"], 60)
            axes.text(0, places[-1] - 0.6, heading, fontsize=9, fontweight="bold", color=colour("ink"), va="bottom")
    left = [0.0] * len(rows)
    for name, series in colours.items():
        shares = [row[name] or 0.0 for row in rows]
        if not any(shares):
            continue
        bars = axes.barh(places, shares, 0.68, left=left, color=colour(series), label=name)
        for part, share in zip(bars, shares):
            if share >= 0.09:
                axes.text(
                    part.get_x() + share / 2,
                    part.get_y() + part.get_height() / 2,
                    f"{share * 100:.0f} %",
                    ha="center",
                    va="center",
                    fontsize=9,
                    color=colour("paper"),
                )
        left = [before + share for before, share in zip(left, shares)]
    axes.set_yticks(places, names)
    axes.set_ylim(-0.5, places[-1] + 0.5)
    axes.invert_yaxis()
    axes.set_xlim(0, max(1.0, *left))
    axes.xaxis.set_major_formatter(lambda value, _place: f"{value * 100:.0f} %")
    axes.grid(visible=False)
    style.labels(axes, "share of a step")
    style.legend(made, axes, 4)
    sentence = "; ".join(
        (f"{row['results']}, " if several else "")
        + f"{name}: "
        + ", ".join(f"{share} {row[share] * 100:.0f} %" for share in colours if row[share])
        for name, row in zip(names, rows)
    )
    return Drawn(table.name, title, f"Share of a step's time. {sentence}.", made, table, table.note)


def _where(row: Row, rows: Sequence[Row]) -> str:
    host = row.get("host")
    if not host or row["where"] == host or len({other.get("host") for other in rows}) == 1:
        return str(row["where"])
    return f"{style.short(str(host), 14)} {row['where']}"


def _mean(rows: Sequence[Row]) -> Row:
    shares = {name: sum(row[name] or 0.0 for row in rows) / len(rows) for name in PARTS}
    return {**rows[0], "where": rows[0].get("host") or rows[0]["where"], **shares}


def trials(table: Table) -> Drawn | None:
    """The best throughput of each setting that was tried, the fastest first."""
    best: dict[tuple[str, str], Row] = {}
    for row in table.rows:
        if row["samples_per_second"] is None:
            continue
        # Trials of later rounds are longer, and count instead of the earlier ones.
        key = (row["results"], row["settings"])
        if key not in best or (row["round"] or 0) >= (best[key]["round"] or 0):
            best[key] = row
    rows = sorted(best.values(), key=lambda row: -float(row["samples_per_second"]))
    shown_rows = [row for place, row in enumerate(rows) if place < TRIALS or row["default"] or row["winner"]]
    if not shown_rows:
        return None
    made, (axes,) = style.figure(1.0 + 0.48 * len(shown_rows))
    colours = [
        colour("c3") if row["winner"] else colour("c1") if row["default"] else colour("reference") for row in shown_rows
    ]
    speeds = [row["samples_per_second"] for row in shown_rows]
    axes.barh([place + 0.12 for place in range(len(speeds))], speeds, 0.44, color=colours)
    for place, row in enumerate(shown_rows):
        role = "winner: " if row["winner"] else "default: " if row["default"] else ""
        role += "" if len({shown_row["results"] for shown_row in shown_rows}) == 1 else f"{row['results']}, "
        axes.text(
            0, place - 0.17, role + style.short(row["differing"], 66), fontsize=8, va="bottom", color=colour("ink")
        )
        speed = row["samples_per_second"]
        style.note(axes, figure(speed), (speed, place + 0.12), (5, 0), va="center")
    axes.set_yticks([])
    axes.set_ylim(len(shown_rows) - 0.5, -0.6)
    axes.set_xlim(0, max(speeds) * 1.14 or 1)
    axes.spines["left"].set_visible(False)
    axes.grid(visible=False)
    style.labels(axes, "samples/s")
    lost = sum(row["state"] == "failed" for row in table.rows)
    sentence = "; ".join(f"{row['settings']} {figure(row['samples_per_second'])} samples/s" for row in shown_rows)
    left_out = len(rows) - len(shown_rows)
    alike = shown_rows[0]["alike"]
    note = " ".join(
        [
            "Green: the winner. Blue: the default. Of a setting, its last and longest trial.",
            f"In all trials: {alike}." if alike else "",
            f"The table has {left_out} more." if left_out else "",
            f"{count(lost, 'trial')} failed." if lost else "",
        ]
    )
    note = " ".join(note.split())
    return Drawn("trials", "Trials", f"Throughput of the trials: {sentence}.", made, table, note)
