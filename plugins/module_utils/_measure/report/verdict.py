# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The first lines of a report: what was measured, and the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs.cost import Price
from ansible_collections.amx.cluster.plugins.module_utils._measure.report import facts, load
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.sources import (
    Source,
    Sources,
    entries,
    mapping,
    number,
    text,
)
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.tables import (
    MISSING,
    TIMES,
    Table,
    figure,
    shown,
)
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.tables_of_inference import (
    fastest_of_models,
    setting,
)
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.tables_of_jobs import throughput
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.tables_of_sweeps import (
    measured,
    settings_text,
)
from ansible_collections.amx.cluster.plugins.module_utils._text import count, duration

# Models of a benchmark that the first lines name.
MODELS = 3

NOT_LEARNT = "Whether the model still learns was not measured: there is neither a loss nor a metric in these results."

# What holds a sweep back, by `cause` of sweep.json's `limits`.
CAUSES = {
    "bandwidth": "the network's bandwidth",
    "latency": "the network's latency",
    "slow_host": "a slow host",
    "input": "input",
}


@dataclass(frozen=True)
class Verdict:
    """number: the big one, with its unit. measured: what was. sentences: the answer. learned: whether it still learns.

    facts: (value, caption) of further figures. notes: what is to be known of the figures.
    """

    number: str
    unit: str
    measured: str
    sentences: list[str]
    learned: str
    facts: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "facts": [{"value": value, "caption": caption} for value, caption in self.facts]}

    def text(self) -> str:
        """Return the verdict as lines for a terminal."""
        return "\n".join(filter(None, [self.measured, *self.sentences, self.learned]))


def of(sources: Sources, tables: Mapping[str, Table], price: Price | None) -> Verdict:
    """Return the verdict about all sources: the first sweep's number, else a job's, tuning's or the network's."""
    heads = [
        *(_sweep(sweep, tables["scaling"]) for sweep in sources.of("sweep")),
        *(_job(job, tables["epochs"]) for job in sources.of("job")),
        *(_tuning(tuning) for tuning in sources.of("tuning")),
        *(_inference(inference, tables) for inference in sources.of("inference")),
        *(load.verdict(source, tables["load"]) for source in sources.of("load")),
        *(_network(network, tables["network_findings"]) for network in sources.of("network")),
    ]
    value, unit = next(((value, unit) for value, unit, _sentence in heads if value), (MISSING, ""))
    learned = _learned(tables["metrics"], tables["losses"])
    trains = bool(sources.of("job") or sources.of("sweep"))
    return Verdict(
        value,
        unit,
        _measured(sources),
        [sentence for _value, _unit, sentence in heads],
        learned or (NOT_LEARNT if trains else ""),
        facts.of(sources, tables, price),
        facts.notes(sources, tables),
    )


def _measured(sources: Sources) -> str:
    """Return what was measured: the job, the model, the precision and the CPUs."""
    order = ("sweep", "job", "tuning", "inference", "load", "network")
    first = next(source for kind in order for source in sources.of(kind))
    jobs = list(dict.fromkeys(source.job for source in sources.all if source.job))
    parts = [f"Job{'s' if len(jobs) > 1 else ''} {', '.join(jobs)}" if jobs else "The network"]
    models = list(dict.fromkeys(source.model for source in sources.all if source.model))
    parts += [" and ".join(model for model in models if model not in jobs)]
    parts += [text(first.content.get("precision"))]
    backend = text(first.content.get("backend"))
    parts += [f"backend {backend}"] if backend else []
    parts += [f"stack {first.stack}"] if first.stack else []
    kinds = {text(sweep.content.get("scaling")) for sweep in sources.of("sweep")} - {""}
    parts += [f"{kind} scaling" for kind in sorted(kinds)]
    of_first = [source for source in sources.all if source.kind == first.kind]
    cpus = list(dict.fromkeys(source.processor for source in of_first if source.processor))
    parts += [" and ".join(cpus)] if cpus else []
    return ", ".join(filter(None, parts)) + "."


