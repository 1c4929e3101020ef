"""Files of sentence-transformers: of each version what it says, and what is refused by its name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._data import sentence_models

OLD = "sentence_transformers.models"
TYPES = {"Transformer": "base.modules.transformer", "Pooling": "sentence_transformer.modules.pooling"}
MINILM: dict[str, Any] = {
    "modules.json": [
        {"path": "", "type": f"{OLD}.Transformer"},
        {"path": "1_Pooling", "type": f"{OLD}.Pooling"},
        {"path": "2_Normalize", "type": f"{OLD}.Normalize"},
    ],
    "sentence_bert_config.json": {"max_seq_length": 256, "do_lower_case": False},
    "config_sentence_transformers.json": {"__version__": {"sentence_transformers": "2.0.0"}},
    "1_Pooling/config.json": {"word_embedding_dimension": 384, "pooling_mode_mean_tokens": True},
    "tokenizer_config.json": {"model_max_length": 512, "do_lower_case": True},
}
NEW: dict[str, Any] = {
    **MINILM,
    "modules.json": [
        {"path": path, "type": f"sentence_transformers.{TYPES[kind]}.{kind}"}
        for path, kind in (("", "Transformer"), ("1_Pooling", "Pooling"))
    ],
    "sentence_bert_config.json": {
        "transformer_task": "feature-extraction",
        "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
        "module_output_name": "token_embeddings",
    },
    "config_sentence_transformers.json": {
        "model_type": "SentenceTransformer",
        "prompts": {"query": "query: ", "document": ""},
        "default_prompt_name": "query",
    },
    "1_Pooling/config.json": {"embedding_dimension": 384, "pooling_mode": ["cls", "max"], "include_prompt": True},
}
RANKER: dict[str, Any] = {
    "modules.json": NEW["modules.json"][:1],
    "config_sentence_transformers.json": {
        "model_type": "CrossEncoder",
        "activation_fn": "torch.nn.modules.linear.Identity",
    },
}
ONE_LABEL = {"id2label": {"0": "LABEL_0"}}


def described(place: Path, files: dict[str, Any], config: dict[str, Any] | None = None) -> dict[str, Any]:
    for name, content in files.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return sentence_models.described(place, config or {})


def test_embeddings(tmp_path: Path) -> None:
    made = {"task": "feature-extraction", "pooling": ["mean"], "normalize": True, "activation": "Sigmoid"}
    assert described(tmp_path, MINILM) == {**made, "prompt": "", "longest": 256}
    assert [path.parent.name for path in sentence_models.files(tmp_path)] == ["1_Pooling"]
    new = {"pooling": ["cls", "max"], "normalize": False, "prompt": "query: ", "longest": 512}
    assert described(tmp_path, NEW) == {**made, **new}


def test_models_without_its_files(tmp_path: Path) -> None:
    assert described(tmp_path, {}) == described(tmp_path, {"tokenizer_config.json": {"model_max_length": 1e30}})
    assert sentence_models.described(tmp_path, {}) == sentence_models.PLAIN
    assert sentence_models.files(tmp_path) == []


@pytest.mark.parametrize(
    ("files", "config", "task", "activation"),
    [
        (RANKER, ONE_LABEL, "text-ranking", "Identity"),
        (RANKER, {"id2label": {"0": "a", "1": "b", "2": "c"}}, "", "Sigmoid"),
        (
            {},
            {**ONE_LABEL, "sentence_transformers": {"activation_fn": "torch.nn.Identity"}},
            "text-ranking",
            "Identity",
        ),
        ({}, {**ONE_LABEL, "sbert_ce_default_activation_function": "torch.nn.Sigmoid"}, "text-ranking", "Sigmoid"),
        ({}, ONE_LABEL, "", "Sigmoid"),
    ],
)
def test_scores(tmp_path: Path, files: dict[str, Any], config: dict[str, Any], task: str, activation: str) -> None:
    made = described(tmp_path, files, config)
    assert (made["task"], made["activation"]) == (task, activation)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"modules.json": [*MINILM["modules.json"][:2], {"path": "2_Dense", "type": f"{OLD}.Dense"}]}, "2_Dense"),
        ({"modules.json": [{"path": "0_T", "type": f"{OLD}.Transformer"}]}, r"Transformer \(0_T\)"),
        ({"modules.json": [{"path": "", "type": "own.Transformer"}]}, "the module own.Transformer"),
        ({"modules.json": MINILM["modules.json"][:1]}, "is damaged"),
        ({"modules.json": "{"}, "modules.json is not JSON"),
        ({"modules.json": [3]}, "is damaged"),
        (
            {
                "modules.json": [MINILM["modules.json"][0], {"path": "pooling", "type": f"{OLD}.Pooling"}],
                "pooling/config.json": {"pooling_mode": "cls"},
            },
            "Pooling in the directory pooling",
        ),
        ({"1_Pooling/config.json": {"pooling_mode": "attention"}}, "the pooling attention"),
        ({"1_Pooling/config.json": {}}, "lacks 1_Pooling/config.json"),
        ({**NEW, "1_Pooling/config.json": {"pooling_mode": "mean", "include_prompt": False}}, "include_prompt"),
        ({"sentence_bert_config.json": {"do_lower_case": True}, "tokenizer_config.json": {}}, "do_lower_case"),
        ({"sentence_bert_config.json": {"query_expansion": {"length": 3}}}, 'query_expansion {"length": 3}'),
        ({"config_sentence_transformers.json": {"model_type": "SparseEncoder"}}, "a SparseEncoder"),
        ({"config_sentence_transformers.json": {"truncate_dim": 64}}, "truncate_dim 64"),
    ],
)
def test_what_is_not_computed(tmp_path: Path, files: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        described(tmp_path, {**MINILM, **files})


@pytest.mark.parametrize("name", ["torch.nn.modules.activation.Tanh", "own.Sigmoid"])
def test_other_activations(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=f"the activation {name} of sentence-transformers, which is not computed here"):
        described(tmp_path, {}, {**ONE_LABEL, "sentence_transformers": {"activation_fn": name}})
