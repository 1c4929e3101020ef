# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of sweeps and tuning."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs.cost import Price, titled
from ansible_collections.amx.cluster.plugins.module_utils._jobs.wire import PARTS
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.sources import (
    Source,
    entries,
    mapping,
    number,
    text,
)
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.tables import (
    RESULTS,
    SPEED,
    THREADS,
    Column,
    Table,
    named,
    read_row,
    spread_columns,
)

FORMS = {"samples_per_second": "figure", "epoch_seconds": "seconds", "speedup": "ratio", "efficiency": "percent"}


def spread(value: Any, name: str) -> dict[str, float | None]:
    """Return {name, name_low, name_high} of {median, low, high}; a single number is all three."""
    single = number(value)
    if single is not None:
        return {name: single, f"{name}_low": single, f"{name}_high": single}
    given = mapping(value)
    median = number(given.get("median"))
    low, high = number(given.get("low")), number(given.get("high"))
    return {
        name: median,
        f"{name}_low": median if low is None or median is None else min(low, median),
        f"{name}_high": median if high is None or median is None else max(high, median),
    }


def scaling(sweeps: Sequence[Source], price: Price | None) -> Table:
    """Return a row for each number of hosts, and one for the baseline of one process where it was measured."""
    columns = (
        RESULTS,
        *named("hosts", "ranks", form="int"),
        *named("baseline", "state"),
        *named("repeats", "failed", form="int"),
        *spread_columns("samples_per_second", "samples/s", FORMS["samples_per_second"]),
        *spread_columns("speedup", "speed-up", FORMS["speedup"]),
        Column("speedup_over_one_process", "speed-up over one process", "ratio"),
        *spread_columns("efficiency", "of ideal", FORMS["efficiency"]),
        *spread_columns("epoch_seconds", "time of an epoch", FORMS["epoch_seconds"]),
        Column("epoch_extrapolated", "extrapolated"),
        Column("cost_per_epoch", titled("cost of an epoch", price), "figure"),
    )
    rows = []
    for sweep in sweeps:
        extrapolated = any(run.get("extrapolated") is True for run in entries(sweep.content.get("runs")))
        alone = mapping(sweep.content.get("one_process"))
        counts = [(count, "") for count in entries(sweep.content.get("counts"))]
        for count, baseline in [*([(alone, "one process")] if alone else []), *counts]:
            hosts = number(count.get("hosts"))
            if hosts is None or hosts < 1:
                continue
            own: dict[str, Any] = {"results": sweep.label, "hosts": int(hosts), "baseline": baseline}
            for name in FORMS:
                own.update(spread(count.get(name), name))
            own["speedup_over_one_process"] = spread(count.get("speedup_over_one_process"), "x")["x"]
            row = read_row(columns, count, **own)
            row["failed"] = row["failed"] or 0
            row["epoch_extrapolated"] = extrapolated if row["epoch_seconds"] is not None else None
            row["cost_per_epoch"] = price.of(hosts, row["epoch_seconds"]) if price else None
            row["state"] = _state(row)
            rows.append(row)
    return Table("scaling", "Speed-up by number of hosts", columns, rows)


def _state(row: Mapping[str, Any]) -> str:
    """Return whether the runs of a number of hosts gave a figure, as a word."""
    if row["samples_per_second"] is None:
        return "failed" if row["failed"] else "not measured"
    return "measured, some runs failed" if row["failed"] else "measured"


def measured(table: Table) -> list[Mapping[str, Any]]:
    """Return the rows of a sweep's counts that have a throughput, without the baseline of one process."""
    return [row for row in table.rows if row["samples_per_second"] is not None and not row["baseline"]]


def runs(sweeps: Sequence[Source]) -> Table:
    """Return a row for each run of the sweeps, those that failed or are pending too."""
    columns = (
        *named("results", "job", "state", "reason"),
        *named("hosts", "ranks", form="int"),
        Column("ranks_per_node", "ranks per host", "int"),
        THREADS,
        Column("baseline", "baseline"),
        Column("repeat", "repeat", "int"),
        Column("global_batch", "global batch", "int"),
        SPEED,
        Column("step_seconds", "step, median", "milliseconds", "step_seconds.median"),
        Column("step_seconds_low", "step, 10th percentile", "milliseconds", "step_seconds.low"),
        Column("step_seconds_high", "step, 90th percentile", "milliseconds", "step_seconds.high"),
        Column("seconds", "run", "seconds"),
    )
    rows = [
        read_row(columns, run, results=sweep.label, baseline="one process" if run.get("baseline") else "")
        for sweep in sweeps
        for run in entries(sweep.content.get("runs"))
    ]
    return Table("runs", "Runs of the sweep", columns, rows)


