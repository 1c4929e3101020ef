"""Train a linear classifier of words on all ranks, with the modules of this project."""

from __future__ import annotations

import json
from pathlib import Path

import settings  # type: ignore[import-not-found]
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from words.data import examples  # type: ignore[import-not-found]

dist.init_process_group()
torch.manual_seed(settings.SEED)
rank, size = dist.get_rank(), dist.get_world_size()
vocabulary = Path("data/words.txt").read_text(encoding="utf-8").split()
model = DistributedDataParallel(torch.nn.Linear(len(vocabulary), 2))
optimizer = torch.optim.SGD(model.parameters(), lr=settings.RATE)
losses = []
for _step in range(settings.STEPS):
    inputs, labels = examples(vocabulary, rank, size)
    loss = torch.nn.functional.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(float(loss))
if rank == 0:
    Path("output").mkdir(exist_ok=True)
    metrics = {"train_loss": losses[-1], "first_loss": losses[0], "steps": settings.STEPS}
    Path("output/all_results.json").write_text(json.dumps(metrics), encoding="utf-8")
print(f"rank {rank} of {size}: {settings.STEPS} steps")
dist.destroy_process_group()
