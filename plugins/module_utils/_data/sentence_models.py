# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Models of sentence-transformers: what its files beside config.json say of vectors and scores of texts.

Facts: the code of sentence-transformers 6.2.0 (Pooling, Transformer, CrossEncoder), which also reads older files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

EMBEDDING, RANKING = "feature-extraction", "text-ranking"
# What `described` returns, in the config.json of a model as predictions know it.
ENTRY = "amx_cluster_sentences"
# How the vectors of a text's tokens become one, by the names that earlier versions had, in the order of theirs.
POOLINGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
SIGMOID, IDENTITY = "Sigmoid", "Identity"
# Entries of the encoder's file that change no vector or score of a text.
WITHOUT_EFFECT = ("max_seq_length", "do_lower_case", "transformer_task", "module_output_name", "unpad_inputs")
MODALITIES = [{"text": {"method": "forward", "method_output_name": name}} for name in ("last_hidden_state", "logits")]
# Models are saved with a huge number where their tokenizer has no limit.
NO_LIMIT = 1_000_000
SENTENCE, CROSS = "SentenceTransformer", "CrossEncoder"
# What `described` returns for a model without such files.
PLAIN = {"task": "", "pooling": ["mean"], "normalize": False, "activation": SIGMOID, "prompt": "", "longest": 0}
# The modules that a model of each kind may have, in their order.
USUAL = {SENTENCE: ["Transformer", "Pooling", "Normalize"], CROSS: ["Transformer"]}


def files(directory: Path) -> list[Path]:
    """Return the files of modules, which lie in subdirectories of a model's directory."""
    return sorted(directory.glob("[0-9]*_*/config.json")) if (directory / "modules.json").is_file() else []


def labels(config: Mapping[str, Any]) -> int:
    """Return how many labels a model has that classifies, by its config.json."""
    return len(config.get("id2label") or ()) or int(config.get("num_labels") or 2)


def described(directory: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return how a model makes a vector or a score of a text, by the files of sentence-transformers in its directory.

    {task: EMBEDDING, RANKING, or empty where they name none; pooling: values of POOLINGS, whose vectors are joined;
    normalize: whether a vector has the length 1; activation: of a score, SIGMOID or IDENTITY; prompt: stands before
    each text or query; longest: tokens that a text is cut to, 0 where no file says it}. config: its config.json.
    Raises ValueError for what is not computed here, by its name.
    """
    try:
        return _described(directory, config)
    except (LookupError, TypeError, AttributeError):
        raise ValueError(f"{directory}: modules.json or a file beside it is damaged: copy the model again") from None


def _described(directory: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    modules, tokenizer = _read(directory / "modules.json"), _read(directory / "tokenizer_config.json")
    about = _read(directory / "config_sentence_transformers.json") if modules else {}
    longest = tokenizer.get("model_max_length") or 0
    made: dict[str, Any] = {**PLAIN, "longest": int(longest) if longest < NO_LIMIT else 0}
    activation = (config.get("sentence_transformers") or {}).get("activation_fn")
    activation = about.get("activation_fn") or activation or config.get("sbert_ce_default_activation_function")
    kind = about.get("model_type") or (CROSS if activation and not modules else SENTENCE)
    if kind == CROSS and labels(config) == 1:
        made["task"] = RANKING
        made["activation"] = (activation or SIGMOID).rpartition(".")[2]
        if made["activation"] not in (SIGMOID, IDENTITY) or not (activation or "torch.").startswith("torch."):
            raise _refused(directory, f"the activation {activation}")
    if not modules:
        return made
    if kind not in USUAL:
        raise _refused(directory, f"a {kind}")
    names = [module["type"] for module in modules]
    for place, name in enumerate(names):
        known = (
            name.startswith("sentence_transformers.") and [name.rpartition(".")[2]] == USUAL[kind][place : place + 1]
        )
        if not known or (not place and modules[0]["path"]):
            raise _refused(directory, f"the module {name} ({modules[place]['path'] or 'in no subdirectory'})")
    encoder: dict[str, Any] = next((_read(path) for path in sorted(directory.glob("sentence_*_config.json"))), {})
    for name, value in encoder.items():
        if value and name not in WITHOUT_EFFECT and not (name == "modality_config" and value in MODALITIES):
            raise _refused(directory, f"{name} {json.dumps(value)}")
    if encoder.get("do_lower_case") and not tokenizer.get("do_lower_case"):
        raise _refused(directory, "do_lower_case, beside a tokenizer that keeps upper case,")
    if about.get("truncate_dim"):
        raise _refused(directory, f"truncate_dim {about['truncate_dim']}")
    made["longest"] = encoder.get("max_seq_length") or made["longest"]
    made["prompt"] = (about.get("prompts") or {}).get(about.get("default_prompt_name")) or ""
    if kind == SENTENCE:
        file = directory / modules[1]["path"] / "config.json"
        pooling = _read(file)
        if not pooling:
            raise ValueError(f"{directory} lacks {modules[1]['path']}/config.json: copy the whole directory")
        if file not in files(directory):
            raise _refused(directory, f"the module {names[1]} in the directory {modules[1]['path']}")
        modes = pooling.get("pooling_mode") or [mode for key, mode in POOLINGS.items() if pooling.get(key)] or ["mean"]
        modes = [modes] if isinstance(modes, str) else list(modes)
        if set(modes) - set(POOLINGS.values()):
            raise _refused(directory, f"the pooling {', '.join(modes)}")
        if made["prompt"] and not pooling.get("include_prompt", True):
            raise _refused(directory, "include_prompt: false")
        made.update(task=EMBEDDING, pooling=modes, normalize=len(names) > 2)
    return made


def _read(path: Path) -> Any:
    """Return what is in a JSON file; an empty mapping where it is missing. Raises ValueError where it is damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError:
        raise ValueError(f"{path} is not JSON: copy the model again") from None


def _refused(directory: Path, subject: str) -> ValueError:
    return ValueError(f"{directory} has {subject} of sentence-transformers, which is not computed here")
