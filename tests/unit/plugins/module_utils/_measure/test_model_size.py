"""How many parameters a model has."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._measure import model_size
from hypothesis import given
from hypothesis import strategies as st

BERT_BASE = {
    **{"hidden_size": 768, "num_hidden_layers": 12, "vocab_size": 30522, "intermediate_size": 3072},
    **{"num_attention_heads": 12, "max_position_embeddings": 512, "type_vocab_size": 2},
}
LLAMA_7B = {
    **{"hidden_size": 4096, "num_hidden_layers": 32, "vocab_size": 32000, "intermediate_size": 11008},
    **{"num_attention_heads": 32, "num_key_value_heads": 32, "rope_theta": 10000.0},
}


@pytest.mark.parametrize(
    ("text", "value"),
    [("110000000", 110_000_000), ("110M", 110_000_000), ("1.1e8", 110_000_000), ("7B", 7 * 10**9), ("23.5 m", 23.5e6)],
)
def test_a_number(text: str, value: float) -> None:
    assert model_size.number(text) == value


@pytest.mark.parametrize("text", ["", "0", "many", "110X", "-5", "1e30"])
def test_no_number(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a number of parameters, such as 110000000, 110M or 7B"):
        model_size.number(text)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (BERT_BASE, 108_891_648),  # of transformers' BertModel(add_pooling_layer=False)
        (LLAMA_7B, 6_738_415_616),  # of LlamaForCausalLM
    ],
)
def test_a_configuration(config: dict[str, Any], expected: int) -> None:
    assert model_size.of_config(config) == expected


def test_names_of_other_models() -> None:
    distilbert = {"dim": 768, "n_layers": 6, "vocab_size": 30522, "hidden_dim": 3072, "max_position_embeddings": 512}
    assert model_size.of_config(distilbert) == pytest.approx(66_362_880, rel=0.001)
    gpt2 = {"n_embd": 768, "n_layer": 12, "vocab_size": 50257, "n_positions": 1024, "n_head": 12}
    assert model_size.of_config(gpt2) == pytest.approx(124_439_808, rel=0.001)


@pytest.mark.slow
@given(st.lists(st.lists(st.integers(1, 9), max_size=3), max_size=5))
def test_safetensors_are_counted(tmp_path_factory: pytest.TempPathFactory, shapes: list[list[int]]) -> None:
    folder = tmp_path_factory.mktemp("model")
    tensors = {f"t{n}": {"dtype": "F32", "shape": s, "data_offsets": [0, 0]} for n, s in enumerate(shapes)}
    header = json.dumps({"__metadata__": {"format": "pt"}, **tensors}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    assert model_size.of_model(str(folder)) == (sum(map(math.prod, shapes)), "model.safetensors")


def test_where_a_model_is_taken_from(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(BERT_BASE))
    assert model_size.of_model(str(tmp_path))[1] == "config.json"
    number, source = model_size.of_model("google-bert/bert-large-uncased")
    assert (number, source) == (335_000_000, "google-bert/bert-large-uncased, from a table")


@pytest.mark.parametrize("content", [b"", b"\xff" * 20, (5).to_bytes(8, "little") + b"[1,2]"])
def test_a_damaged_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(ValueError, match=r"model.safetensors is damaged"):
        model_size.of_model(str(tmp_path))


def test_what_has_no_size(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"model: nobody/knows is neither a directory .* -e parameters=110M"):
        model_size.of_model("nobody/knows")
    with pytest.raises(ValueError, match=r"has no \*.safetensors, and no config.json that can be read"):
        model_size.of_model(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match=r"does not have hidden_size, num_hidden_layers and vocab_size"):
        model_size.of_model(str(tmp_path))
