"""Inference benchmarks of a made-up cluster: how fast each cell is, and what a trial costs, are the test's."""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.amx.cluster.plugins.module_utils._jobs import derive
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Inference, Job
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import parse
from ansible_collections.amx.cluster.plugins.module_utils._measure import (
    inference,
    inference_choice,
    inference_files,
    inference_matrix,
    inference_text,
    runs,
)
from ansible_collections.amx.cluster.plugins.module_utils._measure.inference_document import (
    Benchmark,
    Cell,
    Trial,
)
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.slow


NOW = "2026-01-01T00:00:00+00:00"
HOSTS = ["node0", "node1"]
# {throughput, p99 in ms, equal} of a cell, or its state.
Found = Callable[[Cell], "tuple[float, float, float | None] | str"]
SETTINGS: list[dict[str, Any]] = [
    {"name": f"instances_per_node={name}", "ranks_per_node": number, "reserved_cores": "auto", "instances": number,
     "threads": threads, "total": 2 * number, "error": ""}
    for name, number, threads in ((1, 1, 2), ("cores", 2, 1))
]  # fmt: skip
REFUSED = {
    **dict.fromkeys(("ranks_per_node", "reserved_cores", "instances", "threads", "total")),
    "name": "instances_per_node=9",
    "error": "node0: 9 is more than 2",
}


def job(**wanted: Any) -> Job:
    asked = {"models": ["distilbert-small"], "batch_sizes": [1, 16], "seconds": 1, **wanted}
    return parse({"name": "speed", "kind": "inference", "inference": asked}, Path("/tmp/speed.yml"))


def request(of: Job) -> Inference:
    return inference_matrix.request(of)


def begun(of: Job, settings: list[dict[str, Any]] | None = None, errors: dict[str, str] | None = None) -> Benchmark:
    """Return a benchmark with its cells. errors: of models that cannot be had."""
    about = {
        name: {**model, "error": (errors or {}).get(name, "")}
        for name, model in inference_matrix.models(of, "/opt/amx").items()
    }
    content = inference.new(of, {"project": "abc"}, HOSTS, NOW)
    machine = {"cpu": "Xeon", "stack": "native"}
    return inference.with_cells(content, request(of), about, SETTINGS if settings is None else settings, machine)


def left_on(cell: Cell, found: tuple[float, float, float | None] | str) -> dict[str, Any]:
    """What inference_files.of_host returns of a cell on one of the hosts."""
    if isinstance(found, str):
        return {
            "instances": cell.instances // 2,
            "state": found,
            "reason": f"it was {found}",
            "peak_memory_bytes": 5,
        }
    speed, p99, equal = found
    half = {"value": speed / 2, "low": speed / 2 * 0.95, "high": speed / 2 * 1.05}
    compared = {"equal": equal, "largest_difference": 0.1, "samples": 64, "data": "random inputs"}
    return {
        "instances": cell.instances // 2,
        "state": "measured",
        "reason": "",
        "throughput": half,
        "latencies_us": {"values": [500 * p99, 1000 * p99], "count": 2},
        "first_call_seconds": 0.5,
        "peak_memory_bytes": 10**9,
        "overhead": 0.001,
        "isa": "avx512_core_bf16",
        "emulated": False,
        "int8_route": "oneDNN" if cell.precision == "int8" else None,
        "agreement": None if cell.precision == "fp32" else compared,
        "generation": None,
        "open_loop": [],
    }


def measure(
    of: Job,
    found: Found,
    content: Benchmark | None = None,
    duration: Callable[[Trial], float] = lambda trial: 15 + 3.0 * len(trial.cells),
    most: int = 1000,
) -> tuple[Benchmark, list[Trial]]:
    """Go on with a benchmark for so many trials; return it and the trials."""
    content = begun(of) if content is None else content
    made: list[Trial] = []
    while True:
        content, trial = inference.advance(content, request(of), of, NOW)
        content = inference_choice.concluded(Benchmark.from_json(json.loads(json.dumps(content.to_json()))))
        if trial is None or len(made) == most:
            return content, made
        content = replace(content, running=replace(trial, began=0))
        cells = [cell for cell in content.cells if cell.id in trial.cells]
        hosts = {host: {cell.id: left_on(cell, found(cell)) for cell in cells} for host in HOSTS}
        tried = {"state": "succeeded", "reason": "", "outcome": {"state": "succeeded"}}
        content = inference.recorded(content, trial, tried, hosts, duration(trial))
        made.append(trial)


