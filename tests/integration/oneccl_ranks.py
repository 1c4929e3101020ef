"""Train a small model by DistributedDataParallel, and print what this rank has."""

import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist

dist.init_process_group("ccl")
rank = dist.get_rank()
torch.manual_seed(0)
layers = torch.nn.Sequential(torch.nn.Linear(64, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 64))
model = torch.nn.parallel.DistributedDataParallel(layers)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
generator = torch.Generator().manual_seed(rank)
for _step in range(10):
    rows = torch.randn(8, 64, generator=generator)
    loss = (model(rows) - rows).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
# A collective ends while nothing waits for it, whether a worker carries it on or not.
alone = torch.ones(1 << 20)
unawaited = dist.all_reduce(alone, async_op=True)
deadline = time.monotonic() + 30
while alone[-1] != dist.get_world_size() and time.monotonic() < deadline:
    time.sleep(0.01)
ends_alone = bool(alone[-1] == dist.get_world_size())
unawaited.wait()
workers = [
    cpus
    for cpus in map(os.sched_getaffinity, (int(task.name) for task in Path("/proc/self/task").iterdir()))
    if len(cpus) == 1
]
total = torch.tensor([rank + 1.0])
dist.all_reduce(total)
weights = sum(float(parameter.detach().double().abs().sum()) for parameter in model.parameters())
report = {"rank": rank, "backend": dist.get_backend(), "sum": total.item(), "weights": weights}
report.update(ends_alone=ends_alone, workers=len(workers))
print(json.dumps({**report, "transport": os.environ.get("CCL_ATL_TRANSPORT")}), flush=True)
dist.barrier()
dist.destroy_process_group()
