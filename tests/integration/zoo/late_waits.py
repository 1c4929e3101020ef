"""Collectives waited for long after they began, in groups used in another order, with a process forked meanwhile."""

import json
import os
import time
from pathlib import Path

import torch
from torch import distributed, nn

SECONDS = 7


def compute() -> None:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        pass


def main() -> None:
    distributed.init_process_group()  # the job's backend
    rank = distributed.get_rank()
    groups = [distributed.new_group([0, 1]) for _group in range(2)]
    sums = [torch.ones(1_000_000) for _group in groups]
    order = (0, 1) if rank else (1, 0)
    works = [distributed.all_reduce(sums[place], group=groups[place], async_op=True) for place in order]
    child = os.fork()
    if not child:
        compute()
        os._exit(0)
    time.sleep(SECONDS * rank)
    for work in works:
        work.wait()
    assert all(one.eq(2).all() for one in sums)
    assert os.waitpid(child, 0)[1] == 0
    model = nn.parallel.DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _step in range(10):
        model(torch.randn(4, 8)).mean().backward()
        optimizer.step()
    if rank == 0:
        Path("output").mkdir()
        Path("output/all_results.json").write_text(json.dumps({"works": len(works)}))
    distributed.barrier()


if __name__ == "__main__":
    main()
