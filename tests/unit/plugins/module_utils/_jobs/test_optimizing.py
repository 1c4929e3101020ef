"""Which parts of a step are optimized, as a job file requests it and a stack has it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import memory_forecast, model_shape, optimizing

NATIVE = {"name": "native", "packages": {"torch": "2.13.0+cpu"}}
OLD = {"name": "ipex-2.8", "packages": {"torch": "2.8.0+cpu"}}


@pytest.mark.parametrize(
    ("wanted", "kind", "stack", "found"),
    [
        ("none", "trainer", NATIVE, []),
        ("auto", "trainer", NATIVE, ["dropout", "attention", "optimizer", "loss", "padding"]),
        ("auto", "torch", NATIVE, ["dropout", "attention", "optimizer", "loss", "padding"]),
        ("auto", "ranks", NATIVE, []),
        ("auto", "trainer", OLD, []),
        ("auto", "trainer", {}, []),
        (["loss", "optimizer", "dropout"], "ranks", NATIVE, ["dropout", "optimizer", "loss"]),
    ],
)
def test_the_parts_of_a_job(wanted: Any, kind: str, stack: dict[str, Any], found: list[str]) -> None:
    for inventory in ("auto", "none", ["attention"]):
        assert optimizing.parts(wanted, kind, stack, inventory) == found


@pytest.mark.parametrize(
    ("inventory", "kind", "stack", "found"),
    [
        ("auto", "trainer", NATIVE, ["dropout", "attention", "optimizer", "loss", "padding"]),
        ("none", "trainer", NATIVE, []),
        (["optimizer", "dropout"], "torch", NATIVE, ["dropout", "optimizer"]),
        (["optimizer"], "ranks", NATIVE, []),
        (["optimizer"], "verification", NATIVE, []),
        (["optimizer"], "trainer", OLD, []),
        ("auto", "inference", NATIVE, []),
    ],
)
def test_the_parts_of_a_job_that_leaves_them_open(
    inventory: Any, kind: str, stack: dict[str, Any], found: list[str]
) -> None:
    assert optimizing.parts(None, kind, stack, inventory) == found


def test_parts_that_a_stack_cannot_have() -> None:
    with pytest.raises(
        ValueError, match=r"^optimize: dropout needs torch 2\.13 or newer, and stack ipex-2\.8 has 2\.8\.0\+cpu: set"
    ):
        optimizing.parts(["dropout"], "trainer", OLD)


def test_attention_by_blocks_takes_less_memory_where_it_wrote_its_weights() -> None:
    config = {"model_type": "bert", "hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12}
    config |= {"intermediate_size": 1536, "vocab_size": 30522, "attention_probs_dropout_prob": 0.1}
    shape = model_shape.of_config({**config, "max_position_embeddings": 512, "architectures": ["BertModel"]})
    plain, blocks = (
        memory_forecast.forecast(shape, memory_forecast.Settings(32, 128, bf16=True, blocks=blocks)).activations
        for blocks in (False, True)
    )
    # Of each layer two bytes of a weight are kept instead of twelve.
    assert plain - blocks > 6 * 10 * 12 * 128 * 128 * 32
