"""A backward pass of rank 0 that computes for longer than a job may stall. The other ranks wait for its gradients.

It computes in C++: Python is at the call of the pass all the time, as it is in one that waits.
"""

import json
import time
from pathlib import Path

import torch
from torch import distributed, nn

SECONDS = 15  # three times stall_seconds
SIZE = 1024


def work(weight: torch.Tensor, count: int) -> torch.Tensor:
    """Return a number whose gradient takes `count` times two products of matrices."""
    total = torch.zeros(())
    for _number in range(count):
        total = total + (weight @ weight).sum()
    return total


def main() -> None:
    distributed.init_process_group()  # the job's backend
    model = nn.parallel.DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    weight = torch.rand(SIZE, SIZE, requires_grad=True)
    count, longest = 2, 0.0
    for _step in range(4):
        loss = model(torch.randn(4, 8)).mean()
        if distributed.get_rank() == 0:
            loss = loss + 0 * work(weight, count)
        began = time.monotonic()
        loss.backward()
        seconds = time.monotonic() - began
        optimizer.step()
        optimizer.zero_grad()
        # How long it takes depends on what else the machine does: the next pass corrects what this one told.
        longest = max(longest, seconds)
        count = 2 if longest > SECONDS / 2 else int(count * SECONDS / seconds) + 1
    if distributed.get_rank() == 0:
        Path("output").mkdir()
        Path("output/all_results.json").write_text(json.dumps({"longest": longest}))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
