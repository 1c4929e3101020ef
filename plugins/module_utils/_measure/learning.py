# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the learning rate with which a job learns best: whole trainings, judged by their evaluation, within a budget.

Each rate is tried once with the job's seed. The best one and the job's own then train with other seeds, both with each:
the seeds that chose a rate say nothing of how good it is. Everything follows from the content of learning_rate.json,
so that an interrupted tuning continues.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._documents import Document
from ansible_collections.amx.cluster.plugins.module_utils._jobs.derive import derived, derived_name
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import compared
from ansible_collections.amx.cluster.plugins.module_utils._measure import repeated, runs
from ansible_collections.amx.cluster.plugins.module_utils._measure.measurement import checked, listed, truth, whole
from ansible_collections.amx.cluster.plugins.module_utils._text import columns, wrapped

VERSION = 1
FILE = "learning_rate.json"
ARGUMENT = "learning_rate"
"""What is varied, by its name in `vary` and among the arguments of transformers' Trainer."""
# Of transformers' Trainer, where the job sets none (TrainingArguments of the stacks' versions).
DEFAULT_RATE, DEFAULT_SEED = 5e-5, 42
# The rates that are tried unless others are named, as multiples of the job's.
FACTORS = (1 / 3, 3.0)
LOSS = "loss"


@dataclass(frozen=True)
class Trial(Document):
    """A training. value: of the metric. began: in seconds since the Unix epoch; seconds: with all that Ansible did."""

    rate: float
    seed: int
    job: str
    state: str = "pending"
    reason: str = ""
    value: float | None = None
    seconds: float | None = None
    began: float | None = None


@dataclass(frozen=True)
class Learning(Document):
    """The content of learning_rate.json. rates: the job's own first.

    verdict, final, gain, gain_low and gain_high are as in tune.json (docs/tuning.md), with better instead of faster.
    """

    version: int
    job: str
    model: str | None
    metric: str
    rates: list[float]
    budget_minutes: float
    started: str
    used_minutes: float = 0.0
    ended: str | None = None
    stack: str | None = None
    precision: str | None = None
    trials: list[Trial] = field(default_factory=list)
    running: Trial | None = None
    verdict: str = "unfinished"
    winner: float | None = None
    final: dict[str, list[float]] | None = None
    gain: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None
    diff: str = ""
    notes: list[str] = field(default_factory=list)
    request: dict[str, Any] = field(default_factory=dict)


OPTIONS: dict[str, Any] = {
    "vary": ARGUMENT,
    "budget": 30,
    "learning_rates": None,
    "metric": f"eval_{LOSS}",
    "repeats": 3,
    "write": False,
}
"""What a user can set, with the defaults. budget: minutes. learning_rates: a list, or text such as "1e-5,5e-5"."""


def new(options: Mapping[str, Any], job: Job, contents: Mapping[str, str], now: str) -> Learning:
    """Return a tuning of which no trial has been made. options: see OPTIONS. contents: {name: digest} of the job.

    Raises ValueError with everything that is wrong, a line each.
    """
    errors: list[str] = []
    own = job.args.get(ARGUMENT, DEFAULT_RATE)
    own = checked(_positive, errors, f"args.{ARGUMENT} of {job.file}", own) or DEFAULT_RATE
    named = [checked(_positive, errors, "learning_rates", each) for each in listed(options["learning_rates"])]
    others = [each for each in named if each] or [float(f"{own * factor:.2g}") for factor in FACTORS]
    repeats = checked(whole, errors, "repeats", options["repeats"], 2)
    budget = checked(_positive, errors, "budget", options["budget"])
    checked(truth, errors, "write", options["write"])
    if not job.of_kind().takes_trainer_arguments:
        errors.append(f"job {job.name} is of kind {job.kind}: {ARGUMENT} is an argument of transformers' Trainer")
    try:
        derived(job, "rate-999")
    except ValueError as error:
        errors.append(f"{error}; set a shorter name in {job.file}")
    rates = list(dict.fromkeys([own, *others]))
    if len(rates) < 2 and not errors:
        errors.append(f"learning_rates: {own:g} is the job's own: name others")
    if errors:
        raise ValueError("\n".join([f"job {job.name} cannot be tuned, nothing was started:", *errors]))
    metric = str(options["metric"])
    return Learning(
        version=VERSION,
        job=job.name,
        model=job.model(),
        metric=metric,
        rates=rates,
        budget_minutes=budget or 0.0,
        started=now,
        request={
            "job": compared(job),
            "contents": dict(contents),
            "learning_rates": rates,
            "metric": metric,
            "repeats": repeats,
        },
    )


def _positive(name: str, value: object) -> float:
    """Return a number above 0 of a request. Raises ValueError."""
    try:
        rate = math.nan if isinstance(value, bool) else float(str(value))
    except ValueError:
        rate = math.nan
    if not 0 < rate < math.inf:
        raise ValueError(f"{name}: {value!r} is not a number above 0")
    return rate


