# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the cells of an inference benchmark within a budget, and recommend a setting for each model.

Everything follows from the content of inference.json, so that an interrupted benchmark continues. A trial is a job that
measures cells of one setting of instances, one after another. Where there is much to measure, round 1 measures all
cells for a short time, and round 2 those for the full time that have not clearly lost. At last, the best few of each
model run again, by turns: the fastest of many cells is one that was lucky, too, and only these runs say how fast it is.
"""

from __future__ import annotations

import statistics as python_statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Optional

from ansible_collections.amx.cluster.plugins.module_utils._jobs import inference_requests
from ansible_collections.amx.cluster.plugins.module_utils._jobs.derive import derived_name
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Inference, Job
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import compared
from ansible_collections.amx.cluster.plugins.module_utils._measure import (
    inference_choice,
    inference_files,
    inference_matrix,
    runs,
)
from ansible_collections.amx.cluster.plugins.module_utils._measure.inference_document import Benchmark, Cell, Trial
from ansible_collections.amx.cluster.plugins.module_utils._text import count

VERSION = 2
FILE = "inference.json"
# Measured time of all cells, in seconds, up to which a short round before the long one would save nothing.
ONE_ROUND = 60.0
# The time of a cell in round 1, as a share of the full one.
SHORT = 0.25
# Below this share of the best throughput with the same model, length and batch, a setting has clearly lost.
KEPT = 0.7
# How far above the limit p99 may be after round 1, whose latencies are few.
NEAR_LIMIT = 1.2
# At most so many cells are measured by one job.
CELLS = 24
# Seconds that a trial takes beside its cells, and a cell beside its measured time, until it is known.
FIXED, PER_CELL = 15.0, 5.0
# The round of the confirming runs, how many cells of a model have them at most, how often, and how often at least.
CONFIRMING, BEST, TURNS, LEAST_TURNS = 3, 3, 3, 2
# What may be changed between two commands without becoming another request.
MAY_CHANGE = ("budget",)


def new(job: Job, contents: Mapping[str, str], hosts: Sequence[str], now: str) -> Benchmark:
    """Return a benchmark of which no trial has been made. contents: {name: digest} of the files of the job."""
    wanted = inference_matrix.request(job)
    fields = compared(job, "inference")
    settings = {name: value for name, value in wanted.to_json().items() if name not in MAY_CHANGE}
    return Benchmark(
        version=VERSION,
        job=job.name,
        started=now,
        ended=None,
        state="incomplete",
        cpu=None,
        stack=None,
        hosts=len(hosts),
        names=[*hosts],
        limit_p99_ms=wanted.p99_ms,
        least_agreement=wanted.agreement,
        budget_minutes=wanted.budget,
        request={"job": fields, "contents": dict(contents), "hosts": [*hosts], **settings},
    )


def left(benchmark: Benchmark, budget_minutes: float) -> bool:
    """Return whether the same command, with this budget, has something to measure."""
    if not benchmark.ended:
        return True
    larger = budget_minutes > benchmark.budget_minutes
    if larger and (benchmark.confirm or {}).get("reason"):
        return True
    return any(cell.again or (larger and (cell.state == "skipped" or cell.cut)) for cell in benchmark.cells)


def continued(earlier: Benchmark, budget_minutes: float) -> Benchmark:
    """Return an earlier benchmark with the budget of now: what is used of it stays used.

    What could not be begun is tried again; what the budget left out, with a larger one.
    """
    larger = budget_minutes > earlier.budget_minutes
    benchmark = replace(earlier, budget_minutes=budget_minutes, running=None)
    if not earlier.ended or not left(earlier, budget_minutes):
        return benchmark

    def anew(cell: Cell) -> Cell:
        if cell.again or (larger and cell.state == "skipped"):
            cell = replace(cell, state="pending", reason="", again=False)
        return replace(cell, cut="", confirming=[])

    return replace(
        benchmark.with_cells(anew),
        trials=[replace(trial, tried_again=True) for trial in benchmark.trials],
        ended=None,
        state="incomplete",
        entered=None,
        confirm=None,
        notes=[],
        recommended={},
    )


def with_cells(
    benchmark: Benchmark,
    wanted: Inference,
    about: Mapping[str, Mapping[str, Any]],
    settings: Sequence[Mapping[str, Any]],
    machine: Mapping[str, Any],
) -> Benchmark:
    """Return the benchmark with its cells, where it has none yet; a model that can be had now is tried again.

    about: as inference_matrix.models returns it, with each model's `error`, empty where it is provided. settings: as
    _cores.instances.common returns them. machine: {cpu, stack}.
    """
    values = {name: machine.get(name) or getattr(benchmark, name) for name in ("cpu", "stack")}
    benchmark = replace(benchmark, **values)
    if not benchmark.cells:
        cells = [
            Cell(**cell, hosts=benchmark.hosts, again=bool(about[cell["model"]].get("error")))
            for cell in inference_matrix.cells(wanted, about, settings)
        ]
        loops = (1 + len(wanted.rates)) * sum(cell.state == "pending" for cell in cells)
        rounds = 1 if loops * wanted.seconds <= ONE_ROUND else 2
        benchmark = replace(benchmark, settings=[dict(each) for each in settings], cells=cells, rounds=rounds)

    def with_model(cell: Cell) -> Cell:
        model = about.get(cell.model, {})
        if cell.state == "pending" and model.get("error"):
            return replace(cell, state="refused", reason=model["error"], again=True)
        if cell.state == "pending" and cell.task is None and model.get("task"):
            return replace(cell, task=model["task"])
        return cell

    models = {name: {**benchmark.models.get(name, {}), **model} for name, model in about.items()}
    return replace(benchmark.with_cells(with_model), models=models)


Step = tuple[Benchmark, Optional[Trial]]
"""The benchmark as it goes on, and the next trial of it; None where it has come to its end."""


def advance(benchmark: Benchmark, wanted: Inference, job: Job, now: str) -> Step:
    """Return the benchmark as it goes on, and the next trial of it; None where it has come to its end."""
    if benchmark.ended:
        return benchmark, None
    benchmark, trial = _next(benchmark, wanted, job)
    if trial is None:
        left_out = any(cell.again or cell.state == "skipped" or cell.cut for cell in benchmark.cells)
        done = not left_out and not (benchmark.confirm or {}).get("reason")
        benchmark = replace(benchmark, ended=now, state="complete" if done else "incomplete")
    return benchmark, trial


def _next(benchmark: Benchmark, wanted: Inference, job: Job) -> Step:
    last = benchmark.trials[-1] if benchmark.trials else None
    if last and last.state == "failed" and not last.tried_again and not any(cell.round for cell in benchmark.cells):
        why = {"state": "skipped", "reason": f"{last.job} failed", "again": True}
        return _left_out(benchmark, benchmark.in_state("pending"), **why), None
    while True:
        pending, number = benchmark.in_state("pending"), 1
        if not pending:
            if benchmark.rounds == 1:
                return _confirming(benchmark, wanted, job)
            number = 2
            if benchmark.entered is None:
                benchmark = replace(benchmark, entered=entered(benchmark))
            pending = benchmark.named(benchmark.entered or ())
            pending = [cell for cell in pending if cell.round < 2 and cell.state == "measured" and not cell.cut]
            if not pending:
                return _confirming(benchmark, wanted, job)
        chosen = _chunk(pending)
        needed = cost(benchmark, wanted, len(chosen), number)
        # Cells that were measured are of no use without the least that confirms the best of them.
        needed += LEAST_TURNS * cost(benchmark, wanted, 1, CONFIRMING) if len(benchmark.cells) > 1 else 0
        if _fits(benchmark, needed) or not benchmark.trials:
            return benchmark, _trial(benchmark, job, chosen, number)
        reason = f"the budget of {benchmark.budget_minutes:g} min is used up"
        benchmark = _left_out(
            benchmark, chosen, **({"state": "skipped", "reason": reason} if number == 1 else {"cut": reason})
        )


def _left_out(benchmark: Benchmark, cells: Sequence[Cell], **why: Any) -> Benchmark:
    """Return the benchmark in which these cells are left out."""
    return benchmark.with_cells(lambda cell: replace(cell, **why), [cell.id for cell in cells])


def _confirming(benchmark: Benchmark, wanted: Inference, job: Job) -> Step:
    """Return the next of the runs that confirm the best cells; None where all were made, or the budget is used up.

    A turn runs each of them once, and the next turn in the opposite order.
    """
    confirm = benchmark.confirm if benchmark.confirm is not None else _to_confirm(benchmark, wanted)
    benchmark = replace(benchmark, confirm=confirm)
    cells = benchmark.named(confirm["cells"])
    for turn in range(1, confirm["turns"] + 1):
        made = {
            name for trial in benchmark.trials if trial.turn == turn and not trial.tried_again for name in trial.cells
        }
        pending = [cell for cell in cells[:: 1 if turn % 2 else -1] if cell.id not in made]
        if pending:
            chosen = _chunk(pending)
            if _fits(benchmark, cost(benchmark, wanted, len(chosen), CONFIRMING)):
                return benchmark, replace(_trial(benchmark, job, chosen, CONFIRMING), turn=turn)
            if turn <= LEAST_TURNS:
                benchmark = replace(benchmark, confirm={**confirm, "reason": _used_up(benchmark)})
            return benchmark, None
    return benchmark, None


def _to_confirm(benchmark: Benchmark, wanted: Inference) -> dict[str, Any]:
    """Return {cells, turns, reason}: as many of each model's best cells, and as often, as the budget allows.

    reason: why nothing can be confirmed. A model with one cell that can be recommended has nothing to choose.
    """
    several = [cells for name in benchmark.models if len(cells := inference_choice.usable(benchmark, name)) > 1]
    if not several:
        return {"cells": [], "turns": 0, "reason": ""}
    for most, turns in [*((most, TURNS) for most in range(BEST, 0, -1)), (1, LEAST_TURNS)]:
        cells = [cell for cells in several for cell in cells[:most]]
        settings = [cell.setting for cell in cells]
        each = [cost(benchmark, wanted, settings.count(setting), CONFIRMING) for setting in set(settings)]
        if _fits(benchmark, turns * sum(each)):
            return {"cells": [cell.id for cell in cells], "turns": turns, "reason": ""}
    return {"cells": [], "turns": 0, "reason": _used_up(benchmark)}


def _used_up(benchmark: Benchmark) -> str:
    return f"the budget of {benchmark.budget_minutes:g} min was used up before the confirming runs"


def _fits(benchmark: Benchmark, needed: float) -> bool:
    return bool(60 * (benchmark.budget_minutes - benchmark.used_minutes) >= needed)


def _trial(benchmark: Benchmark, job: Job, cells: Sequence[Cell], number: int) -> Trial:
    name = derived_name(job.name, f"infer-{len(benchmark.trials) + 1}")
    return Trial(name, number, cells[0].setting, [cell.id for cell in cells])


def _chunk(pending: Sequence[Cell]) -> list[Cell]:
    """Return the cells of the next trial: those of the first one's instances, as many as one job measures."""
    same = [cell for cell in pending if cell.setting == pending[0].setting]
    return same[:CELLS]