def fast(cell: Cell) -> tuple[float, float, float | None]:
    """bf16 is twice as fast as fp32, int8 three times; instances of one core are better by half; batch 16 by two."""
    value = {"fp32": 100.0, "bf16": 200.0, "int8": 300.0}[cell.precision]
    value *= (1.5 if cell.threads_per_instance == 1 else 1) * (2 if cell.batch_size == 16 else 1)
    return value, 1000 * cell.batch_size * cell.instances / value, 1.0


# The matrix


def test_cells_are_what_each_task_has_a_use_for() -> None:
    of = job(models=["distilbert-small", "vit-base-configured", "llama-1b-small"], int8=["dynamic", "static"])
    cells = begun(of, SETTINGS[:1]).cells
    assert len({cell.id for cell in cells}) == len(cells)
    text = [cell for cell in cells if cell.model == "distilbert-small"]
    images = [cell for cell in cells if cell.model == "vit-base-configured"]
    tokens = [cell for cell in cells if cell.model == "llama-1b-small"]
    assert len(text) == len(tokens) == 2 * 4
    assert len(images) == 2 * 4 * 2  # both layouts
    assert {cell.sequence_length for cell in images} == {None}
    assert {cell.channels_last for cell in text + tokens} == {False}
    assert {cell.new_tokens for cell in text + images} == {None}
    assert {cell.new_tokens for cell in tokens} == {16}
    assert {(cell.precision, cell.int8) for cell in text} == {
        ("fp32", None), ("bf16", None), ("int8", "dynamic"), ("int8", "static"),
    }  # fmt: skip
    assert (images[0].configured, images[0].small, text[0].small) == ("vit-base", None, "distilbert")


def test_where_models_come_from() -> None:
    of = parse(
        {
            "name": "speed",
            "kind": "inference",
            "models": {"mine": {"hub": "me/mine", "at": "head"}},
            "inference": {"models": ["mine", "distilbert", "job:demo", "bert-base-small"]},
        },
        Path("/tmp/speed.yml"),
    )
    found = inference_matrix.models(of, "/opt/amx")
    assert found["mine"]["source"] == {"hub": "me/mine", "revision": "main", "at": "head"}
    assert (found["mine"]["path"], found["mine"]["task"]) == ("models/mine", "")
    assert found["distilbert"]["source"]["hub"].startswith("distilbert/")
    assert found["job:demo"]["source"] == {"directory": "/opt/amx/jobs/demo/output", "at": "head"}
    assert found["job:demo"]["path"] == "models/job-demo"
    assert (found["bert-base-small"]["source"], found["bert-base-small"]["small"]) == (None, "bert-base")
    trained = {"job": {"args": {"validation_file": "data/validation.csv"}}}
    config = {"architectures": ["BertForSequenceClassification"]}
    told = inference_matrix.provided(found["job:demo"], "job:demo", "", config, trained)
    assert (told["task"], told["evaluation"]) == ("text-classification", "datasets/job-demo/validation.csv")
    assert told["data"] == {"job-demo": {"directory": "/opt/amx/jobs/demo/data", "at": "head"}}
    gone = inference_matrix.provided(found["job:demo"], "job:demo", "no directory", {}, {})
    assert gone["error"] == (
        "the model that job demo trained is missing: run playbooks/train.yml with its job file (no directory)"
    )
    unknown = inference_matrix.provided(found["mine"], "mine", "", {"architectures": ["BertForMaskedLM"]}, {})
    assert unknown["error"].startswith(
        "the task of mine is not known (config.json has architectures ['BertForMaskedLM']): set"
    )


