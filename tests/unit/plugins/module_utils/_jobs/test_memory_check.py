"""Whether a job fits into the memory of its hosts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import memory_check, plan_text
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Source
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Plan
from support.runs import STACK, host, plan, run

GIB = 2**30
MEASURED = json.loads((Path(__file__).parent / "memory_measured.json").read_text(encoding="utf-8"))
LLAMA = MEASURED[0]["config"]
BERT = next(row["config"] for row in MEASURED if row["name"] == "bert-full")
ARGS = {"model_name_or_path": "models/tiny", "max_length": 512, "per_device_train_batch_size": 4, "packing": True}
NATIVE = {"transformers": "5.23.0", "peft": "0.21.0"}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    return tmp_path


def check(
    model: Path,
    memory: float = 64,
    args: dict[str, Any] | None = None,
    ranks: int = 1,
    packages: Any = NATIVE,
    refuses: bool = True,
    stack: Any = STACK,
    **fields: Any,
) -> dict[str, Any]:
    made = {
        "script": Path("/jobs/train_decoder.py"),
        "models": {"tiny": Source(directory=str(model))},
        "args": {**ARGS, **(args or {})},
        **fields,
    }
    planned = Plan.from_json(plan(host("node0", ranks), host("node1", ranks), stack=stack))
    has = dict.fromkeys(("node0", "node1"), int(memory * GIB))
    return memory_check.check(run(**made).job, planned, model / "cache", has, packages, refuses)


def test_what_fits_is_shown_for_hosts_alike(model: Path) -> None:
    found = check(model)
    assert found["warnings"] == []
    assert found["hosts"]["node0"] == found["hosts"]["node1"]
    [line] = memory_check.lines(found)
    assert line.startswith(
        "Memory of node0, node1: 2.9 GiB of 64.0 GiB at the peak (process 640 MiB, parameters 215 MiB,"
    )
    assert "optimizer states 430 MiB" in line


def test_the_plan_shows_it(model: Path) -> None:
    shown = Plan.from_json({**plan(host("node0", 1), host("node1", 1)), "memory": check(model, 3)})
    text = plan_text.render(shown)
    assert "Memory of node0, node1: 2.9 GiB of 3.0 GiB" in text
    assert "WARNING: node0, node1: training would take 2.9 GiB at its peak, of 3.0 GiB" in text
    assert Plan.from_json(shown.to_json()) == shown


def test_a_global_batch_is_what_a_rank_takes_at_once(model: Path) -> None:
    """8 samples of 4 ranks are 2 of each, however many it could take."""
    made = check(model, 8, {"per_device_train_batch_size": 2}, ranks=2)
    with_field = check(model, 8, {"per_device_train_batch_size": 8}, ranks=2, global_batch=8)
    assert made["hosts"] == with_field["hosts"]


def test_what_does_not_fit_is_refused_with_three_changes_and_their_figures(model: Path) -> None:
    with pytest.raises(ValueError, match="Job demo does not fit into memory") as caught:
        check(model, 6, {"per_device_train_batch_size": 8}, ranks=2)
    lines = str(caught.value).splitlines()
    assert lines[1].startswith("node0, node1: training would take ")
    assert lines[1].endswith("makes it smaller:")
    changes = lines[2:-1]
    assert len(changes) == 3
    assert lines[-1] == "-e job_refuse_memory=false starts it all the same."
    assert all(" GiB with " in change for change in changes)
    assert changes[0].endswith(" with the arguments per_device_train_batch_size: 2, gradient_accumulation_steps: 4")
    assert not any("does not fit" in change for change in changes)


def test_changes_that_do_not_suffice_are_joined(model: Path) -> None:
    with pytest.raises(ValueError, match="does not fit into memory") as caught:
        check(model, 4, {"per_device_train_batch_size": 64, "max_length": 2048})
    assert " and " in str(caught.value)


def test_more_than_two_changes_are_joined_where_two_do_not_suffice(model: Path) -> None:
    with pytest.raises(ValueError, match="does not fit into memory") as caught:
        check(model, 2.2, {"per_device_train_batch_size": 64, "max_length": 2048}, ranks=2)
    first = str(caught.value).splitlines()[2]
    assert first.count(" and ") >= 2
    assert "does not fit" not in first


@pytest.mark.parametrize(
    ("fields", "args"),
    [
        ({"script": Path("/jobs/own.py")}, {}),  # of which it is not known how it loads its model
        ({"name": "demo+trial"}, {}),  # a measurement goes on with others
        ({"refuses": False}, {}),
    ],
)
def test_a_guess_only_warns(model: Path, fields: dict[str, Any], args: dict[str, Any]) -> None:
    found = check(model, 1, args, **fields)
    assert "training would take" in found["warnings"][0]


def test_what_a_forecast_may_be_wrong_by_only_warns_with_changes(model: Path) -> None:
    needed = check(model, 0)["hosts"]["node0"]["total"] / 2**30
    found = check(model, needed / 1.15)
    assert "Each of these changes of the job makes it smaller:" in found["warnings"][0]
    with pytest.raises(ValueError, match="does not fit into memory"):
        check(model, needed / 1.25)


def test_a_host_whose_memory_is_not_known_is_not_refused(model: Path) -> None:
    found = check(model, 0)
    assert found["warnings"] == []
    assert " of 0" not in memory_check.lines(found)[0]


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        ({"fsdp": "full_shard"}, "it sets the argument fsdp"),
        ({"optim": "adamw_bnb_8bit"}, "the optimizer adamw_bnb_8bit is not one of adamw, "),
        ({"do_eval": True}, "it does not train (do_train)"),
        ({"dtype": "bfloat16"}, "dtype is bfloat16"),
        ({"use_peft": True, "lora_target_modules": ["wq"]}, "LoRA of wq is not known"),
        ({"per_device_train_batch_size": "many"}, "the argument per_device_train_batch_size is 'many'"),
        ({"lora_dropout": "some", "use_peft": True}, "the argument lora_dropout is 'some'"),
        ({"adapter": "models/tiny", "use_peft": "true"}, "it sets the argument adapter"),
        ({"torch-compile-backend": "inductor"}, "it sets the argument torch_compile_backend"),
        ({"do_eval": "yes", "do_train": "no"}, "it does not train (do_train)"),
        ({"model_name_or_path": "models/other"}, "models/other is not among the job's models"),
        ({"model_name_or_path": 3}, "the job has no argument model_name_or_path"),
        ({"model_name_or_path": "models/tiny/part"}, "models/tiny/part has no config.json on the control node yet"),
    ],
)
def test_why_nothing_is_forecast(model: Path, args: dict[str, Any], reason: str) -> None:
    found = check(model, 1, args)
    assert memory_check.lines(found) == [f"Memory is not forecast: {reason}{found['note'].split(reason)[1]}"]
    assert found["hosts"] == {}


def test_a_script_whose_rows_are_of_unknown_length(model: Path) -> None:
    args = {name: value for name, value in ARGS.items() if name != "max_length"}
    job = run(models={"tiny": Source(directory=str(model))}, args={**args, "do_train": True}).job
    found = memory_check.check(job, Plan.from_json(plan(host("node0", 1))), model, {"node0": 1}, NATIVE)
    assert "the length of a row in train.py is not known" in found["note"]


def test_other_kinds_of_job_have_no_forecast(model: Path) -> None:
    assert check(model, 1, kind="torch") == {}
    assert memory_check.lines({}) == []


def test_a_model_that_was_downloaded_before(model: Path) -> None:
    fetched = model / "cache/fetched/hub/models--me--tiny"
    (fetched / "refs").mkdir(parents=True)
    (fetched / "refs/main").write_text("1" * 40)
    there = fetched / "snapshots" / ("1" * 40)
    there.mkdir(parents=True)
    source = {"tiny": Source(hub="me/tiny")}
    assert "has no config.json on the control node yet" in check(model, models=source)["note"]
    (there / "config.json").write_text(json.dumps(LLAMA))
    assert check(model, models=source)["hosts"]
    assert "models/tiny is on the head" in check(model, models={"tiny": Source(hub="me/tiny", at="head")})["note"]


def test_a_model_in_a_package(model: Path) -> None:
    there = model / "cache/fetched/packages/tiny==1.0/model"
    there.mkdir(parents=True)
    (there / "config.json").write_text(json.dumps(LLAMA))
    assert check(model, models={"tiny": Source(package="tiny==1.0", path="model")})["hosts"]


def test_overrides_of_the_configuration_count(model: Path) -> None:
    written = check(model, args={"config_overrides": "attention_dropout=0.1,note=x"})["hosts"]["node0"]
    assert written["activations"] > check(model)["hosts"]["node0"]["activations"]


def test_lora_and_its_length_come_from_the_arguments(model: Path) -> None:
    found = check(model, args={"use_peft": True, "lora_r": 8, "lora_target_modules": ["q_proj"]})["hosts"]["node0"]
    assert found["gradients"] == 4 * 8 * 8 * (512 + 512)
    assert found["total"] < check(model)["hosts"]["node0"]["total"]


@pytest.mark.parametrize(
    ("args", "same"),
    [
        ({"per-device-train-batch-size": 8}, {"per_device_train_batch_size": 8}),
        ({"per_gpu_train_batch_size": 8}, {"per_device_train_batch_size": 8}),
        ({"gradient_checkpointing": "true"}, {"gradient_checkpointing": True}),
        ({"gradient-checkpointing": "False"}, {}),
        ({"use_peft": "no", "auto_find_batch_size": "0", "fsdp": "", "deepspeed": "false"}, {}),
        ({"do_eval": True, "eval_strategy": "epoch"}, {}),
        ({"adafactor": True}, {"optim": "adafactor"}),
        ({"bf16": False}, {"bf16": "n"}),
        ({"use_peft": True, "lora_target_modules": "q_proj"}, {"use_peft": True, "lora_target_modules": ["q_proj"]}),
    ],
)
def test_arguments_are_read_as_transformers_reads_them(model: Path, args: dict[str, Any], same: dict[str, Any]) -> None:
    assert check(model, args=args)["hosts"] == check(model, args=same)["hosts"] != {}


def test_own_switch_of_bf16_wins(model: Path) -> None:
    assert check(model, args={"bf16": "false"})["hosts"] != check(model)["hosts"]


def test_texts_decide_how_long_rows_are_where_nothing_fills_them_up(model: Path) -> None:
    """A job is refused for what it takes with the shortest of rows only."""
    needed = check(model, 0)["hosts"]["node0"]["total"] / GIB
    found = check(model, needed / 1.5, {"packing": False})
    assert " GiB at the peak, with rows of 512 tokens (process" in memory_check.lines(found)[0]
    assert ", with rows of 512 tokens. Each of these changes" in found["warnings"][0]
    for memory, args in ((needed / 1.5, {}), (1, {"packing": False})):
        with pytest.raises(ValueError, match="does not fit into memory"):
            check(model, memory, args)


def test_rows_of_the_examples_are_filled_up(model: Path) -> None:
    (model / "config.json").write_text(json.dumps(BERT))
    fields: dict[str, Any] = {"script": Path("/jobs/run_glue.py")}
    args = {"do_train": True, "max_seq_length": 512}
    assert "rows" not in check(model, args=args, **fields)
    assert check(model, args={**args, "pad_to_max_length": "false"}, **fields)["rows"] == 512


def test_a_script_that_gives_the_model_another_head(model: Path) -> None:
    found = check(model, 1, script=Path("/jobs/train_text.py"))
    assert found["note"] == "Memory is not forecast: with train_text.py, a model of type llama has another head."
    (model / "config.json").write_text(json.dumps(BERT))
    assert "a model of type bert has another head" in check(model, 1)["note"]


def test_an_example_that_loads_weights_as_they_are_stored(model: Path) -> None:
    (model / "config.json").write_text(json.dumps({**BERT, "torch_dtype": "float16"}))
    note = check(model, 1, {"do_train": True}, script=Path("/jobs/run_glue.py"))["note"]
    assert note == "Memory is not forecast: run_glue.py may load its weights in float16."


@pytest.mark.parametrize("text", ["[1]", "{", "\u00e4"])
def test_a_config_that_cannot_be_read(model: Path, text: str) -> None:
    (model / "config.json").write_text(text, encoding="latin-1")
    assert check(model, 1)["note"] == f"Memory is not forecast: {model}/config.json is not a JSON object."


@pytest.mark.parametrize(
    ("gone", "fields"),
    [
        ("sharding: full", {"packages": {**NATIVE, "transformers": "4.55.4"}}),
        ("sharding: full", {"gradient_compression": "bf16"}),
        ("sharding: full", {"args": {"load_best_model_at_end": True}}),
        ("use_peft: true", {"packages": {"transformers": "4.55.4"}}),
        ("use_peft: true", {"args": {"from_scratch": True}}),
    ],
)
def test_only_changes_that_the_job_can_have_are_offered(model: Path, gone: str, fields: dict[str, Any]) -> None:
    def offered(**fields: Any) -> str:
        args = {"per_device_train_batch_size": 1, "max_length": 64, "gradient_checkpointing": True}
        args |= fields.pop("args", {})
        with pytest.raises(ValueError, match="does not fit into memory") as caught:
            check(model, 1.4, args, **fields)
        return str(caught.value)

    assert gone in offered()
    assert gone not in offered(**fields)


@pytest.mark.parametrize("at", ["validation_file", "validation-split-percentage"])
def test_an_evaluation_that_takes_more_than_training(model: Path, at: str) -> None:
    args = {"per_device_train_batch_size": 1, "per_device_eval_batch_size": 32, at: "2"}
    [warning] = check(model, 3, args)["warnings"]
    assert warning == (
        "node0, node1: evaluating 32 rows at once would take up to 6.9 GiB, of 3.0 GiB: set the argument "
        "per_device_eval_batch_size: 4."
    )
    assert check(model, 3, {**args, "per_device_eval_batch_size": 4})["warnings"] == []
    assert check(model, 3, {name: value for name, value in args.items() if name != at})["warnings"] == []
    assert (
        "the argument per_device_eval_batch_size is 'x'"
        in check(model, 3, {**args, "per_device_eval_batch_size": "x"})["note"]
    )


def test_an_evaluation_whose_logits_are_computed_in_chunks(model: Path) -> None:
    """The script asks for losses alone; label smoothing needs the logits."""
    args = {"per_device_train_batch_size": 1, "per_device_eval_batch_size": 32, "validation_file": "2"}
    stack = {**STACK, "packages": {"torch": "2.13.0+cpu"}}
    assert check(model, 3, args, stack=stack)["warnings"] == []
    smoothed = {**args, "label_smoothing_factor": 0.1}
    [warning] = check(model, 3, smoothed, stack=stack)["warnings"]
    assert warning.startswith("node0, node1: evaluating 32 rows at once would take up to ")
