# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the fastest settings of a job by short trials: successive halving within a budget, and a final comparison.

Everything follows from the content of tune.json, so that an interrupted tuning continues. Round 1 tries as many
settings as the budget allows; each further round tries the faster half with twice the steps. The job's own settings,
the default, are in every round. At last the winner and the default run in pairs, several times: the ratio of their
speeds is known with its confidence interval then, and settings that fail in such a run give way to the next best.
"""

from __future__ import annotations

import copy
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs import batches
from ansible_collections.amx.cluster.plugins.module_utils._jobs.derive import derived_name
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import CORES
from ansible_collections.amx.cluster.plugins.module_utils._measure import repeated, runs
from ansible_collections.amx.cluster.plugins.module_utils._measure.tuning_request import Request

VERSION = 2
FILE = "tune.json"
NOT_COMPARED = ("file", "description", "expect", "secrets", "restarts", "min_hosts", "wait", "measure")
# Below this share of the default's speed, a final comparison of the best candidate is not worth its time.
HOPELESS = 0.9
# The batch sizes of a rank that are tried, where it is allowed, as multiples of the job's.
BATCHES = (2.0, 0.5)


def new(job: Job, request: Request, contents: Mapping[str, str], now: str) -> dict[str, Any]:
    """Return a tuning of which no trial has been made. contents: {name: digest} of the files of the job."""
    return {
        "version": VERSION,
        "job": job.name,
        "model": job.model(),
        "stack": None,
        "precision": None,
        "budget_minutes": request.budget,
        "used_minutes": 0.0,
        "started": now,
        "ended": None,
        "trials": [],
        "final": None,
        "winner": None,
        "verdict": "unfinished",
        **dict.fromkeys(("gain", "gain_low", "gain_high")),
        "diff": "",
        "batch_allowed": request.tune_batch,
        "notes": [],
        "candidates": [],
        "entered": None,
        "ranks": None,
        "running": None,
        "request": {
            "job": {name: value for name, value in job.to_json().items() if name not in NOT_COMPARED},
            "contents": dict(contents),
            **request.compared(),
        },
    }


def continued(earlier: Mapping[str, Any], budget_minutes: float) -> dict[str, Any]:
    """Return an earlier tuning with the budget of now: what is used of it stays used.

    One that has ended unfinished goes on with a larger budget, and where the job itself failed.
    """
    content = {**copy.deepcopy(dict(earlier)), "budget_minutes": budget_minutes, "running": None}
    failed = job_failed(content)
    if content["verdict"] == "unfinished" and (failed or budget_minutes > earlier["budget_minutes"]):
        content["trials"] = [] if failed else [trial for trial in content["trials"] if trial["state"] != "skipped"]
        content.update(ended=None, entered=None, notes=[])
    return content


def job_failed(content: Mapping[str, Any]) -> bool:
    """Tell whether nothing was tried because the job as it is failed."""
    first = next(iter(content["trials"]), None)
    return bool(first and first["default"] and first["state"] == "failed" and len(content["trials"]) == 1)


def with_candidates(content: Mapping[str, Any], candidates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the tuning with the settings that are to be tried, the default first, where it has none yet."""
    return {**content, "candidates": content["candidates"] or [dict(each) for each in candidates]}