# The search


def test_few_cells_are_measured_in_one_round() -> None:
    content, made = measure(job(), fast)
    assert content.rounds == 1
    assert [trial.round for trial in made] == [1, 1, *[3] * 6]
    assert content.state == "complete"
    chosen = content.recommended["distilbert-small"]["settings"]
    assert (chosen["precision"], chosen["batch_size"]) == ("int8", 16)
    assert (chosen["instances_per_node"], chosen["threads_per_instance"]) == (2, 1)


def test_settings_that_clearly_lose_are_left_out_of_the_second_round() -> None:
    content, made = measure(job(seconds=20), fast)
    assert content.rounds == 2
    again = {name for trial in made if trial.round == 2 for name in trial.cells}
    kept = [cell for cell in content.cells if cell.id in again]
    assert {(cell.precision, cell.threads_per_instance) for cell in kept} == {("int8", 1)}
    assert {cell.batch_size for cell in kept} == {1, 16}
    # Those that were left out keep their figures.
    assert all(cell.state == "measured" for cell in content.cells)
    first = next(trial for trial in made if trial.round == 1)
    short = inference.derivation(content, request(job(seconds=20)), job(seconds=20), first, 0.0)
    assert {cell["seconds"] for cell in short["fields"]["request"]["cells"]} == {5.0}
    assert derive.trial(job(seconds=20), **short).request == short["fields"]["request"]


def test_the_limit_of_p99_decides() -> None:
    def found(cell: Cell) -> tuple[float, float, float | None]:
        return (1000.0, 80.0, 1.0) if cell.batch_size == 16 else (100.0, 8.0, 1.0)

    content, made = measure(job(seconds=20, p99_ms=20), found)
    by_id = {cell.id: cell for cell in content.cells}
    assert {by_id[name].batch_size for trial in made if trial.round == 2 for name in trial.cells} == {1}
    assert content.recommended["distilbert-small"]["settings"]["batch_size"] == 1
    content, _made = measure(job(p99_ms=5), found)
    assert content.recommended == {}
    assert any("no setting keeps p99 under 5 ms; the lowest is 8.0 ms" in note for note in content.notes)


def test_no_speed_is_bought_unseen() -> None:
    def found(cell: Cell) -> tuple[float, float, float | None]:
        return {"fp32": (100.0, 5.0, None), "bf16": (200.0, 5.0, 0.99), "int8": (400.0, 5.0, 0.95)}[cell.precision]

    content, _made = measure(job(), found)
    assert content.recommended["distilbert-small"]["settings"]["precision"] == "bf16"
    (note, *_others) = [note for note in content.notes if "not recommended" in note]
    assert note.startswith("distilbert-small: int8 dynamic eager, batch ")
    assert (
        "is faster (2.00 x) and not recommended: 95.0% of its predictions equal fp32's on random inputs, below" in note
    )
    content, _made = measure(job(agreement=0.9), found)
    assert content.recommended["distilbert-small"]["settings"]["precision"] == "int8"


def test_a_setting_that_was_not_compared_is_not_recommended() -> None:
    def disagreement(precision: str, agreement: dict[str, Any] | None) -> str:
        cell = replace(begun(job()).cells[0], precision=precision, agreement=agreement)
        return inference_choice.disagreement(cell, 0.98)

    assert disagreement("int8", None) == "its predictions were not compared with fp32's"
    assert disagreement("fp32", None) == ""
    alike = {"equal": None, "largest_difference": 0.1, "samples": 64, "tolerance": 0.05, "data": "random inputs"}
    assert disagreement("int8", alike).startswith(
        "its predictions could not be compared: the model has one logit, which is the same on random inputs"
    )
    assert disagreement("int8", {**alike, "equal": 0.5}) == (
        "50.0% of its predictions equal fp32's to 5% of their standard deviation on random inputs, below agreement 0.98"
    )


def test_a_model_of_one_logit_whose_outputs_cannot_be_compared_is_recommended_in_fp32() -> None:
    content, _made = measure(job(), lambda cell: (*fast(cell)[:2], None))
    assert content.recommended["distilbert-small"]["settings"]["precision"] == "fp32"
    assert any("not recommended: its predictions could not be compared" in note for note in content.notes)


