"""Tunings by complete trainings: what each training learns, and how fast it is, is the test's."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import derive
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import load
from ansible_collections.amx.cluster.plugins.module_utils._measure import trainings, tuning_files, tuning_request
from support import runs

NOW = "2026-01-01T00:00:00+00:00"
ARGS = {"do_eval": True, "learning_rate": 2e-5, "seed": 7, "num_train_epochs": 3}
OPTIONS = {**trainings.OPTIONS, **trainings.RATES}
Learnt = Callable[[trainings.Trial], float]


def tried(value: float | None, metric: str = "eval_loss") -> dict[str, Any]:
    """What the role job returns of a training; None is a failure."""
    outcome = {"state": "succeeded", "metrics": {metric: value, "eval_runtime": 1.0}}
    state, reason = ("failed", "no memory") if value is None else ("succeeded", "")
    return {"state": state, "reason": reason, "plan": {"stack": "native"}, "outcome": outcome if value else {}}


def tune(learnt: Callable[[trainings.Trial], float | None], **options: Any) -> trainings.Trainings:
    """A whole tuning whose trainings take a minute, read anew after each, as an interrupted one is."""
    job = runs.run(name="demo", args=ARGS).job
    content = trainings.new(trainings.RATE, {**OPTIONS, "budget": 60, **options}, job, {}, NOW)
    for _trial in range(100):
        content, trial = trainings.advance(content, job, NOW)
        content = trainings.Trainings.from_json(json.loads(json.dumps(content.to_json())))
        if trial is None:
            return content
        content = trainings.recorded(content, job, trial, tried(learnt(trial), content.metric), 60)
    raise AssertionError("it has no end")


def of_rate(values: dict[float, float], spread: float = 0.001) -> Learnt:
    return lambda trial: values[trial.setting] * (1 + spread * (trial.seed % 3))


def test_the_best_rate_is_confirmed_with_other_seeds() -> None:
    content = tune(of_rate({2e-5: 0.5, 6.7e-6: 0.6, 6e-5: 0.4}))
    assert content.settings == [2e-5, 6.7e-6, 6e-5]
    assert (content.verdict, content.winner) == ("better", 6e-5)
    assert content.gain == pytest.approx(1.25)
    assert [(trial.setting, trial.seed) for trial in content.trials] == [
        *((2e-5, 7), (6.7e-6, 7), (6e-5, 7)),
        *((2e-5, 8), (6e-5, 8), (6e-5, 9), (2e-5, 9), (2e-5, 10), (6e-5, 10)),
    ]
    assert content.used_minutes == 9
    assert trainings.changes(content) == {"args": {"learning_rate": 6e-5}}
    said = " ".join(trainings.text(content, "x.json").split())
    assert "with learning_rate: 6e-05, eval_loss is 0.800 x that of the job's own (0.800 to 0.800)" in said
    assert [said.count(f"2e-05 {seed} ") for seed in (7, 8, 9, 10)] == [1, 1, 1, 1]


def test_more_of_an_accuracy_is_better() -> None:
    content = tune(of_rate({2e-5: 0.5, 1e-4: 0.8}), metric="eval_accuracy", learning_rates="1e-4")
    assert (content.verdict, content.winner) == ("better", 1e-4)
    assert "eval_accuracy is 1.600 x that of the job's own" in trainings.verdict(content)


def test_what_one_seed_gives_is_not_believed() -> None:
    def learnt(trial: trainings.Trial) -> float:
        # Lucky with the first seed; with others, each is ahead at times.
        return (
            0.3
            if (trial.setting, trial.seed) == (1e-4, 7)
            else 0.5 + 0.05 * ((trial.seed + (trial.setting == 1e-4)) % 2)
        )

    content = tune(learnt, learning_rates=[1e-4])
    assert (content.verdict, content.winner, trainings.changes(content)) == ("no difference", None, {})
    assert content.gain_low is not None
    assert content.gain_low < 1


@pytest.mark.parametrize(
    ("learnt", "verdict", "note"),
    [
        (lambda trial: None if trial.setting == 2e-5 else 0.4, "unfinished", "the job itself failed: no memory"),
        (lambda trial: 0.4 if trial.setting == 2e-5 else None, "unfinished", "no training with another rate"),
        (lambda trial: float("nan") if trial.setting == 6e-5 else 0.4, "no difference", ""),
        (lambda trial: None if trial.seed == 9 else 0.4, "unfinished", "trainings of the final comparison failed"),
    ],
)
def test_trainings_that_fail(learnt: Learnt, verdict: str, note: str) -> None:
    content = tune(learnt)
    assert content.verdict == verdict
    assert note in " ".join(content.notes)
    assert trainings.changes(content) == {}
    diverged = [trial for trial in content.trials if "does not learn with this rate" in trial.reason]
    assert len(diverged) == (0 if note else 1)
    if verdict == "unfinished":
        # A job that fails itself is not tried with other settings; what failed is made again by the same command.
        assert content.trials[0].state == "succeeded" or len(content.trials) == 1
        job = runs.run(name="demo", args=ARGS).job
        again, trial = trainings.advance(trainings.continued(content, 60), job, NOW)
        assert trial
        failed = next(trial for trial in content.trials if trial.state == "failed")
        assert (trial.setting, trial.seed) == (failed.setting, failed.seed)
        assert trial.job not in [kept.job for kept in again.trials]


def test_a_budget_that_is_too_short_is_named_and_a_larger_one_goes_on() -> None:
    learnt = of_rate({2e-5: 0.5, 6.7e-6: 0.6, 6e-5: 0.4})
    content = tune(learnt, budget=4)
    assert (content.verdict, len(content.trials)) == ("unfinished", 4)
    assert content.notes == [
        "the budget of 4 min is too short: a training takes 1.0 min, and 5 are left; set at least 9"
    ]
    job = runs.run(name="demo", args=ARGS).job
    content, trial = trainings.advance(trainings.continued(content, 20), job, NOW)
    assert trial
    assert (trial.setting, trial.seed, trial.job) == (6e-5, 8, "demo+rate-5")


def test_a_training_is_the_whole_job_with_its_evaluation() -> None:
    job = runs.run(name="demo", args=ARGS).job
    content = trainings.new(trainings.RATE, OPTIONS, job, {}, NOW)
    trial = trainings.Trial(1e-4, 9, "demo+rate-2")
    made = derive.trial(job, **trainings.derivation(content, job, trial))
    assert made.args == {**ARGS, "learning_rate": 1e-4, "seed": 9, "do_train": True, "save_strategy": "no"}
    assert made.measure is None
    short = runs.run(name="demo", args={**ARGS, "max_steps": 50}).job
    assert derive.trial(short, **trainings.derivation(content, short, trial)).args["max_steps"] == 50


def test_requests_that_are_refused(tmp_path: Path) -> None:
    job = runs.run(name="demo", args={"learning_rate": "fast"}).job
    wrong = {"learning_rates": "1e-5,-1", "repeats": 1, "budget": 0, "write": "perhaps"}
    with pytest.raises(ValueError) as caught:
        trainings.new(trainings.RATE, {**OPTIONS, **wrong}, job, {}, NOW)
    assert str(caught.value).splitlines()[1:] == [
        f"args.learning_rate of {job.file}: 'fast' is not a number above 0",
        "learning_rates: '-1' is not a number above 0",
        "repeats: 1 is not a whole number of at least 2",
        "budget: 0 is not a number above 0",
        "write: 'perhaps' is not true or false",
    ]
    with pytest.raises(ValueError, match="is of kind torch: learning_rate is an argument of transformers' Trainer"):
        trainings.new(trainings.RATE, OPTIONS, runs.run(kind="torch").job, {}, NOW)
    with pytest.raises(ValueError, match="learning_rates: 2e-05 is the job's own: name others"):
        trainings.new(trainings.RATE, {**OPTIONS, "learning_rates": 2e-5}, runs.run(args=ARGS).job, {}, NOW)
    for name in ("learning_rate", "sampling"):
        with pytest.raises(ValueError, match=f"it is tuned alone, with -e vary={name}"):
            tuning_request.read({**tuning_request.OPTIONS, "vary": f"backend,{name}"}, job)


def test_a_metric_that_is_not_there_is_named_with_those_that_are() -> None:
    job = runs.run(args=ARGS).job
    content = trainings.new(trainings.RATE, {**OPTIONS, "metric": "eval_f2"}, job, {}, NOW)
    content = trainings.recorded(content, job, trainings.Trial(1e-4, 9, "demo+rate-2"), tried(0.5, "eval_f1"), 1)
    assert content.trials[0].reason == (
        "its results have no eval_f2; of its evaluation there are: eval_f1, eval_runtime"
    )


def test_a_metric_that_is_not_above_0_ends_it_at_once() -> None:
    content = tune(lambda _trial: -0.5, metric="eval_matthews_correlation")
    assert (content.verdict, len(content.trials)) == ("unfinished", 1)
    assert "eval_matthews_correlation is -0.5: only metrics above 0 are compared" in content.notes[0]


@pytest.mark.parametrize(
    ("metric", "falls"),
    [("eval_loss", True), ("eval_cer", True), ("eval_RMSE", True), ("eval_answer", False), ("eval_f1", False)],
)
def test_the_last_word_of_a_metric_tells_its_direction(metric: str, falls: bool) -> None:
    assert trainings.falls(metric) == falls


def test_the_winner_goes_to_the_job_file(tmp_path: Path) -> None:
    path = tmp_path / "demo.yml"
    path.write_text("name: demo\nscript: demo.py\nargs:\n  do_eval: true\n  learning_rate: 2.0e-5  # ours\n")
    (tmp_path / "demo.py").touch()
    job = load(path)
    change = tuning_files.of_job(job, {"args": {"learning_rate": 6e-5}})
    assert tuning_files.write([change], job, dry=True) == str(path)
    assert "2.0e-5" in path.read_text()
    tuning_files.write([change], job, dry=False)
    assert load(path).args["learning_rate"] == 6e-5
    assert "# ours" in path.read_text()
    with pytest.raises(ValueError, match="has been changed since it was tuned"):
        tuning_files.refuse_changed("", change.diff, job, path)


# What is tried without the results of a training: speed and metric by strategy.
Strategies = dict[str, tuple[float, float]]
FAST = {"random": (100.0, 0.5), "group_by_length": (130.0, 0.5), "batch_rebalance": (110.0, 0.4)}


def sample(results: Strategies, noise: float = 0.0, **options: Any) -> trainings.Trainings:
    """A whole tuning of the strategy, on two ranks. The metric of seeds differs by 1 %, that of others by noise."""
    job = runs.run(name="demo", args=ARGS).job
    content = trainings.new(trainings.SAMPLING, {**trainings.OPTIONS, "budget": 60, **options}, job, {}, NOW)
    for _trial in range(100):
        content, trial = trainings.advance(content, job, NOW)
        content = trainings.Trainings.from_json(json.loads(json.dumps(content.to_json())))
        if trial is None:
            return content
        speed, value = results[trial.setting]
        noisy = noise * (trial.seed % 3) if trial.setting != "random" else 0.0
        came = tried(value * (1 + 0.01 * (trial.seed % 2) + noisy), content.metric)
        came["plan"]["hosts"] = [{"ranks": [{}, {}]}]
        came["outcome"]["metrics"]["train_samples_per_second"] = speed * (1 + 0.01 * (trial.seed % 3))
        content = trainings.recorded(content, job, trial, came, 60)
    raise AssertionError("it has no end")


def test_the_fastest_strategy_is_confirmed_with_other_seeds() -> None:
    content = sample(FAST)
    assert (content.verdict, content.winner, content.gain) == ("faster", "group_by_length", pytest.approx(1.3))
    assert trainings.changes(content) == {"args": {"train_sampling_strategy": "group_by_length"}}
    assert [trial.setting for trial in content.trials[:3]] == ["random", "group_by_length", "batch_rebalance"]
    assert [trial.seed for trial in content.trials] == [7, 7, 7, 8, 8, 9, 9, 10, 10]
    assert content.final == {"own": [102.0, 100.0, 101.0], "winner": [pytest.approx(1.3 * n) for n in (102, 100, 101)]}
    said = " ".join(trainings.text(content, "x.json").split())
    assert (
        "Faster at a level of 95%: with train_sampling_strategy: group_by_length, speed is 1.300 x (1.300 to 1.300), "
        "and eval_loss is 1.000 x that of the job's own (1.000 to 1.000), over 3 pairs of trainings."
    ) in said


@pytest.mark.parametrize(
    ("metric", "value", "verdict"),
    [
        ("eval_loss", 0.6, "faster, but worse"),
        ("eval_loss", 0.4, "faster"),
        ("eval_accuracy", 0.6, "faster"),
        ("eval_accuracy", 0.4, "faster, but worse"),
    ],
)
def test_what_is_faster_must_not_be_worse(metric: str, value: float, verdict: str) -> None:
    content = sample({**FAST, "group_by_length": (130.0, value)}, metric=metric)
    assert (content.verdict, bool(trainings.changes(content))) == (verdict, verdict == "faster")
    how = f", but worse in {metric}," if "worse" in verdict else ""
    assert trainings.verdict(content).startswith(f"Faster{how} at a level of 95%: with train_sampling_strategy: gr")


def test_what_may_be_worse_is_not_written() -> None:
    content = sample(FAST, noise=0.1)
    assert (content.verdict, trainings.changes(content)) == ("faster, but perhaps worse", {})
    said = trainings.verdict(content)
    assert said.startswith("Faster, but perhaps worse in eval_loss, at a level of 95%: with train_sampling_strategy: ")
    assert said.endswith("More than 5% worse is not ruled out: more repeats narrow it.")
    assert sample(FAST, noise=0.01).verdict == "faster"
    with pytest.raises(ValueError, match="repeats: 2 is not a whole number"):
        sample(FAST, repeats=2)


def test_jobs_that_cannot_be_tuned_are_refused_before_the_first_training() -> None:
    for args, why in (
        ({"seed": "abc"}, "args.seed of .*: 'abc' is not a whole number"),
        ({"train_sampling_strategy": "RANDOM"}, "RANDOM is not one of random, sequential, group_by_length, batch_reb"),
        ({"group_by_length": True}, "sets group_by_length, which transformers has before 5.0"),
    ):
        with pytest.raises(ValueError, match=why):
            trainings.new(trainings.SAMPLING, trainings.OPTIONS, runs.run(args=args).job, {}, NOW)


def test_a_strategy_that_is_better_but_not_faster_makes_no_difference() -> None:
    content = sample({**FAST, "group_by_length": (99.0, 0.1), "batch_rebalance": (99.9, 0.1)})
    assert (content.verdict, content.winner, content.gain) == ("no difference", None, pytest.approx(0.999))
    assert trainings.verdict(content).startswith("No difference at a level of 95%: with the fastest other strategy, sp")


def test_a_training_without_its_speed_or_with_the_own_strategy() -> None:
    job = runs.run(name="demo", args=ARGS).job
    content = trainings.new(trainings.SAMPLING, trainings.OPTIONS, job, {}, NOW)
    _content, own = trainings.advance(content, job, NOW)
    assert own
    # The job as it is: its script need not take the argument.
    assert "train_sampling_strategy" not in derive.trial(job, **trainings.derivation(content, job, own)).args
    failed = trainings.recorded(content, job, own, tried(0.5), 60)
    assert "its results have no throughput" in failed.trials[0].reason
    assert trainings.advance(failed, job, NOW)[1] is None
    content = replace(content, trials=[replace(own, state="succeeded", value=0.5, samples_per_second=1.0)])
    content, trial = trainings.advance(content, job, NOW)
    assert trial and trial.setting == "group_by_length"
    made = derive.trial(job, **trainings.derivation(content, job, trial))
    assert made.args["train_sampling_strategy"] == "group_by_length"
