"""transformers' Trainer with a small model: its weights at the end are in all_results.json, and where it began."""

import json
import os
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import HfArgumentParser, Trainer, TrainerCallback, TrainingArguments


class Numbers(Dataset):
    def __len__(self) -> int:
        return 4096

    def __getitem__(self, place: int) -> dict[str, torch.Tensor]:
        x = torch.linspace(0, 1, 4) * (place % 7)
        return {"x": x, "labels": x.sum()}


class Line(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": nn.functional.mse_loss(self.line(x).squeeze(-1), labels)}


class Slowly(TrainerCallback):
    """A step takes long enough for a notice to come in between."""

    def on_step_begin(self, args: Any, state: Any, control: Any, **_others: Any) -> None:
        time.sleep(float(os.environ.get("STEP_SECONDS", "0.1")))


def main() -> None:
    (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    trainer = Trainer(model=Line(), args=args, train_dataset=Numbers(), callbacks=[Slowly()])
    trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
    if int(os.environ["RANK"]) == 0:
        found = {"steps": trainer.state.global_step, "from": args.resume_from_checkpoint, "world": args.world_size}
        Path("output").mkdir(exist_ok=True)
        Path("output/all_results.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
