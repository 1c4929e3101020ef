# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""LoRA adapters that a server answers with by name, beside the model that they change (serve_adapters)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._data import contents
from ansible_collections.amx.cluster.plugins.module_utils._text import words

# As save_pretrained of peft writes them; what else is beside them, such as a tokenizer, is the model's.
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
# Before the name of an adapter, as a model of the server's job.
PREFIX = "adapter-"
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,50}")
# What vLLM 0.32 takes as --max-lora-rank.
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
# Features of peft that it does not have; the initial weights that leave the model's own as they are.
UNKNOWN = (
    *("use_dora", "modules_to_save", "lora_bias", "trainable_token_indices", "alora_invocation_tokens"),
    *("layer_replication", "use_bdlora", "use_qalora"),
)
INITIAL = ("gaussian", "eva", "orthogonal", "mica", "lora_ga")
MATRIX = re.compile(r"base_model\.model\.(.+)\.lora_([AB])\.weight")


def read(given: object, engine: str) -> dict[str, str]:
    """Return {name: job, directory or head:PATH} of the adapters that were requested. Raises ValueError.

    given: a mapping, or text such as "polite=lora,short=/models/short". engine: that serves.
    """
    pairs = list(given.items()) if isinstance(given, Mapping) else [word.split("=", 1) for word in words(given)]  # type: ignore[arg-type]
    adapters: dict[str, str] = {}
    for name, *rest in pairs:
        if not NAME.fullmatch(str(name)) or not rest or not rest[0]:
            raise ValueError(
                f"serve_adapters: {'='.join(map(str, [name, *rest]))!r} is not NAME=JOB or NAME=DIRECTORY, with a name "
                "of lower-case letters, digits, '.', '_' and '-'"
            )
        if name in adapters:
            raise ValueError(f"serve_adapters: {name} is there twice: give each adapter a name of its own")
        adapters[name] = str(rest[0])
    if adapters and engine != "vllm":
        raise ValueError(
            f"serve_adapters: serve_engine: {engine} serves one set of weights, without adapters by name: set "
            "serve_engine: vllm, or serve a model that the adapter was merged into (merge: true of train_decoder.py)"
        )
    return adapters


def is_job(source: str) -> bool:
    """Return whether an adapter is that of a job, and not of a directory, which has a slash."""
    return "/" not in source and not source.startswith((".", "~"))


def lacks(names: Iterable[str]) -> str:
    """Return why files of these names are no adapter, an empty text where they are one."""
    missing = sorted({CONFIG, WEIGHTS} - set(names))
    return f"has no {' and no '.join(missing)}, as peft saves an adapter" if missing else ""


def shapes(directory: Path) -> dict[str, list[int]]:
    """Return the shape of each weight in the safetensors files of a directory. Raises OSError, ValueError."""
    files = sorted(directory.glob(f"*{contents.SAFETENSORS}"))
    return {name: tensor["shape"] for path in files for name, tensor in contents.header(path).items()}


def rank(config: Mapping[str, Any]) -> int:
    """Return the largest rank in an adapter's configuration. Raises ValueError."""
    ranks = [config.get("r"), *(config.get("rank_pattern") or {}).values()]
    if not all(isinstance(number, int) and 1 <= number <= RANKS[-1] for number in ranks):
        raise ValueError(f"has the ranks {', '.join(map(str, ranks))} ({CONFIG}), and vLLM serves 1 to {RANKS[-1]}")
    return max(ranks)


def check(adapter: Mapping[str, Any], model: Mapping[str, Any], label: str) -> int:
    """Return the rank of an adapter. Raises ValueError where it cannot be served with a model.

    adapter: as prediction_files.of_job returns it, with `shapes` and `base`, hashes of the weights that it was trained
    on, if known. model: the same, with `weights`, such hashes. label: what the model is called.
    """
    config = adapter["config"]
    if config.get("peft_type") != "LORA":
        raise ValueError(f"is {config.get('peft_type')} ({CONFIG}), and vLLM serves LORA")
    unknown = [f"{key}: {config[key]}" for key in UNKNOWN if config.get(key)]
    alpha = config.get("lora_alpha")
    if isinstance(alpha, bool) or not isinstance(alpha, (int, float)):
        raise ValueError(f"has lora_alpha: {alpha} ({CONFIG}), where a number is expected: save the adapter again")
    unknown += [f"bias: {config['bias']}"] if config.get("bias", "none") != "none" else []
    initial = config.get("init_lora_weights")
    unknown += [f"init_lora_weights: {initial}"] if isinstance(initial, str) and initial not in INITIAL else []
    if unknown:
        raise ValueError(f"has {unknown[0]} ({CONFIG}), which vLLM does not serve: train it without")
    if adapter["base"] and model["weights"] and set(adapter["base"]) != set(model["weights"]):
        raise ValueError(
            f"was trained with other weights than those of {label}: serve the model that it was trained on"
        )
    largest, ranks = rank(config), {config["r"], *(config.get("rank_pattern") or {}).values()}
    for name, shape in adapter["shapes"].items():
        matrix = MATRIX.fullmatch(name)
        base = model["shapes"].get(f"{matrix[1]}.weight") if matrix else None
        if not model["shapes"] or matrix is None or (base is None and matrix[1] == "lm_head"):  # tied to the embedding
            continue
        size = None if base is None else (base[::-1] if config.get("fan_in_fan_out") else base)[matrix[2] == "A"]
        if size != shape[matrix[2] == "A"]:
            raise ValueError(
                f"changes {matrix[1]} of {shape[matrix[2] == 'A']} {'in' if matrix[2] == 'A' else 'out'}puts, and "
                f"{label} has {'none' if size is None else size} there: serve the model that it was trained on"
            )
        if shape[matrix[2] == "B"] not in ranks:
            raise ValueError(
                f"changes {matrix[1]} by matrices of rank {shape[matrix[2] == 'B']}, which {CONFIG} does not name: "
                "copy both files again"
            )
    return largest
