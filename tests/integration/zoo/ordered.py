"""transformers' Trainer that draws rows of like length together: what it predicts of a row is that of this row."""

import json
import os
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import HfArgumentParser, Trainer, TrainingArguments

# Of different lengths, with their number as label.
TEXTS: list[dict[str, Any]] = [{"input_ids": [place] * (1 + place * 37 % 41), "labels": place} for place in range(203)]


class Echo(nn.Module):
    """Predicts the number of a row."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": self.weight * labels.float().mean(), "logits": input_ids[:, :1].float()}


def padded(rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    longest = max(len(row["input_ids"]) for row in rows)
    texts = [row["input_ids"] + [0] * (longest - len(row["input_ids"])) for row in rows]
    return {"input_ids": torch.tensor(texts), "labels": torch.tensor([row["labels"] for row in rows])}


def main() -> None:
    (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    trainer = Trainer(model=Echo(), args=args, train_dataset=TEXTS, data_collator=padded)
    trainer.train()
    predicted = trainer.predict(TEXTS)
    if int(os.environ["RANK"]) == 0:
        right = sum(int(number) == place for place, number in enumerate(predicted.predictions[:, 0]))
        Path("output").mkdir(exist_ok=True)
        Path("output/all_results.json").write_text(json.dumps({"right": right, "rows": len(predicted.label_ids)}))


if __name__ == "__main__":
    main()
