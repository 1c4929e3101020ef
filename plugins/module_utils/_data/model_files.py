# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Metadata in a model's files: weights, maximum of tokens, padding. It runs on hosts, with transformers."""

from __future__ import annotations

import json
import math
import pickle
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._data import contents
from ansible_collections.amx.cluster.plugins.module_utils._data.rows import DataError

# An entry of config.json of a model that generates text: chats or texts, which predictions are asked as.
TRAINED_ON = "amx_cluster_trained_on"
# Each puts its name into those of the weights: DistributedDataParallel and DeepSpeed, torch.compile, Lightning, FSDP
# (and as fairscale had it), checkpointing.
WRAPPERS = (
    *("module", "_orig_mod", "_forward_module"),
    *("_fsdp_wrapped_module", "_fpw_module", "_checkpoint_wrapped_module"),
)
# Values of model_type that count positions relatively, whatever else their configuration has.
RELATIVE = ("t5", "mt5", "umt5", "longt5", "switch_transformers", "xlnet", "transfo-xl", "bloom", "mpt")
# Those that count positions from the padding's number on, as RoBERTa.
FROM_PADDING = (
    *("roberta", "xlm-roberta", "xlm-roberta-xl", "roberta-prelayernorm", "camembert", "xmod", "longformer", "ibert"),
    *("data2vec-text", "mpnet", "esm", "luke", "mluke", "layoutlmv3", "lilt", "markuplm"),
)
# Those that answer by the last place of a text: what is padded stands before it.
LAST = ("xlnet",)
# Those that mix all places of a text without a mask: padding changes their answers.
UNMASKED = ("fnet",)
# Types in which weights are stored as what they are (safetensors' names).
FLOATS = ("F64", "F32", "F16", "BF16")
# The number of a layer in the name of a weight.
LAYER = re.compile(r"\.\d+\.")


class ModelError(DataError):
    """A model that its files do not make, or that cannot do what is asked of it."""


def positions(config: Mapping[str, Any]) -> int | None:
    """Return how many tokens a model takes at most, by what is in its config.json; None where it does not say so."""
    if isinstance(config.get("text_config"), dict):
        return positions(config["text_config"])
    kind = config.get("model_type")
    if kind in RELATIVE or (config.get("relative_attention") and not config.get("position_biased_input", True)):
        return None
    names = ("max_position_embeddings", "n_positions")
    value = next((config[name] for name in names if isinstance(config.get(name), int)), 0)
    if kind in FROM_PADDING:
        padding = config.get("pad_token_id")
        value -= (1 if padding is None else padding) + 1
    return value if value > 0 else None


def sequence_length(wanted: int, config: Any, tokenizer: Any) -> int:
    """Return how many tokens a text is cut to: `wanted`, or without it (0) 128, or fewer where the model takes fewer.

    Raises ModelError for more than model or tokenizer take.
    """
    limits = [(tokenizer.model_max_length, "its tokenizer takes {} (model_max_length in tokenizer_config.json)")]
    limits += [(positions(config.to_dict()) or math.inf, "it has {} positions (config.json)")]
    most, why = min(limits, key=lambda limit: limit[0])
    if wanted > most:
        raise ModelError(f"--max_seq_length {wanted} is more than the model takes: {why.format(int(most))}")
    if wanted < 0:
        raise ModelError(f"--max_seq_length {wanted}: expected a number of tokens")
    return wanted or int(min(128, most))


def set_padding(tokenizer: Any, config: Any) -> None:
    """Set the padding token of a tokenizer without one, such as GPT-2's. It is also set in the configuration, by which
    models find where a text ends. Raises ModelError where there is none to take, or the model has no embedding for
    it."""
    if tokenizer.pad_token_id is None:
        known = config.pad_token_id
        name = (
            tokenizer.convert_ids_to_tokens(known) if isinstance(known, int) and 0 <= known < len(tokenizer) else None
        )
        tokenizer.pad_token = name or tokenizer.eos_token or tokenizer.unk_token
    if tokenizer.pad_token_id is None:
        raise ModelError(
            "the tokenizer has no padding token, nor one that ends a text to take for it: name one as pad_token in "
            "tokenizer_config.json"
        )
    if config.model_type in LAST:
        tokenizer.padding_side = padding_side(config)
    if config.pad_token_id is None or config.model_type not in FROM_PADDING:
        config.pad_token_id = tokenizer.pad_token_id
    check_tokens([[tokenizer.pad_token_id]], config, tokenizer)


