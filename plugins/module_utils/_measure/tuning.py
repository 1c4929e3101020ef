# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the fastest settings of a job by short trials: successive halving within a budget, and a final comparison.

Everything follows from the content of tune.json, so that an interrupted tuning continues. Round 1 tries as many
settings as the budget allows; each further round tries the faster half with twice the steps. The job's own settings,
the default, are in every round. At last the winner and the default run in pairs, several times: the ratio of their
speeds is known with its confidence interval then, and settings that fail in such a run give way to the next best.
`optimize` and variables of the ranks (ENV) are not combined with all other settings: each value is tried with those of
the job as it is, and the best with the fastest.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Optional

from ansible_collections.amx.cluster.plugins.module_utils._documents import Document
from ansible_collections.amx.cluster.plugins.module_utils._jobs import batches
from ansible_collections.amx.cluster.plugins.module_utils._jobs.derive import derived_name
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import compared
from ansible_collections.amx.cluster.plugins.module_utils._jobs.requests import CORES
from ansible_collections.amx.cluster.plugins.module_utils._measure import repeated, runs
from ansible_collections.amx.cluster.plugins.module_utils._measure.tuning_request import VARIED, Request

VERSION = 3
FILE = "tune.json"
# Below this share of the default's speed, a final comparison of the best candidate is not worth its time.
HOPELESS = 0.9
# The batch sizes of a rank that are tried, where it is allowed, as multiples of the job's.
BATCHES = (2.0, 0.5)
USED_UP = "the budget is used up"
# Of settings that set variables of the ranks: {variable: value}, one variable.
ENV = "env"
# Settings of cores, the backend and, where they are varied, optimize and env, by their names in a job file.
Settings = dict[str, Any]


@dataclass(frozen=True)
class Trial(Document):
    """A trial. default: whether it is the job as it is. final: whether it is of the final comparison, with `compared`.

    args: arguments that keep the global batch. began: in seconds since the Unix epoch. seconds: of the trial with all
    that Ansible did.
    """

    settings: Settings
    default: bool
    round: int
    steps: int
    job: str
    args: dict[str, Any] = field(default_factory=dict)
    final: bool = False
    compared: Settings | None = None
    samples_per_second: float | None = None
    state: str = "pending"
    reason: str = ""
    seconds: float | None = None
    step_seconds: float | None = None
    began: float | None = None

    def skipped(self) -> Trial:
        """Return the trial as one that the budget has left out."""
        return replace(self, state="skipped", reason=USED_UP)


@dataclass(frozen=True)
class Tuning(Document):
    """The content of tune.json. docs/tuning.md says what each field is.

    candidates: the settings that may be tried, the default first. entered: how many of the others are in round 1.
    ranks: of the default, {all, hosts}. request: what must be the same to be continued.
    """

    version: int
    job: str
    model: str | None
    stack: str | None
    precision: str | None
    budget_minutes: float
    used_minutes: float
    started: str
    ended: str | None
    trials: list[Trial] = field(default_factory=list)
    final: dict[str, list[float]] | None = None
    winner: Settings | None = None
    verdict: str = "unfinished"
    gain: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None
    diff: str = ""
    batch_allowed: bool = False
    notes: list[str] = field(default_factory=list)
    candidates: list[Settings] = field(default_factory=list)
    entered: int | None = None
    ranks: dict[str, int] | None = None
    running: Trial | None = None
    request: dict[str, Any] = field(default_factory=dict)

    def with_trial(self, trial: Trial) -> Tuning:
        """Return the tuning with another trial."""
        return replace(self, trials=[*self.trials, trial])

    def noted(self, *notes: str) -> Tuning:
        """Return the tuning with further notes."""
        return replace(self, notes=[*self.notes, *notes])


Step = tuple[Tuning, Optional[Trial]]
"""The tuning as it goes on, and the next trial of it; None where it has come to its end."""


def new(job: Job, request: Request, contents: Mapping[str, str], now: str, hosts: Sequence[str] = ()) -> Tuning:
    """Return a tuning of which no trial has been made. contents: {name: digest} of the files of the job."""
    return Tuning(
        version=VERSION,
        job=job.name,
        model=job.model(),
        stack=None,
        precision=None,
        budget_minutes=request.budget,
        used_minutes=0.0,
        started=now,
        ended=None,
        batch_allowed=request.tune_batch,
        request={
            "job": compared(job),
            "contents": dict(contents),
            "hosts": list(hosts),
            **request.compared(),
        },
    )