def advance(content: Mapping[str, Any], job: Job, now: str) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return the tuning as it goes on, and the next trial of it; None where it has come to its end."""
    if content["ended"]:
        return dict(content), None
    after, trial = _advance(copy.deepcopy(dict(content)), job)
    after["ended"] = None if trial else now
    return after, trial


def _advance(content: dict[str, Any], job: Job) -> tuple[dict[str, Any], dict[str, Any] | None]:
    default = content["candidates"][0]
    first = next((trial for trial in _of(content, 1) if trial["default"]), None)
    if first is None:
        return content, _trial(content, job, default, 1)
    if first["state"] != "succeeded":
        return _end(content, "unfinished", [f"the job itself failed: {first['reason']}"]), None
    if content["entered"] is None:
        content["entered"], left_out = _enter(content, job)
        content["notes"] += left_out
        if not content["entered"]:
            alone = len(content["candidates"]) == 1
            why = (
                "no other settings than the job's own are valid on these hosts and keep its global batch"
                if alone
                else f"the budget of {content['budget_minutes']:g} min is too short: a trial takes "
                f"{cost(content, content['request']['steps']):.0f} s, and one of other settings and the final "
                f"comparison of {2 * content['request']['repeats']} runs do not fit"
            )
            return _end(content, "no difference" if alone else "unfinished", [why]), None
    return _round(content, job, content["candidates"][1 : 1 + content["entered"]], 1)


def _round(
    content: dict[str, Any], job: Job, members: list[dict[str, Any]], number: int
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Go on with a round of these settings besides the default, and those that follow it."""
    default, steps = content["candidates"][0], content["request"]["steps"] * 2 ** (number - 1)
    made = _of(content, number)
    for settings in [default, *members]:
        if any(trial["settings"] == settings for trial in made):
            continue
        if settings != default and not _fits(content, cost(content, steps) + _final_cost(content, steps)):
            trial = _trial(content, job, settings, number)
            content["trials"].append({**trial, "state": "skipped", "reason": "the budget is used up"})
            continue
        return content, _trial(content, job, settings, number)
    made = _of(content, number)
    speeds = {_name(trial["settings"]): trial["samples_per_second"] for trial in made if trial["state"] == "succeeded"}
    good = sorted((each for each in members if _name(each) in speeds), key=lambda each: -speeds[_name(each)])
    if not good:
        return _end(content, "no difference", ["no other settings than the job's own succeeded"]), None
    enough = _fits(content, (2 + len(members) // 2) * cost(content, 2 * steps) + _final_cost(content, 2 * steps))
    begun = bool(_of(content, number + 1))
    if not begun and any(trial["final"] or batches.PER_DEVICE in trial["settings"] for trial in content["trials"]):
        enough = False  # whatever is known of the cost by now
    if begun or (len(good) > 1 and enough and not any(trial["state"] == "skipped" for trial in made)):
        return _round(content, job, good[: max(1, len(good) // 2)], number + 1)
    for winner in _ranked(content, number):
        made = [trial for trial in content["trials"] if trial["final"] and trial["compared"] == winner]
        if not any(trial["state"] == "failed" and trial["settings"] == winner for trial in made):
            return _finals(content, job, winner, made, number + 1, steps)
    content["winner"] = None
    return _batches(content, job, default, number + 1, steps, ("no difference", None))


def _ranked(content: Mapping[str, Any], last: int) -> list[dict[str, Any]]:
    """Return the settings that may win, the best first: those of the last round before those that left earlier."""
    found: list[dict[str, Any]] = []
    lost: list[dict[str, Any]] = []
    for number in range(last, 0, -1):
        made = _of(content, number)
        default = next((trial["samples_per_second"] or 0.0 for trial in made if trial["default"]), 0.0)
        for trial in sorted(made, key=lambda each: -(each["samples_per_second"] or 0.0)):
            settings, speed = trial["settings"], trial["samples_per_second"]
            if trial["default"] or trial["state"] == "skipped" or settings in found + lost:
                continue
            hopeless = not speed or speed < HOPELESS * default
            (lost if hopeless else found).append(settings)
    return found


def _finals(
    content: dict[str, Any], job: Job, winner: dict[str, Any], made: list[dict[str, Any]], number: int, steps: int
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Compare the winner with the default, in pairs; made: the runs of this comparison."""
    default, repeats = content["candidates"][0], content["request"]["repeats"]
    content["winner"] = winner
    if not made and not _fits(content, _final_cost(content, steps)):
        why = f"the budget of {content['budget_minutes']:g} min was used up before the final comparison"
        return _end(content, "unfinished", [why]), None
    if len(made) < 2 * repeats:
        # The second pair begins with the winner, and so on: what changes slowly is no difference.
        settings = (default, winner)[(len(made) + len(made) // 2) % 2]
        return content, {**_trial(content, job, settings, number, steps), "final": True, "compared": winner}
    speeds = [
        [trial["samples_per_second"] for trial in made if (trial["settings"] == winner) == side]
        for side in (False, True)
    ]
    pairs = [(one, other) for one, other in zip(*speeds) if one and other]
    content["final"] = {"default": [one for one, _other in pairs], "winner": [other for _one, other in pairs]}
    found = repeated.paired(pairs)
    if found is None:
        return _end(content, "unfinished", ["runs of the job as it is failed in the final comparison"]), None
    content["gain_low"], content["gain_high"] = found.low, found.high
    verdict = "faster" if found.low > 1 else "no difference"
    best = winner if verdict == "faster" else default
    return _batches(content, job, best, number + 1, steps, (verdict, found.ratio))


def _batches(
    content: dict[str, Any], job: Job, best: dict[str, Any], number: int, steps: int, found: tuple[str, float | None]
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Try other batch sizes with the best settings, where that is allowed; then conclude."""
    content["gain"] = found[1]
    own = job.args.get(batches.PER_DEVICE)
    sizes = [int(own * factor) for factor in BATCHES] if content["batch_allowed"] and isinstance(own, int) else []
    for size in sizes:
        settings = {**best, batches.PER_DEVICE: size}
        if size and not any(trial["settings"] == settings for trial in content["trials"]):
            trial = _trial(content, job, best, number, steps)
            trial.update(settings=settings, args={**trial["args"], batches.PER_DEVICE: size})
            if _fits(content, cost(content, steps)):
                return content, trial
            content["trials"].append({**trial, "state": "skipped", "reason": "the budget is used up"})
    if content["batch_allowed"] and not sizes:
        content["notes"].append(f"no batch sizes were tried: {batches.PER_DEVICE} is not in the job's args")
    elif sizes:
        content["notes"].append("another batch size changes what the job learns: it is listed, and never the winner")
    if found[0] == "no difference":
        content["winner"] = None
    return _end(content, found[0], []), None


def recorded(
    content: Mapping[str, Any], trial: Mapping[str, Any], tried: Mapping[str, Any], seconds: float
) -> dict[str, Any]:
    """Return the tuning with what came of a trial. tried: as the entry point trial of the role job returns it.

    seconds: from the choice of the trial to its end, with all that Ansible did.
    """
    after: dict[str, Any] = copy.deepcopy(dict(content))
    _record(after, trial, tried, seconds)
    return after


def _record(content: dict[str, Any], trial: Mapping[str, Any], tried: Mapping[str, Any], seconds: float) -> None:
    found = runs.record(tried)
    speed, steps = found["samples_per_second"], found["step_seconds"] or {}
    state, reason = found["state"], found["reason"]
    formed, wanted = ((tried.get("outcome") or {}).get("world") or {}).get("backend"), trial["settings"]["backend"]
    if state == "succeeded" and wanted != content["candidates"][0]["backend"] and formed and wanted not in formed:
        state, speed = "failed", None
        reason = f"its script forms the group with backend {formed}, whatever backend the job has"
    entry = {
        **trial,
        "state": state,
        "reason": reason,
        "samples_per_second": speed,
        "seconds": round(seconds, 1),
        "step_seconds": steps.get("mean"),
    }
    content["trials"].append(entry)
    content["used_minutes"] = content["used_minutes"] + seconds / 60
    content["running"] = None
    plan = tried.get("plan") or {}
    content["stack"], content["precision"] = (
        plan.get("stack", content["stack"]),
        plan.get("precision", content["precision"]),
    )
    if trial["default"] and plan.get("hosts"):
        content["ranks"] = {"all": sum(len(host["ranks"]) for host in plan["hosts"]), "hosts": len(plan["hosts"])}


def changes(content: Mapping[str, Any], job: Job) -> dict[str, Any]:
    """Return the fields of the job file that make the winner of it; empty where nothing was faster."""
    if content["verdict"] != "faster" or not content["winner"]:
        return {}
    default, winner = content["candidates"][0], content["winner"]
    found = {name: winner[name] for name in (*CORES, "backend") if winner[name] != default[name]}
    args = arguments(content, job, winner)
    return {**found, **({"args": args} if args else {})}


def variables(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables of an inventory that stand for fields of a job file, of those that have one."""
    cores = {name: changes[name] for name in CORES if name in changes}
    found: dict[str, Any] = {"cluster_cores": cores} if cores else {}
    return {**found, **({"cluster_backend": changes["backend"]} if "backend" in changes else {})}


def arguments(content: Mapping[str, Any], job: Job, settings: Mapping[str, Any]) -> dict[str, int] | None:
    """Return the arguments that keep the global batch with these settings; None where none do.

    With another number of ranks, a step would have another number of samples, and the job would learn something else.
    """
    if settings == content["candidates"][0] or not content["ranks"] or not job.of_kind().takes_trainer_arguments:
        return {}
    ranks = settings["ranks_per_node"] * content["ranks"]["hosts"]
    before = batches.of_arguments(job.args, content["ranks"]["all"])
    after = batches.kept(before, ranks)
    if after.size != before.size:
        return None
    return {} if after == batches.of_arguments(job.args, ranks) else after.arguments()


def cost(content: Mapping[str, Any], steps: int) -> float:
    """Return the seconds that a trial of so many steps takes, by those that were made."""
    known = [trial for trial in content["trials"] if trial["state"] == "succeeded" and trial["seconds"]]
    if not known:
        return 0.0
    warmup = content["request"]["warmup_steps"]
    step = statistics.median([trial.get("step_seconds") or 0.0 for trial in known])
    fixed = [
        max(0.0, trial["seconds"] - (trial["steps"] + warmup) * (trial.get("step_seconds") or 0.0)) for trial in known
    ]
    return statistics.median(fixed) + (steps + warmup) * step


def _enter(content: Mapping[str, Any], job: Job) -> tuple[int, list[str]]:
    """Keep the candidates that keep the global batch; return how many of them the budget allows in round 1."""
    kept = [each for each in content["candidates"] if arguments(content, job, each) is not None]
    apart = len(content["candidates"]) - len(kept)
    content["candidates"][:] = kept
    notes = [f"{apart} settings were left out: their ranks cannot keep the global batch of the job"] if apart else []
    steps = content["request"]["steps"]
    spent = cost(content, steps)  # the default's first trial
    most = 0
    for others in range(1, len(kept)):
        if not _fits(content, _total(content, others, steps) - spent):
            break
        most = others
    if 0 < most < len(kept) - 1:
        notes.append(f"{most} of {len(kept) - 1} settings besides the job's own were tried: the budget allows no more")
    tried = sum(not trial["default"] for trial in _of(content, 1))  # before the tuning was interrupted
    return max(most, min(tried, len(kept) - 1)), notes


def _total(content: Mapping[str, Any], others: int, steps: int) -> float:
    """Return the seconds of all rounds that begin with so many settings besides the default, and of the final."""
    seconds = 0.0
    while True:
        seconds += (1 + others) * cost(content, steps)
        if others < 2:
            return seconds + _final_cost(content, steps)
        others, steps = others // 2, 2 * steps


def _final_cost(content: Mapping[str, Any], steps: int) -> float:
    return 2 * int(content["request"]["repeats"]) * cost(content, steps)


def _fits(content: Mapping[str, Any], seconds: float) -> bool:
    return bool(60 * (content["budget_minutes"] - content["used_minutes"]) >= seconds)


def _of(content: Mapping[str, Any], number: int) -> list[dict[str, Any]]:
    return [
        trial
        for trial in content["trials"]
        if trial["round"] == number and not trial["final"] and batches.PER_DEVICE not in trial["settings"]
    ]


def _name(settings: Mapping[str, Any]) -> str:
    return repr(sorted(settings.items()))


def _job(content: Mapping[str, Any], job: Job) -> str:
    return derived_name(job.name, f"tune-{len(content['trials']) + 1}")


def _trial(
    content: Mapping[str, Any], job: Job, settings: dict[str, Any], number: int, steps: int | None = None
) -> dict[str, Any]:
    return {
        "settings": settings,
        "default": settings == content["candidates"][0],
        "round": number,
        "final": False,
        "compared": None,
        "steps": steps or content["request"]["steps"] * 2 ** (number - 1),
        "samples_per_second": None,
        "state": "pending",
        "reason": "",
        "job": _job(content, job),
        "seconds": None,
        "args": arguments(content, job, settings) or {},
    }


def derivation(content: Mapping[str, Any], job: Job, trial: Mapping[str, Any]) -> dict[str, Any]:
    """Return how the job is turned into a trial: the arguments of derive.trial."""
    fields = {name: trial["settings"][name] for name in (*CORES, "backend")}
    return {
        "suffix": trial["job"][len(job.name) + 1 :],
        "steps": trial["steps"],
        "warmup_steps": content["request"]["warmup_steps"],
        "fields": {**fields, **({"args": trial["args"]} if trial["args"] else {})},
    }


def _end(content: dict[str, Any], verdict: str, notes: list[str]) -> dict[str, Any]:
    failed = [trial for trial in content["trials"] if trial["final"] and trial["state"] == "failed"]
    notes = notes + [
        f"{trial['job']} failed in the final comparison: its settings are not recommended"
        for trial in failed
        if not trial["default"]
    ]
    return {**content, "verdict": verdict, "notes": content["notes"] + notes}