def padding_side(config: Any) -> str:
    """Return on which side of a text padding changes no answer of a model that classifies."""
    return "left" if config.model_type in LAST else "right"


def without_types(encoded: Mapping[str, Any], config: Any) -> dict[str, Any]:
    """Return what a tokenizer gives, without token types where a model knows none: some tokenizers make them."""
    knows = config.model_type in LAST or (getattr(config, "type_vocab_size", 0) or 0) > 1
    return {name: value for name, value in encoded.items() if knows or name != "token_type_ids"}


def check_tokens(texts: Sequence[Sequence[int]], config: Any, tokenizer: Any) -> None:
    """Raise ModelError for a token that the model has no embedding for: the tokenizer is another model's."""
    size = config.get_text_config().vocab_size if hasattr(config, "get_text_config") else config.vocab_size
    largest = max((token for text in texts for token in text), default=0)
    if largest >= size:
        name = tokenizer.convert_ids_to_tokens(largest)
        raise ModelError(
            f"the model has embeddings for {size} tokens, and its tokenizer gives token {largest} ({name!r}): take the "
            "tokenizer that the model came with, or enlarge the model by resize_token_embeddings"
        )


def unwrapped(name: str) -> str:
    """Return the name of a weight without what wrappers of its model have put into it."""
    return ".".join(part for part in name.split(".") if part not in WRAPPERS)


