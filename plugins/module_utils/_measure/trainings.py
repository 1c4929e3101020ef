# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tune an argument that changes what a job learns, by complete trainings with their evaluation, within a budget.

Each setting is tried once with the job's seed. The best other one and the job's own then train with other seeds, both
with each: the seeds that chose a setting say nothing of how good it is. Everything follows from the content of the
measurement's file, so that an interrupted tuning continues.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._documents import Document
from ansible_collections.amx.cluster.plugins.module_utils._jobs.derive import derived, derived_name
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import compared
from ansible_collections.amx.cluster.plugins.module_utils._measure import repeated, runs, sampling
from ansible_collections.amx.cluster.plugins.module_utils._measure.measurement import checked, listed, truth, whole
from ansible_collections.amx.cluster.plugins.module_utils._text import columns, wrapped

VERSION = 3


@dataclass(frozen=True)
class Vary:
    """An argument that is tuned. name: in `vary`, and of the file with the results. argument: of transformers' Trainer.

    default: of the argument, where the job sets none. suffix: of the names of trainings. noun: what a setting is.
    by_speed: whether the faster one wins, and not the one with the better metric. better: the verdict then.
    """

    name: str
    argument: str
    default: Any
    suffix: str
    noun: str
    by_speed: bool
    better: str


# Defaults of TrainingArguments, of the stacks' versions.
RATE = Vary("learning_rate", "learning_rate", 5e-5, "rate", "rate", False, "better")
SAMPLING = Vary("sampling", sampling.ARGUMENT, sampling.RANDOM, "sampling", "strategy", True, "faster")
VARIED = {vary.name: vary for vary in (RATE, SAMPLING)}
"""Arguments that are tuned in this way, each alone, by name."""
DEFAULT_SEED = 42
# The rates that are tried unless others are named, as multiples of the job's.
FACTORS = (1 / 3, 3.0)
LOSS = "loss"
WORSE, PERHAPS = "faster, but worse", "faster, but perhaps worse"
"""The verdicts on a setting with which a job trains faster, but is worse in the metric, or may be by MARGIN."""
MARGIN = 0.05
FALLING = (LOSS, "perplexity", "ppl", "nll", "wer", "cer", "ter", "mse", "rmse", "mae", "error")
"""Last words of the names of metrics of which less is better."""


@dataclass(frozen=True)
class Trial(Document):
    """A training. value: of the metric. began: in seconds since the Unix epoch; seconds: with all that Ansible did."""

    setting: Any
    seed: int
    job: str
    state: str = "pending"
    reason: str = ""
    value: float | None = None
    samples_per_second: float | None = None
    seconds: float | None = None
    began: float | None = None


@dataclass(frozen=True)
class Trainings(Document):
    """The content of learning_rate.json and sampling.json. settings: the job's own first.

    left_out: {setting: why it is not tried}. final: {own, winner}, of each pair of trainings the samples/s or the
    metric, whichever decides. verdict, gain, gain_low and gain_high are as in tune.json (docs/tuning.md). metric_ratio:
    the winner's metric divided by the job's own, {ratio, low, high}.
    """

    version: int
    vary: str
    job: str
    model: str | None
    metric: str
    settings: list[Any]
    budget_minutes: float
    started: str
    used_minutes: float = 0.0
    ended: str | None = None
    stack: str | None = None
    precision: str | None = None
    trials: list[Trial] = field(default_factory=list)
    running: Trial | None = None
    left_out: dict[str, str] = field(default_factory=dict)
    verdict: str = "unfinished"
    winner: Any = None
    final: dict[str, list[float]] | None = None
    gain: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None
    metric_ratio: dict[str, float] | None = None
    diff: str = ""
    notes: list[str] = field(default_factory=list)
    request: dict[str, Any] = field(default_factory=dict)

    def row(self) -> Vary:
        """Return what is tuned."""
        return VARIED[self.vary]

    def tried(self) -> list[Any]:
        """Return the settings that are tried, the job's own first."""
        return [each for each in self.settings if str(each) not in self.left_out]


