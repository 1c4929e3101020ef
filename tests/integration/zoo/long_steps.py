"""transformers' Trainer: a step of 100 micro-batches, and two evaluations, each longer than a job may stall.

Part of it computes and part of it only takes long, as where data come from afar.
"""

import json
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import HfArgumentParser, Trainer, TrainingArguments

PAUSE = 0.09  # seconds a micro-batch


class Numbers(Dataset):
    """What a line through the origin has at some places."""

    def __init__(self, count: int) -> None:
        self.inputs = torch.randn(count, 4, generator=torch.Generator().manual_seed(1))

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, place: int) -> dict[str, torch.Tensor]:
        return {"x": self.inputs[place], "labels": self.inputs[place].sum()}


class Line(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        time.sleep(PAUSE)
        y = self.line(x).squeeze(-1)
        return {"loss": nn.functional.mse_loss(y, labels), "logits": y}


def metrics(_predicted: object) -> dict[str, float]:
    """Compute for longer than a job may stall."""
    end = time.monotonic() + 7
    count = 0
    while time.monotonic() < end:
        count += 1
    return {"counted": 1.0}


def main() -> None:
    (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    trainer = Trainer(model=Line(), args=args, train_dataset=Numbers(400), eval_dataset=Numbers(120))
    trained = trainer.train()
    trainer.evaluate()
    trainer.compute_metrics = metrics
    result = trainer.evaluate()
    if trainer.is_world_process_zero():
        steps = trainer.state.global_step
        Path(args.output_dir, "all_results.json").write_text(json.dumps({**trained.metrics, **result, "steps": steps}))


if __name__ == "__main__":
    main()
