"""Groups that end while gloo's threads still have tensors of them, and models that are freed right after."""

import json
import os
from pathlib import Path

import torch
from torch import distributed, nn

TIMES = 60


def train_in_a_group(store: distributed.Store, rank: int) -> None:
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
    model = nn.parallel.DistributedDataParallel(nn.Linear(50, 50))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _step in range(2):
        optimizer.zero_grad()
        model(torch.ones(4, 50)).sum().backward()
        optimizer.step()
    distributed.barrier()
    distributed.destroy_process_group()


def main() -> None:
    rank = int(os.environ["RANK"])
    place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = distributed.TCPStore(*place, 2, rank == 0)
    for number in range(TIMES):
        train_in_a_group(distributed.PrefixStore(str(number), store), rank)
    if rank == 0:
        Path("output").mkdir()
        Path("output/all_results.json").write_text(json.dumps({"ended": TIMES}))


if __name__ == "__main__":
    main()