OPTIONS: dict[str, Any] = {
    "vary": "",
    "budget": 30,
    "metric": f"eval_{LOSS}",
    "repeats": 3,
    "write": False,
}
"""What a user can set, with the defaults. budget: minutes."""
RATES: dict[str, Any] = {"learning_rates": None}
"""And for rates: those to compare, a list, or text such as "1e-5,5e-5"."""


def new(
    vary: Vary, options: Mapping[str, Any], job: Job, contents: Mapping[str, str], now: str, hosts: Sequence[str] = ()
) -> Trainings:
    """Return a tuning of which no trial has been made. options: see OPTIONS. contents: {name: digest} of the job.

    Raises ValueError with everything that is wrong, a line each.
    """
    errors: list[str] = []
    own, seed = job.named_args().get(vary.argument, vary.default), job.args.get("seed", DEFAULT_SEED)
    settings = _rates(own, options, errors, job) if vary is RATE else sampling.strategies(str(own))
    # Two pairs tell too little of a metric that is not to get worse.
    repeats = checked(whole, errors, "repeats", options["repeats"], 3 if vary.by_speed else 2)
    budget = checked(_positive, errors, "budget", options["budget"])
    checked(truth, errors, "write", options["write"])
    if not job.of_kind().takes_trainer_arguments:
        errors.append(f"job {job.name} is of kind {job.kind}: {vary.argument} is an argument of transformers' Trainer")
    elif vary is SAMPLING and sampling.refusal(job, str(own)):
        errors.append(sampling.refusal(job, str(own)))
    if isinstance(seed, bool) or not str(seed).isdecimal():
        errors.append(f"args.seed of {job.file}: {seed!r} is not a whole number")
    try:
        derived(job, f"{vary.suffix}-999")
    except ValueError as error:
        errors.append(f"{error}; set a shorter name in {job.file}")
    if errors:
        raise ValueError("\n".join([f"job {job.name} cannot be tuned, nothing was started:", *errors]))
    metric = str(options["metric"])
    return Trainings(
        version=VERSION,
        vary=vary.name,
        job=job.name,
        model=job.model(),
        metric=metric,
        settings=settings,
        budget_minutes=budget or 0.0,
        started=now,
        request={
            "job": compared(job),
            "contents": dict(contents),
            "hosts": list(hosts),
            "settings": settings,
            "metric": metric,
            "repeats": repeats,
        },
    )


def _rates(own: Any, options: Mapping[str, Any], errors: list[str], job: Job) -> list[Any]:
    """Return the rates that are tried, the job's own first; adds to the errors."""
    own = checked(_positive, errors, f"args.{RATE.argument} of {job.file}", own) or RATE.default
    named = [checked(_positive, errors, "learning_rates", each) for each in listed(options["learning_rates"])]
    others = [each for each in named if each] or [float(f"{own * factor:.2g}") for factor in FACTORS]
    rates = list(dict.fromkeys([own, *others]))
    if len(rates) < 2 and not errors:
        errors.append(f"learning_rates: {own:g} is the job's own: name others")
    return rates


def _positive(name: str, value: object) -> float:
    """Return a number above 0 of a request. Raises ValueError."""
    try:
        rate = math.nan if isinstance(value, bool) else float(str(value))
    except ValueError:
        rate = math.nan
    if not 0 < rate < math.inf:
        raise ValueError(f"{name}: {value!r} is not a number above 0")
    return rate


def continued(earlier: Trainings, budget_minutes: float) -> Trainings:
    """Return an earlier tuning with the budget of now.

    One that has ended unfinished goes on with a larger budget, and where trainings failed: these are made again.
    """
    state = replace(earlier, budget_minutes=budget_minutes, running=None)
    kept = [trial for trial in state.trials if trial.state != "failed"]
    first = state.trials[0].seed if state.trials else 0
    if any(trial.state == "failed" and trial.seed == first for trial in state.trials):
        # Which setting is the best may change, and pairs are of trainings one after the other.
        kept = [trial for trial in kept if trial.seed == first]
    again = len(kept) < len(state.trials) or budget_minutes > earlier.budget_minutes
    if state.ended and state.verdict == "unfinished" and again:
        return replace(state, trials=kept, ended=None, notes=[])
    return state