def split(sweeps: Sequence[Source], jobs: Sequence[Source]) -> Table:
    """Return the share of a step's time by number of hosts for sweeps, by rank for jobs."""
    rows: list[dict[str, Any]] = []
    for sweep in sweeps:
        for count in entries(sweep.content.get("counts")):
            shares = {name: number(mapping(count.get("split")).get(name)) for name in PARTS}
            hosts = number(count.get("hosts"))
            if hosts is not None and any(value is not None for value in shares.values()):
                where = f"{hosts:.0f} host{'s'[: hosts != 1]}"
                # A job often has the name of its sweep.
                label = f"{sweep.label}, sweep" if jobs else sweep.label
                rows.append({"results": label, "where": where, "hosts": hosts, **shares})
    for job in jobs:
        for rank in entries(mapping(job.content.get("measured")).get("ranks")):
            seconds = {name: number(rank.get(name)) for name in PARTS}
            step = number(rank.get("step_seconds")) or sum(value or 0 for value in seconds.values())
            if not step or all(value is None for value in seconds.values()):
                continue
            host, place = text(rank.get("host")), number(rank.get("rank"))
            rows.append(
                {
                    "results": f"{job.label}, job" if sweeps else job.label,
                    "where": f"rank {place:.0f}" if place is not None else host,
                    "host": host,
                    "rank": place,
                    "step_seconds": step,
                    **{name: None if value is None else value / step for name, value in seconds.items()},
                }
            )
    columns = (
        *named("results", "where"),
        Column("hosts", "hosts", "int"),
        Column("host", "host"),
        Column("rank", "rank", "int"),
        Column("step_seconds", "step", "milliseconds"),
        *named(*PARTS, form="percent"),
    )
    return Table("time_split", "Share of a step's time", columns, rows)


def settings_text(settings: Any, without: Collection[str] = ()) -> str:
    """Return a trial's settings on one line, in the words of the job file. without: settings to leave out."""
    given = {key: _setting(value) for key, value in mapping(settings).items() if key not in without}
    return ", ".join(f"{key} {value}" for key, value in given.items() if value) or "default"


def _setting(value: Any) -> str:
    return ", ".join(f"{name}={text(each)}" for name, each in value.items()) if isinstance(value, dict) else text(value)


def _alike(trials: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the settings that have the same value in all trials."""
    all_settings = [mapping(trial.get("settings")) for trial in trials]
    keys = dict.fromkeys(key for settings in all_settings for key in settings)
    return [key for key in keys if len({_setting(settings.get(key)) for settings in all_settings}) == 1]


def trials(tunings: Sequence[Source]) -> Table:
    """Return a row for each trial."""
    columns = (
        *named("results", "settings", "default", "winner"),
        *named("round", "steps", form="int"),
        SPEED,
        *named("state", "reason"),
        Column("seconds", "trial", "seconds"),
    )
    rows = []
    for tuning in tunings:
        winner, made = tuning.content.get("winner"), entries(tuning.content.get("trials"))
        alike = _alike(made)
        for trial in made:
            settings = mapping(trial.get("settings"))
            own = {
                "settings": settings_text(settings),
                # For the figure: what tells the trials apart.
                "differing": settings_text(settings, alike),
                "alike": settings_text({key: settings[key] for key in alike}) if alike else "",
                "default": trial.get("default") is True,
                "winner": winner is not None and trial.get("settings") == winner,
            }
            rows.append(read_row(columns, trial, results=tuning.label, **own))
    return Table("trials", "Trials", columns, rows)


def finals(tunings: Sequence[Source]) -> Table:
    """Return the runs with which the winner was compared with the default."""
    rows = [
        {"results": tuning.label, "what": setting, "run": place, "samples_per_second": value}
        for tuning in tunings
        for setting in ("default", "winner")
        for place, value in enumerate(_numbers(mapping(tuning.content.get("final")).get(setting)), 1)
    ]
    columns = (RESULTS, Column("what", "plan"), Column("run", "run", "int"), SPEED)
    return Table("trials_final", "Winner and default, run again", columns, rows)


def _numbers(values: Any) -> list[float]:
    numbers: Iterable[float | None] = map(number, values) if isinstance(values, list) else ()
    return [value for value in numbers if value is not None]
