"""Gradients that are not finite, as where mixed precision begins: a scaler skips the step, or it is made with NaN."""

import json
import math
from pathlib import Path

import torch
from torch import distributed, nn


def train(scaled: bool) -> int:
    model = nn.parallel.DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16, enabled=scaled)
    steps = 0
    for step in range(10):
        loss = model(torch.randn(4, 8)).mean() * (math.inf if step < 2 else 1)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        steps += 1
    return steps


def main() -> None:
    distributed.init_process_group("gloo")
    torch.manual_seed(distributed.get_rank())
    steps = train(scaled=True) + train(scaled=False)
    if distributed.get_rank() == 0:
        Path("output").mkdir()
        Path("output/all_results.json").write_text(json.dumps({"steps": steps}))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
