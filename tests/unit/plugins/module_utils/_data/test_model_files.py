from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._data import model_files


@pytest.mark.parametrize(
    ("config", "most"),
    [
        ({"model_type": "bert", "max_position_embeddings": 512}, 512),
        ({"model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 1}, 512),
        ({"model_type": "camembert", "max_position_embeddings": 514, "pad_token_id": 1}, 512),
        ({"model_type": "mpnet", "max_position_embeddings": 514, "pad_token_id": 1}, 512),
        ({"model_type": "longformer", "max_position_embeddings": 4098, "pad_token_id": 1}, 4096),
        ({"model_type": "gpt2", "n_positions": 1024}, 1024),
        ({"model_type": "llava", "text_config": {"model_type": "llama", "max_position_embeddings": 4096}}, 4096),
        ({"model_type": "t5", "n_positions": 512}, None),
        ({"model_type": "bloom", "seq_length": 2048}, None),
        ({"model_type": "xlnet", "max_position_embeddings": -1}, None),
        (
            {
                "model_type": "deberta-v2",
                "relative_attention": True,
                "position_biased_input": False,
                "max_position_embeddings": 512,
            },
            None,
        ),
        ({}, None),
    ],
)
def test_positions(config: dict[str, Any], most: int | None) -> None:
    assert model_files.positions(config) == most


def length(wanted: int, positions: int | None, tokens: int) -> int:
    config = SimpleNamespace(to_dict=lambda: {"max_position_embeddings": positions})
    return model_files.sequence_length(wanted, config, SimpleNamespace(model_max_length=tokens))


def test_a_length_is_never_another_one_in_silence() -> None:
    unlimited = int(1e30)  # of a tokenizer that does not say it
    assert length(0, 512, unlimited) == 128
    assert length(0, 64, unlimited) == 64
    assert length(0, None, unlimited) == 128
    assert length(2048, None, unlimited) == 2048
    with pytest.raises(model_files.ModelError, match=r"--max_seq_length 1024 is more .*: it has 512 positions \(c"):
        length(1024, 512, unlimited)
    with pytest.raises(model_files.ModelError, match=r"its tokenizer takes 256 \(model_max_length"):
        length(512, 512, 256)
    with pytest.raises(model_files.ModelError, match="expected a number of tokens"):
        length(-1, 512, 512)


class Tokenizer:
    """Four tokens: 0 is unknown, 3 ends a text."""

    def __init__(self, **tokens: str) -> None:
        self.names = ["<unk>", "a", "b", "</s>"]
        self.eos_token, self.unk_token, self.pad_token = (tokens.get(name) for name in ("eos", "unk", "pad"))

    @property
    def pad_token_id(self) -> int | None:
        return self.names.index(self.pad_token) if self.pad_token else None

    def convert_ids_to_tokens(self, token: int) -> str:
        return self.names[token]

    def __len__(self) -> int:
        return len(self.names)


@pytest.mark.parametrize(
    ("tokens", "known", "padding"),
    [
        ({"eos": "</s>"}, None, 3),
        ({"eos": "</s>"}, 0, 0),
        ({"unk": "<unk>"}, None, 0),
        ({"eos": "</s>", "pad": "b"}, None, 2),
        ({"eos": "</s>", "pad": "b"}, 3, 2),
    ],
)
def test_tokenizer_and_model_agree_on_the_padding(tokens: dict[str, str], known: int | None, padding: int) -> None:
    tokenizer, config = Tokenizer(**tokens), SimpleNamespace(pad_token_id=known, model_type="gpt2", vocab_size=4)
    model_files.set_padding(tokenizer, config)
    assert (tokenizer.pad_token_id, config.pad_token_id) == (padding, padding)


def test_padding_and_token_types_change_no_answer() -> None:
    tokenizer, config = Tokenizer(pad="b"), SimpleNamespace(pad_token_id=2, model_type="xlnet", vocab_size=4)
    model_files.set_padding(tokenizer, config)
    assert vars(tokenizer)["padding_side"] == model_files.padding_side(config) == "left"
    encoded = {"input_ids": [1], "token_type_ids": [0]}
    assert model_files.without_types(encoded, config) == encoded
    for kind, types in {"gpt2": None, "roberta": 1, "deberta-v2": 0}.items():
        config = SimpleNamespace(model_type=kind, type_vocab_size=types)
        assert model_files.padding_side(config) == "right"
        assert model_files.without_types(encoded, config) == {"input_ids": [1]}
    assert model_files.without_types(encoded, SimpleNamespace(model_type="bert", type_vocab_size=2)) == encoded


def test_a_tokenizer_of_another_model() -> None:
    config = SimpleNamespace(pad_token_id=None, model_type="gpt2", vocab_size=3)
    with pytest.raises(
        model_files.ModelError, match=r"embeddings for 3 tokens, and its tokenizer gives token 3 \('</s>'"
    ):
        model_files.set_padding(Tokenizer(eos="</s>"), config)
    config.pad_token_id = None
    with pytest.raises(model_files.ModelError, match="has no padding token, nor one that ends a text"):
        model_files.set_padding(Tokenizer(), config)


def test_names_without_wrappers() -> None:
    assert model_files.unwrapped("module._orig_mod.bert._fsdp_wrapped_module.modules.module_list.weight") == (
        "bert.modules.module_list.weight"
    )