def advance(state: Trainings, job: Job, now: str) -> tuple[Trainings, Trial | None]:
    """Return the tuning as it goes on, and its next trial; None where it has come to its end."""
    if state.ended:
        return state, None
    state, trial = _advance(state, job)
    return replace(state, ended=None if trial else now), trial


def _advance(state: Trainings, job: Job) -> tuple[Trainings, Trial | None]:
    seed, repeats = int(job.args.get("seed", DEFAULT_SEED)), int(state.request["repeats"])
    for setting in state.tried():
        made = _made(state, setting, seed)
        if made is None:
            return _begin(state, job, setting, seed)
        if setting == state.settings[0] and made.state != "succeeded":
            return _end(state, "unfinished", f"the job itself failed: {made.reason}")
    own, *others = (_trial(state, setting, seed) for setting in state.tried())
    good = [trial for trial in others if trial.value is not None]
    if others and not good:
        return _end(state, "unfinished", f"no training with another {state.row().noun} succeeded")
    if not good:
        return _end(state, "no difference")
    best = _best(state, good).setting
    state = replace(state, winner=best)
    seeds = range(seed + 1, seed + 1 + repeats)
    for number, each in enumerate(seeds):
        # The second pair begins with the other one: what changes slowly is no difference.
        for setting in (own.setting, best) if number % 2 == 0 else (best, own.setting):
            if _made(state, setting, each) is None:
                return _begin(state, job, setting, each)
    return _concluded(state, [(_trial(state, own.setting, each), _trial(state, best, each)) for each in seeds])


def _best(state: Trainings, good: list[Trial]) -> Trial:
    if state.row().by_speed:
        return max(good, key=lambda trial: trial.samples_per_second or 0.0)
    return (min if falls(state.metric) else max)(good, key=lambda trial: trial.value or 0.0)


def _concluded(state: Trainings, pairs: list[tuple[Trial, Trial]]) -> tuple[Trainings, None]:
    """Return the tuning with its verdict. pairs: of trainings, (the job's own, those with the best other setting)."""
    by_speed = state.row().by_speed
    known = [pair for pair in pairs if all(trial.value is not None for trial in pair)]
    decisive = [
        tuple((trial.samples_per_second if by_speed else trial.value) or math.nan for trial in pair) for pair in known
    ]
    final = {name: [pair[side] for pair in decisive] for side, name in enumerate(("own", "winner"))}
    state = replace(state, final=final)
    if len(known) < len(pairs):
        return _end(replace(state, winner=None), "unfinished", "trainings of the final comparison failed")
    learnt = repeated.paired([(own.value or 0.0, other.value or 0.0) for own, other in known])
    speed = repeated.paired([(own, other) for own, other in decisive]) if by_speed else None
    if learnt is None:
        raise ValueError(f"{len(pairs)} pairs are too few to compare")
    gained = repeated.Paired(1 / learnt.ratio, 1 / learnt.high, 1 / learnt.low) if falls(state.metric) else learnt
    compared = speed or gained
    state = replace(state, gain=compared.ratio, gain_low=compared.low, gain_high=compared.high)
    state = replace(state, metric_ratio={"ratio": learnt.ratio, "low": learnt.low, "high": learnt.high})
    if compared.low <= 1:
        return _end(replace(state, winner=None), "no difference")
    if by_speed and gained.high < 1:
        return _end(state, WORSE)
    return _end(state, PERHAPS if by_speed and gained.low < 1 - MARGIN else state.row().better)


def falls(metric: str) -> bool:
    """Return whether less of a metric is better."""
    return metric.rpartition("_")[2].lower() in FALLING


def _made(state: Trainings, setting: Any, seed: int) -> Trial | None:
    return next((trial for trial in state.trials if (trial.setting, trial.seed) == (setting, seed)), None)