# The confirming runs


def noisy(seed: int, spread: float = 0.2) -> Found:
    """All cells are equally fast, 100 samples/s on average."""
    chance = random.Random(seed)
    return lambda _cell: (max(1.0, chance.gauss(100, 100 * spread)), 5.0, 1.0)


def test_the_figure_of_the_recommended_setting_is_not_that_of_the_luckiest_run() -> None:
    figures, within = [], 0
    for seed in range(150):
        content, _made = measure(job(), noisy(seed))
        chosen = content.recommended["distilbert-small"]["throughput"]
        figures.append(chosen["value"])
        within += chosen["low"] <= 100 <= chosen["high"]
    assert 97 < statistics.fmean(figures) < 104
    assert within > 0.85 * len(figures)


def test_the_best_cells_are_confirmed_by_turns_and_a_faster_one_replaces_the_first() -> None:
    made: dict[str, int] = {}

    def found(cell: Cell) -> tuple[float, float, float | None]:
        made[cell.id] = made.get(cell.id, 0) + 1
        lucky = cell.precision == "fp32" and made[cell.id] == 1
        return (500.0 if lucky else fast(cell)[0] + 0.1 * made[cell.id]), 5.0, 1.0

    content, trials = measure(job(batch_sizes=[1]), found)
    turns = [(trial.turn or 0, trial.setting) for trial in trials if trial.round == 3]
    assert [turn for turn, _setting in turns] == sorted(turn for turn, _setting in turns)
    assert {turn for turn, _setting in turns} == {1, 2, 3}
    chosen = content.recommended["distilbert-small"]
    assert chosen["settings"]["precision"] == "int8"
    assert chosen["throughput"]["value"] == pytest.approx(450.5, abs=0.5)
    assert ") in 3 confirming runs, p99" in chosen["text"]


@pytest.mark.parametrize("how", ["failed", "late"])
def test_a_setting_whose_confirming_runs_fail_or_are_late_is_not_recommended(how: str) -> None:
    made: dict[str, int] = {}

    def found(cell: Cell) -> tuple[float, float, float | None] | str:
        made[cell.id] = made.get(cell.id, 0) + 1
        if cell.precision != "int8" or made[cell.id] < 3:
            return fast(cell)[0], 5.0, 1.0
        return "failed" if how == "failed" else (fast(cell)[0], 50.0, 1.0)

    content, _made = measure(job(batch_sizes=[1], p99_ms=10), found)
    assert content.recommended["distilbert-small"]["settings"]["precision"] == "bf16"
    said = "a confirming run failed: it was failed" if how == "failed" else "its confirming runs have p99 "
    assert any(f"is not recommended: {said}" in note for note in content.notes)


def test_nothing_is_recommended_unconfirmed_and_a_larger_budget_confirms() -> None:
    of = job(budget=2.5)

    def slow(trial: Trial) -> float:
        return 30.0 if trial.job.endswith("-1") else 70.0

    content, _made = measure(of, fast, duration=slow)
    assert (content.state, content.recommended) == ("incomplete", {})
    assert (
        "distilbert-small: no setting is recommended: the budget of 2.5 min was used up before the confirming runs"
        in content.notes
    )
    assert inference.left(content, 60)
    content, _made = measure(of, fast, inference.continued(content, 60), duration=slow)
    assert content.recommended["distilbert-small"]["settings"]["precision"] == "int8"
    assert content.state == "complete"


def test_both_ways_of_instances_are_reported_at_batch_one_and_the_better_one_recommended() -> None:
    content, _made = measure(job(batch_sizes=[1], precisions=["fp32"]), fast)
    assert content.notes[0] == (
        "distilbert-small: instances on each host at batch 1: 2 x 1 thread 150.0 samples/s, p99 26.7 ms; 1 x 2 threads "
        "100.0 samples/s, p99 20.0 ms"
    )
    assert content.recommended["distilbert-small"]["settings"]["instances_per_node"] == 2


