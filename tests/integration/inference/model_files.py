"""Damage and wrap the files of small models, and print what becomes of loading each, as JSON.

model_files.py DIRECTORY         on a Python with torch and transformers; PYTHONPATH has the inference modules
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from amx_cluster.inference import tasks
from ansible_collections.amx.cluster.plugins.module_utils._data.model_files import ModelError, load_weights
from safetensors.torch import load_file, save_file

SIZES = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
TEXTS = transformers.AutoModelForSequenceClassification
State = dict[str, Any]


class Case:
    """A copy of a model, whose weights were changed."""

    def __init__(self, place: Path, original: Path, change: Callable[[State], State], pickled: bool = False) -> None:
        shutil.copytree(original, place)
        self.place, self.original = place, load_file(original / "model.safetensors")
        changed = {name: one.clone() for name, one in change(dict(self.original)).items()}
        if pickled:
            (place / "model.safetensors").unlink()
            torch.save(changed, place / "pytorch_model.bin")
        else:
            save_file(changed, place / "model.safetensors", {"format": "pt"})

    def loaded(self, new_head: bool = False, automatic: Any = TEXTS, **changes: Any) -> str:
        """Return what is wrong, `new: NAMES`, or `same` for the weights of the original."""
        config = transformers.AutoConfig.from_pretrained(self.place, **changes)
        try:
            model, new = load_weights(automatic, str(self.place), config, new_head=new_head)
        except ModelError as error:
            return str(error).replace(str(self.place), "M")
        state = model.state_dict()
        same = all(torch.equal(one, self.original[name]) for name, one in state.items() if name in self.original)
        return f"new: {', '.join(new)}" if new else "same" if same else "other weights"


def renamed(change: Callable[[str], str]) -> Callable[[State], State]:
    return lambda state: {change(name): one for name, one in state.items()}


def without(part: str) -> Callable[[State], State]:
    return lambda state: {name: one for name, one in state.items() if part not in name}


def main() -> None:
    transformers.utils.logging.set_verbosity_error()
    folder = Path(sys.argv[1])
    bert = transformers.BertForSequenceClassification(transformers.BertConfig(**SIZES, max_position_embeddings=32))
    bert.save_pretrained(folder / "bert")
    llama = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES, tie_word_embeddings=True))
    llama.save_pretrained(folder / "llama")
    masked = transformers.BertForMaskedLM(transformers.BertConfig(**SIZES, max_position_embeddings=32))
    masked.save_pretrained(folder / "masked")
    number = 0

    def case(change: Callable[[State], State], of: str = "bert", pickled: bool = False) -> Case:
        nonlocal number
        number += 1
        return Case(folder / str(number), folder / of, change, pickled)

    def same(state: State) -> State:
        return state

    wrapped = {
        "ddp": lambda name: f"module.{name}",
        "compiled ddp": lambda name: f"_orig_mod.module.{name}",
        "fsdp in the middle": lambda name: name.replace(
            "layer.0.", "layer.0._fsdp_wrapped_module._checkpoint_wrapped_module."
        ),
        "compiled inner model": lambda name: name.replace("bert.", "bert._orig_mod."),
        "compiled layers": lambda name: name.replace(".weight", "._orig_mod.weight"),
    }
    found: dict[str, Any] = {name: case(renamed(change)).loaded() for name, change in wrapped.items()}
    found["pickled ddp"] = case(renamed(wrapped["ddp"]), pickled=True).loaded()
    found["decoder"] = case(renamed(wrapped["ddp"]), "llama").loaded(automatic=transformers.AutoModelForCausalLM)
    found["tied"] = case(same, "llama").loaded(automatic=transformers.AutoModelForCausalLM)

    headless, of_another = case(without("classifier")), case(same, "masked")
    found["no head"] = headless.loaded()
    found["no head that it says it has"] = headless.loaded(new_head=True)
    found["head of a new task"] = of_another.loaded(new_head=True)
    found["head of another task"] = of_another.loaded()
    found["more labels"] = case(same).loaded(new_head=True, num_labels=5)
    found["more labels, asked"] = case(same).loaded(num_labels=5)
    found["no layer"] = case(without("layer.0.output"), "masked").loaded(new_head=True)
    found["another vocabulary"] = case(same).loaded(new_head=True, vocab_size=70)
    found["unmerged"] = case(renamed(lambda name: f"base_model.model.{name}")).loaded()
    found["unknown wrapper"] = case(renamed(lambda name: f"student.{name}")).loaded(new_head=True)
    found["two values of a weight"] = case(
        lambda state: {**state, **{f"module.{name}": one + 1 for name, one in state.items()}}
    ).loaded()
    deeper = transformers.BertForSequenceClassification(
        transformers.BertConfig(**{**SIZES, "num_hidden_layers": 3}, max_position_embeddings=32)
    )
    deeper.save_pretrained(folder / "deeper")
    found["fewer layers"] = case(same, "deeper").loaded(new_head=True, num_hidden_layers=2)
    found["further weights"] = case(lambda state: {**state, "cls.1.bias": torch.ones(2)}).loaded()
    found["fp32, and config.json says bf16"] = case(same).loaded(dtype="bfloat16")

    def narrowed(dtype: torch.dtype) -> Callable[[State], State]:
        return lambda state: {
            name: (one * 100).to(dtype) if name.endswith("query.weight") else one for name, one in state.items()
        }

    for dtype in (torch.int8, torch.float8_e4m3fn, torch.int64):
        found[f"stored as {dtype}"] = case(narrowed(dtype)).loaded()
        found[f"pickled as {dtype}"] = case(narrowed(dtype), pickled=True).loaded()
    found["base stored as int8"] = case(
        lambda state: renamed(lambda name: name.removeprefix("bert."))(
            narrowed(torch.int8)(without("classifier")(state))
        )
    ).loaded(new_head=True)
    beside = case(same)
    save_file(narrowed(torch.int8)(beside.original), beside.place / "model.int8.safetensors")
    (beside.place / "model.old.safetensors").write_bytes(b"no weights")
    found["other files beside its own"] = beside.loaded()
    counted = case(same, pickled=True)
    torch.save({**counted.original, "epoch": 3}, counted.place / "pytorch_model.bin")
    found["pickled with a number"] = counted.loaded()
    mask = torch.tensor([[1, 1, 0], [1, 1, 1], [1, 1, 0], [1, 0, 0], [1, 1, 0]])
    inputs, shapes = tasks.Inputs({"attention_mask": mask}), []
    inputs.unmasked = True

    def call(batch: tasks.Inputs) -> dict[str, Any]:
        shapes.append(list(batch["attention_mask"].shape))
        return {"logits": batch["attention_mask"].sum(1)}

    lengths = tasks.in_batches(call, inputs, 2)["logits"].tolist()
    found["without padding"] = {"shapes": shapes, "lengths": lengths}
    adapter = case(same)
    (adapter.place / "adapter_config.json").write_text("{}")
    found["adapter"] = adapter.loaded()
    for name, content in {"empty": b"", "page": b"<!DOCTYPE html>", "half": b"\x80\0\0\0\0\0\0\0{"}.items():
        damaged = case(same)
        (damaged.place / "model.safetensors").write_bytes(content)
        found[f"{name} file"] = damaged.loaded(new_head=True)
        damaged = case(same, pickled=True)
        (damaged.place / "pytorch_model.bin").write_bytes(content)
        found[f"{name} pickle"] = damaged.loaded()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
