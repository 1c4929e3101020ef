# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Well-known models by short names: where they come from, and what they are for.

NAME is the model of the hub, NAME-configured is one of its size with random weights, and NAME-small is a small one of
its architecture with random weights: these two are made from a configuration on the hosts, and need no download.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._data import sentence_models
from ansible_collections.amx.cluster.plugins.module_utils._data.rows import TEXT_COLUMNS

CLASSIFICATION = "text-classification"
ANSWERING = "question-answering"
GENERATION = "text-generation"
IMAGES = "image-classification"
EMBEDDING, RANKING = sentence_models.EMBEDDING, sentence_models.RANKING
TASKS = (CLASSIFICATION, ANSWERING, GENERATION, IMAGES, EMBEDDING, RANKING)
# Those of sentence-transformers, which also answer an empty text.
OF_SENTENCES = (EMBEDDING, RANKING)
# The columns that a model of a task reads: the first set that a file has is used.
COLUMNS: dict[str, tuple[tuple[str, ...], ...]] = {
    CLASSIFICATION: TEXT_COLUMNS,
    ANSWERING: (("question", "context"),),
    GENERATION: (("prompt",), ("messages",), ("conversations",), ("instruction",), ("question",), ("text",)),
    IMAGES: (("image",), ("path",), ("file",)),
    EMBEDDING: (("sentence",), ("text",)),
    RANKING: (("query", "document"),),
}
# The columns that a prediction adds.
PREDICTED = {
    CLASSIFICATION: ("predicted_label", "predicted_score"),
    ANSWERING: ("predicted_answer", "predicted_score"),
    GENERATION: ("generated_text",),
    IMAGES: ("predicted_label", "predicted_score"),
    EMBEDDING: ("predicted_embedding",),
    RANKING: ("predicted_score",),
}


def columns_in(task: str, names: Collection[str]) -> list[str]:
    """Return the columns that a task reads of a file with these columns; empty where it has none of the sets."""
    return list(next((columns for columns in COLUMNS[task] if set(columns) <= set(names)), ()))


SMALL, CONFIGURED = "small", "configured"
VARIANTS = (SMALL, CONFIGURED)


@dataclass(frozen=True)
class Known:
    """A well-known model. tasks: those that its architecture has a head for, the usual one first.

    hub: its repository. parameters: how many it has, rounded, as its model card or paper gives them.
    """

    hub: str
    tasks: tuple[str, ...]
    parameters: float


_TEXTS = (CLASSIFICATION, ANSWERING, EMBEDDING, RANKING)
MODELS: dict[str, Known] = {
    "distilbert": Known("distilbert/distilbert-base-uncased-finetuned-sst-2-english", _TEXTS, 67e6),
    "bert-base": Known("google-bert/bert-base-uncased", _TEXTS, 110e6),
    "bert-large": Known(
        "google-bert/bert-large-uncased-whole-word-masking-finetuned-squad",
        (ANSWERING, CLASSIFICATION, EMBEDDING, RANKING),
        335e6,
    ),
    "roberta-base": Known("FacebookAI/roberta-base", _TEXTS, 125e6),
    "resnet-50": Known("microsoft/resnet-50", (IMAGES,), 26e6),
    "vit-base": Known("google/vit-base-patch16-224", (IMAGES,), 86e6),
    "llama-1b": Known("TinyLlama/TinyLlama-1.1B-Chat-v1.0", (GENERATION,), 1.1e9),
}

# What the class of a model ends with that transformers has for a task, as `architectures` in config.json names it.
HEADS = {
    "ForSequenceClassification": CLASSIFICATION,
    "ForQuestionAnswering": ANSWERING,
    "ForCausalLM": GENERATION,
    "LMHeadModel": GENERATION,
    "ForImageClassification": IMAGES,
    "Model": EMBEDDING,
}
# Models without a head, whose vectors are an embedding only where the user says so.
HEADLESS = ("ForMaskedLM", "ForPreTraining")


def variant(name: str) -> tuple[str, str]:
    """Return (the well-known name, its variant) of NAME-small and NAME-configured; empty texts for another name."""
    base, _dash, kind = name.rpartition("-")
    return (base, kind) if kind in VARIANTS and base in MODELS else ("", "")


def tasks_of(config: Mapping[str, Any]) -> list[str]:
    """Return the tasks that a model does by its config.json, the usual one first, which is empty where none is.

    config: with what sentence_models.described returns, as its ENTRY, where the files beside it are known.
    """
    trained = str(next(iter(config.get("architectures") or []), ""))
    usual = (config.get(sentence_models.ENTRY) or {}).get("task") or ""
    usual = usual or next((task for end, task in HEADS.items() if trained.endswith(end)), "")
    # T5EncoderModel is half of a T5, whose files lack the decoder.
    other = config.get("is_encoder_decoder") or "vocab_size" not in config or trained.endswith("EncoderModel")
    if usual == EMBEDDING and other:
        usual = ""
    if usual in (CLASSIFICATION, RANKING) and sentence_models.labels(config) == 1:
        return [usual, CLASSIFICATION, RANKING]
    return [usual, *([EMBEDDING] if trained.endswith(HEADLESS) else [])]


def read_columns(task: str, named: Sequence[str], trained_on: Sequence[str]) -> list[str]:
    """Return the columns that a served model reads: those named, of its training, or the task's most usual ones."""
    return list(named) or columns_in(task, trained_on) or list(COLUMNS[task][-1])


def short_name(model: str) -> str:
    """Return the name by which clients ask for a model: that of its job, or of its directory."""
    return model.removeprefix("job ").rstrip("/").rpartition("/")[2]
