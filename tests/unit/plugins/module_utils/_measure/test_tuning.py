"""Tunings of a made-up cluster: how fast each setting is, and what a trial costs, are the test's."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import derive
from ansible_collections.amx.cluster.plugins.module_utils._measure import repeated, tuning, tuning_request, tuning_text
from hypothesis import given
from hypothesis import strategies as st
from support import runs

pytestmark = pytest.mark.slow


DEFAULT = {
    "ranks_per_node": 1,
    "comm_cores": 0,
    "reserved_cores": 0,
    "threads_per_core": 1,
    "backend": "mpi",
}
OTHERS = [{**DEFAULT, "comm_cores": number} for number in range(1, 9)]
NOW = "2026-01-01T00:00:00+00:00"
Speed = Callable[[dict[str, Any], int], float]


def tried(trial: tuning.Trial, speed: float) -> dict[str, Any]:
    """What the role job returns of a trial; a speed of 0 is a failure."""
    measured = {"samples_per_second": speed, "step_seconds": {"mean": 0.1}}
    count = trial.settings["ranks_per_node"]
    hosts = [{"host": "node0", "ranks": [{}] * (2 if isinstance(count, str) else count), "threads_per_rank": 1}]
    return {
        "state": "succeeded" if speed else "failed",
        "reason": "" if speed else "no memory",
        "plan": {"stack": "native", "precision": "bf16", "hosts": hosts},
        "outcome": {"state": "succeeded", "measured": measured, "metrics": {}} if speed else {},
    }


def tune(
    speed: Speed,
    budget: float = 600,
    seconds: float = 10,
    candidates: list[dict[str, Any]] | None = None,
    args: dict[str, Any] | None = None,
    most: int = 10_000,
    content: tuning.Tuning | None = None,
    batch: bool = False,
    repeats: int = 2,
    **fields: Any,
) -> tuning.Tuning:
    job = runs.run(args=args or {}, **fields).job
    request = tuning_request.Request(budget, repeats=repeats, tune_batch=batch)
    content = content or tuning.new(job, request, {}, NOW)
    content = tuning.with_candidates(content, candidates or [DEFAULT, *OTHERS])
    for _trial in range(most):
        content, trial = tuning.advance(content, job, NOW)
        content = tuning.Tuning.from_json(json.loads(json.dumps(content.to_json())))  # as it is read again
        if trial is None:
            assert content.ended == NOW
            break
        made = len(content.trials)
        content = tuning.recorded(content, trial, tried(trial, speed(trial.settings, made)), seconds)
    return content


def by_comm(settings: dict[str, Any], _made: int) -> float:
    return 100.0 + 10 * settings["comm_cores"]


def test_the_fastest_of_all_wins() -> None:
    content = tune(by_comm)
    assert (content.verdict, content.winner) == ("faster", OTHERS[-1])
    assert content.gain == pytest.approx(1.8)
    assert content.final == {"default": [100.0] * 2, "winner": [180.0] * 2}
    rounds = [trial.round for trial in content.trials if not trial.final]
    assert [rounds.count(number) for number in (1, 2, 3, 4)] == [9, 5, 3, 2]
    assert [trial.steps for trial in content.trials if trial.default and not trial.final] == [
        10,
        20,
        40,
        80,
    ]
    assert [trial.default for trial in content.trials if trial.final] == [True, False, False, True]
    assert tuning.changes(content, runs.run().job) == {"comm_cores": 8}
    assert "Faster at a level of 95%: ranks_per_node: 1, comm_cores: 8" in tuning_text.table(content, "tune.json")


def test_spreads_that_overlap_are_no_difference() -> None:
    content = tune(lambda settings, made: 100.0 + (made % 7) + (0.5 if settings["comm_cores"] else 0))
    assert content.verdict == "no difference"
    assert content.winner is None
    assert tuning.changes(content, runs.run().job) == {}


def in_finals(speeds: dict[int, list[float]]) -> Speed:
    """Settings as fast as their comm_cores, and in the final comparison, of round 5, as given here."""
    given = {comm: iter(each) for comm, each in speeds.items()}

    def speed(settings: dict[str, Any], made: int) -> float:
        # The rounds before it have the default and 8, 4, 2 and 1 other settings.
        return next(given[settings["comm_cores"]]) if made >= 19 else by_comm(settings, made)

    return speed


def test_settings_of_which_a_final_run_failed_give_way_to_the_next_best() -> None:
    speed = in_finals({0: [100.0, 101.0, 99.0, 100.0, 101.0, 99.0, 100.0], 8: [110.0, 0.0], 7: [98.0, 102.0, 100.0]})
    content = tune(speed, repeats=3)
    assert (content.verdict, content.winner) == ("no difference", None)
    failed = next(trial for trial in content.trials if trial.state == "failed")
    compared = [trial.settings["comm_cores"] for trial in content.trials if trial.final]
    assert compared == [0, 8, 8, 0, 7, 7, 0, 0, 7]
    assert f"{failed.job} failed in the final comparison: its settings are not recommended" in content.notes


def test_settings_that_fail_are_not_recommended_where_the_budget_allows_no_other_comparison() -> None:
    speed = in_finals({0: [100.0] * 3, 8: [0.0, 110.0, 0.0], 7: [107.0] * 3})
    content = tune(speed, repeats=3, most=20)
    content = tune(speed, repeats=3, content=replace(content, budget_minutes=content.used_minutes + 1))
    assert content.verdict == "unfinished"
    assert tuning.changes(content, runs.run().job) == {}


@pytest.mark.parametrize(
    ("default", "winner", "verdict"),
    [
        ((100.0, 101.0, 99.0), (110.0, 111.0, 109.0), "faster"),
        # All are faster than the fastest of the others, but vary more than they differ.
        ((100.0, 101.0, 99.0), (101.5, 140.0, 102.0), "no difference"),
        # What both have in common, such as other work on the machines, is no spread.
        ((100.0, 150.0, 80.0), (105.0, 158.0, 84.5), "faster"),
    ],
)
def test_a_pair_of_runs_is_compared_by_its_ratio(
    default: tuple[float, ...], winner: tuple[float, ...], verdict: str
) -> None:
    content = tune(in_finals({0: list(default), 8: list(winner)}), repeats=3)
    assert content.verdict == verdict
    assert content.gain_low and content.gain and content.gain_high
    assert content.gain_low < content.gain < content.gain_high
    assert f"{'Faster' if verdict == 'faster' else 'No difference'} at a level of 95%" in tuning_text.verdict(content)


def test_of_equal_settings_one_in_twenty_is_called_faster_at_most() -> None:
    chance = random.Random(1)
    found = [
        repeated.paired([(chance.lognormvariate(0, 0.03), chance.lognormvariate(0, 0.03)) for _pair in range(3)])
        for _tuning in range(4000)
    ]
    faster = sum(each is not None and each.low > 1 for each in found)
    assert 0.04 * len(found) < faster < 0.06 * len(found)


def with_optimize(*candidates: dict[str, Any], values: Any = ("auto", "none")) -> list[dict[str, Any]]:
    begun = tuning.new(runs.run().job, tuning_request.Request(), {}, NOW)
    return tuning.with_candidates(begun, candidates, values).candidates


def test_optimize_is_tried_with_the_job_as_it_is_and_with_the_fastest_settings() -> None:
    """A setting for each value besides the default's, and one trial of the fastest: not twice as many of everything."""

    def speed(settings: dict[str, Any], made: int) -> float:
        return by_comm(settings, made) * (1.3 if settings["optimize"] == "none" else 1)

    candidates = with_optimize(DEFAULT, *OTHERS)
    assert len(candidates) == 2 + len(OTHERS)
    content = tune(speed, candidates=candidates)
    assert (content.verdict, content.winner) == ("faster", {**OTHERS[-1], "optimize": "none"})
    assert tuning.changes(content, runs.run().job) == {"comm_cores": 8, "optimize": "none"}
    assert tuning.variables({"optimize": "none"}) == {"cluster_optimize": "none"}
    rounds = [trial for trial in content.trials if not trial.final]
    tried_so = [trial.settings["comm_cores"] for trial in rounds if trial.settings["optimize"] == "none"]
    assert sorted(set(tried_so)) == [0, 8]
    assert rounds[-1].settings == content.winner
    assert len({trial.round for trial in content.trials if trial.final}) == 1
    table = tuning_text.table(content, "tune.json")
    assert "backend: mpi, optimize: none reaches" in " ".join(table.split())
    assert "threads/core  backend  optimize  steps" in table


