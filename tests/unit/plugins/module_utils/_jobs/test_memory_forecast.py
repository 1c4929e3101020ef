"""The forecast of memory, beside what tests/benchmarks/memory.py measured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import memory_forecast, model_shape
from ansible_collections.amx.cluster.plugins.module_utils._jobs.memory_forecast import Lora, Settings, forecast
from hypothesis import given
from hypothesis import strategies as st
from support.memory_rows import settings_of

MEASURED = json.loads((Path(__file__).parent / "memory_measured.json").read_text(encoding="utf-8"))
LLAMA = model_shape.of_config(MEASURED[0]["config"])


@pytest.mark.parametrize("row", MEASURED, ids=lambda row: row["name"])
def test_the_forecast_is_within_15_percent_of_what_was_measured(row: dict[str, Any]) -> None:
    shape = model_shape.of_config(row["config"])
    assert forecast(shape, settings_of(row, shape)).host == pytest.approx(row["peak"], rel=0.15)


def test_enough_was_measured() -> None:
    assert len(MEASURED) >= 12
    for found in (
        {row["ranks"] for row in MEASURED} == {1, 2},
        any(row["sharding"] == "full" for row in MEASURED),
        {bool(row["args"].get("use_peft")) for row in MEASURED} == {False, True},
        {bool(row["args"].get("gradient_checkpointing")) for row in MEASURED} == {False, True},
        {row["precision"] for row in MEASURED} == {"bf16", "fp32"},
    ):
        assert found


def test_lora_has_gradients_and_states_of_its_adapters_only() -> None:
    whole = Settings(batch=1, length=128)
    adapted = forecast(LLAMA, replace(whole, lora=Lora(8, ("q_proj",))))
    adapters = LLAMA.layers * 8 * (512 + 512)
    assert adapted.gradients == 4 * adapters
    assert adapted.states == 8 * adapters
    assert forecast(LLAMA, whole).states == 8 * LLAMA.parameters()


def test_what_sharding_divides() -> None:
    alone = Settings(batch=1, length=128, ranks=4, on_host=4)
    every, states, full = (forecast(LLAMA, replace(alone, sharding=kind)) for kind in ("none", "optimizer", "full"))
    assert states.states == full.states == every.states // 4
    assert (states.parameters, states.gradients) == (every.parameters, every.gradients)
    assert (full.parameters, full.gradients) == (every.parameters // 4, every.gradients // 4)


def test_the_parts_are_the_whole() -> None:
    found = forecast(LLAMA, Settings(batch=4, length=256, ranks=2, on_host=2))
    parts = (found.process, found.parameters, found.gradients, found.states, found.activations, found.buffers)
    assert found.rank == sum(parts)
    assert found.host == 2 * found.rank
    assert all(parts)


@pytest.mark.slow
@given(batch=st.integers(1, 64), length=st.integers(16, 2048), bf16=st.booleans(), checkpointing=st.booleans())
def test_more_takes_more(batch: int, length: int, bf16: bool, checkpointing: bool) -> None:
    wanted = Settings(batch, length, bf16=bf16, checkpointing=checkpointing)
    found = forecast(LLAMA, wanted).host
    assert found < forecast(LLAMA, replace(wanted, batch=batch + 1)).host + 1
    assert found <= forecast(LLAMA, replace(wanted, accumulates=True)).host
    assert found > memory_forecast.PROCESS + 12 * LLAMA.parameters()


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({}, "model_type None is not one of llama, "),
        ({"model_type": "mixtral"}, "model_type mixtral is not one of "),
        ({"model_type": "llama"}, "config.json has no hidden_size"),
        ({"model_type": "llama", "hidden_size": "big"}, "hidden_size: 'big'"),
        ({**MEASURED[0]["config"], "quantization_config": {"bits": 4}}, "its weights are quantized"),
        ({**MEASURED[0]["config"], "compression_config": {"format": "x"}}, "its weights are quantized"),
        ({**MEASURED[0]["config"], "attention_dropout": [0.1]}, "attention_probs_dropout_prob: "),
        ({"model_type": "llava", "text_config": MEASURED[0]["config"]}, "model_type llava is not one of "),
        ({"model_type": "qwen3_moe", "hidden_size": 2048}, "model_type qwen3_moe is not one of "),
    ],
)
def test_a_model_that_is_not_known(config: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        model_shape.of_config(config)


@pytest.mark.parametrize("row", MEASURED, ids=lambda row: row["name"])
def test_parameters(row: dict[str, Any]) -> None:
    """The numbers are those that transformers reports for the models that were measured."""
    assert model_shape.of_config(row["config"]).parameters() == pytest.approx(row["parameters"], rel=1e-3)


def test_dropout_of_attention_writes_its_weights() -> None:
    """Without it, sdpa does not: PyTorch computes it in pieces."""
    config = next(row["config"] for row in MEASURED if row["config"]["model_type"] == "bert")
    wanted = Settings(batch=4, length=512)
    with_it, without = (
        forecast(model_shape.of_config({**config, "attention_probs_dropout_prob": share}), wanted).activations
        for share in (0.1, 0.0)
    )
    assert with_it - without > 12 * 12 * 12 * 512 * 4 * 512  # bytes, heads, layers, length, and tokens


OF_384 = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 6, "intermediate_size": 1024}


@pytest.mark.parametrize(
    ("vocabulary", "parts", "peak"),
    [(32000, False, 2.21e9), (32000, True, 1.51e9), (152000, False, 6.31e9), (152000, True, 3.26e9)],
)
def test_logits_in_chunks_are_within_15_percent_of_what_was_measured(vocabulary: int, parts: bool, peak: float) -> None:
    """Peaks of tests/benchmarks/scripts/optimized_steps.py, SFT of a decoder in bf16 as it is and with all parts."""
    shape = model_shape.of_config({"model_type": "llama", "vocab_size": vocabulary, **OF_384})
    wanted = Settings(8, 256, bf16=True, blocks=parts, chunks=parts)
    assert forecast(shape, wanted).host == pytest.approx(peak, rel=0.15)
    sharded = replace(wanted, sharding="full", ranks=2)
    assert forecast(shape, sharded) == forecast(shape, replace(sharded, chunks=False))


def test_evaluation_is_within_15_percent_of_what_was_measured() -> None:
    """A process that had trained rows singly reached 3.31 GiB while evaluating 32 of 128 tokens (torch 2.13, fp32)."""
    qwen = next(row["config"] for row in MEASURED if row["config"]["model_type"] == "qwen2")
    found = memory_forecast.evaluation(model_shape.of_config(qwen), Settings(batch=1, length=128), 32)
    assert found == pytest.approx(3.31 * 2**30, rel=0.15)


GROUPED = {"num_key_value_heads": 8}
TIED = {"tie_word_embeddings": True}
ONE_TYPE = {"max_position_embeddings": 514, "type_vocab_size": 1}


@pytest.mark.parametrize(
    ("number", "model_type", "sizes", "vocabulary", "more"),
    [
        (1235814400, "llama", (2048, 8192, 16, 32), 128256, {**GROUPED, **TIED, "head_dim": 64}),  # Llama 3.2 1B
        (6278656, "llama", (512, 1024, 2, 8), 1000, {"attention_bias": True, "mlp_bias": True}),
        (1543714304, "qwen2", (1536, 8960, 28, 12), 151936, {"num_key_value_heads": 2, **TIED}),  # Qwen2.5 1.5B
        (7615616512, "qwen2", (3584, 18944, 28, 28), 152064, {"num_key_value_heads": 4}),  # Qwen2.5 7B
        (596049920, "qwen3", (1024, 3072, 28, 16), 151936, {**GROUPED, **TIED}),  # Qwen3 0.6B
        (12247782400, "mistral", (5120, 14336, 40, 32), 131072, {**GROUPED, "head_dim": 128}),  # Mistral Nemo
        (559892482, "xlm-roberta", (1024, 4096, 24, 16), 250002, ONE_TYPE),
        (305609730, "vit", (1024, 4096, 24, 16), 0, {"image_size": 384, "patch_size": 32}),
    ],
)
def test_parameters_of_published_models(
    number: int, model_type: str, sizes: tuple[int, ...], vocabulary: int, more: dict[str, Any]
) -> None:
    """The numbers are those of transformers 5.23 (from_config on the device meta)."""
    names = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    config = {"model_type": model_type, **dict(zip(names, sizes)), "vocab_size": vocabulary, **more}
    assert model_shape.of_config(config).parameters() == pytest.approx(number, rel=1e-5)
