"""Ask small models about real texts, one by one and in batches, and print what they answer as JSON.

answers.py DIRECTORY         on a Python with torch and transformers; PYTHONPATH has the inference modules
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
import transformers
from amx_cluster.inference import engines, models, tasks
from amx_cluster.inference.loaded import Unavailable
from ansible_collections.amx.cluster.plugins.module_utils._jobs.known_models import MODELS

SENTENCE = "the a cat dog sat ran on under mat rug who where is what big small red blue and . ?"
WORDS = SENTENCE.split()
TEXTS = [
    " ".join(WORDS[(start + step) % 20] for step in range(length)) for start, length in enumerate((3, 9, 5, 14, 2))
]


def save(directory: Path, kind: str, automatic: Any) -> str:
    """Write a small model with a tokenizer of WORDS; return where it is."""
    config = models.configuration({"model": kind, "task": MODELS[kind].tasks[0], "small": kind})
    # The model knows the words of the tokenizer, which has five more.
    config.vocab_size = len(WORDS) + 5
    torch.manual_seed(1)
    model = automatic.from_config(config)
    # Random weights of the usual size hardly tell two texts apart.
    for parameter in model.parameters():
        parameter.data.mul_(4)
    model.save_pretrained(directory / kind)
    (directory / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]) + "\n")
    tokenizer = transformers.BertTokenizerFast(vocab=str(directory / "vocab.txt"))
    tokenizer.save_pretrained(directory / kind)
    return str(directory / kind)


def prepared(cell: dict[str, Any], rows: list[dict[str, Any]], columns: tuple[str, ...]) -> tuple[Any, Any]:
    loaded = models.load(cell)
    return loaded, engines.prepare(loaded, cell, tasks.encode(loaded, rows, columns, cell["sequence_length"], True))


def ask(cell: dict[str, Any], rows: list[dict[str, Any]], columns: tuple[str, ...], size: int) -> list[dict[str, Any]]:
    """Return the predictions, in batches of `size`."""
    loaded, call = prepared(cell, rows[:size], columns)
    fixed = call.fixed_shapes
    with torch.inference_mode():
        inputs = tasks.encode(loaded, rows, columns, cell["sequence_length"], fixed)
        outputs = tasks.in_batches(call, inputs, size, fixed)
    return tasks.decode(loaded, outputs, inputs, rows, columns)


def refused(cell: dict[str, Any]) -> str:
    try:
        models.load(cell)
    except Unavailable as error:
        return str(error)
    return ""


def main() -> None:
    directory = Path(sys.argv[1])
    common = {"precision": "fp32", "engine": "eager", "batch_size": 2, "sequence_length": 32}
    found: dict[str, Any] = {}

    path = save(directory, "distilbert", transformers.AutoModelForSequenceClassification)
    cell = {"model": "texts", "task": "text-classification", "path": path, **common}
    rows = [{"text": text} for text in TEXTS]
    found["texts"] = {
        "one by one": [ask(cell, [row], ("text",), 1)[0] for row in rows],
        "in batches": ask(cell, rows, ("text",), 2),
        "traced": ask({**cell, "engine": "trace"}, rows, ("text",), 2),
    }
    found["another task"] = refused({**cell, "task": "question-answering"})
    found["too long"] = ""
    try:
        ask({**cell, "sequence_length": 9999}, rows, ("text",), 2)
    except Unavailable as error:
        found["too long"] = str(error)

    path = save(directory, "bert-base", transformers.AutoModelForQuestionAnswering)
    cell = {"model": "questions", "task": "question-answering", "path": path, **common}
    contexts = [" ".join([text] * repeat) for text, repeat in zip(TEXTS, (1, 9, 3, 1, 20))]
    rows = [{"question": "where is the cat ?", "context": context} for context in contexts]
    columns = ("question", "context")
    loaded = models.load(cell)
    found["questions"] = {
        "contexts": contexts,
        "entries": tasks.encode(loaded, rows, columns, 32).rows,
        "one by one": [ask(cell, [row], columns, 1)[0] for row in rows],
        "in batches": ask(cell, rows, columns, 2),
    }

    path = save(directory, "llama-1b", transformers.AutoModelForCausalLM)
    cell = {"model": "generated", "task": "text-generation", "path": path, "new_tokens": 6, **common}
    rows = [{"prompt": text} for text in TEXTS]
    found["generated"] = {
        "one by one": [ask(cell, [row], ("prompt",), 1)[0] for row in rows],
        "in batches": ask(cell, rows, ("prompt",), 2),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
