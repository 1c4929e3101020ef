"""DataLoaders whose workers are forked, spawned and forked by a server, side by side, with a step every half second.

The workers have nothing to do most of the time. What they inherit of the rank must not make them speak for it.
"""

import json
import time
from pathlib import Path

import torch
from torch import distributed, nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 20


def main() -> None:
    distributed.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
    kinds = ("fork", "spawn", "forkserver")
    loaders = [DataLoader(data, 2, num_workers=1, multiprocessing_context=kind) for kind in kinds]
    steps = 0
    for batches in zip(*loaders):
        for inputs, targets in batches:
            nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()
        steps += 1
        time.sleep(0.5)
        if steps == STEPS:
            break
    if distributed.get_rank() == 0:
        Path("output").mkdir()
        Path("output/all_results.json").write_text(json.dumps({"steps": steps}))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