def continued(earlier: Learning, budget_minutes: float) -> Learning:
    """Return an earlier tuning with the budget of now; one that has ended unfinished goes on with a larger one."""
    learning = replace(earlier, budget_minutes=budget_minutes, running=None)
    if learning.verdict == "unfinished" and budget_minutes > earlier.budget_minutes:
        return replace(learning, ended=None, notes=[])
    return learning


def advance(learning: Learning, job: Job, now: str) -> tuple[Learning, Trial | None]:
    """Return the tuning as it goes on, and its next trial; None where it has come to its end."""
    if learning.ended:
        return learning, None
    learning, trial = _advance(learning, job)
    return replace(learning, ended=None if trial else now), trial


def _advance(learning: Learning, job: Job) -> tuple[Learning, Trial | None]:
    seed, repeats = int(job.args.get("seed", DEFAULT_SEED)), int(learning.request["repeats"])
    for rate in learning.rates:
        if _made(learning, rate, seed) is None:
            return _begin(learning, job, rate, seed)
    own, *others = (_trial(learning, rate, seed) for rate in learning.rates)
    if own.state != "succeeded":
        return _end(learning, "unfinished", f"the job itself failed: {own.reason}")
    good = [trial for trial in others if trial.value is not None]
    if not good:
        return _end(learning, "no difference", "no training with another rate succeeded")
    best = (min if falls(learning.metric) else max)(good, key=lambda trial: trial.value or 0.0).rate
    learning = replace(learning, winner=best)
    seeds = range(seed + 1, seed + 1 + repeats)
    for number, each in enumerate(seeds):
        # The second pair begins with the other one: what changes slowly is no difference.
        for rate in (own.rate, best) if number % 2 == 0 else (best, own.rate):
            if _made(learning, rate, each) is None:
                return _begin(learning, job, rate, each)
    pairs = [(_trial(learning, own.rate, each).value, _trial(learning, best, each).value) for each in seeds]
    known = [(own, other) for own, other in pairs if own and other and min(own, other) > 0]
    learning = replace(
        learning, final={"own": [own for own, _other in known], "winner": [other for _own, other in known]}
    )
    if len(known) < len(pairs):
        why = "trainings of the final comparison failed, or their metric is not above 0"
        return _end(replace(learning, winner=None), "unfinished", why)
    compared = repeated.paired([(other, own) if falls(learning.metric) else (own, other) for own, other in known])
    if compared is None:
        raise ValueError(f"{repeats} pairs are too few to compare")
    learning = replace(learning, gain=compared.ratio, gain_low=compared.low, gain_high=compared.high)
    if compared.low > 1:
        return _end(learning, "better")
    return _end(replace(learning, winner=None), "no difference")


def falls(metric: str) -> bool:
    """Return whether less of a metric is better."""
    return metric.endswith((LOSS, "perplexity", "wer", "mse", "mae"))


def _made(learning: Learning, rate: float, seed: int) -> Trial | None:
    return next((trial for trial in learning.trials if (trial.rate, trial.seed) == (rate, seed)), None)


def _trial(learning: Learning, rate: float, seed: int) -> Trial:
    trial = _made(learning, rate, seed)
    if trial is None:
        raise ValueError(f"there is no training with rate {rate:g} and seed {seed}")
    return trial


def _begin(learning: Learning, job: Job, rate: float, seed: int) -> tuple[Learning, Trial | None]:
    """Begin a training, if the budget has room for one."""
    known = [trial.seconds for trial in learning.trials if trial.state == "succeeded" and trial.seconds]
    takes = statistics.median(known) if known else 0.0
    left = 60 * (learning.budget_minutes - learning.used_minutes)
    if learning.trials and left < takes:
        wanted = len(learning.rates) + 2 * int(learning.request["repeats"]) - len(learning.trials)
        why = (
            f"the budget of {learning.budget_minutes:g} min is too short: a training takes {takes / 60:.1f} min, and "
            f"{wanted} are left; set at least {learning.used_minutes + wanted * takes / 60:.0f}"
        )
        return _end(replace(learning, winner=None), "unfinished", why)
    return learning, Trial(rate, seed, derived_name(job.name, f"rate-{len(learning.trials) + 1}"))


def derivation(job: Job, trial: Trial) -> dict[str, Any]:
    """Return how the job is turned into a training: the arguments of derive.trial."""
    args = {"max_steps": job.args.get("max_steps"), "do_eval": True, ARGUMENT: trial.rate, "seed": trial.seed}
    return {"suffix": trial.job[len(job.name) + 1 :], "steps": 0, "measure": False, "fields": {"args": args}}


