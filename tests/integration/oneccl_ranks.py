"""Train a small model by DistributedDataParallel, and print what this rank has."""

import json
import os

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
total = torch.tensor([rank + 1.0])
dist.all_reduce(total)
weights = sum(float(parameter.detach().double().abs().sum()) for parameter in model.parameters())
report = {"rank": rank, "backend": dist.get_backend(), "sum": total.item(), "weights": weights}
print(json.dumps({**report, "transport": os.environ.get("CCL_ATL_TRANSPORT")}), flush=True)
dist.barrier()
dist.destroy_process_group()
