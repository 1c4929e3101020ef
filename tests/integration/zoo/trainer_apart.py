"""transformers' Trainer in a group, with a model that was never wrapped."""

import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import HfArgumentParser, Trainer, TrainingArguments


class Numbers(Dataset):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, place: int) -> dict[str, torch.Tensor]:
        x = torch.full((4,), float(place))
        return {"x": x, "labels": x.sum()}


class Line(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": nn.functional.mse_loss(self.line(x).squeeze(-1), labels)}


class Unwrapped(Trainer):
    def create_accelerator_and_postprocess(self) -> None:
        """What an evaluation before the training did with some versions of accelerate."""
        super().create_accelerator_and_postprocess()
        self.accelerator.prepare_model = lambda model, *_arguments, **_options: model


def main() -> None:
    (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    Unwrapped(model=Line(), args=args, train_dataset=Numbers()).train()


if __name__ == "__main__":
    main()