def recorded(learning: Learning, trial: Trial, tried: Mapping[str, Any], seconds: float) -> Learning:
    """Return the tuning with what came of a training. tried: as the entry point trial of the role job returns it."""
    plan, outcome = tried.get("plan") or {}, tried.get("outcome") or {}
    reason = str(outcome.get("reason") or "")
    state, reason = runs.succeeded(str(tried.get("state")), reason, str(tried.get("reason") or ""))
    metric = (outcome.get("metrics") or {}).get(learning.metric)
    value = float(metric) if isinstance(metric, (int, float)) and state == "succeeded" else None
    if state == "succeeded" and value is None:
        there = ", ".join(sorted(name for name in outcome.get("metrics") or {} if name.startswith("eval_"))) or "none"
        state, reason = "failed", f"its results have no {learning.metric}; of its evaluation there are: {there}"
    if value is not None and not math.isfinite(value):
        state, reason, value = "failed", f"{learning.metric} is {value}: it does not learn with this rate", None
    made = replace(trial, state=state, reason=reason, value=value, seconds=round(seconds, 1))
    return replace(
        learning,
        trials=[*learning.trials, made],
        used_minutes=learning.used_minutes + seconds / 60,
        running=None,
        stack=plan.get("stack", learning.stack),
        precision=plan.get("precision", learning.precision),
    )


def changes(learning: Learning) -> dict[str, Any]:
    """Return the fields of the job file that make the winner of it; empty where nothing was better."""
    return {"args": {ARGUMENT: learning.winner}} if learning.verdict == "better" else {}


def _end(learning: Learning, verdict: str, *notes: str) -> tuple[Learning, None]:
    return replace(learning, verdict=verdict, notes=[*learning.notes, *notes]), None


def line(trial: Trial, metric: str) -> str:
    """Return the outcome of a training in one line."""
    if trial.value is None:
        return f"{trial.job} ({ARGUMENT}: {trial.rate:g}) failed: {' '.join(trial.reason.split())[:300]}"
    return f"{trial.job} ({ARGUMENT}: {trial.rate:g}, seed: {trial.seed}): {metric} {trial.value:.4g}"


def planned(learning: Learning) -> str:
    """Return what a tuning would try, for check mode."""
    own, *others = (f"{rate:g}" for rate in learning.rates)
    sentence = (
        f"whole trainings with {ARGUMENT} {own}, the job's own, and {', '.join(others)}; then "
        f"{learning.request['repeats']} of the best one and of the job's own, each with another seed, as far as "
        f"{learning.budget_minutes:g} min allow."
    )
    return "\n".join(wrapped("Would be tried: ", sentence))


def text(learning: Learning, path: str, wrote: str = "") -> str:
    """Return the trainings, what came of them and the diff. wrote: the file, if the diff was applied to it."""
    lines = [f"Job {learning.job}: {learning.used_minutes:.1f} of {learning.budget_minutes:g} min used", ""]
    header = [ARGUMENT, "seed", learning.metric, ""]
    own = learning.rates[0]
    rows = [
        [
            f"{trial.rate:g}",
            str(trial.seed),
            trial.state if trial.value is None else f"{trial.value:.4g}",
            "the job's own" if trial.rate == own else "",
        ]
        for trial in learning.trials
    ]
    lines += [*columns([header, *rows]), ""] if rows else ["No training has ended.", ""]
    lines += wrapped("", verdict(learning))
    for note in learning.notes:
        lines += wrapped("- ", note)
    for trial in learning.trials:
        if trial.state == "failed":
            lines += wrapped("- ", line(trial, learning.metric))
    if learning.diff:
        last = f"Written to {wrote}." if wrote else "To write this to the job file, add -e write=true."
        lines += ["", learning.diff.rstrip(), "", last]
    return "\n".join([*lines, f"All figures: {path}"])


def verdict(learning: Learning) -> str:
    """Return the outcome of a tuning in one sentence."""
    level = f"at a level of {1 - repeated.FASTER:.0%}"
    if learning.verdict == "unfinished":
        return "Unfinished: the same command continues, with a larger budget where this one is used up."
    if learning.gain is None or learning.gain_low is None or learning.gain_high is None:
        return "No difference: no other rate is better than the job's own."
    ratio, low, high = learning.gain, learning.gain_low, learning.gain_high
    if falls(learning.metric):
        ratio, low, high = 1 / ratio, 1 / high, 1 / low
    pairs = f"over {len((learning.final or {})['own'])} pairs of trainings"
    compared = f"{learning.metric} is {ratio:.3f} x that of the job's own ({low:.3f} to {high:.3f}), {pairs}"
    if learning.verdict == "better":
        return f"Better {level}: with {ARGUMENT}: {learning.winner:g}, {compared}."
    return f"No difference {level}: with the best other rate, {compared}."