def continued(earlier: Tuning, budget_minutes: float) -> Tuning:
    """Return an earlier tuning with the budget of now: what is used of it stays used.

    One that has ended unfinished goes on with a larger budget, and where the job itself failed.
    """
    tuning = replace(earlier, budget_minutes=budget_minutes, running=None)
    failed = job_failed(tuning)
    if tuning.verdict == "unfinished" and (failed or budget_minutes > earlier.budget_minutes):
        kept = [] if failed else [trial for trial in tuning.trials if trial.state != "skipped"]
        return replace(tuning, trials=kept, ended=None, entered=None, notes=[])
    return tuning


def job_failed(tuning: Tuning) -> bool:
    """Return whether nothing was tried because the job as it is failed."""
    return len(tuning.trials) == 1 and tuning.trials[0].default and tuning.trials[0].state == "failed"


def with_candidates(
    tuning: Tuning,
    candidates: Sequence[Mapping[str, Any]],
    optimizes: Sequence[Any] = (),
    env_values: Mapping[str, Sequence[str]] | None = None,
) -> Tuning:
    """Return the tuning with the settings that are to be tried, the default first, where it has none yet.

    candidates: settings of cores and the backend. optimizes: the values of optimize, the job's own first. env_values:
    those of variables of the ranks.
    """
    if tuning.candidates or not candidates:
        return tuning
    settings = [dict(each) for each in candidates]
    if optimizes:
        own, *others = ([{**each, "optimize": value} for each in settings] for value in optimizes)
        settings = [own[0], *(each[0] for each in others), *own[1:]]
    pairs = [{name: value} for name, values in (env_values or {}).items() for value in values]
    settings[1:1] = [{**settings[0], ENV: pair} for pair in pairs]
    return replace(tuning, candidates=settings)


def advance(tuning: Tuning, job: Job, now: str) -> Step:
    """Return the tuning as it goes on, and the next trial of it; None where it has come to its end."""
    if tuning.ended:
        return tuning, None
    tuning, trial = _advance(tuning, job)
    return replace(tuning, ended=None if trial else now), trial


def _advance(tuning: Tuning, job: Job) -> Step:
    first = next((trial for trial in _of(tuning, 1) if trial.default), None)
    if first is None:
        return tuning, _trial(tuning, job, tuning.candidates[0], 1)
    if first.state != "succeeded":
        return _end(tuning, "unfinished", f"the job itself failed: {first.reason}")
    if tuning.entered is None:
        tuning = _enter(tuning, job)
        if not tuning.entered:
            if len(tuning.candidates) == 1:
                why = "no other settings than the job's own are valid on these hosts and keep its global batch"
                return _end(tuning, "no difference", why)
            why = (
                f"the budget of {tuning.budget_minutes:g} min is too short: a trial takes "
                f"{cost(tuning, tuning.request['steps']):.0f} s, and one of other settings and the final "
                f"comparison of {2 * tuning.request['repeats']} runs do not fit"
            )
            return _end(tuning, "unfinished", why)
    return _round(tuning, job, tuning.candidates[1 : 1 + (tuning.entered or 0)], 1)


