"""An `Accelerator()` and a loop of one's own."""

import torch
from accelerate import Accelerator
from report import BATCH, report
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    accelerator = Accelerator()
    torch.manual_seed(0)
    x = torch.randn(64, 4)
    rows = TensorDataset(x, x.sum(1, keepdim=True))
    loader = DataLoader(rows, batch_size=BATCH // accelerator.num_processes)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    first = loss = 0.0
    for _epoch in range(2):
        for inputs, targets in loader:
            optimizer.zero_grad()
            error = nn.functional.mse_loss(model(inputs), targets)
            accelerator.backward(error)
            optimizer.step()
            first, loss = first or error.item(), error.item()
    report(accelerator.unwrap_model(model), first=first, loss=loss, precision=accelerator.mixed_precision)
    accelerator.end_training()


if __name__ == "__main__":
    main()
