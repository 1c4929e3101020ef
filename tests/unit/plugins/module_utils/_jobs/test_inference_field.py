"""The field `inference` of a job file, and jobs of that kind."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._forms import Place
from ansible_collections.amx.cluster.plugins.module_utils._jobs import derive, inference_requests, known_models
from ansible_collections.amx.cluster.plugins.module_utils._jobs.inference_field import FORM
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Inference, Job
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import JobFileError, load, parse
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run, Settings
from support.checkout import ROOT

JOB: dict[str, Any] = {"name": "speed", "kind": "inference", "inference": {"models": ["distilbert-small"]}}


def read(value: object) -> Inference:
    wanted: Inference = FORM.check(value, Place())
    return wanted


def errors(tmp_path: Path, **fields: Any) -> list[str]:
    with pytest.raises(JobFileError) as raised:
        parse({**JOB, **fields}, tmp_path / "job.yml")
    return raised.value.errors


def test_defaults() -> None:
    wanted = read({"models": ["minilm", "job:demo"]})
    assert wanted.precisions == ["fp32", "bf16", "int8"]
    assert wanted.instances_per_node == [1, "auto", "cores"]
    assert wanted.threads_per_instance == []
    assert (wanted.agreement, wanted.p99_ms, wanted.channels_last) == (0.98, None, None)
    assert Inference.from_json(wanted.to_json()) == wanted


def test_threads_take_the_place_of_instances_that_are_not_given() -> None:
    assert read({"models": ["m"], "threads_per_instance": [4]}).instances_per_node == []
    both = read({"models": ["m"], "threads_per_instance": [4], "instances_per_node": [1]})
    assert (both.instances_per_node, both.threads_per_instance) == ([1], [4])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "a list where a mapping such as {models: [distilbert-small]} is expected"),
        ({}, "models: is missing"),
        ({"models": []}, "models: an empty list where a list with at least one entry is expected"),
        ({"models": ["m", "m"]}, "models: ['m', 'm'] has an entry twice"),
        ({"models": ["M"]}, "models: 'M' is not the name of a model or job:NAME"),
        ({"models": ["m"], "precision": ["fp32"]}, "precision: unknown field; did you mean precisions?"),
        ({"models": ["m"], "precisions": ["fp8"]}, "precisions: 'fp8' is not one of fp32, bf16"),
        ({"models": ["m"], "engines": ["onnx"]}, "engines: 'onnx' is not one of eager, compile, trace, ipex"),
        ({"models": ["m"], "instances_per_node": [0]}, "instances_per_node: 0 is neither a whole number of at least 1"),
        ({"models": ["m"], "batch_sizes": [1.5]}, "batch_sizes: 1.5 is not a whole number"),
        ({"models": ["m"], "seconds": 0}, "seconds: 0 is not a number above 0"),
        ({"models": ["m"], "agreement": 98}, "agreement: 98 is not a share from 0 to 1"),
        ({"models": ["m"], "tasks": {"m": "translation"}}, "tasks: m: 'translation' is not one of text-classification"),
        ({"models": ["m"], "tasks": {"n": "text-generation"}}, "tasks: n is not in models"),
        ({"models": ["m"], "evaluation": {"m": "/a.csv"}}, "evaluation: m: '/a.csv' is not NAME/FILE.csv"),
    ],
)
def test_wrong_values(value: object, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        read(value)


def test_all_errors_at_once() -> None:
    with pytest.raises(ValueError, match=r"engines: .*; seconds: "):
        read({"models": ["m"], "engines": ["x"], "seconds": -1})


def test_the_script_is_the_collections_own(tmp_path: Path) -> None:
    job = parse(JOB, tmp_path / "job.yml")
    assert job.script == inference_requests.BENCHMARK
    assert (ROOT / job.script).is_file()
    assert Job.from_json(job.to_json()) == job


def test_the_shipped_job() -> None:
    job = load(ROOT / "jobs/inference.yml")
    assert job.inference
    tasks = {known_models.MODELS[known_models.variant(name)[0]].tasks[0] for name in job.inference.models}
    assert tasks == set(known_models.TASKS) - {known_models.EMBEDDING, known_models.RANKING}
    assert not job.models  # nothing is downloaded


def test_fields_that_are_not_for_inference(tmp_path: Path) -> None:
    said = errors(tmp_path, script="a.py", ranks_per_node=2, precision="bf16")
    assert said == [
        "script: is not for kind inference: leave it out",
        "precision: is not for kind inference: set precisions under inference",
        "ranks_per_node: is not for kind inference: set instances_per_node under inference",
    ]
    assert errors(tmp_path, kind="ranks", script="a.py")[0] == (
        "inference: is not for kind ranks: set kind: inference, or leave it out"
    )
    with pytest.raises(JobFileError, match="inference: is missing"):
        parse({"name": "speed", "kind": "inference"}, tmp_path / "job.yml")


def test_models_that_there_are_not(tmp_path: Path) -> None:
    (said,) = errors(tmp_path, inference={"models": ["minilm"]}, models={"other": {"hub": "a/b"}})
    assert said.startswith("inference: models: minilm is neither an entry of models, one of distilbert, bert-base,")
    assert said.endswith("nor job:NAME; models has other")
    (said,) = errors(tmp_path, inference={"models": ["vit-base-small"], "tasks": {"vit-base-small": "text-generation"}})
    assert said == (
        "inference: tasks: vit-base-small is a model for image-classification, it does not fit text-generation"
    )
    (said,) = errors(tmp_path, inference={"models": ["bert-base"], "evaluation": {"bert-base": "mrpc/dev.csv"}})
    assert said == "inference: evaluation: bert-base: mrpc/dev.csv names mrpc, which is no entry of data"


def test_ranks_of_inference_have_no_communication_cores(tmp_path: Path) -> None:
    run = Run(parse(JOB, tmp_path / "job.yml"), Settings("node0", backend="mpi"))
    assert {run.backend(stack) for stack in ("mpi", "ccl", "gloo")} == {"gloo"}


def test_a_trial_has_the_models_that_it_measures(tmp_path: Path) -> None:
    job = parse({**JOB, "models": {"one": {"hub": "a/b"}, "two": {"hub": "c/d"}}}, tmp_path / "job.yml")
    trial = derive.trial(
        job, "x", 0, measure=False, sources={"models": {"two": {"hub": "c/d"}, "three": {"hub": "e/f"}}}
    )
    assert {name: source.hub for name, source in trial.models.items()} == {"two": "c/d", "three": "e/f"}
    assert (trial.kind, trial.measure, trial.data) == ("inference", None, {})


@pytest.mark.parametrize(
    ("architectures", "task"),
    [
        (["DistilBertForSequenceClassification"], "text-classification"),
        (["BertForQuestionAnswering"], "question-answering"),
        (["LlamaForCausalLM"], "text-generation"),
        (["GPT2LMHeadModel"], "text-generation"),
        (["ResNetForImageClassification"], "image-classification"),
        (["BertModel"], "feature-extraction"),
        (["BertForMaskedLM"], ""),
        ([], ""),
    ],
)
def test_tasks_of_architectures(architectures: list[str], task: str) -> None:
    assert known_models.tasks_of({"architectures": architectures, "vocab_size": 9})[0] == task