def _trial(state: Trainings, setting: Any, seed: int) -> Trial:
    trial = _made(state, setting, seed)
    if trial is None:
        raise ValueError(f"there is no training with {state.row().noun} {shown(setting)} and seed {seed}")
    return trial


def _begin(state: Trainings, job: Job, setting: Any, seed: int) -> tuple[Trainings, Trial | None]:
    """Begin a training, if the budget has room for one."""
    known = [trial.seconds for trial in state.trials if trial.state == "succeeded" and trial.seconds]
    takes = statistics.median(known) if known else 0.0
    left = 60 * (state.budget_minutes - state.used_minutes)
    if state.trials and left < takes:
        wanted = len(state.tried()) + 2 * int(state.request["repeats"]) - len(state.trials)
        why = (
            f"the budget of {state.budget_minutes:g} min is too short: a training takes {takes / 60:.1f} min, and "
            f"{wanted} are left; set at least {state.used_minutes + wanted * takes / 60:.0f}"
        )
        return _end(replace(state, winner=None), "unfinished", why)
    # Failed trainings may have been dropped.
    number = 1 + max((int(trial.job.rpartition("-")[2]) for trial in state.trials), default=0)
    return state, Trial(setting, seed, derived_name(job.name, f"{state.row().suffix}-{number}"))


def derivation(state: Trainings, job: Job, trial: Trial) -> dict[str, Any]:
    """Return how the job is turned into a training: the arguments of derive.trial."""
    args = {"max_steps": job.args.get("max_steps"), "do_eval": True, "seed": trial.seed}
    # A script that does not take the argument still trains as the job is, without it.
    is_own = trial.setting == state.settings[0]
    args[state.row().argument] = job.args.get(state.row().argument) if is_own else trial.setting
    return {"suffix": trial.job[len(job.name) + 1 :], "steps": 0, "measure": False, "fields": {"args": args}}


def recorded(state: Trainings, job: Job, trial: Trial, tried: Mapping[str, Any], seconds: float) -> Trainings:
    """Return the tuning with what came of a training. tried: as the entry point trial of the role job returns it."""
    plan, outcome = tried.get("plan") or {}, tried.get("outcome") or {}
    reason = str(outcome.get("reason") or "")
    outcome_state, reason = runs.succeeded(str(tried.get("state")), reason, str(tried.get("reason") or ""))
    if outcome_state == "succeeded" and (unusable := _unusable(state, outcome)):
        outcome_state, reason = "failed", unusable
    value = float(outcome["metrics"][state.metric]) if outcome_state == "succeeded" else None
    speed = runs.samples_per_second(outcome)
    made = replace(
        trial, state=outcome_state, reason=reason, value=value, samples_per_second=speed, seconds=round(seconds, 1)
    )
    left_out = state.left_out
    if not state.trials and state.row() is SAMPLING and value is not None:
        left_out = sampling.left_out(state.settings, job, tried)
    return replace(
        state,
        trials=[*state.trials, made],
        used_minutes=state.used_minutes + seconds / 60,
        running=None,
        stack=plan.get("stack", state.stack),
        precision=plan.get("precision", state.precision),
        left_out=left_out,
    )


def _unusable(state: Trainings, outcome: Mapping[str, Any]) -> str:
    """Return why the results of a training that succeeded cannot be compared; empty where they can."""
    metrics = outcome.get("metrics") or {}
    value = metrics.get(state.metric)
    if not isinstance(value, (int, float)):
        there = ", ".join(sorted(name for name in metrics if name.startswith("eval_"))) or "none"
        return f"its results have no {state.metric}; of its evaluation there are: {there}"
    if state.row().by_speed and runs.samples_per_second(outcome) is None:
        return runs.without_throughput(str(outcome.get("output") or "output"))
    if not math.isfinite(value):
        return f"{state.metric} is {float(value)}: it does not learn with this {state.row().noun}"
    return "" if value > 0 else f"{state.metric} is {value:g}: only metrics above 0 are compared, name another one"


def changes(state: Trainings) -> dict[str, Any]:
    """Return the fields of the job file that make the winner of it; empty where nothing was better."""
    return {"args": {state.row().argument: state.winner}} if state.verdict == state.row().better else {}


