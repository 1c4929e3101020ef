"""Small encoders of transformers with heads as scripts have them, for programs_padding.py.

Imported where the parts are installed: they replace forward() of the classes of transformers that are defined later.
"""

from __future__ import annotations

import copy
from typing import Any

import peft
import torch
import transformers

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
DISTILLED = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24}
STILL = (
    *("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout_prob", "dropout"),
    *("attention_dropout", "seq_classif_dropout"),
)
TOKENS = 41


class Derived(transformers.BertForSequenceClassification):
    """As scripts do: a loss of their own, on the logits of the model."""

    def forward(self, *args: Any, labels: Any = None, **words: Any) -> Any:
        made = super().forward(*args, **words)
        logits = made[0] if isinstance(made, tuple) else made.logits
        loss = None if labels is None else logits.float().square().mean() + logits.float()[:, 0].sum()
        return transformers.modeling_outputs.SequenceClassifierOutput(loss=loss, logits=logits)


class Mean(torch.nn.Module):
    """A head that reads all tokens, in place of the one that reads the first."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.out_proj = torch.nn.Linear(size, 2)

    def forward(self, states: Any, **_words: Any) -> Any:
        return self.out_proj(states.mean(1))


class Pooled(transformers.BertModel):
    """A model whose states of all tokens make the loss."""

    def forward(self, *args: Any, labels: Any = None, **words: Any) -> Any:
        made = super().forward(*args, **words)
        states = made[0].float()
        return transformers.modeling_outputs.SequenceClassifierOutput(
            loss=states.square().mean(), logits=states.mean(1)
        )


class Scaled(torch.nn.Linear):
    def forward(self, states: Any) -> Any:
        return super().forward(states - states.mean())


def _config(family: str, **words: Any) -> Any:
    sizes = DISTILLED if family == "distilbert" else SIZES
    config = transformers.AutoConfig.for_model(family, vocab_size=TOKENS, initializer_range=0.4, **sizes, **words)
    for name in STILL:
        if hasattr(config, name):
            setattr(config, name, 0.0)
    if family == "albert":
        config.embedding_size = 8
    return config


def model(p: dict[str, Any]) -> Any:
    """Return a model as the fields of a program say."""
    name, head = p["model"], p["head"]
    family = name if name in transformers.CONFIG_MAPPING else "bert"
    words: dict[str, Any] = {"num_labels": 1} if head == "regression" else {"num_labels": 3}
    if head == "several labels":
        words["problem_type"] = "multi_label_classification"
    if head == "chunks":
        words["chunk_size_feed_forward"] = 1
    config = _config(family, **words)
    config._attn_implementation = p["attention"]
    if name == "derived":
        return Derived(config)
    if name == "pooled":
        return Pooled(config)
    if head == "decoder":
        config.is_decoder = True
    kinds = {"choice": "MultipleChoice", "token": "TokenClassification", "question": "QuestionAnswering"}
    made = getattr(transformers, f"AutoModelFor{kinds.get(head, 'SequenceClassification')}").from_config(config)
    below = made.base_model
    if head == "identity" and hasattr(made, "classifier"):
        made.classifier = torch.nn.Identity()
    if head == "linear":
        kind = "pooler" if getattr(below, "pooler", None) is not None else "classifier"
        setattr(below if kind == "pooler" else made, kind, torch.nn.Linear(16, 16 if kind == "pooler" else 3))
    if head in ("eager below", "states shown below"):
        other = copy.deepcopy(config)
        if head == "eager below":
            other._attn_implementation = "eager"
        else:
            other.output_hidden_states = True
        setattr(made, made.base_model_prefix, type(below)._from_config(other))
    if head == "mean":
        made.classifier = Mean(16)
    if head == "own layer":
        for each in made.modules():
            for at, layer in each.named_children():
                if type(layer) is torch.nn.Linear and "intermediate" in type(each).__name__.lower():
                    setattr(each, at, Scaled(layer.in_features, layer.out_features))
    return made


def with_lora(model: Any) -> Any:
    linear = [name for name, each in model.named_modules() if isinstance(each, torch.nn.Linear)]
    inner = [name for name in linear if "classif" not in name and "out_proj" not in name]
    if not inner:
        return model
    config = peft.LoraConfig(r=2, lora_alpha=4, target_modules=inner, init_lora_weights=False, task_type="SEQ_CLS")
    return peft.get_peft_model(model, config)
