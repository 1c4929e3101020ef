"""torch.compile of a model and of the optimizer's step: a C++ compiler, and workers of torch's that call it."""

import json
from pathlib import Path

import torch
import torch._inductor.config
from torch import distributed, nn

torch._inductor.config.compile_threads = 2  # processes of their own, whatever the cores
torch._inductor.config.worker_start_method = "subprocess"


def main() -> None:
    distributed.init_process_group("gloo")
    inner = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 1))
    model = torch.compile(nn.parallel.DistributedDataParallel(inner))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    step = torch.compile(optimizer.step)
    steps = 0
    for _step in range(5):
        model(torch.randn(4, 8)).square().mean().backward()
        step()
        optimizer.zero_grad()
        steps += 1
    if distributed.get_rank() == 0:
        Path("output").mkdir()
        Path("output/all_results.json").write_text(json.dumps({"steps": steps}))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