def seconds(benchmark: Benchmark, wanted: Inference, number: int) -> float:
    """Return the measured time of a cell in a round, in seconds."""
    return wanted.seconds * (SHORT if number == 1 and benchmark.rounds == 2 else 1)


def cost(benchmark: Benchmark, wanted: Inference, cells: int, number: int) -> float:
    """Return the seconds that a trial of so many cells takes in a round, by those that were made."""
    loops = 1 + len(wanted.rates)
    known = [trial for trial in benchmark.trials if trial.state == "succeeded" and trial.seconds]
    beside = [
        max(0.0, (trial.seconds or 0.0) - FIXED - len(trial.cells) * loops * seconds(benchmark, wanted, trial.round))
        / len(trial.cells)
        for trial in known
    ]
    each = python_statistics.median(beside) if beside else PER_CELL
    return FIXED + cells * (each + loops * seconds(benchmark, wanted, number))


def derivation(benchmark: Benchmark, wanted: Inference, job: Job, trial: Trial, now: float) -> dict[str, Any]:
    """Return how the job is turned into a trial: the arguments of derive.trial.

    now: seconds since the Unix epoch, from which the rest of the budget counts.
    """
    setting = benchmark.settings[trial.setting]
    cells = benchmark.named(trial.cells)
    measured = [inference_matrix.received(cell, wanted, seconds(benchmark, wanted, trial.round)) for cell in cells]
    deadline = now + 60 * max(0.0, benchmark.budget_minutes - benchmark.used_minutes) if benchmark.trials else None
    request = inference_requests.Benchmark(measured, deadline=deadline)
    used = [benchmark.models[name] for name in dict.fromkeys(cell.model for cell in cells)]
    models = {about["entry"]: about["source"] for about in used if about["entry"]}
    evaluated = {about["evaluation"].split("/")[1] for about in used if about["evaluation"]}
    data = {name: inference_matrix.of_source(source) for name, source in job.data.items() if name in evaluated}
    data.update({name: source for about in used for name, source in (about.get("data") or {}).items()})
    return {
        "suffix": trial.job[len(job.name) + 1 :],
        "steps": 0,
        "measure": False,
        "fields": {
            "ranks_per_node": setting["ranks_per_node"],
            "reserved_cores": setting["reserved_cores"],
            "request": request.to_json(),
        },
        "sources": {"models": models, "data": data},
    }