def test_optimize_alone() -> None:
    def speed(settings: dict[str, Any], _made: int) -> float:
        return {"auto": 100.0, "none": 130.0}[settings["optimize"]]

    default = {**DEFAULT, "ranks_per_node": "auto", "comm_cores": "auto"}
    content = tune(speed, candidates=with_optimize(default), args={"per_device_train_batch_size": 8})
    assert tuning.changes(content, runs.run().job) == {"optimize": "none"}
    assert [trial.args for trial in content.trials] == [{}] * len(content.trials)
    assert tuning.derivation(content, runs.run().job, content.trials[1])["fields"] == {**default, "optimize": "none"}


@pytest.mark.parametrize("ranks", ["auto", "socket"])
def test_communication_cores_alone(ranks: str) -> None:
    default = {**DEFAULT, "ranks_per_node": ranks, "comm_cores": "auto"}
    others = [{**default, "comm_cores": number} for number in (0, 1)]
    speed = {"auto": 100.0, 0: 110.0, 1: 120.0}
    candidates = [default, *others]
    content = tune(
        lambda settings, _made: speed[settings["comm_cores"]],
        candidates=candidates,
        args={"per_device_train_batch_size": 8},
    )
    assert content.winner == others[1]
    assert [trial.args for trial in content.trials] == [{}] * len(content.trials)