def test_what_cannot_run_is_in_the_table_and_the_rest_runs() -> None:
    of = job(models=["distilbert-small", "llama-1b-small"])

    def found(cell: Cell) -> tuple[float, float, float | None] | str:
        return "refused" if cell.precision == "int8" else "failed" if cell.batch_size == 16 else fast(cell)

    content = begun(of, [*SETTINGS, REFUSED], {"llama-1b-small": "it is gone"})
    content, made = measure(of, found, content)
    states = {
        (cell.model, cell.precision, cell.batch_size, cell.setting): (cell.state, cell.reason) for cell in content.cells
    }
    assert states["distilbert-small", "fp32", 1, 0] == ("measured", "")
    assert states["distilbert-small", "int8", 1, 0] == ("refused", "it was refused")
    assert states["distilbert-small", "fp32", 16, 0] == ("failed", "it was failed")
    assert states["distilbert-small", "fp32", 1, 2] == ("refused", "node0: 9 is more than 2")
    asked = {cell.instances_per_node for cell in content.cells if cell.setting == 2}
    assert asked == {9}
    assert states["llama-1b-small", "fp32", 1, 0] == ("refused", "it is gone")
    assert not {"llama-1b-small"} & {cell.model for cell in content.cells for trial in made if cell.id in trial.cells}
    shown = inference_text.report(content, "/r/speed+inference/inference.json")
    assert "refused: it is gone" in shown
    assert "failed: it was failed" in shown
    # The model that was missing is tried again by the same command, and nothing else is.
    assert inference.left(content, 30)
    again = inference.continued(content, 30)
    assert {cell.model for cell in again.cells if cell.state == "pending"} == {"llama-1b-small"}


def test_a_first_trial_that_fails_ends_the_benchmark() -> None:
    of = job()
    content, trial = inference.advance(begun(of), request(of), of, NOW)
    assert trial
    tried = {"state": "failed", "reason": "there is no virtual environment", "outcome": {}}
    content = inference.recorded(content, trial, tried, {host: {} for host in HOSTS}, 5.0)
    content, trial = inference.advance(content, request(of), of, NOW)
    assert trial is None
    assert inference.failed(content).startswith(
        "job speed: nothing was measured: there is no virtual environment; speed+infer-1 failed: there is no virtual"
    )
    assert inference.left(content, 30)
    content, made = measure(of, fast, inference.continued(content, 30))
    assert content.state == "complete"
    assert made[0].job == "speed+infer-2"


@given(
    budget=st.floats(0.1, 60),
    seconds=st.sampled_from([1, 20]),
    cost=st.floats(1, 200),
    cut=st.integers(0, 5),
    speeds=st.lists(st.floats(1, 1000), min_size=12, max_size=12),
)
def test_an_interrupted_benchmark_comes_to_the_same_end_within_its_budget(
    budget: float, seconds: int, cost: float, cut: int, speeds: list[float]
) -> None:
    of = job(budget=budget, seconds=seconds)

    def found(cell: Cell) -> tuple[float, float, float | None]:
        return speeds[int(cell.id[1:]) - 1], 1.0, 1.0

    whole, trials = measure(of, found, duration=lambda _trial: cost)
    # Each trial but the first fitted into what was left, by the longest that any has taken.
    assert whole.used_minutes <= max(budget, cost / 60) + cost / 60
    assert whole.ended
    assert all(cell.state in ("measured", "skipped") for cell in whole.cells)
    part, _made = measure(of, found, duration=lambda _trial: cost, most=cut)
    part = inference.continued(Benchmark.from_json(json.loads(json.dumps(part.to_json()))), budget)
    rest, _made = measure(of, found, part, duration=lambda _trial: cost)
    assert replace(rest, running=None) == replace(whole, running=None)
    if whole.state == "incomplete":
        larger, _made = measure(of, found, inference.continued(whole, 1e6), duration=lambda _trial: cost)
        assert larger.state == "complete"
        assert larger.recommended
    assert not inference.left(whole, budget)
    assert len({trial.job for trial in whole.trials}) == len(trials)


