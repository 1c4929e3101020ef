"""transformers' Trainer with a model that is sharded over the ranks: each has another part of the gradient.

The job sets accelerate's variables for that, too; accelerate heeds them on CPUs or not, by its version.
"""

import json
from pathlib import Path

import torch
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.utils.data import Dataset
from transformers import HfArgumentParser, Trainer, TrainingArguments


class Numbers(Dataset):
    def __init__(self, count: int) -> None:
        self.inputs = torch.randn(count, 4, generator=torch.Generator().manual_seed(1))

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, place: int) -> dict[str, torch.Tensor]:
        return {"x": self.inputs[place], "labels": self.inputs[place].sum()}


class Lines(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lines = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.lines(x).squeeze(-1)
        return {"loss": nn.functional.mse_loss(y, labels), "logits": y}


class Sharded(Trainer):
    def create_accelerator_and_postprocess(self) -> None:
        super().create_accelerator_and_postprocess()
        self.accelerator.prepare_model = lambda model, *_arguments, **_options: model  # it is as it should be


def main() -> None:
    (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    assert args.device.type == "cpu"  # which forms the group
    # Each parameter is still one by itself, a plain tensor, of which this rank has a part.
    model = FullyShardedDataParallel(Lines(), use_orig_params=True, device_id=torch.device("cpu"))
    trained = Sharded(model=model, args=args, train_dataset=Numbers(64)).train()
    mine = sum(parameter.numel() for parameter in model.parameters())
    if args.process_index == 0:
        Path(args.output_dir).mkdir(exist_ok=True)
        share = mine / (5 * 64 + 65)
        Path(args.output_dir, "all_results.json").write_text(json.dumps({**trained.metrics, "left": 1 - share}))


if __name__ == "__main__":
    main()