@pytest.mark.parametrize("budget", range(40, 160, 10))
def test_the_budget_is_kept_with_optimize_and_an_interruption_changes_nothing(budget: int) -> None:
    """budget: in seconds, of which a trial takes 10."""
    candidates = with_optimize(DEFAULT, *OTHERS[:2])
    content = tune(by_comm, candidates=candidates, budget=budget / 60)
    assert 60 * content.used_minutes <= budget
    for cut in range(len(content.trials)):
        interrupted = tune(by_comm, candidates=candidates, budget=budget / 60, most=cut)
        again = tune(by_comm, budget=budget / 60, content=tuning.continued(interrupted, budget / 60))
        assert [trial.settings for trial in again.trials] == [trial.settings for trial in content.trials]


NATIVE = {"packages": {"torch": "2.13.0+cpu"}}


@pytest.mark.parametrize(
    ("job", "inventory", "stack", "found"),
    [
        ({}, "auto", NATIVE, ["auto", "none"]),
        ({}, "none", NATIVE, ["none", "auto"]),
        ({"optimize": "auto"}, "none", NATIVE, ["auto", "none"]),
        ({"optimize": ["dropout"]}, "auto", NATIVE, [["dropout"], "auto", "none"]),
        (
            {"optimize": ["optimizer", "padding", "loss", "attention", "dropout"]},
            "auto",
            NATIVE,
            [["optimizer", "padding", "loss", "attention", "dropout"], "none"],
        ),
        ({}, "auto", {"packages": {"torch": "2.8.0"}}, []),
        ({}, "auto", {}, []),
        ({"kind": "ranks"}, "auto", NATIVE, []),
    ],
)
def test_values_of_optimize(job: dict[str, Any], inventory: Any, stack: dict[str, Any], found: list[Any]) -> None:
    assert tuning_request.optimizes(runs.run(**job).job, inventory, stack, tuning_request.VARIED) == found
    assert tuning_request.optimizes(runs.run(**job).job, inventory, stack, ["backend"]) == []


def test_settings_that_are_much_slower_are_not_compared_again() -> None:
    content = tune(lambda settings, _made: 50.0 if settings["comm_cores"] else 100.0)
    assert (content.verdict, content.final) == ("no difference", None)


def test_a_trial_that_fails_stays_with_its_reason() -> None:
    content = tune(lambda settings, _made: 0 if settings["comm_cores"] == 8 else by_comm(settings, 0))
    failed = [trial for trial in content.trials if trial.state == "failed"]
    assert [(trial.settings, trial.reason) for trial in failed] == [(OTHERS[-1], "no memory")]
    assert content.winner == OTHERS[-2]


def test_a_script_that_uses_one_backend_always_is_not_tried_with_another() -> None:
    other = {**DEFAULT, "backend": "gloo"}
    job = runs.run().job
    content = tuning.with_candidates(tuning.new(job, tuning_request.Request(600), {}, NOW), [DEFAULT, other])
    for _trial in range(2):
        content, trial = tuning.advance(content, job, NOW)
        assert trial
        said = tried(trial, 10.0)
        said["outcome"]["world"] = {"backend": "mpi"}
        content = tuning.recorded(content, trial, said, 1)
    assert [trial.state for trial in content.trials] == ["succeeded", "failed"]
    assert content.trials[1].reason == "its script forms the group with backend mpi, whatever backend the job has"
    assert tuning.advance(content, job, NOW)[0].notes == ["no other settings than the job's own succeeded"]


def test_a_job_that_fails_itself_is_not_tuned() -> None:
    content = tune(lambda _settings, _made: 0)
    assert (content.verdict, len(content.trials)) == ("unfinished", 1)
    assert content.notes == ["the job itself failed: no memory"]
    assert tuning.job_failed(content)
    assert tune(by_comm, content=tuning.continued(content, 600)).verdict == "faster"


