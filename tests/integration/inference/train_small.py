"""Train a small DistilBERT to tell texts with more animals than things: train_small.py DIRECTORY

Writes distilbert/ (the model) and rows.csv (number, text, label) with its evaluation data; PYTHONPATH has the inference
modules.
"""

from __future__ import annotations

import csv
import random
import sys
from pathlib import Path

import torch
import transformers
from answers import save

ANIMALS, THINGS, OTHERS = ("cat", "dog"), ("mat", "rug"), ("the", "a", "sat", "ran", "on", "big", "red", "blue")


def texts(count: int, seed: int) -> list[tuple[str, int]]:
    chosen = random.Random(seed)
    found = []
    for number in range(count):
        label = number % 2
        words = chosen.choices(OTHERS, k=chosen.randint(3, 8))
        words += chosen.choices(ANIMALS if label else THINGS, k=2) + chosen.choices(THINGS if label else ANIMALS, k=1)
        chosen.shuffle(words)
        found.append((" ".join(words), label))
    return found


def main() -> None:
    directory = Path(sys.argv[1])
    path = save(directory, "distilbert", transformers.AutoModelForSequenceClassification)
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    transformers.set_seed(3)
    config = transformers.AutoConfig.from_pretrained(path)
    config.id2label, config.label2id = {0: "things", 1: "animals"}, {"things": 0, "animals": 1}
    model = transformers.AutoModelForSequenceClassification.from_config(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    rows = texts(2560, seed=1)
    for first in range(0, len(rows), 32):
        part = rows[first : first + 32]
        inputs = tokenizer([text for text, _label in part], padding=True, return_tensors="pt")
        inputs.pop("token_type_ids", None)
        loss = model(**inputs, labels=torch.tensor([label for _text, label in part])).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(f"loss {loss.item():.3f}")
    model.save_pretrained(path)
    with (directory / "rows.csv").open("w", newline="") as stream:
        lines = [(number, text, config.id2label[label]) for number, (text, label) in enumerate(texts(400, seed=2))]
        csv.writer(stream).writerows([("number", "text", "label"), *lines])


if __name__ == "__main__":
    main()
