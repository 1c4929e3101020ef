"""PowerSGD over several buckets: its callbacks call collectives, and wait for them, while the backward pass goes on."""

import json
import time
from pathlib import Path

import torch
from torch import distributed, nn
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook

STEPS = 12


def main() -> None:
    distributed.init_process_group()  # the job's backend
    torch.manual_seed(1)
    layers = [nn.Linear(64, 64) for _layer in range(6)]
    model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=0.02)
    model.register_comm_hook(PowerSGDState(None, start_powerSGD_iter=2, min_compression_rate=1), powerSGD_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _step in range(STEPS):
        optimizer.zero_grad()
        model(torch.randn(4, 64)).square().mean().backward()
        optimizer.step()
        time.sleep(0.1)
    sums = [None, None]
    distributed.all_gather_object(sums, [parameter.sum().item() for parameter in model.parameters()])
    assert sums[0] == sums[1]
    if distributed.get_rank() == 0:
        Path("output").mkdir()
        Path("output/all_results.json").write_text(json.dumps({"steps": STEPS}))


if __name__ == "__main__":
    main()
