# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The matrices of a transformer, from its config.json: how many parameters it has, and where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DECODER_SCRIPT = "train_decoder.py"
SCRIPTS = {
    "train_text.py": ("max_seq_length", 128),
    DECODER_SCRIPT: ("max_length", 1024),
    "run_glue.py": ("max_seq_length", 128),
    "run_qa.py": ("max_seq_length", 384),
}
"""Scripts that are known to load weights in fp32 (LoRA's in bf16), with their argument for the length of a row."""

DECODERS = ("llama", "mistral", "qwen2", "qwen3")
ENCODERS = ("bert", "camembert", "distilbert", "roberta", "xlm-roberta")
IMAGES = ("vit",)
KNOWN = (*DECODERS, *ENCODERS, *IMAGES)
"""Values of model_type whose layers are as this file has them."""


@dataclass(frozen=True)
class Shape:
    """Shape of a transformer, which decides how much memory it takes.

    attention: elements of all heads of queries, shared: of keys. vocabulary: 0 for images; positions: tokens that it
    can take, of images exactly. decoder: whether it predicts tokens: RMS norms, a gated MLP, logits of the vocabulary.
    outside: parameters beside the layers' matrices, norms and biases included; embedding: of the matrix of its tokens;
    head: of an output matrix of its own. dropout: of hidden states, attention_dropout: of attention's weights. sdpa:
    whether attention is torch's, which does not write its weights.
    """

    model_type: str
    hidden: int
    layers: int
    inner: int
    heads: int
    attention: int
    shared: int
    vocabulary: int
    positions: int
    outside: int
    embedding: int
    head: int
    dropout: float = 0.0
    attention_dropout: float = 0.0
    sdpa: bool = True

    @property
    def decoder(self) -> bool:
        """Return whether the model predicts tokens."""
        return self.model_type in DECODERS

    @property
    def writes_attention(self) -> bool:
        """Return whether attention writes its weights, which sdpa on CPUs does only with dropout (torch 2.13)."""
        return self.attention_dropout > 0 or not self.sdpa

    def matrices(self) -> dict[str, tuple[int, int]]:
        """Return {name: (inputs, outputs)} of the matrices of a layer, by the names that LoRA's targets have."""
        hidden, attention, shared, inner = self.hidden, self.attention, self.shared, self.inner
        if self.decoder:
            return {
                "q_proj": (hidden, attention),
                "k_proj": (hidden, shared),
                "v_proj": (hidden, shared),
                "o_proj": (attention, hidden),
                "gate_proj": (hidden, inner),
                "up_proj": (hidden, inner),
                "down_proj": (inner, hidden),
            }
        names = ("query", "key", "value", "output")
        return {**dict.fromkeys(names, (hidden, hidden)), "up": (hidden, inner), "down": (inner, hidden)}

    def layer(self) -> int:
        """Return the parameters of the matrices of a layer."""
        return sum(inputs * outputs for inputs, outputs in self.matrices().values())

    def parameters(self) -> int:
        """Return all parameters, with a head for classification where it does not predict tokens."""
        return self.layers * self.layer() + self.outside + self.embedding + self.head


def of_config(config: Mapping[str, Any]) -> Shape:
    """Return the shape that a config.json describes. Raises ValueError for one that is not known, and says why."""
    model_type = config.get("model_type")
    if model_type not in KNOWN:
        raise ValueError(f"model_type {model_type} is not one of {', '.join(KNOWN)}")
    if config.get("quantization_config") or config.get("compression_config"):
        raise ValueError("its weights are quantized")

    def measure(*names: str, default: int = 0) -> int:
        value = next((config[name] for name in names if config.get(name) is not None), default)
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"config.json has no {names[0]}" if not value else f"{names[0]}: {value!r}")
        return value

    def share(*names: str) -> float:
        """BERT's and ViT's own defaults are 0.1 and 0, those of decoders 0."""
        default = 0.1 if model_type in ENCODERS else 0.0
        value = next((config[name] for name in names if config.get(name) is not None), default)
        if not isinstance(value, (int, float)):
            raise ValueError(f"{names[0]}: {value!r}")
        return value

    hidden, layers = measure("hidden_size", "dim"), measure("num_hidden_layers", "n_layers")
    heads = measure("num_attention_heads", "n_heads")
    inner = measure("intermediate_size", "hidden_dim", default=4 * hidden)
    common: dict[str, Any] = {
        "model_type": model_type,
        "hidden": hidden,
        "layers": layers,
        "inner": inner,
        "heads": heads,
        "attention_dropout": share("attention_probs_dropout_prob", "attention_dropout"),
        "sdpa": config.get("_attn_implementation", config.get("attn_implementation", "sdpa")) != "eager",
    }
    if model_type in DECODERS:
        size = measure("head_dim", default=128 if model_type == "qwen3" else hidden // heads)
        attention, shared = heads * size, measure("num_key_value_heads", default=heads) * size
        vocabulary = measure("vocab_size")
        biases = attention + 2 * shared if config.get("attention_bias", model_type == "qwen2") else 0
        biases += hidden if config.get("attention_bias") and model_type != "qwen2" else 0
        biases += 2 * inner + hidden if config.get("mlp_bias") else 0
        norms = 2 * hidden + (2 * size if model_type == "qwen3" else 0)
        return Shape(
            **common,
            attention=attention,
            shared=shared,
            vocabulary=vocabulary,
            positions=measure("max_position_embeddings", default=2048),
            outside=layers * (norms + biases) + hidden,
            embedding=vocabulary * hidden,
            head=0 if config.get("tie_word_embeddings", False) else vocabulary * hidden,
        )
    outside = layers * (9 * hidden + inner) + 2 * hidden  # biases and norms, two classes
    if model_type in IMAGES:
        side, patch = measure("image_size", default=224), measure("patch_size", default=16)
        tokens = (side // patch) ** 2 + 1
        outside += 4 * hidden + (tokens + patch * patch * measure("num_channels", default=3)) * hidden
        vocabulary, embedding = 0, 0
    else:
        vocabulary, tokens = measure("vocab_size"), measure("max_position_embeddings", default=512)
        types = 0 if model_type == "distilbert" else measure("type_vocab_size", default=2)
        outside += (tokens + types + 2) * hidden + hidden * hidden + hidden
        embedding = vocabulary * hidden
    return Shape(
        **common,
        attention=hidden,
        shared=hidden,
        vocabulary=vocabulary,
        positions=tokens,
        outside=outside,
        embedding=embedding,
        head=0,
        dropout=share("hidden_dropout_prob", "dropout"),
    )