def test_a_budget_that_turns_out_to_be_too_short_and_a_larger_one_that_goes_on() -> None:
    content = tune(by_comm, budget=0.5)
    assert (content.verdict, len(content.trials)) == ("unfinished", 1)
    assert content.notes[0].startswith("the budget of 0.5 min is too short: a trial takes 10 s, and one of other")
    again = tune(by_comm, content=tuning.continued(content, 600))
    assert again.verdict == "faster"
    assert [trial.job for trial in again.trials].count("demo+tune-1") == 1


def test_nothing_else_is_valid() -> None:
    content = tune(by_comm, candidates=[DEFAULT])
    assert content.verdict == "no difference"
    assert content.notes[0].startswith("no other settings than the job's own are valid")


def test_the_global_batch_is_kept_and_what_cannot_keep_it_is_left_out() -> None:
    args = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 1}
    ranks = [{**DEFAULT, "ranks_per_node": number} for number in (1, 2, 3)]
    content = tune(lambda settings, _made: 100.0 * settings["ranks_per_node"], candidates=ranks, args=args)
    assert content.winner == ranks[1]
    assert "1 settings were left out" in content.notes[0]
    changes = tuning.changes(content, runs.run(args=args).job)
    assert changes == {
        "ranks_per_node": 2,
        "args": {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 1},
    }
    made = next(trial for trial in content.trials if trial.settings == ranks[1])
    assert tuning.derivation(content, runs.run(args=args).job, made)["fields"]["args"] == changes["args"]


def test_a_job_with_a_global_batch_needs_no_arguments() -> None:
    job: dict[str, Any] = {"args": {"per_device_train_batch_size": 8}, "global_batch": 8}
    ranks = [{**DEFAULT, "ranks_per_node": number} for number in (1, 2, 3)]
    content = tune(lambda settings, _made: 100.0 * settings["ranks_per_node"], candidates=ranks, batch=True, **job)
    assert "1 settings were left out" in content.notes[0]
    assert content.notes[-1] == "no batch sizes were tried: global_batch sets it"
    assert tuning.changes(content, runs.run(**job).job) == {"ranks_per_node": 2}


def test_other_batch_sizes_never_win() -> None:
    args = {"per_device_train_batch_size": 8}
    content = tune(
        lambda settings, _made: 1000.0 if "per_device_train_batch_size" in settings else by_comm(settings, 0),
        args=args,
        batch=True,
    )
    assert content.winner == OTHERS[-1]
    sizes = [trial.settings.get("per_device_train_batch_size") for trial in content.trials]
    assert [size for size in sizes if size] == [16, 4]
    assert "Other batch sizes, which change what the job learns:" in tuning_text.table(content, "tune.json")


@given(
    budget=st.floats(0.5, 60),
    seconds=st.floats(1, 60),
    speeds=st.lists(st.one_of(st.just(0.0), st.floats(1, 1000)), min_size=9, max_size=9),
    cut=st.integers(0, 40),
)
def test_the_budget_is_kept_and_an_interruption_changes_nothing(
    budget: float, seconds: float, speeds: list[float], cut: int
) -> None:
    def speed(settings: dict[str, Any], _made: int) -> float:
        return speeds[settings["comm_cores"]]

    content = tune(speed, budget, seconds)
    # The first trial is made to know what one takes.
    assert content.used_minutes <= max(budget, seconds / 60) + 1e-6
    assert content.trials[0].default
    if content.verdict == "faster":
        assert content.winner
        assert speeds[content.winner["comm_cores"]] > speeds[0]
        assert content.diff == ""
    interrupted = tuning.continued(tune(speed, budget, seconds, most=cut), budget)
    assert tune(speed, budget, seconds, content=interrupted).verdict == content.verdict


def tune_env(speed: Callable[[dict[str, Any]], float]) -> tuning.Tuning:
    job = runs.run(env={"OTHER": "1"}).job
    content = tuning.new(job, tuning_request.Request(600, repeats=2), {}, NOW)
    values = {"CCL_ALLREDUCE": ["ring", "direct"], "CCL_WORKER_OFFLOAD": ["0"]}
    content = tuning.with_candidates(content, [DEFAULT, OTHERS[0]], env_values=values)
    while True:
        content, trial = tuning.advance(content, job, NOW)
        content = tuning.Tuning.from_json(json.loads(json.dumps(content.to_json())))
        if trial is None:
            return content
        made = derive.trial(job, **tuning.derivation(content, job, trial))
        assert made.env == {"OTHER": "1", **trial.settings.get("env", {})}
        content = tuning.recorded(content, trial, tried(trial, speed(trial.settings)), 10)