def _round(tuning: Tuning, job: Job, members: list[Settings], number: int) -> Step:
    """Go on with a round of these settings besides the default, and those that follow it."""
    default, steps = tuning.candidates[0], tuning.request["steps"] * 2 ** (number - 1)
    made = _of(tuning, number)
    for settings in [default, *members]:
        if any(trial.settings == settings for trial in made):
            continue
        trial = _trial(tuning, job, settings, number)
        if settings != default and not _fits(tuning, cost(tuning, steps) + _final_cost(tuning, steps)):
            tuning = tuning.with_trial(trial.skipped())
            continue
        return tuning, trial
    made = _of(tuning, number)
    speeds = {_name(trial.settings): trial.samples_per_second or 0.0 for trial in made if trial.state == "succeeded"}
    good = sorted((each for each in members if _name(each) in speeds), key=lambda each: -speeds[_name(each)])
    if not good:
        return _end(tuning, "no difference", "no other settings than the job's own succeeded")
    enough = _fits(tuning, (2 + len(members) // 2) * cost(tuning, 2 * steps) + _final_cost(tuning, 2 * steps))
    begun = bool(_of(tuning, number + 1))
    if not begun and any(trial.final or batches.PER_DEVICE in trial.settings for trial in tuning.trials):
        enough = False  # whatever is known of the cost by now
    if begun or (len(good) > 1 and enough and not any(trial.state == "skipped" for trial in made)):
        return _round(tuning, job, good[: max(1, len(good) // 2)], number + 1)
    ranked = _ranked(tuning, number)
    other = (_other_optimize(tuning, ranked[0]) or _with_env(tuning, ranked)) if ranked else None
    if other and _fits(tuning, cost(tuning, steps) + _final_cost(tuning, steps)):
        return tuning, _trial(tuning, job, other, number)
    for winner in ranked:
        made = [trial for trial in tuning.trials if trial.final and trial.compared == winner]
        if not any(trial.state == "failed" and trial.settings == winner for trial in made):
            return _finals(tuning, job, winner, made, number + 1, steps)
    return _batches(replace(tuning, winner=None), job, default, number + 1, steps, ("no difference", None))


def _ranked(tuning: Tuning, last: int) -> list[Settings]:
    """Return the settings that may win, the best first: those of the last round before those that left earlier."""
    winners: list[Settings] = []
    lost: list[Settings] = []
    for number in range(last, 0, -1):
        made = _of(tuning, number)
        default = next((trial.samples_per_second or 0.0 for trial in made if trial.default), 0.0)
        for trial in sorted(made, key=lambda each: -(each.samples_per_second or 0.0)):
            if trial.default or trial.state == "skipped" or trial.settings in winners + lost:
                continue
            hopeless = not trial.samples_per_second or trial.samples_per_second < HOPELESS * default
            (lost if hopeless else winners).append(trial.settings)
    return winners


def _other_optimize(tuning: Tuning, best: Settings) -> Settings | None:
    """Return the best settings with another value of optimize, if that has not been tried; None during the final."""
    if any(trial.final for trial in tuning.trials):
        return None
    values = [each["optimize"] for each in tuning.candidates if "optimize" in each]
    others = [{**best, "optimize": value} for value in values]
    return next((each for each in others if all(trial.settings != each for trial in tuning.trials)), None)


def _with_env(tuning: Tuning, ranked: Sequence[Settings]) -> Settings | None:
    """Return the best settings without a variable of the ranks together with the best variable, if not tried yet."""
    best = next((each[ENV] for each in ranked if ENV in each), None)
    plain = next((each for each in ranked if ENV not in each), None)
    if any(trial.final for trial in tuning.trials) or best is None or plain is None:
        return None
    combined = {**plain, ENV: best}
    return combined if all(trial.settings != combined for trial in tuning.trials) else None


def _finals(tuning: Tuning, job: Job, winner: Settings, made: list[Trial], number: int, steps: int) -> Step:
    """Compare the winner with the default, in pairs; made: the runs of this comparison."""
    default, repeats = tuning.candidates[0], tuning.request["repeats"]
    tuning = replace(tuning, winner=winner)
    if not made and not _fits(tuning, _final_cost(tuning, steps)):
        why = f"the budget of {tuning.budget_minutes:g} min was used up before the final comparison"
        return _end(tuning, "unfinished", why)
    if len(made) < 2 * repeats:
        # The second pair begins with the winner, and so on: what changes slowly is no difference.
        settings = (default, winner)[(len(made) + len(made) // 2) % 2]
        return tuning, replace(_trial(tuning, job, settings, number, steps), final=True, compared=winner)
    speeds = [
        [trial.samples_per_second for trial in made if (trial.settings == winner) == side] for side in (False, True)
    ]
    pairs = [(own, other) for own, other in zip(*speeds) if own and other]
    tuning = replace(
        tuning, final={"default": [own for own, _other in pairs], "winner": [other for _own, other in pairs]}
    )
    ratio = repeated.paired(pairs)
    if ratio is None:
        return _end(tuning, "unfinished", "runs of the job as it is failed in the final comparison")
    verdict = "faster" if ratio.low > 1 else "no difference"
    best = winner if verdict == "faster" else default
    tuning = replace(tuning, gain_low=ratio.low, gain_high=ratio.high)
    return _batches(tuning, job, best, number + 1, steps, (verdict, ratio.ratio))


def _batches(
    tuning: Tuning, job: Job, best: Settings, number: int, steps: int, conclusion: tuple[str, float | None]
) -> Step:
    """Try other batch sizes with the best settings, where that is allowed; then conclude."""
    tuning = replace(tuning, gain=conclusion[1])
    own = job.args.get(batches.PER_DEVICE) if not job.global_batch else None
    sizes = [int(own * factor) for factor in BATCHES] if tuning.batch_allowed and isinstance(own, int) else []
    for size in sizes:
        settings = {**best, batches.PER_DEVICE: size}
        if size and not any(trial.settings == settings for trial in tuning.trials):
            trial = _trial(tuning, job, best, number, steps)
            trial = replace(trial, settings=settings, args={**trial.args, batches.PER_DEVICE: size})
            if _fits(tuning, cost(tuning, steps)):
                return tuning, trial
            tuning = tuning.with_trial(trial.skipped())
    if tuning.batch_allowed and not sizes:
        why = "global_batch sets it" if job.global_batch else f"{batches.PER_DEVICE} is not in the job's args"
        tuning = tuning.noted(f"no batch sizes were tried: {why}")
    elif sizes:
        tuning = tuning.noted("another batch size changes what the job learns: it is listed, and never the winner")
    if conclusion[0] == "no difference":
        tuning = replace(tuning, winner=None)
    return _end(tuning, conclusion[0])


def recorded(tuning: Tuning, trial: Trial, tried: Mapping[str, Any], seconds: float) -> Tuning:
    """Return the tuning with what came of a trial. tried: as the entry point trial of the role job returns it.

    seconds: from the choice of the trial to its end, with all that Ansible did.
    """
    record, plan = runs.record(tried), tried.get("plan") or {}
    speed, state, reason = record["samples_per_second"], record["state"], record["reason"]
    formed, wanted = ((tried.get("outcome") or {}).get("world") or {}).get("backend"), trial.settings["backend"]
    if state == "succeeded" and wanted != tuning.candidates[0]["backend"] and formed and wanted not in formed:
        state, speed = "failed", None
        reason = f"its script forms the group with backend {formed}, whatever backend the job has"
    made = replace(
        trial,
        state=state,
        reason=reason,
        samples_per_second=speed,
        seconds=round(seconds, 1),
        step_seconds=(record["step_seconds"] or {}).get("mean"),
    )
    ranks = tuning.ranks
    if trial.default and plan.get("hosts"):
        ranks = {"all": sum(len(host["ranks"]) for host in plan["hosts"]), "hosts": len(plan["hosts"])}
    return replace(
        tuning.with_trial(made),
        used_minutes=tuning.used_minutes + seconds / 60,
        running=None,
        stack=plan.get("stack", tuning.stack),
        precision=plan.get("precision", tuning.precision),
        ranks=ranks,
    )


def changes(tuning: Tuning, job: Job) -> dict[str, Any]:
    """Return the fields of the job file that make the winner of it; empty where nothing was faster."""
    if tuning.verdict != "faster" or not tuning.winner:
        return {}
    default, winner = tuning.candidates[0], tuning.winner
    fields = {name: winner[name] for name in (*VARIED, ENV) if winner.get(name) != default.get(name)}
    args = arguments(tuning, job, winner)
    return {**fields, **({"args": args} if args else {})}


def variables(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables of an inventory that stand for fields of a job file, of those that have one."""
    cores = {name: changes[name] for name in CORES if name in changes}
    values: dict[str, Any] = {"cluster_cores": cores} if cores else {}
    return {**values, **{f"cluster_{name}": changes[name] for name in VARIED if name in changes and name not in CORES}}


def arguments(tuning: Tuning, job: Job, settings: Mapping[str, Any]) -> dict[str, int] | None:
    """Return the arguments that keep the global batch with these settings; None where none do.

    With another number of ranks, a step would have another number of samples, and the job would learn something else.
    """
    # Where it is that of the job, it may also be auto or socket.
    same = settings["ranks_per_node"] == tuning.candidates[0]["ranks_per_node"]
    if same or not tuning.ranks or not job.of_kind().takes_trainer_arguments:
        return {}
    ranks = settings["ranks_per_node"] * tuning.ranks["hosts"]
    before, own = batches.of_job(job, tuning.ranks["all"]), batches.of_job(job, ranks)
    after = own if job.global_batch else batches.kept(before, ranks)
    if after.size != before.size:
        return None
    return {} if after == own else after.arguments()


def cost(tuning: Tuning, steps: int) -> float:
    """Return the seconds that a trial of so many steps takes, by those that were made."""
    known = [trial for trial in tuning.trials if trial.state == "succeeded" and trial.seconds]
    if not known:
        return 0.0
    warmup = tuning.request["warmup_steps"]
    step = statistics.median([trial.step_seconds or 0.0 for trial in known])
    fixed = [max(0.0, (trial.seconds or 0.0) - (trial.steps + warmup) * (trial.step_seconds or 0.0)) for trial in known]
    return statistics.median(fixed) + (steps + warmup) * step


def _enter(tuning: Tuning, job: Job) -> Tuning:
    """Return the tuning with those candidates that keep the global batch, and how many of them the budget allows."""
    kept = [each for each in tuning.candidates if arguments(tuning, job, each) is not None]
    left_out = len(tuning.candidates) - len(kept)
    tuning = replace(tuning, candidates=kept)
    if left_out:
        tuning = tuning.noted(f"{left_out} settings were left out: their ranks cannot keep the global batch of the job")
    steps = tuning.request["steps"]
    spent = cost(tuning, steps)  # the default's first trial
    most = 0
    for others in range(1, len(kept)):
        if not _fits(tuning, _total(tuning, others, steps) - spent):
            break
        most = others
    if 0 < most < len(kept) - 1:
        tuning = tuning.noted(
            f"{most} of {len(kept) - 1} settings besides the job's own were tried: the budget allows no more"
        )
    tried = sum(not trial.default for trial in _of(tuning, 1))  # before the tuning was interrupted
    return replace(tuning, entered=max(most, min(tried, len(kept) - 1)))


def _total(tuning: Tuning, others: int, steps: int) -> float:
    """Return the seconds of all rounds that begin with so many settings besides the default, and of the final."""
    seconds = 0.0
    while True:
        seconds += (1 + others) * cost(tuning, steps)
        if others < 2:
            return seconds + _final_cost(tuning, steps)
        others, steps = others // 2, 2 * steps


def _final_cost(tuning: Tuning, steps: int) -> float:
    return 2 * int(tuning.request["repeats"]) * cost(tuning, steps)


def _fits(tuning: Tuning, seconds: float) -> bool:
    return bool(60 * (tuning.budget_minutes - tuning.used_minutes) >= seconds)


def _of(tuning: Tuning, number: int) -> list[Trial]:
    return [
        trial
        for trial in tuning.trials
        if trial.round == number and not trial.final and batches.PER_DEVICE not in trial.settings
    ]


def _name(settings: Mapping[str, Any]) -> str:
    return repr(sorted(settings.items()))


def _trial(tuning: Tuning, job: Job, settings: Settings, number: int, steps: int | None = None) -> Trial:
    return Trial(
        settings=settings,
        default=settings == tuning.candidates[0],
        round=number,
        steps=steps or tuning.request["steps"] * 2 ** (number - 1),
        job=derived_name(job.name, f"tune-{len(tuning.trials) + 1}"),
        args=arguments(tuning, job, settings) or {},
    )


def derivation(tuning: Tuning, job: Job, trial: Trial) -> dict[str, Any]:
    """Return how the job is turned into a trial: the arguments of derive.trial."""
    fields = {name: trial.settings[name] for name in (*VARIED, ENV) if name in trial.settings}
    return {
        "suffix": trial.job[len(job.name) + 1 :],
        "steps": trial.steps,
        "warmup_steps": tuning.request["warmup_steps"],
        "fields": {**fields, **({"args": trial.args} if trial.args else {})},
    }


def _end(tuning: Tuning, verdict: str, *notes: str) -> Step:
    failed = [trial.job for trial in tuning.trials if trial.final and trial.state == "failed" and not trial.default]
    failures = [f"{name} failed in the final comparison: its settings are not recommended" for name in failed]
    return replace(tuning, verdict=verdict).noted(*notes, *failures), None
