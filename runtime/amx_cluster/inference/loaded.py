"""A model that is loaded, and the reason why one cannot be run here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._data import model_files


class Unavailable(ValueError):
    """A cell cannot run here; the text is one sentence that says why and, where there is one, what to do."""


@dataclass
class Loaded:
    """A model that is ready to be asked, and what belongs to it.

    model: in eval mode and fp32. tokenizer, image_processor: None where the directory has none or this Python lacks
    what it needs. image_size: pixels of an edge for image-classification, else 0. new_weights: names of weights that
    the files do not have (the head of a model that was not trained for the task): they are random, so its predictions
    are worth nothing though its speed is the same. random: all weights are random (small and configured variants).
    int8: dynamic or static where the files have int8 weights; empty where they do not. by_template: whether prompts are
    asked as a chat, by the tokenizer's template. new_tokens: that follow a prompt. sentences: how vectors and scores of
    texts are made, see sentence_models.described.
    """

    name: str
    model: Any
    config: Any
    task: str
    tokenizer: Any = None
    image_processor: Any = None
    image_size: int = 0
    new_weights: list[str] = field(default_factory=list)
    random: bool = False
    int8: str = ""
    by_template: bool = False
    new_tokens: int = 0
    sentences: Mapping[str, Any] = field(default_factory=dict)

    def longest(self) -> int | None:
        """Return how many tokens the model takes at most; None where it does not say so."""
        return model_files.positions(self.config.to_dict())