def test_another_request_is_refused_with_what_differs() -> None:
    def differences(earlier: Benchmark, wanted: Benchmark) -> list[str]:
        return runs.differences(earlier.to_json(), wanted.to_json(), inference.VERSION, "playbooks/infer.yml")

    one, other = (inference.new(job(**wanted), {"project": "abc"}, HOSTS, NOW) for wanted in ({}, {"rates": [5]}))
    assert differences(one, other) == ["rates differs: [], now [5.0]"]
    assert differences(one, inference.new(job(budget=1), {"project": "abc"}, HOSTS, NOW)) == []
    assert differences(one, inference.new(job(), {"project": "def"}, HOSTS[:1], NOW)) == [
        "the content of project differs",
        "the hosts differ: node0, node1, now node0",
    ]
    (said,) = differences(replace(one, version=1), one)
    assert said.endswith(" playbooks/infer.yml")


def test_a_job_of_another_kind() -> None:
    of = parse({"name": "a", "kind": "ranks", "script": __file__}, Path("/tmp/a.yml"))
    with pytest.raises(
        ValueError, match=r"^job a is of kind ranks, and inference is measured of kind inference: write"
    ):
        inference_matrix.request(of)


def test_many_cells_are_several_jobs() -> None:
    _content, made = measure(job(batch_sizes=list(range(1, 41))), fast, duration=lambda _trial: 1.0)
    assert len(made) > 4
    assert max(len(trial.cells) for trial in made) <= inference.CELLS


@pytest.mark.parametrize(
    ("isa", "shown"),
    [
        ("matmul brg_matmul:avx512_core_vnni", "avx512_core_vnni"),
        ("matmul brg_matmul:avx10_1_512_amx (90% of the time of products)", "avx10_1_512_amx"),
        ("inner_product brgemm:a, matmul jit:b", "a, b"),
        ("no oneDNN: products are MKL's or torch's own", "-"),
        (None, "-"),
    ],
)
def test_instructions_are_those_that_onednn_reported(isa: str | None, shown: str) -> None:
    assert inference_choice.instructions(replace(begun(job()).cells[0], isa=isa)) == shown


def test_autocast_is_for_bf16_and_fp16() -> None:
    wanted = {"precisions": ["fp32", "bf16", "fp16", "int8"], "batch_sizes": [1]}
    cells = begun(job(**wanted, autocast="auto"), SETTINGS[:1]).cells
    assert [(cell.precision, cell.autocast) for cell in cells] == [
        *(("fp32", False), ("bf16", False), ("bf16", True), ("fp16", False), ("fp16", True), ("int8", False)),
    ]
    assert not any(cell.autocast for cell in begun(job(**wanted), SETTINGS[:1]).cells)
    assert inference_choice.variant(cells[2]) == "bf16 autocast eager"


def test_the_file_of_a_recommended_setting() -> None:
    content, _made = measure(job(), fast)
    text = inference_choice.setting_file(content, "distilbert-small")
    assert yaml.safe_load(text) == {
        "model": "distilbert-small",
        "source": {"small": "distilbert"},
        "task": "text-classification",
        "precision": "int8",
        "autocast": False,
        "int8": "dynamic",
        "engine": "eager",
        "channels_last": False,
        "batch_size": 16,
        "sequence_length": 128,
        "instances_per_node": 2,
        "threads_per_instance": 1,
    }
    assert "# 100.0% of its predictions equal fp32's, on random inputs" in text
    assert inference_choice.file_name("job:demo") == "recommended-job-demo.yml"
    shown = inference_text.report(content, "/r/speed+inference/inference.json")
    assert (
        "playbooks/predict.yml -e model=DIRECTORY -e setting=/r/speed+inference/recommended-distilbert-small.yml"
        in shown
    )
    assert "/r/speed+inference/inference.json" in shown


# What instances leave


