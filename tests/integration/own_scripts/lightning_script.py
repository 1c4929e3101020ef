"""Lightning: a LightningModule and its Trainer."""

import os

import lightning
import torch
from report import BATCH, report
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Line(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
        self.losses: list[float] = []

    def training_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
        loss = nn.functional.mse_loss(self.model(batch[0]), batch[1])
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.05)


def main() -> None:
    torch.manual_seed(0)
    x = torch.randn(64, 4)
    ranks = int(os.environ["WORLD_SIZE"])
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=BATCH // ranks)
    here = int(os.environ["LOCAL_WORLD_SIZE"])
    trainer = lightning.Trainer(
        accelerator="cpu",
        strategy="ddp",
        devices=here,
        num_nodes=ranks // here,
        max_epochs=2,
        default_root_dir="output",
    )
    model = Line()
    trainer.fit(model, loader)
    report(model, first=model.losses[0], loss=model.losses[-1])


if __name__ == "__main__":
    main()
