from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import derive
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import (
    Checkpoints,
    Job,
    Measure,
    Prepare,
    Source,
    Watch,
)
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import load
from ansible_collections.amx.cluster.plugins.module_utils._jobs.on_end import OnEnd
from support.runs import run

JOB = run(
    args={"seed": 1, "lr": 2},
    prepare=Prepare(Path("/jobs/data.py")),
    models={"minilm": Source(hub="x")},
    data={"squad": Source(hub="x")},
    metrics={"squad": Source(hub="x")},
    requirements=["peft==0.1"],
    checkpoints=Checkpoints(5, 1),
    expect={"eval_accuracy": 0.7},
    ranks_per_node=2,
    launcher="torchrun",
    env={"KMP_BLOCKTIME": "0", "A_TOKEN": "hf_x"},
    env_from=["HF_TOKEN"],
    on_end=OnEnd(url="https://example.com/hook"),
).job


def test_a_verification_keeps_the_settings_and_drops_what_belongs_to_the_script() -> None:
    assert derive.verification(JOB, Path("/role/verify_ranks.py")) == Job(
        file=JOB.file,
        name="+verify",
        kind="verification",
        script=Path("/role/verify_ranks.py"),
        ranks_per_node=2,
        launcher="torchrun",
        env={"KMP_BLOCKTIME": "0"},
        optimize="none",
    )


def test_a_measurement_keeps_the_settings_and_has_a_script_of_its_own() -> None:
    args = {"largest": 4096}
    made = derive.measurement(JOB, "network", "torch", Path("/role/measure_network.py"), args)
    assert made == Job(
        file=JOB.file,
        name="+network",
        kind="torch",
        script=Path("/role/measure_network.py"),
        args=args,
        stall_seconds=0,
        ranks_per_node=2,
        launcher="torchrun",
        env={"KMP_BLOCKTIME": "0"},
        watch=Watch(gradients=False),
        optimize="none",
    )


@pytest.mark.parametrize(
    ("value", "measure"),
    [
        *((value, Measure(profile=5)) for value in (True, "true", "yes")),
        *((value, Measure(profile=3)) for value in (3, "3")),
        *((value, None) for value in (False, "false", "")),
    ],
)
def test_a_job_whose_steps_are_profiled(value: object, measure: Measure | None) -> None:
    assert derive.profiled(JOB, value).measure == measure
    timed = replace(JOB, measure=Measure(2, split=False))
    assert derive.profiled(timed, value) == replace(
        timed, measure=Measure(2, split=False, profile=measure.profile if measure else None)
    )


@pytest.mark.parametrize("value", ["often", 0, "0", -1, 1.5, [1]])
def test_steps_that_cannot_be_profiled(value: object) -> None:
    with pytest.raises(ValueError, match=r"profile: .* is neither true, false nor "):
        derive.profiled(JOB, value)


def test_trials_have_the_optimized_steps_of_the_job_and_what_only_verifies_or_measures_has_none() -> None:
    job = replace(JOB, optimize=["dropout"])
    assert derive.trial(job, "t1", 20).optimize == ["dropout"]
    assert derive.trial(job, "t1", 20, fields={"optimize": "none"}).optimize == "none"
    assert derive.verification(job, Path("/a.py")).optimize == "none"
    assert derive.measurement(job, "network", "torch", Path("/a.py"), {}).optimize == "none"


def test_nobody_is_told_of_the_end_of_a_derived_job() -> None:
    made = derive.derived(JOB, "tune-1")
    assert JOB.on_end is not None
    assert (made.on_end, made.secrets) == (None, {"A_TOKEN": "hf_x"})


def test_mappings_are_merged() -> None:
    assert derive.derived(JOB, "short", args={"max_steps": 5, "lr": 3}).args == {"seed": 1, "lr": 3, "max_steps": 5}


def test_a_name_that_is_none() -> None:
    error = (
        f"'demo+{'x' * 60}' is not a name of a derived job: at most 63 lower-case letters, digits, '.', '_' and '-', "
        "with one '+' among them"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
        derive.derived(JOB, "x" * 60)


def test_no_job_file_has_the_name_of_a_derived_job(tmp_path: Path) -> None:
    made = [
        derive.verification(JOB, Path("/a.py")),
        derive.measurement(JOB, "network-imb", "ranks", Path("/a.py"), {}),
        derive.derived(JOB, "tune-1"),
        derive.trial(JOB, "on-2-r1", 20),
    ]
    for job in made:
        (tmp_path / "job.yml").write_text(f"{{name: {job.name}, script: a.py}}")
        with pytest.raises(ValueError, match=re.escape(f"name: {job.name!r} is not a name")):
            load(tmp_path / "job.yml")


def test_what_is_none_is_left_out() -> None:
    assert derive.derived(JOB, "short", args={"seed": None}).args == {"lr": 2}


def test_a_trial_trains_for_some_steps_and_does_nothing_besides() -> None:
    job = replace(
        JOB,
        restarts=3,
        min_hosts=1,
        wait=True,
        args={"lr": 2, "do_eval": True, "eval_strategy": "steps", "load_best_model_at_end": True, "save_steps": 9},
    )
    made = derive.trial(job, "on-2-r1", 20, 5, fields={"hosts": 2, "args": {"lr": 3}})
    assert made.args == {"lr": 3, "do_train": True, "save_strategy": "no", "max_steps": 25}
    assert (made.name, made.hosts, made.expect, made.checkpoints) == ("demo+on-2-r1", 2, {}, None)
    assert (made.restarts, made.min_hosts, made.wait) == (0, None, False)
    assert made.measure == Measure(warmup_steps=5, split=True)
    assert not derive.trial(job, "sanity", 2, measure=False).measure


def test_a_trial_of_a_script_of_its_own_keeps_its_arguments() -> None:
    job = replace(JOB, kind="torch", checkpoints=None)
    assert derive.trial(job, "t1", 20).args == {"seed": 1, "lr": 2}


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"script": "other.py"}, "script is no field that a trial can change: args, request, hosts, ranks_per_node"),
        ({"ranks_per_node": "many"}, "'many' is neither a whole number"),
        ({"backend": "nccl"}, "'nccl' is not one of auto, mpi, gloo, ccl"),
    ],
)
def test_what_a_trial_cannot_change(fields: dict[str, object], error: str) -> None:
    with pytest.raises(ValueError, match=f"^{error}"):
        derive.trial(JOB, "t1", 20, fields=fields)