def instance(rank: int, **more: Any) -> dict[str, Any]:
    return {
        "version": 1, "cell": "c001", "rank": rank, "host": "node0", "state": "measured", "reason": "",
        "latencies_us": [1000.0, 2000.0, 3000.0], "count": 3, "seconds": 0.006, "samples": 6, "overhead": 0.0,
        "throughput": {"value": 1000.0, "low": 900.0, "high": 1100.0}, "first_call_seconds": 0.1 * (rank + 1),
        "load_seconds": 1.0, "peak_memory_bytes": 100 * (rank + 1), "isa": None if rank else "avx512_core_amx",
        "emulated": False, "int8_route": None, "agreement": {"equal": 1.0} if not rank else None,
        "generation": {"prefill_us": [10.0, 20.0], "per_token_us": [5.0]},
        "open_loop": [{"rate": 10.0, "latencies_us": [1500.0], "count": 1, "offered": 2, "seconds": 0.1}], **more,
    }  # fmt: skip


def leave(folder: Path, *instances: dict[str, Any]) -> None:
    (folder / "output/inference").mkdir(parents=True)
    for one in instances:
        path = folder / f"output/inference/{one['cell']}-{one['rank']}.json"
        path.write_text(json.dumps(one))


def test_instances_of_a_host_and_of_all(tmp_path: Path) -> None:
    leave(tmp_path, instance(0), instance(1), instance(0, cell="c002", state="refused", reason="no compiler"))
    (tmp_path / "output/inference/c003-0.json").write_text('{"version": 1, "ce')
    found = inference_files.of_host(tmp_path)
    assert sorted(found) == ["c001", "c002"]
    cell = replace(begun(job()).cells[0], batch_size=2, new_tokens=4)
    both = inference_files.all_hosts(cell, {"node0": found["c001"], "node1": found["c001"]}, 4)
    assert both["state"] == "measured"
    assert both["throughput"]["value"] == 4000.0
    assert both["throughput"]["low"] == 3800.0
    assert both["latency_ms"] == {"mean": 2.0, "p50": 2.0, "p90": 3.0, "p99": 3.0, "count": 12}
    assert (both["peak_memory_bytes"], both["isa"], both["agreement"]) == (200, "avx512_core_amx", {"equal": 1.0})
    assert both["generation"]["prefill_ms"]["mean"] == pytest.approx(0.015)
    assert both["generation"]["tokens_per_second"] == 16000.0
    (loop,) = both["open_loop"]
    assert (loop["rate"], loop["offered"], loop["latency_ms"]["p99"]) == (10.0, 8, 1.5)
    assert loop["throughput"] == pytest.approx(2 * 4 * 10)
    refused = inference_files.all_hosts(cell, {"node0": found["c002"]}, 1)
    assert (refused["state"], refused["reason"], refused["throughput"]) == ("refused", "no compiler", None)


def test_a_cell_is_measured_only_where_all_instances_have_measured_it(tmp_path: Path) -> None:
    leave(tmp_path, instance(0), instance(1, state="failed", reason="out of memory"))
    host = inference_files.of_host(tmp_path)["c001"]
    cell = replace(begun(job()).cells[0], batch_size=2, new_tokens=None)
    assert inference_files.all_hosts(cell, {"node0": host}, 2)["reason"] == "out of memory"
    good = {**host, "state": "measured", "reason": "", "instances": 2}
    assert inference_files.all_hosts(cell, {"node0": good, "node1": host}, 4)["reason"] == "out of memory (on node1)"
    missing = inference_files.all_hosts(cell, {"node0": good}, 4)
    assert (missing["state"], missing["reason"]) == ("failed", "2 of 4 instances left no result")
    assert inference_files.all_hosts(cell, {}, 4)["reason"] == "no instance left a result"


def test_files_of_another_start_are_none(tmp_path: Path) -> None:
    leave(tmp_path, instance(0))
    (tmp_path / "job.json").write_text(json.dumps({"settings": {"start": "one"}}))
    assert inference_files.of_host(tmp_path, "two") == {}
    assert list(inference_files.of_host(tmp_path, "one")) == ["c001"]