def _sweep(sweep: Source, scaling: Table) -> tuple[str, str, str]:
    rows = [row for row in measured(scaling) if row["results"] == sweep.label]
    name = f"{sweep.label}: " if sweep.label else ""
    lost = sorted({row["hosts"] for row in scaling.rows if row["results"] == sweep.label and row["state"] == "failed"})
    failed = f" All runs on {', '.join(count(hosts, 'host') for hosts in lost)} failed." if lost else ""
    runs = entries(sweep.content.get("runs"))
    pending = sum(run.get("state") == "pending" for run in runs)
    if sweep.content.get("state") == "incomplete" or pending:
        failed += " The sweep is incomplete" + (
            f": {pending} of {count(len(runs), 'run')} pending." if pending else "."
        )
    if not rows:
        return "", "", f"{name}no number of hosts was measured.{failed}"
    best = max(rows, key=lambda row: int(row["hosts"]))
    hosts = count(best["hosts"], "host")
    if best["hosts"] == 1 or best["speedup"] is None:
        speed = figure(best["samples_per_second"])
        return speed, f"samples/s on {hosts}", f"{name}{hosts}: {speed} samples/s.{failed}"
    ideal = f"{best['efficiency'] * 100:.0f} % of ideal" if best["efficiency"] is not None else ""
    figures = ", ".join(filter(None, [f"{best['speedup']:.2f}x", ideal]))
    limits = mapping(sweep.content.get("limits"))
    cause, why = text(limits.get("cause")), text(limits.get("text")).strip()
    held = f"; held back by {text(limits.get('host')) or CAUSES[cause]}" if cause in CAUSES else ""
    sentence = f"{name}{hosts}: {figures}{held}."
    sentence += f" {why.rstrip('.')}." if why else ""
    return shown(best["speedup"], "ratio"), ", ".join(filter(None, [f"on {hosts}", ideal])), sentence + failed


def _job(source: Source, epochs: Table) -> tuple[str, str, str]:
    result = source.content
    name = source.label or source.job or source.path.name
    hosts, ranks = number(result.get("hosts")), number(result.get("ranks"))
    where = ", ".join(
        count(int(value), noun) for value, noun in ((hosts, "host"), (ranks, "rank")) if value is not None
    )
    seconds, speed = number(result.get("seconds")), throughput(source)
    state = text(result.get("state")) or "has no state"
    reason = text(result.get("reason"))
    restarts = number(result.get("restarts"))
    sentence = f"Job {name} {state}{f' ({reason})' if reason else ''}"
    sentence += f" on {where}" if where else ""
    sentence += f" in {duration(seconds)}" if seconds is not None else ""
    sentence += f", after {count(int(restarts), 'restart')}" if restarts else ""
    epoch = next((row for row in epochs.rows if row["results"] == source.label and row["extrapolated"]), None)
    if epoch:
        sentence += f". An epoch of {epoch['samples']:,.0f} samples takes {duration(epoch['epoch_seconds'])}"
        sentence += " (extrapolated)"
    if speed is not None:
        return figure(speed), f"samples/s on {where}" if where else "samples/s", f"{sentence}."
    if seconds is not None:
        return duration(seconds), f"{state} on {where}" if where else state, f"{sentence}."
    return "", "", f"{sentence}."


def _tuning(tuning: Source) -> tuple[str, str, str]:
    result = tuning.content
    outcome, gain = text(result.get("verdict")), number(result.get("gain"))
    trials = count(len(entries(result.get("trials"))), "trial")
    if outcome == "faster" and gain is not None:
        winner = settings_text(result.get("winner"))
        sentence = f"Tuning: {gain:.2f}x the throughput of the default with {winner} ({trials})."
        return shown(gain, "ratio"), "the throughput of the default plan", sentence
    if outcome == "no difference":
        sentence = f"Tuning: no difference between the default and the best of {trials}."
        return f"1{TIMES}", "no plan is faster than the default", sentence
    speeds = [
        (speed, settings_text(trial.get("settings")))
        for trial in entries(result.get("trials"))
        if (speed := number(trial.get("samples_per_second"))) is not None
    ]
    sentence = f"Tuning is {outcome or 'unfinished'} after {trials}"
    if not speeds:
        return "", "", f"{sentence}."
    speed, settings = max(speeds)
    return figure(speed), "samples/s in the best trial", f"{sentence}, the best of them with {settings}."