def test_variables_of_the_ranks_are_tried_one_at_a_time_and_with_the_fastest_cores() -> None:
    gains = {"ring": 1.2, "direct": 1.0, "0": 1.1}

    def speed(settings: dict[str, Any]) -> float:
        (value,) = settings.get("env", {"": "direct"}).values()
        return 100 * gains[value] * (1 + 0.5 * settings["comm_cores"])

    content = tune_env(speed)
    first = [trial.settings for trial in content.trials if trial.round == 1]
    assert [settings.get("env") for settings in first] == [
        None, {"CCL_ALLREDUCE": "ring"}, {"CCL_ALLREDUCE": "direct"}, {"CCL_WORKER_OFFLOAD": "0"}, None,
    ]  # fmt: skip
    both = {**OTHERS[0], "env": {"CCL_ALLREDUCE": "ring"}}
    assert (content.verdict, content.winner) == ("faster", both)
    assert tuning.changes(content, runs.run().job) == {"comm_cores": 1, "env": {"CCL_ALLREDUCE": "ring"}}
    assert "env: CCL_ALLREDUCE=ring reaches 1.80 x" in " ".join(tuning_text.table(content, "tune.json").split())
    # What an inventory can have are cores, the backend and optimize.
    assert tuning.variables(tuning.changes(content, runs.run().job)) == {"cluster_cores": {"comm_cores": 1}}


def test_values_of_variables() -> None:
    job = runs.run(env={"CCL_ALLREDUCE": "ring"}).job
    options = tuning_request.OPTIONS
    given = {"CCL_ALLREDUCE": "ring,direct", "CCL_WORKER_OFFLOAD": [0, 1]}
    request = tuning_request.read({**options, "env_values": given}, job)
    assert request.env_values == {"CCL_ALLREDUCE": ["direct"], "CCL_WORKER_OFFLOAD": ["0", "1"]}
    assert request.compared()["env_values"] == request.env_values
    for wrong, said in (("ring", "env_values: 'ring' is not a mapping"), ({"a-b": [1]}, "env_values: ")):
        with pytest.raises(ValueError, match=said):
            tuning_request.read({**options, "env_values": wrong}, job)


def test_requests() -> None:
    job = runs.run(name="demo").job
    options = tuning_request.OPTIONS
    assert tuning_request.read({**options, "vary": "backend, comm_cores"}, job).vary == ("comm_cores", "backend")
    assert tuning.new(job, tuning_request.Request(), {}, NOW, ["node0"]).request["hosts"] == ["node0"]
    with pytest.raises(ValueError) as caught:
        wrong = {"budget": 0.1, "steps": 0, "repeats": 1.5, "write_to": "me", "vary": ["hosts"], "write": "perhaps"}
        tuning_request.read({**options, **wrong}, job)
    assert str(caught.value).splitlines()[1:] == [
        "steps: 0 is not a whole number of at least 1",
        "repeats: 1.5 is not a whole number of at least 2",
        "write: 'perhaps' is not true or false",
        "write_to: 'me' is not one of job, inventory",
        "vary: hosts is not one of ranks_per_node, comm_cores, reserved_cores, threads_per_core, backend, optimize, "
        "learning_rate, sampling",
    ]
    with pytest.raises(ValueError, match=r"budget: 0\.1 min are too short for the job's own settings, one other trial"):
        tuning_request.read({**options, "budget": 0.1}, job)
    with pytest.raises(ValueError, match="budget: 'soon' is not a number of minutes above 0"):
        tuning_request.read({**options, "budget": "soon"}, job)


def test_backends_of_a_job() -> None:
    assert tuning_request.backends(runs.run().job, "auto") == {
        "mpi": ["mpi", "gloo"],
        "ccl": ["ccl", "gloo"],
        "ccl by mpirun": ["ccl", "gloo"],
        "gloo": ["gloo"],
    }
    assert tuning_request.backends(runs.run(backend="gloo").job, "auto")["mpi"] == ["gloo", "mpi"]
    assert tuning_request.backends(runs.run(gradient_compression="bf16").job, "auto")["mpi"] == ["mpi"]
    under_torchrun = tuning_request.backends(runs.run(launcher="torchrun").job, "auto")
    assert under_torchrun == {"mpi": ["gloo"], "ccl": ["ccl", "gloo"], "ccl by mpirun": ["gloo"], "gloo": ["gloo"]}