def recorded(
    benchmark: Benchmark,
    trial: Trial,
    tried: Mapping[str, Any],
    hosts: Mapping[str, Mapping[str, Any]],
    duration: float,
) -> Benchmark:
    """Return the benchmark with what came of a trial.

    tried: as the entry point trial of the role job returns it. hosts: {name: what inference_files.of_host found}.
    duration: seconds from the choice of the trial to its end, with all that Ansible did.
    """
    state, reason = runs.succeeded(
        str(tried.get("state")), str((tried.get("outcome") or {}).get("reason") or ""), str(tried.get("reason") or "")
    )
    made = replace(trial, state=state, reason=reason, seconds=round(duration, 1))
    expected = benchmark.settings[trial.setting]["total"]

    def measured(cell: Cell) -> Cell:
        there = {name: cells[cell.id] for name, cells in hosts.items() if cell.id in cells}
        summary = inference_files.all_hosts(cell, there, expected)
        if not there and state == "failed":
            summary.update(reason=f"{trial.job} failed: {' '.join(reason.split())[:300]}")
        good = summary["state"] == "measured"
        if trial.round == CONFIRMING:
            return replace(cell, confirming=[*cell.confirming, inference_choice.confirming(summary, trial.turn or 0)])
        if not good and cell.round:
            # What round 1 has found of it stays.
            number = trial.round if summary["state"] == "failed" else cell.round
            return replace(cell, round=number, cut=summary["reason"])
        begun = bool(there) and not (
            state == "failed" and summary["state"] == "failed" and len(there) < benchmark.hosts
        )
        return replace(cell, **summary, again=not begun, round=trial.round if good else cell.round)

    benchmark = benchmark.with_cells(measured, trial.cells)
    used = benchmark.used_minutes + duration / 60
    return replace(benchmark, trials=[*benchmark.trials, made], used_minutes=used, running=None)