def _inference(inference: Source, tables: Mapping[str, Table]) -> tuple[str, str, str]:
    name = f"{inference.label}: " if inference.label else ""
    mine = [row for row in tables["inference"].rows if row["results"] == inference.label]
    lost = sum(row["state"] != "measured" for row in mine)
    rest = f" {lost} of {count(len(mine), 'cell')} were not measured." if lost else ""
    rest += " The benchmark is incomplete." if inference.content.get("state") == "incomplete" else ""
    of = ("inference_recommended", "inference_throughput")
    rows = next(
        filter(None, ([row for row in tables[name].rows if row["results"] == inference.label] for name in of)), []
    )
    rows = fastest_of_models(rows)
    if not rows:
        return "", "", f"{name}no setting was measured.{rest}"
    sentences = "; ".join(
        f"{row['model']} {figure(row['samples_per_second'])} samples/s"
        + (f" with p99 {figure(row['p99_ms'])} ms" if row["p99_ms"] else "")
        + f" ({row['precision']}, {setting(row)})"
        for row in rows[:MODELS]
    )
    further = f"; {count(len(rows) - MODELS, 'further model')} below" if len(rows) > MODELS else ""
    first = rows[0]
    on = f" on {count(int(first['hosts']), 'host')}" if first["hosts"] else ""
    unit = f"samples/s, {first['model']} in {first['precision']}{on}"
    return figure(first["samples_per_second"]), unit, f"{name}{sentences}{further}.{rest}"


def _network(network: Source, findings: Table) -> tuple[str, str, str]:
    speeds = [
        speed
        for speed in (number(pair.get("bandwidth_mbyte_s")) for pair in entries(network.content.get("pairs")))
        if speed is not None
    ]
    flagged = [row for row in findings.rows if row["results"] == network.label]
    if not speeds:
        return "", "", "Network: no pair was measured."
    span = figure(min(speeds)) if min(speeds) == max(speeds) else f"{figure(min(speeds))} to {figure(max(speeds))}"
    sentence = f"Network: {span} MB/s between {count(len(speeds), 'pair')} of hosts. "
    sentence += str(flagged[0]["text"]) if flagged else "Nothing was flagged."
    sentence += f" There are {count(len(flagged), 'finding')} in all." if len(flagged) > 1 else ""
    return figure(min(speeds)), "MB/s between the slowest pair of hosts", sentence


def _learned(metrics: Table, losses: Table) -> str:
    """Return the last losses and metrics, those of all jobs side by side; an empty string where there are none."""
    by_metric: dict[str, list[Mapping[str, Any]]] = {}
    for row in metrics.rows:
        by_metric.setdefault(str(row["metric"]), []).append(row)
    of_evaluation = {name: rows for name, rows in by_metric.items() if not name.startswith("training loss")}
    sentences = [
        f"{name} " + ", ".join(_before_and_after(row, len(rows) > 1) for row in rows)
        for name, rows in (of_evaluation or by_metric).items()
    ]
    if sentences:
        words = "; ".join(sentences)
        return f"Model quality: {words}."
    ends: dict[str, list[Any]] = {}
    for row in losses.rows:
        value = row.get("not_finite") or row["loss"]
        if value is not None:
            ends.setdefault(str(row["results"]), []).append(value)
    parts = [f"{label} {shown(values[0], 'figure')} to {shown(values[-1], 'figure')}" for label, values in ends.items()]
    return f"Model quality: training loss: {'; '.join(parts)}." if parts else ""


def _before_and_after(row: Mapping[str, Any], named: bool) -> str:
    before = f"{shown(row['before'], 'figure')} → " if row["before"] is not None else ""
    result = f" ({row['results']})" if named else ""
    return f"{before}{shown(row['after'], 'figure')}{result}"
