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

import copy
import json
import statistics as python_statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs.derive import derived_name
from ansible_collections.amx.cluster.plugins.module_utils._jobs.inference_field import Inference
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._measure import (
    inference_choice,
    inference_files,
    inference_matrix,
    runs,
    tuning,
)
from ansible_collections.amx.cluster.plugins.module_utils._measure.inference_choice import speed
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
# At most so many cells, and characters of the request, are measured by one job: it is an argument of its script.
CELLS, CHARACTERS = 24, 60_000
# Seconds that a trial takes beside its cells, and a cell beside its measured time, until it is known.
FIXED, PER_CELL = 15.0, 5.0
# A cell that takes so many seconds has failed.
LIMIT_SECONDS = 1800.0
# The round of the confirming runs, how many cells of a model have them at most, how often, and how often at least.
CONFIRMING, BEST, TURNS, LEAST_TURNS = 3, 3, 3, 2
# What may be changed between two commands without becoming another request.
MAY_CHANGE = ("budget",)


def new(job: Job, contents: Mapping[str, str], hosts: Sequence[str], now: str) -> dict[str, Any]:
    """Return a benchmark of which no trial has been made. contents: {name: digest} of the files of the job."""
    wanted = inference_matrix.request(job)
    fields = {name: value for name, value in job.to_json().items() if name not in (*tuning.NOT_COMPARED, "inference")}
    asked = {name: value for name, value in wanted.to_json().items() if name not in MAY_CHANGE}
    return {
        "version": VERSION,
        "job": job.name,
        "started": now,
        "ended": None,
        "state": "incomplete",
        "cpu": None,
        "stack": None,
        "hosts": len(hosts),
        "names": [*hosts],
        "limit_p99_ms": wanted.p99_ms,
        "least_agreement": wanted.agreement,
        "budget_minutes": wanted.budget,
        "used_minutes": 0.0,
        "cells": [],
        "recommended": {},
        "notes": [],
        "models": {},
        "settings": [],
        "rounds": None,
        "entered": None,
        "confirm": None,
        "trials": [],
        "running": None,
        "request": {"job": fields, "contents": dict(contents), "hosts": [*hosts], **asked},
    }


def left(content: Mapping[str, Any], budget_minutes: float) -> bool:
    """Tell whether the same command, with this budget, has something to measure."""
    if not content["ended"]:
        return True
    larger = budget_minutes > content["budget_minutes"]
    if larger and (content.get("confirm") or {}).get("reason"):
        return True
    return any(cell["again"] or (larger and (cell["state"] == "skipped" or cell["cut"])) for cell in content["cells"])


def continued(earlier: Mapping[str, Any], budget_minutes: float) -> dict[str, Any]:
    """Return an earlier benchmark with the budget of now: what is used of it stays used.

    What could not be begun is tried again; what the budget left out, with a larger one.
    """
    content = copy.deepcopy(dict(earlier))
    goes_on = left(content, budget_minutes)
    larger = budget_minutes > content["budget_minutes"]
    content.update(budget_minutes=budget_minutes, running=None)
    if content["ended"] and goes_on:
        for cell in content["cells"]:
            if cell["again"] or (larger and cell["state"] == "skipped"):
                cell.update(state="pending", reason="", again=False)
            cell.update(cut="", confirming=[])
        for trial in content["trials"]:
            trial["tried_again"] = True
        content.update(ended=None, state="incomplete", entered=None, confirm=None, notes=[], recommended={})
    return content


