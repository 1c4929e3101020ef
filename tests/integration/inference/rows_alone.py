"""What a row gets alone and in a batch of others, in each precision: rows_alone.py DIRECTORY, of train_small.py.

PYTHONPATH has the inference modules.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
import transformers
from amx_cluster.inference.instance import Instance
from ansible_collections.amx.cluster.plugins.module_utils._data.rows import Record
from answers import save
from train_small import texts

# The most by which a score moves when a batch has another shape. int8: a value between two levels takes the other.
ROUNDING = {"fp32": 2e-6, "bf16": 0.01, "dynamic": 0.01}


def instance(directory: Path, name: str, task: str, precision: str = "fp32", **more: Any) -> Instance:
    cell: dict[str, Any] = {"model": name, "task": task, "path": str(directory / name), "precision": precision}
    cell.update(engine="eager", batch_size=16, sequence_length=32, emulation=True, **more)
    return Instance(cell, ["prompt" if task == "text-generation" else "text"], 1, [])


def records(some: list[str], column: str = "text") -> list[Record]:
    return [Record(number, {column: text}) for number, text in enumerate(some)]


def answers(asked: Instance, some: list[str], column: str = "text") -> tuple[dict[int, Any], dict[int, str]]:
    good, added, broken = asked.predict(records(some, column), lambda _done: None)
    return {record.line: one for record, one in zip(good, added)}, {record.line: record.problem for record in broken}


def main() -> None:
    directory = Path(sys.argv[1])
    some = [text for text, _label in texts(24, seed=5)]
    long = " ".join(some)
    for kind, rounding in ROUNDING.items():
        more = {"int8": kind} if kind == "dynamic" else {}
        asked = instance(directory, "distilbert", "text-classification", "int8" if more else kind, **more)
        together, broken = answers(asked, [*some, long, "cat", long])
        assert not broken, broken
        for number, text in enumerate(some):
            (alone,) = answers(asked, [text])[0].values()
            moved = abs(alone["predicted_score"] - together[number]["predicted_score"])
            assert moved <= rounding, (kind, moved)
            assert alone["predicted_label"] == together[number]["predicted_label"] or alone["predicted_score"] < 0.52
        # A token whose embedding is not a number, and one on which the model fails.
        embedding = asked.loaded.model.get_input_embeddings()
        numbers = {
            word: asked.loaded.tokenizer(word, add_special_tokens=False)["input_ids"][0] for word in ("rug", "big")
        }
        for value in (float("nan"), float("inf")):
            with torch.no_grad():
                embedding.weight[numbers["rug"]] = value
            found, broken = answers(asked, some)
            lost = {number for number, text in enumerate(some) if "rug" in text.split()}
            assert lost and set(broken) == lost, (kind, lost, broken)
            assert all("not a number" in reason for reason in broken.values()), broken
            for number, one in found.items():
                assert abs(one["predicted_score"] - together[number]["predicted_score"]) <= rounding, (kind, number)

        def fail(_module: Any, inputs: Any, numbers: Any = numbers) -> None:
            if bool((inputs[0] == numbers["big"]).any()):
                raise IndexError("index out of range in self")

        hook = embedding.register_forward_pre_hook(fail)
        found, broken = answers(asked, some)
        hook.remove()
        fails = {number for number, text in enumerate(some) if "big" in text.split()}
        assert fails and fails <= set(broken) == fails | lost, (fails, broken)
        assert all("IndexError: index out of range" in broken[number] for number in fails)
    save(directory, "llama-1b", transformers.AutoModelForCausalLM)
    asked = instance(directory, "llama-1b", "text-generation", new_tokens=4)
    asked.loaded.tokenizer.add_bos_token = False
    prompts = [text for text, _label in texts(5, seed=6)]
    alone = [answers(asked, [text], "prompt")[0][0] for text in prompts]
    number = asked.loaded.tokenizer("blue", add_special_tokens=False)["input_ids"][0]
    asked.loaded.model.get_input_embeddings().register_forward_hook(
        lambda _module, inputs, values: values.masked_fill((inputs[0] == number)[..., None], float("nan"))
    )
    found, broken = answers(asked, ["", *prompts, "blue cat", " "], "prompt")
    assert list(found.values()) == [one for one, text in zip(alone, prompts) if "blue" not in text.split()], found
    assert broken.pop(0)
    assert broken.pop(7)
    assert broken and set(broken) == {1 + at for at, text in enumerate([*prompts, "blue"]) if "blue" in text}, broken
    assert list(answers(asked, [""], "prompt")[1]) == [0]
    print("right")


if __name__ == "__main__":
    main()
