"""Well-known architectures, of which a model can be made without its files: in its full size, or a small variant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Architecture:
    """A well-known architecture: the class of its configuration, and the values of two sizes."""

    config: str
    full: dict[str, Any]
    small: dict[str, Any]
    image_size: tuple[int, int] = (0, 0)  # full and small, in pixels


_ENCODER = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 256}
# The full sizes are those of the hub's models of these names (config.json there).
ARCHITECTURES = {
    "distilbert": Architecture(
        "DistilBertConfig",
        {"vocab_size": 30522},
        {"vocab_size": 1024, "dim": 128, "n_layers": 2, "n_heads": 2, "hidden_dim": 256},
    ),
    "bert-base": Architecture("BertConfig", {"vocab_size": 30522}, {"vocab_size": 1024, **_ENCODER}),
    "bert-large": Architecture(
        "BertConfig",
        {
            "vocab_size": 30522,
            "hidden_size": 1024,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "intermediate_size": 4096,
        },
        {"vocab_size": 1024, **_ENCODER, "num_hidden_layers": 4},
    ),
    "roberta-base": Architecture(
        "RobertaConfig",
        {"vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1},
        {"vocab_size": 1024, "max_position_embeddings": 514, "type_vocab_size": 1, **_ENCODER},
    ),
    "resnet-50": Architecture(
        "ResNetConfig",
        {"num_labels": 1000},
        {"num_labels": 10, "embedding_size": 16, "hidden_sizes": [32, 64, 128, 256], "depths": [1, 1, 1, 1]},
        (224, 64),
    ),
    "vit-base": Architecture(
        "ViTConfig",
        {"num_labels": 1000},
        {"num_labels": 10, "image_size": 64, **_ENCODER},
        (224, 64),
    ),
    "llama-1b": Architecture(
        "LlamaConfig",
        {
            "vocab_size": 128256,
            "hidden_size": 2048,
            "intermediate_size": 8192,
            "num_hidden_layers": 16,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "max_position_embeddings": 131072,
            "tie_word_embeddings": True,
        },
        {
            "vocab_size": 1024,
            "hidden_size": 128,
            "intermediate_size": 256,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "tie_word_embeddings": True,
        },
    ),
}