def listed(names: Sequence[str], most: int = 3) -> str:
    """Return the first of names for a message, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def load_weights(
    automatic: Any,
    name: str,
    config: Any,
    *,
    new_head: bool = False,
    fewer_layers: bool = False,
    without_pooler: bool = False,
    **options: Any,
) -> tuple[Any, list[str]]:
    """Load a model of `automatic`, a class of transformers; return it and the names of its weights that are new.

    new_head: it may lack the head, as one that was trained for another task does. fewer_layers: it may have fewer
    layers than its files. without_pooler: it may lack one, whose output is not used. options: of from_pretrained;
    weights are loaded in fp32 without a dtype, whatever config.json says. Raises ModelError for files that cannot be
    read, and those that lack weights, which would be made at random.
    """
    if Path(name, "adapter_config.json").is_file():
        raise ModelError(f"model {name} is an adapter (adapter_config.json): name the model that it was merged into")
    claimed = list(config.architectures or [])
    import torch

    options = {"config": config, "output_loading_info": True, "ignore_mismatched_sizes": True, **options}
    # transformers before 4.56 has the option under its first name.
    options["dtype" if hasattr(config, "dtype") else "torch_dtype"] = options.pop("dtype", torch.float32)
    try:
        model, about = automatic.from_pretrained(name, **options)
        others = sorted(about["unexpected_keys"])
        if Path(name).is_dir() and any(unwrapped(other) != other for other in others):
            generation = getattr(model, "generation_config", None)
            kind = type(model)
            del model
            model, about = kind.from_pretrained(None, state_dict=_read_weights(Path(name)), **options)
            if generation is not None:
                model.generation_config = generation
    except Exception as error:  # whatever the libraries raise, it is about these files
        raise ModelError(f"model {name} cannot be read: {_why(error)}") from error
    if about.get("error_msgs"):
        raise ModelError(f"model {name} cannot be read: {about['error_msgs'][0]}")
    if not getattr(config, "quantization_config", None):
        _refuse_quantized(name, model)
    base = model.base_model_prefix
    head: set[str] = set()
    if base and hasattr(model, base):
        head = {parameter for parameter, _weight in model.named_parameters() if not parameter.startswith(f"{base}.")}
    lacked = {*head, *(weight for weight in about["missing_keys"] if ".pooler." in weight)}
    sizes = {
        weight: f"{weight} of {tuple(shape)}, not {tuple(wanted)}" for weight, shape, wanted in about["mismatched_keys"]
    }
    missing = sorted(set(about["missing_keys"]) - set(sizes))
    wrong = [sizes[weight] for weight in sorted(sizes) if not (new_head and weight in head)]
    # Where its configuration names the class that is loaded, its files should have the head, too.
    may_lack = new_head and type(model).__name__ not in claimed
    absent = [
        weight
        for weight in missing
        if not (may_lack and weight in lacked) and not (without_pooler and weight.startswith("pooler."))
    ]
    beyond = [] if fewer_layers else _beyond(about["unexpected_keys"], model)
    if beyond:
        raise ModelError(
            f"model {name} has weights of layers that its config.json does not have: {listed(beyond)}. Take the "
            "config.json that belongs to these weights"
        )
    if wrong:
        raise ModelError(
            f"model {name} has weights of other sizes than its config.json says: {listed(wrong)}. Take the config.json "
            "and the tokenizer that belong to these weights"
        )
    if absent:
        raise ModelError(
            f"model {name} lacks {len(absent)} of its weights, which would be random: {listed(absent)}"
            + (f". Its files have others: {listed(others)}" if others else "")
            + _advice(others, not new_head and lacked.issuperset(absent))
        )
    return model, [*missing, *sorted(sizes)]


def _beyond(others: Iterable[str], model: Any) -> list[str]:
    """Return which weights are those of a further layer of the model."""
    names = {
        variant for name in model.state_dict() for variant in (name, name.removeprefix(f"{model.base_model_prefix}."))
    }
    known = {LAYER.sub(".", name) for name in names}
    layers = {name[: match.end()] for name in names for match in LAYER.finditer(name)}
    return sorted(
        weight
        for weight in map(unwrapped, others)
        if LAYER.sub(".", weight) in known
        and any(weight[: match.end()] not in layers for match in LAYER.finditer(weight))
    )


def _advice(others: Sequence[str], untrained: bool) -> str:
    if any("lora_" in weight or weight.startswith("base_model.model.") for weight in others):
        return ". An adapter was not merged: save what merge_and_unload() returns"
    if untrained:
        return ". Train it for this task first"
    return ". Save the whole model again by save_pretrained(), or copy it again"


def _why(error: BaseException) -> str:
    """Return what is wrong with files, in a line."""
    if isinstance(error, (pickle.UnpicklingError, EOFError)):
        return "its weights are no file of PyTorch, or hold more than weights: save them by save_pretrained()"
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def _refuse_quantized(name: str, model: Any) -> None:
    """Raise ModelError for parameters that are stored in fewer than 16 bits, or as integers.

    Without quantization_config in config.json, transformers loads them as numbers of their own, without their scales.
    """
    parameters = dict(model.named_parameters())
    types = _stored_types(Path(name))
    quantized = sorted(
        f"{weight} is {types[stored]}"
        for stored in types
        for weight in {unwrapped(stored), f"{model.base_model_prefix}.{unwrapped(stored)}"} & parameters.keys()
        if types[stored] not in FLOATS
    )
    if quantized:
        raise ModelError(
            f"model {name} has quantized weights, and its config.json has no quantization_config that says how: "
            f"{listed(quantized)}. Take the model as it was before it was quantized"
        )


def _stored_types(directory: Path) -> dict[str, str]:
    """Return the type of each weight in a model's directory, as safetensors names it, by its name in the files."""
    types: dict[str, str] = {}
    for file in _loaded_files(directory):
        if file.suffix == contents.SAFETENSORS:
            types |= {weight: value["dtype"] for weight, value in contents.header(file).items()}
            continue
        import torch

        names = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}
        try:
            weights = torch.load(file, "cpu", weights_only=True, mmap=True)
        except RuntimeError:  # of torch before 1.6, which cannot be mapped
            weights = torch.load(file, "cpu", weights_only=True)
        tensors = {weight: value for weight, value in weights.items() if isinstance(value, torch.Tensor)}
        types |= {weight: names.get(value.dtype, str(value.dtype)) for weight, value in tensors.items()}
    return types


def _loaded_files(directory: Path) -> list[Path]:
    """Return the files of weights that transformers loads of a model's directory; others may lie beside them."""
    for name in ("model.safetensors", "pytorch_model.bin"):
        if (directory / name).is_file():
            return [directory / name]
        index = directory / f"{name}.index.json"
        if index.is_file():
            parts = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
            return [directory / part for part in sorted(set(parts))]
    return []


def _read_weights(directory: Path) -> dict[str, Any]:
    """Return all weights of a model's directory, by their names without wrappers."""
    import torch
    from safetensors.torch import load_file

    weights: dict[str, Any] = {}
    for file in _loaded_files(directory):
        is_safe = file.suffix == contents.SAFETENSORS
        weights |= load_file(file) if is_safe else torch.load(file, "cpu", weights_only=True)
    names: dict[str, str] = {}
    for weight in weights:
        other = names.setdefault(unwrapped(weight), weight)
        if other != weight:
            raise ModelError(
                f"it has {other} and {weight}, which are one weight: remove the others than those to be used"
            )
    return {unwrapped(weight): value for weight, value in weights.items()}
