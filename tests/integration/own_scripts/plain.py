"""torch.distributed and DistributedDataParallel, as PyTorch's tutorial has them."""

import torch
from report import BATCH, report
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main() -> None:
    distributed.init_process_group()
    torch.manual_seed(0)
    x = torch.randn(64, 4)
    rows = TensorDataset(x, x.sum(1, keepdim=True))
    sampler: DistributedSampler = DistributedSampler(rows, shuffle=False)
    loader = DataLoader(rows, batch_size=BATCH // distributed.get_world_size(), sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    first = loss = 0.0
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for inputs, targets in loader:
            optimizer.zero_grad()
            error = nn.functional.mse_loss(model(inputs), targets)
            error.backward()
            optimizer.step()
            first, loss = first or error.item(), error.item()
    report(model.module, first=first, loss=loss)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
