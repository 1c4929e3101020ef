"""Steps of a small model in DistributedDataParallel, until there are as many as the first argument's value says."""

import argparse
import os
import time
from pathlib import Path

import torch
from torch import distributed, nn


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int)
    steps = parser.parse_args().steps
    distributed.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    mark = Path(os.environ["AMX_CLUSTER_JOB"], "output", f"stepped-{os.environ['RANK']}")
    for step in range(steps):
        model(torch.ones(4, 8)).sum().backward()
        optimizer.step()
        if step == 1:
            mark.touch()
        time.sleep(0.05)
    distributed.barrier()
    distributed.destroy_process_group()


main()