def with_cells(
    content: Mapping[str, Any],
    wanted: Inference,
    about: Mapping[str, Mapping[str, Any]],
    settings: Sequence[Mapping[str, Any]],
    machine: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the benchmark with its cells, where it has none yet; a model that can be had now is tried again.

    about: as inference_matrix.models returns it, with each model's `error`, empty where it is provided. settings: as
    _cores.instances.common returns them. machine: {cpu, stack}.
    """
    after: dict[str, Any] = copy.deepcopy(dict(content))
    after.update({name: machine.get(name) or after[name] for name in ("cpu", "stack")})
    if not after["cells"]:
        after["settings"] = [dict(each) for each in settings]
        after["cells"] = [
            {
                **cell,
                "hosts": after["hosts"],
                "round": 0,
                "cut": "",
                "confirming": [],
                "again": bool(about[cell["model"]].get("error")),
                **inference_files.NOTHING,
            }
            for cell in inference_matrix.cells(wanted, about, settings)
        ]
        pending = _in_state(after, "pending")
        loops = 1 + len(wanted.rates)
        after["rounds"] = 1 if len(pending) * loops * wanted.seconds <= ONE_ROUND else 2
    for cell in after["cells"]:
        model = about.get(cell["model"], {})
        if model.get("error") and cell["state"] == "pending":
            cell.update(state="refused", reason=model["error"], again=True)
        elif cell["task"] is None and model.get("task") and cell["state"] == "pending":
            cell.update(task=model["task"])
    after["models"] = {name: {**after["models"].get(name, {}), **model} for name, model in about.items()}
    return after


def advance(
    content: Mapping[str, Any], wanted: Inference, job: Job, now: str
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return the benchmark as it goes on, and the next trial of it; None where it has come to its end."""
    if content["ended"]:
        return dict(content), None
    after: dict[str, Any] = copy.deepcopy(dict(content))
    trial = _next(after, wanted, job)
    if trial is None:
        done = not after["confirm"]["reason"] if after.get("confirm") else True
        done = done and not any(cell["again"] or cell["state"] == "skipped" or cell["cut"] for cell in after["cells"])
        after.update(ended=now, state="complete" if done else "incomplete")
    return after, trial


def _next(content: dict[str, Any], wanted: Inference, job: Job) -> dict[str, Any] | None:
    last = content["trials"][-1] if content["trials"] else None
    nothing = not any(cell["round"] for cell in content["cells"])
    if last and last["state"] == "failed" and nothing and not last.get("tried_again"):
        for cell in _in_state(content, "pending"):
            cell.update(state="skipped", reason=f"{last['job']} failed", again=True)
        return None
    while True:
        pending = _in_state(content, "pending")
        number = 1
        if not pending:
            if content["rounds"] == 1:
                return _confirming(content, wanted, job)
            number = 2
            if content["entered"] is None:
                content["entered"] = entered(content)
            by_id = {cell["id"]: cell for cell in content["cells"]}
            pending = [by_id[name] for name in content["entered"]]
            pending = [one for one in pending if one["round"] < 2 and one["state"] == "measured" and not one["cut"]]
            if not pending:
                return _confirming(content, wanted, job)
        chosen = _chunk(pending, wanted)
        needed = cost(content, wanted, len(chosen), number)
        # Cells that were measured are of no use without the least that confirms the best of them.
        needed += LEAST_TURNS * cost(content, wanted, 1, CONFIRMING) if len(content["cells"]) > 1 else 0
        if _fits(content, needed) or not content["trials"]:
            return _trial(content, job, chosen, number)
        said = f"the budget of {content['budget_minutes']:g} min is used up"
        for cell in chosen:
            cell.update({"state": "skipped", "reason": said} if number == 1 else {"cut": said})


def _confirming(content: dict[str, Any], wanted: Inference, job: Job) -> dict[str, Any] | None:
    """Return the next of the runs that confirm the best cells; None where all were made, or the budget is used up.

    A turn runs each of them once, and the next turn in the opposite order.
    """
    by_id = {cell["id"]: cell for cell in content["cells"]}
    if content.get("confirm") is None:
        content["confirm"] = _to_confirm(content, wanted)
    cells = [by_id[name] for name in content["confirm"]["cells"]]
    for turn in range(1, content["confirm"]["turns"] + 1):
        made = {
            name
            for trial in content["trials"]
            if trial.get("turn") == turn and not trial.get("tried_again")
            for name in trial["cells"]
        }
        pending = [cell for cell in cells[:: 1 if turn % 2 else -1] if cell["id"] not in made]
        if pending:
            chosen = _chunk(pending, wanted)
            if _fits(content, cost(content, wanted, len(chosen), CONFIRMING)):
                return {**_trial(content, job, chosen, CONFIRMING), "turn": turn}
            if turn <= LEAST_TURNS:
                content["confirm"]["reason"] = _used_up(content)
            return None
    return None


def _to_confirm(content: Mapping[str, Any], wanted: Inference) -> dict[str, Any]:
    """Return {cells, turns, reason}: as many of each model's best cells, and as often, as the budget allows.

    reason: why nothing can be confirmed. A model with one cell that can be recommended has nothing to choose.
    """
    several = [found for name in content["models"] if len(found := inference_choice.usable(content, name)) > 1]
    if not several:
        return {"cells": [], "turns": 0, "reason": ""}
    for most, turns in [*((most, TURNS) for most in range(BEST, 0, -1)), (1, LEAST_TURNS)]:
        cells = [cell for found in several for cell in found[:most]]
        settings = [cell["setting"] for cell in cells]
        each = [cost(content, wanted, settings.count(setting), CONFIRMING) for setting in set(settings)]
        if _fits(content, turns * sum(each)):
            return {"cells": [cell["id"] for cell in cells], "turns": turns, "reason": ""}
    return {"cells": [], "turns": 0, "reason": _used_up(content)}


def _used_up(content: Mapping[str, Any]) -> str:
    return f"the budget of {content['budget_minutes']:g} min was used up before the confirming runs"


def _fits(content: Mapping[str, Any], needed: float) -> bool:
    return bool(60 * (content["budget_minutes"] - content["used_minutes"]) >= needed)


def _trial(content: Mapping[str, Any], job: Job, cells: Sequence[Mapping[str, Any]], number: int) -> dict[str, Any]:
    return {
        "job": derived_name(job.name, f"infer-{len(content['trials']) + 1}"),
        "round": number,
        "setting": cells[0]["setting"],
        "cells": [cell["id"] for cell in cells],
        "seconds": None,
        "state": "pending",
        "reason": "",
    }


def _chunk(pending: Sequence[dict[str, Any]], wanted: Inference) -> list[dict[str, Any]]:
    """Return the cells of the next trial: those of the first one's instances, as many as one job measures."""
    same = [cell for cell in pending if cell["setting"] == pending[0]["setting"]]
    length = max(len(json.dumps(inference_matrix.told(cell, wanted, wanted.seconds))) for cell in same)
    return same[: max(1, min(CELLS, CHARACTERS // (length + 2)))]


def _in_state(content: Mapping[str, Any], state: str) -> list[dict[str, Any]]:
    return [cell for cell in content["cells"] if cell["state"] == state]


def seconds(content: Mapping[str, Any], wanted: Inference, number: int) -> float:
    """Return the measured time of a cell in a round, in seconds."""
    return wanted.seconds * (SHORT if number == 1 and content["rounds"] == 2 else 1)


def cost(content: Mapping[str, Any], wanted: Inference, cells: int, number: int) -> float:
    """Return the seconds that a trial of so many cells takes in a round, by those that were made."""
    loops = 1 + len(wanted.rates)
    known = [trial for trial in content["trials"] if trial["state"] == "succeeded" and trial["seconds"]]
    beside = [
        max(0.0, trial["seconds"] - FIXED - len(trial["cells"]) * loops * seconds(content, wanted, trial["round"]))
        / len(trial["cells"])
        for trial in known
    ]
    each = python_statistics.median(beside) if beside else PER_CELL
    return FIXED + cells * (each + loops * seconds(content, wanted, number))


def derivation(
    content: Mapping[str, Any], wanted: Inference, job: Job, trial: Mapping[str, Any], now: float
) -> dict[str, Any]:
    """Return how the job is turned into a trial: the arguments of derive.trial.

    now: seconds since the Unix epoch, from which the rest of the budget counts.
    """
    setting = content["settings"][trial["setting"]]
    by_id = {cell["id"]: cell for cell in content["cells"]}
    cells = [by_id[name] for name in trial["cells"]]
    told = [inference_matrix.told(cell, wanted, seconds(content, wanted, trial["round"])) for cell in cells]
    request = {
        "version": 1,
        "cells": told,
        "limit_seconds": LIMIT_SECONDS,
        "deadline": now + 60 * max(0.0, content["budget_minutes"] - content["used_minutes"])
        if content["trials"]
        else None,
    }
    used = [content["models"][name] for name in dict.fromkeys(cell["model"] for cell in cells)]
    models = {about["entry"]: about["source"] for about in used if about["entry"]}
    evaluated = {about["evaluation"].split("/")[1] for about in used if about["evaluation"]}
    data = {name: inference_matrix.of_source(source) for name, source in job.data.items() if name in evaluated}
    data.update({name: source for about in used for name, source in (about.get("data") or {}).items()})
    return {
        "suffix": trial["job"][len(job.name) + 1 :],
        "steps": 0,
        "measure": False,
        "fields": {
            "ranks_per_node": setting["ranks_per_node"],
            "reserved_cores": setting["reserved_cores"],
            "args": {"request": json.dumps(request, separators=(",", ":"))},
        },
        "sources": {"models": models, "data": data},
    }


def recorded(
    content: Mapping[str, Any],
    trial: Mapping[str, Any],
    tried: Mapping[str, Any],
    hosts: Mapping[str, Mapping[str, Any]],
    duration: float,
) -> dict[str, Any]:
    """Return the benchmark with what came of a trial.

    tried: as the entry point trial of the role job returns it. hosts: {name: what inference_files.of_host found}.
    duration: seconds from the choice of the trial to its end, with all that Ansible did.
    """
    after: dict[str, Any] = copy.deepcopy(dict(content))
    state, reason = runs.succeeded(
        str(tried.get("state")), str((tried.get("outcome") or {}).get("reason") or ""), str(tried.get("reason") or "")
    )
    after["trials"].append({**trial, "state": state, "reason": reason, "seconds": round(duration, 1)})
    after["used_minutes"] += duration / 60
    after["running"] = None
    expected = after["settings"][trial["setting"]]["total"]
    for cell in after["cells"]:
        if cell["id"] not in trial["cells"]:
            continue
        there = {name: cells[cell["id"]] for name, cells in hosts.items() if cell["id"] in cells}
        found = inference_files.all_hosts(cell, there, expected)
        if not there and state == "failed":
            found.update(reason=f"{trial['job']} failed: {' '.join(reason.split())[:300]}")
        if trial["round"] == CONFIRMING:
            cell["confirming"].append(inference_choice.confirming(found, trial["turn"]))
            continue
        begun = bool(there) and not (state == "failed" and found["state"] == "failed" and len(there) < after["hosts"])
        if found["state"] != "measured" and cell["round"]:
            # What round 1 has found of it stays.
            cell.update(round=trial["round"]) if found["state"] == "failed" else None
            cell["cut"] = found["reason"]
            continue
        cell.update(found, again=not begun)
        if found["state"] == "measured":
            cell.update(round=trial["round"])
    return after


def entered(content: Mapping[str, Any]) -> list[str]:
    """Return the cells of round 2, the most promising first: those that have not clearly lost in round 1."""
    limit = content["limit_p99_ms"]
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for cell in _in_state(content, "measured"):
        groups.setdefault((cell["model"], cell["sequence_length"], cell["batch_size"]), []).append(cell)
    best = {
        model: max(speed(cell) for cell in _in_state(content, "measured") if cell["model"] == model)
        for model in {cell["model"] for cell in _in_state(content, "measured")}
    }
    kept = []
    for group in groups.values():
        near = [cell for cell in group if limit is None or cell["latency_ms"]["p99"] <= NEAR_LIMIT * limit]
        most = max((speed(cell) for cell in near), default=0.0)
        kept += [cell for cell in near if speed(cell) >= KEPT * most]
    return [cell["id"] for cell in sorted(kept, key=lambda cell: (-speed(cell) / best[cell["model"]], cell["id"]))]


def failed(content: Mapping[str, Any]) -> str:
    """Say why nothing at all was measured; an empty string where something was."""
    if any(cell["state"] == "measured" for cell in content["cells"]) or not content["ended"]:
        return ""
    reasons = list(dict.fromkeys(_reasons(content)))
    return f"job {content['job']}: nothing was measured: {'; '.join(reasons[:3])}"


def _reasons(content: Mapping[str, Any]) -> Iterator[str]:
    for trial in content["trials"]:
        if trial["state"] == "failed":
            yield " ".join(trial["reason"].split())
    for cell in content["cells"]:
        yield cell["reason"] or f"{count(1, 'cell')} was not measured"