def _end(state: Trainings, verdict: str, *notes: str) -> tuple[Trainings, None]:
    return replace(state, verdict=verdict, notes=[*state.notes, *notes]), None


def shown(setting: Any) -> str:
    """Return a setting as a person reads it."""
    return f"{setting:g}" if isinstance(setting, float) else str(setting)


def line(state: Trainings, trial: Trial) -> str:
    """Return the outcome of a training in one line."""
    setting = f"{state.row().argument}: {shown(trial.setting)}"
    if trial.value is None:
        return f"{trial.job} ({setting}) failed: {' '.join(trial.reason.split())[:300]}"
    speed = f", {trial.samples_per_second:.1f} samples/s" if trial.samples_per_second else ""
    return f"{trial.job} ({setting}, seed: {trial.seed}): {state.metric} {trial.value:.4g}{speed}"


def planned(state: Trainings) -> str:
    """Return what a tuning would try, for check mode."""
    own, *others = map(shown, state.tried())
    sentence = (
        f"complete trainings with {state.row().argument} {own}, the job's own, and {', '.join(others)}; then "
        f"{state.request['repeats']} of the {'fastest' if state.row().by_speed else 'best'} one and of the job's own, "
        f"each with another seed, as far as {state.budget_minutes:g} min allow."
    )
    return "\n".join(wrapped("Would be tried: ", sentence))


def text(state: Trainings, path: str, wrote: str = "") -> str:
    """Return the trainings, what came of them and the diff. wrote: the file, if the diff was applied to it."""
    lines = [f"Job {state.job}: {state.used_minutes:.1f} of {state.budget_minutes:g} min used", ""]
    header = [state.row().argument, "seed", state.metric, "samples/s", ""]
    rows = [
        [
            shown(trial.setting),
            str(trial.seed),
            trial.state if trial.value is None else f"{trial.value:.4g}",
            f"{trial.samples_per_second:.1f}" if trial.samples_per_second else "",
            "the job's own" if trial.setting == state.settings[0] else "",
        ]
        for trial in state.trials
    ]
    lines += [*columns([header, *rows]), ""] if rows else ["No training has ended.", ""]
    lines += wrapped("", verdict(state))
    for note in [*state.notes, *(f"{name} was left out: {why}" for name, why in state.left_out.items())]:
        lines += wrapped("- ", note)
    for trial in state.trials:
        if trial.state == "failed":
            lines += wrapped("- ", line(state, trial))
    if state.diff:
        last = f"Written to {wrote}." if wrote else "To write this to the job file, add -e write=true."
        lines += ["", state.diff.rstrip(), "", last]
    return "\n".join([*lines, f"All figures: {path}"])


def verdict(state: Trainings) -> str:
    """Return the outcome of a tuning in one sentence."""
    row, level = state.row(), f"at a level of {1 - repeated.FASTER:.0%}"
    if state.verdict == "unfinished":
        return (
            "Unfinished: the same command makes failed trainings again, and continues with a larger budget where this "
            "one is used up."
        )
    if state.gain is None or state.metric_ratio is None:
        return f"No difference: no other {row.noun} is {row.better} than the job's own."
    metric = "{ratio:.3f} x that of the job's own ({low:.3f} to {high:.3f})".format(**state.metric_ratio)
    compared = f"{state.metric} is {metric}, over {len((state.final or {})['own'])} pairs of trainings"
    if row.by_speed:
        compared = f"speed is {state.gain:.3f} x ({state.gain_low:.3f} to {state.gain_high:.3f}), and {compared}"
    if state.verdict == "no difference":
        return f"No difference {level}: with the {'fastest' if row.by_speed else 'best'} other {row.noun}, {compared}."
    worse = f" in {state.metric}," if state.verdict != row.better else ""
    if state.verdict == PERHAPS:
        compared += f". More than {MARGIN:.0%} worse is not ruled out: more repeats narrow it"
    return f"{state.verdict.capitalize()}{worse} {level}: with {row.argument}: {shown(state.winner)}, {compared}."
