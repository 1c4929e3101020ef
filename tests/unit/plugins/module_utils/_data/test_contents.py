from __future__ import annotations

import json
import math
import re
import struct
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._data import contents
from support import weights

POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'a' * 64}\nsize 90868376\n"


def safetensors(*names: str) -> bytes:
    return weights.safetensors(bytes(len(names)), *names)


def index(*weights: tuple[str, str]) -> bytes:
    return json.dumps({"metadata": {}, "weight_map": dict(weights)}).encode()


SHARDS = {
    "model.safetensors.index.json": index(("a", "model-1.safetensors"), ("b", "model-2.safetensors")),
    "model-1.safetensors": safetensors("a"),
    "model-2.safetensors": safetensors("b"),
}


def problem(folder: Path, files: dict[str, bytes], of_model: bool = True) -> str:
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    try:
        contents.check(folder, files, of_model)
    except ValueError as error:
        return str(error).replace(str(folder), "M")
    return ""


@pytest.mark.parametrize(
    "files",
    [
        {"model.safetensors": safetensors("a", "b"), "config.json": b"{}", "vocab.txt": b"", "merges.txt": b"<html"},
        SHARDS,
        {**SHARDS, "pytorch_model.bin.index.json": index(("a", "pytorch_model-1.bin"))},
        {"model.safetensors.index.json": SHARDS["model.safetensors.index.json"], "config.json": b"{}"},
        {"model.safetensors": safetensors("a"), "checkpoint-10/model.safetensors": safetensors("a")[:-1]},
        {"notes.md": b"version https://git-lfs is what a pointer begins with" + b" " * 1000},
    ],
)
def test_whole_files_are_taken(tmp_path: Path, files: dict[str, bytes]) -> None:
    assert problem(tmp_path, files) == ""


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "model.safetensors",
            POINTER.encode(),
            "M/model.safetensors is a pointer of git-lfs, not the file itself: run",
        ),
        ("tokenizer.json", POINTER.encode(), "M/tokenizer.json is a pointer of git-lfs"),
        ("pytorch_model.bin", b"<!DOCTYPE html>\n<html>", "M/pytorch_model.bin is a web page, which a failed download"),
        ("config.json", b"\n<HTML><body>404", "M/config.json is a web page"),
        ("model.safetensors", b"", "M/model.safetensors is empty: copy"),
        ("pytorch_model.bin", b"", "M/pytorch_model.bin is empty: copy"),
        (
            "model.safetensors",
            safetensors("a", "b")[:-1],
            "M/model.safetensors has 163 bytes, and should have 164: copy",
        ),
        ("model.safetensors", safetensors("a")[:40], "M/model.safetensors is damaged, it is no file of safetensors: c"),
        ("model.safetensors", safetensors("a")[:4], "M/model.safetensors is damaged"),
        ("model.safetensors", b"PK\3\4" + bytes(100), "M/model.safetensors is damaged"),
        ("model.safetensors.index.json", b"[]", "M/model.safetensors.index.json is damaged, it is no index"),
    ],
)
def test_a_file_that_is_not_what_its_name_says(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    assert problem(tmp_path, {name: content}).startswith(said)


def test_a_missing_shard_and_a_wrong_index(tmp_path: Path) -> None:
    half = {name: content for name, content in SHARDS.items() if name != "model-2.safetensors"}
    said = "M lacks model-2.safetensors, which model.safetensors.index.json names: copy or download it again"
    assert problem(tmp_path, half) == said
    wrong = {**SHARDS, "model-2.safetensors": safetensors("c")}
    assert problem(tmp_path, wrong).startswith(
        "M/model.safetensors.index.json names weights that its files do not have"
    )


def test_data_may_be_anything_but_pointers(tmp_path: Path) -> None:
    assert problem(tmp_path, {"rows.bin": b"", "page.json": b"<html>"}, of_model=False) == ""
    assert "rows.csv is a pointer of git-lfs" in problem(tmp_path, {"rows.csv": POINTER.encode()}, of_model=False)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["config.json", "model.safetensors"], ""),
        (["config.json", "pytorch_model-1.bin"], ""),
        (["config.json", "int8.safetensors"], ""),
        (["adapter_config.json", "adapter_model.safetensors"], "has an adapter, and not the model that it changes"),
        (["adapter_config.json", "config.json", "model.safetensors"], "has an adapter"),
        (["model.safetensors"], "has no config.json"),
        (["config.json", "model.gguf"], "has weights for llama.cpp only: save the model as safetensors"),
        (["config.json", "model.onnx"], "has weights for ONNX only"),
        (["config.json", "tf_model.h5", "flax_model.msgpack"], "has weights for"),
        (["config.json", "training_args.bin"], "has no weights"),
    ],
)
def test_directories_without_a_model(names: list[str], said: str) -> None:
    assert re.match(said or "$", contents.lacks(names))


@pytest.mark.parametrize("dtype", ["F32", "BF16", "F16", "F64"])
@pytest.mark.parametrize("value", [float("nan"), float("-nan"), float("inf"), float("-inf"), 1.0, -3e4, 0.0])
def test_weights_that_are_not_finite(tmp_path: Path, dtype: str, value: float) -> None:
    code = {"F32": "f", "F16": "e", "F64": "d", "BF16": "f"}[dtype]
    parts = [struct.pack(f"<{code}", number) for number in (-0.5, value, 2.0**-130 if dtype == "F32" else 0.25)]
    parts = [part[2:] for part in parts] if dtype == "BF16" else parts
    path = tmp_path / "adapter_model.safetensors"
    first, tensors = b"".join(parts[::2]), {}
    for name, begin, data in (("a", 0, first), ("b", len(first), b"".join(parts))):
        tensors[name] = {"dtype": dtype, "shape": [1], "data_offsets": [begin, begin + len(data)]}
    text = json.dumps({"__metadata__": {}, **tensors}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + first + b"".join(parts))
    assert contents.not_finite(path) == ("" if math.isfinite(value) or dtype == "F64" else "b")
