# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that are not what their names say: pointers of git-lfs, half downloads, pages that say what went wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

POINTER = b"version https://git-lfs"
# A pointer is smaller (the specification of git-lfs, https://github.com/git-lfs/git-lfs).
POINTER_BYTES = 1024
SAFETENSORS = ".safetensors"
WEIGHTS = (SAFETENSORS, ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".gguf", ".onnx")
# What weights for other libraries than PyTorch end with.
OTHERS = {".gguf": "llama.cpp", ".onnx": "ONNX", ".h5": "TensorFlow", ".msgpack": "Flax"}
AGAIN = "copy or download it again"
# Bytes of a value; and what its last byte is, with either sign, where all bits of the exponent are 1, or nearly all.
LARGE = {
    "F32": (4, (0x7F, 0xFF)),
    "BF16": (2, (0x7F, 0xFF)),
    "F16": (2, (*range(0x7C, 0x80), *range(0xFC, 0x100))),
}
PIECE = 16 << 20


def check(directory: Path, names: Iterable[str], of_model: bool = False) -> None:
    """Raise ValueError for a file in a directory that is not what its name says, with what to do.

    of_model: whether they are of a model. Checkpoints of a training in it are passed over. Raises OSError.
    """
    for name in names:
        if of_model and re.match(r"checkpoint-\d+/", name):
            continue
        path = directory / name
        begins = _beginning(path)
        if begins.startswith(POINTER) and path.stat().st_size < POINTER_BYTES:
            raise ValueError(
                f"{path} is a pointer of git-lfs, not the file itself: run `git lfs pull` in {path.parent}, or {AGAIN}"
            )
        if of_model and path.suffix in (*WEIGHTS, ".json") and begins.lstrip()[:5].lower() in (b"<!doc", b"<html"):
            raise ValueError(f"{path} is a web page, which a failed download left: {AGAIN}")
        if of_model and path.suffix in WEIGHTS and not begins:
            raise ValueError(f"{path} is empty: {AGAIN}")
        if of_model and path.suffix == SAFETENSORS:
            header(path)
        if of_model and path.name.endswith((".safetensors.index.json", ".bin.index.json")):
            _check_shards(path)


def _beginning(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(64)


def header(path: Path) -> dict[str, Any]:
    """Return {name: {dtype, shape, ..}} of the tensors in a file. Raises ValueError where it is not a whole one of
    safetensors, OSError."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        text = stream.read(length) if length <= size - 8 else b""
    try:
        tensors = json.loads(text)
        tensors.pop("__metadata__", None)
        end = max((int(tensor["data_offsets"][1]) for tensor in tensors.values()), default=0)
    except (ValueError, AttributeError, LookupError, TypeError):
        raise ValueError(f"{path} is damaged, it is no file of safetensors: {AGAIN}") from None
    if size != 8 + length + end:
        raise ValueError(f"{path} has {size} bytes, and should have {8 + length + end}: {AGAIN}")
    return dict(tensors)


def not_finite(path: Path) -> str:
    """Return the name of a tensor in a file of safetensors with a value that is NaN, infinite or at least 2**127.

    Empty where there is none; other types than F32, BF16 and F16 are passed over. Raises as `header` does.
    """
    tensors = header(path)
    with path.open("rb") as stream:
        begin = 8 + int.from_bytes(stream.read(8), "little")
        for name, tensor in tensors.items():
            size, bad = LARGE.get(tensor["dtype"], (1, ()))
            at, end = tensor["data_offsets"]
            stream.seek(begin + at)
            for start in range(at, end if bad else at, PIECE):
                last = stream.read(min(PIECE, end - start))[size - 1 :: size]
                if any(byte in last for byte in bad):
                    return str(name)
    return ""


def _check_shards(index: Path) -> None:
    """Raise ValueError for a model in several files of which some are there, and others not."""
    try:
        shards = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        names = sorted(set(shards.values()))
    except (ValueError, LookupError, TypeError, AttributeError):
        raise ValueError(f"{index} is damaged, it is no index of weights: {AGAIN}") from None
    missing = [name for name in names if not (index.parent / name).is_file()]
    # A repository may have its weights twice, of which one was fetched; or none, for a model with new weights.
    if missing and len(missing) < len(names):
        rest = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ValueError(f"{index.parent} lacks {missing[0]}{rest}, which {index.name} names: {AGAIN}")
    if missing or index.name.endswith(".bin.index.json"):
        return
    there = {tensor for name in names for tensor in header(index.parent / name)}
    absent = sorted(set(shards) - there)
    if absent:
        raise ValueError(f"{index} names weights that its files do not have, such as {absent[0]}: {AGAIN}")


def lacks(names: Iterable[str]) -> str:
    """Return why files of these names are no model that predicts, an empty text where they are one."""
    names = sorted(names)
    if "adapter_config.json" in names:
        return (
            "has an adapter, and not the model that it changes: name a model that it was merged into (merge: true of "
            "train_decoder.py)"
        )
    if "config.json" not in names:
        return "has no config.json"
    if any(Path(name).suffix == SAFETENSORS or re.fullmatch(r"pytorch_model.*\.bin", name) for name in names):
        return ""
    other = next((OTHERS[Path(name).suffix] for name in names if Path(name).suffix in OTHERS), "")
    if other:
        return f"has weights for {other} only: save the model as safetensors (save_pretrained of transformers)"
    return "has no weights (*.safetensors, pytorch_model*.bin)"
