"""A model in DistributedDataParallel, which one rank or the input may hold up: HELD_UP is input, rank or nothing."""

import json
import os
import time
from pathlib import Path

import torch
from torch import distributed, nn
from torch.utils.data import DataLoader, Dataset

STEPS = 16
SECONDS = 0.2  # much longer than all else, also on a busy machine
HELD_UP = os.environ.get("HELD_UP", "")


class Numbers(Dataset):
    def __len__(self) -> int:
        return 16 * STEPS

    def __getitem__(self, place: int) -> torch.Tensor:
        if HELD_UP == "input" and place % 16 == 0:
            time.sleep(SECONDS)
        return torch.full((256,), float(place))


def main() -> None:
    distributed.init_process_group(os.environ.get("BACKEND", "gloo"))
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    steps = 0
    for place, batch in enumerate(DataLoader(Numbers(), batch_size=8)):
        if HELD_UP == "rank" and distributed.get_rank() == 1:
            time.sleep(SECONDS / 2)
        if place % 2 == 0:  # the first of two micro-batches
            with model.no_sync():
                model(batch).mean().backward()
            continue
        model(batch).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        steps += 1
    if distributed.get_rank() == 0:
        Path("output").mkdir()
        Path("output/all_results.json").write_text(json.dumps({"steps": steps}))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