def entered(benchmark: Benchmark) -> list[str]:
    """Return the cells of round 2, the most promising first: those that have not clearly lost in round 1."""
    limit = benchmark.limit_p99_ms
    groups: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in benchmark.in_state("measured"):
        groups.setdefault((cell.model, cell.sequence_length, cell.batch_size), []).append(cell)
    best = {
        model: max(cell.speed() for cell in benchmark.in_state("measured") if cell.model == model)
        for model in {cell.model for cell in benchmark.in_state("measured")}
    }
    kept = []
    for group in groups.values():
        near = [cell for cell in group if limit is None or cell.latency() <= NEAR_LIMIT * limit]
        most = max((cell.speed() for cell in near), default=0.0)
        kept += [cell for cell in near if cell.speed() >= KEPT * most]
    return [cell.id for cell in sorted(kept, key=lambda cell: (-cell.speed() / best[cell.model], cell.id))]


def failed(benchmark: Benchmark) -> str:
    """Return why nothing at all was measured; an empty string where something was."""
    if any(cell.state == "measured" for cell in benchmark.cells) or not benchmark.ended:
        return ""
    reasons = list(dict.fromkeys(_reasons(benchmark)))
    return f"job {benchmark.job}: nothing was measured: {'; '.join(reasons[:3])}"


def _reasons(benchmark: Benchmark) -> Iterator[str]:
    for trial in benchmark.trials:
        if trial.state == "failed":
            yield " ".join(trial.reason.split())
    for cell in benchmark.cells:
        yield cell.reason or f"{count(1, 'cell')} was not measured"
