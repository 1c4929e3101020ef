# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Number of a model's parameters: from a number, its files on the control node, or a table of well-known models."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._data import contents

# Parameters of models on the Hugging Face hub without a head for a task, as their model cards or papers give them,
# rounded. A model's own files are exact.
KNOWN = {
    "distilbert-base-uncased": 66e6,
    "distilbert-base-cased": 65e6,
    "bert-base-uncased": 110e6,
    "bert-base-cased": 109e6,
    "bert-large-uncased": 335e6,
    "bert-large-uncased-whole-word-masking": 335e6,
    "bert-large-cased": 333e6,
    "roberta-base": 125e6,
    "roberta-large": 355e6,
    "gpt2": 124e6,
    "gpt2-medium": 355e6,
    "gpt2-large": 774e6,
    "t5-small": 60e6,
    "t5-base": 220e6,
    "t5-large": 770e6,
}
_UNITS = {"": 1, "k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9}
_NUMBER = re.compile(r"(\d+(?:\.\d*)?(?:e\+?\d+)?)\s*([kmbg]?)", re.IGNORECASE)


def number(text: str) -> int:
    """Return a number of parameters as a person writes it: 110000000, 110M, 1.1e8, 7B. Raises ValueError."""
    match = _NUMBER.fullmatch(text.strip())
    value = float(match[1]) * _UNITS[match[2].lower()] if match else 0
    if not 1 <= value <= 1e13:
        raise ValueError(f"parameters: {text!r} is not a number of parameters, such as 110000000, 110M or 7B")
    return round(value)


def of_model(name: str) -> tuple[int, str]:
    """Return the parameters of a model, and where that is from. name: a directory or file here, or a name of the hub.

    Raises ValueError where neither its files nor KNOWN have it.
    """
    path = Path(name).expanduser()
    if path.exists():
        return of_files(path)
    known = KNOWN.get(name.rpartition("/")[2].lower())
    if known is None:
        raise ValueError(
            f"model: {name} is neither a directory with model.safetensors or config.json on the control node nor one "
            f"of {', '.join(sorted(KNOWN))}: set parameters instead, such as -e parameters=110M"
        )
    return round(known), f"{name}, from a table"


def of_files(path: Path) -> tuple[int, str]:
    """Return the parameters of a model's directory, a file of safetensors or config.json, and where that is from.

    Raises ValueError where these say nothing.
    """
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path] if path.suffix == ".safetensors" else []
    if files:
        return sum(map(_in_safetensors, files)), ", ".join(file.name for file in files[:2]) + (
            f" and {len(files) - 2} more" if len(files) > 2 else ""
        )
    config = path / "config.json" if path.is_dir() else path
    try:
        document = json.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"model: {path} has no *.safetensors, and no config.json that can be read ({error})") from None
    return of_config(document if isinstance(document, dict) else {}, str(config)), config.name


def of_config(config: dict[str, Any], name: str = "config.json") -> int:
    """Return the parameters that a transformer of these measures has, heads for tasks left out.

    Embeddings, and in each layer attention and two (gated: three) matrices of the MLP with biases and norms: exact for
    BERT without its pooler, within a few percent for others. Raises ValueError without the measures.
    """
    hidden = config.get("hidden_size") or config.get("dim") or config.get("n_embd") or config.get("d_model")
    layers = config.get("num_hidden_layers") or config.get("n_layers") or config.get("n_layer")
    vocabulary = config.get("vocab_size")
    if not all(isinstance(value, int) and value > 0 for value in (hidden, layers, vocabulary)):
        raise ValueError(f"model: {name} does not have hidden_size, num_hidden_layers and vocab_size: set parameters")
    hidden, layers, vocabulary = int(hidden or 0), int(layers or 0), int(vocabulary or 0)
    inner = int(config.get("intermediate_size") or config.get("hidden_dim") or config.get("n_inner") or 4 * hidden)
    heads = int(config.get("num_attention_heads") or config.get("n_heads") or config.get("n_head") or 1)
    shared = int(config.get("num_key_value_heads") or heads)  # grouped-query attention
    rotary = "rope_theta" in config or "rope_parameters" in config
    if rotary:  # llama and its like: no biases, three matrices in the MLP, an output matrix of its own unless tied
        per_layer = 2 * hidden * hidden + 2 * hidden * hidden * shared // heads + 3 * hidden * inner + 2 * hidden
        outside = vocabulary * hidden * (1 if config.get("tie_word_embeddings") else 2) + hidden
    else:
        per_layer = 4 * (hidden * hidden + hidden) + 2 * hidden * inner + inner + hidden + 4 * hidden
        positions = int(config.get("max_position_embeddings") or config.get("n_positions") or 0)
        outside = (vocabulary + positions + int(config.get("type_vocab_size") or 0)) * hidden + 2 * hidden
    return layers * per_layer + outside


def gradient_bytes(parameters: int, compression: str = "none") -> int:
    """Return the bytes of gradients that a rank hands over in each step: 4 for each parameter, 2 with bf16."""
    return parameters * (2 if compression == "bf16" else 4)


def _in_safetensors(path: Path) -> int:
    """The elements of a file's tensors."""
    try:
        return sum(math.prod(tensor["shape"]) for tensor in contents.header(path).values())
    except (OSError, ValueError, LookupError) as error:
        raise ValueError(f"model: {error}") from None
