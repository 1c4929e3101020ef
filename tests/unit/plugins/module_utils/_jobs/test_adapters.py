"""LoRA adapters of a server: what is refused before anything changes, and how the others reach the server's job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._data.records import Record
from ansible_collections.amx.cluster.plugins.module_utils._jobs import (
    adapters,
    job_file,
    prediction_files,
    predictions,
    serving,
)
from ansible_collections.amx.cluster.plugins.module_utils._jobs.inference_requests import Serving

LAYER = "model.layers.0.self_attn.q_proj"
LORA = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "bias": "none", "base_model_name_or_path": "models/decoder"}
CONFIG = {"architectures": ["LlamaForCausalLM"], "max_position_embeddings": 512}


def tensors(path: Path, **shapes: list[int]) -> None:
    """Write a file of safetensors without data: that of each tensor has no bytes."""
    listed = {name: {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]} for name, shape in shapes.items()}
    text = json.dumps(listed).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text)


def adapter(place: Path, inputs: int = 16, outputs: int = 32, **config: Any) -> Path:
    """Make the directory of an adapter of one layer."""
    place.mkdir(parents=True)
    (place / "adapter_config.json").write_text(json.dumps({**LORA, **config}))
    names = [f"base_model.model.{LAYER}.lora_{side}.weight" for side in "AB"]
    tensors(place / "adapter_model.safetensors", **{names[0]: [4, inputs], names[1]: [outputs, 4]})
    return place


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """Make a job that trained an adapter, and its model."""
    job = tmp_path / "jobs/lora"
    adapter(job / "output")
    (job / "output/tokenizer.json").write_text("{}")
    (job / "models/decoder").mkdir(parents=True)
    (job / "models/decoder/config.json").write_text(json.dumps(CONFIG))
    (job / "models/decoder/tokenizer.json").write_text("{}")
    tensors(job / "models/decoder/model.safetensors", **{f"{LAYER}.weight": [32, 16]})
    (job / "status.json").write_text('{"job": "lora", "state": "succeeded", "pid": 1}')
    return tmp_path


def test_names() -> None:
    assert adapters.read("", "amx") == adapters.read(None, "vllm") == {}
    assert adapters.read("polite=lora, short=/models/s", "vllm") == {"polite": "lora", "short": "/models/s"}
    assert adapters.read({"polite": "lora"}, "vllm") == {"polite": "lora"}
    assert [adapters.is_job(source) for source in ("lora", "./lora", "head:/m", "a/b", "~")] == [True, *[False] * 4]
    for given, engine, message in (
        ("lora", "vllm", "'lora' is not NAME=JOB or NAME=DIRECTORY"),
        ("A b=lora", "vllm", "'A b=lora' is not NAME"),
        ("a=", "vllm", "'a=' is not NAME"),
        ("a=lora,a=/m", "vllm", "a is there twice"),
        ("a=lora", "amx", "serve_engine: amx serves one set of weights, without adapters by name: set serve_engine"),
    ):
        with pytest.raises(ValueError, match=f"^serve_adapters: {message}"):
            adapters.read(given, engine)


def found(prefix: Path, **named: str) -> dict[str, Any]:
    model = f"head:{prefix}/jobs/lora/models/decoder"
    return prediction_files.find(prefix, "decoder-serve", "", model, "", named)[0]


def served(prefix: Path, **named: str) -> Serving:
    facts = found(prefix, **named)
    cell = predictions.cell({}, "text-generation", "head:/m/decoder", {}, CONFIG)
    options = {"address": "", "port": 8000, "engine": "vllm"}
    return serving.request(cell, facts["model"], [], ["node0"], options, {}, facts["adapters"])


@pytest.mark.slow
def test_they_are_models_of_the_job(prefix: Path) -> None:
    other = adapter(prefix / "other", rank_pattern={"q_proj": 20})
    request = served(prefix, polite="lora", short=f"head:{other}")
    assert request.adapters == {"polite": 4, "short": 20}
    facts = found(prefix, polite="lora")["adapters"]["polite"]
    # Of a job, a copy outlives its directory; a tokenizer beside it is not that of the model.
    assert sorted(path.name for path in Path(facts["directory"]).iterdir()) == [adapters.CONFIG, adapters.WEIGHTS]
    sources = {name: {"directory": f"/{name}", "at": "head"} for name in request.adapters}
    fields = serving.job_fields("decoder-serve", request, {"directory": "/m", "at": "head"}, {}, ["node0"], sources)
    assert list(fields["models"]) == ["model", "adapter-polite", "adapter-short"]
    (prefix / "job.yml").write_text(json.dumps(fields))
    assert Serving.from_json(job_file.load(prefix / "job.yml").request) == request
    before = request.digest
    adapter(prefix / "third", alpha=1)
    assert served(prefix, polite="lora", short=f"head:{prefix}/third").digest != before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"inputs": 8}, f"changes {LAYER} of 8 inputs, and head:/m/decoder has 16 there"),
        ({"outputs": 8}, f"changes {LAYER} of 8 outputs, and head:/m/decoder has 32 there"),
        ({"peft_type": "IA3"}, r"is IA3 \(adapter_config.json\), and vLLM serves LORA"),
        ({"use_dora": True}, "has use_dora: True"),
        ({"modules_to_save": ["lm_head"]}, "has modules_to_save"),
        ({"bias": "all"}, "has bias: all"),
        ({"trainable_token_indices": [3]}, r"has trainable_token_indices: \[3\]"),
        ({"init_lora_weights": "pissa"}, "has init_lora_weights: pissa"),
        ({"r": 1024}, "has the ranks 1024"),
        ({"lora_alpha": None}, "has lora_alpha: None"),
        ({"r": 8}, f"changes {LAYER} by matrices of rank 4, which adapter_config.json does not name"),
    ],
)
def test_adapters_that_are_refused(prefix: Path, change: dict[str, Any], message: str) -> None:
    adapter(prefix / "other", **change)
    with pytest.raises(ValueError, match=f"^serve_adapters: short {message}"):
        served(prefix, short=f"head:{prefix}/other")


@pytest.mark.slow
def test_files_that_are_missing_and_names_that_are_taken(prefix: Path) -> None:
    with pytest.raises(ValueError, match=r"^serve_adapters: decoder is the name of the model itself"):
        served(prefix, decoder="lora")
    with pytest.raises(ValueError, match=r"^serve_adapters: short: there is no job nothing in "):
        served(prefix, short="nothing")
    (prefix / "jobs/lora/output/adapter_model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"^serve_adapters: a: job lora left no adapter: .* no adapter_model\.s"):
        served(prefix, a="lora")


def test_weights_that_are_not_finite(prefix: Path) -> None:
    path = adapter(prefix / "other") / adapters.WEIGHTS
    text = json.dumps({"a": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"\xc0\x7f")
    with pytest.raises(ValueError, match=r"^serve_adapters: a: .* left weights that are not finite, such as a: train "):
        found(prefix, a=f"head:{path.parent}")


def test_a_model_without_a_tokenizer(prefix: Path) -> None:
    (prefix / "jobs/lora/models/decoder/tokenizer.json").unlink()
    with pytest.raises(ValueError, match=r"^serve_engine: vllm: .*decoder has no tokenizer "):
        served(prefix)


def test_a_job_that_trained_other_weights_of_the_same_shape(prefix: Path) -> None:
    model = prefix / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(CONFIG))
    tensors(model / "model.safetensors", **{f"{LAYER}.weight": [32, 16], "other": [0]})
    facts = prediction_files.find(prefix, "x", "", f"head:{model}", "", {"a": "lora"})[0]
    with pytest.raises(ValueError, match=r"^was trained with other weights than those of decoder"):
        adapters.check(facts["adapters"]["a"], facts["model"], "decoder")
    # Of a directory on the control node, the weights that it was trained on are not known.
    local = prediction_files.of_directory(prefix / "jobs/lora/output", Record(), adapter=True)
    assert adapters.check(local, facts["model"], "decoder") == 4
