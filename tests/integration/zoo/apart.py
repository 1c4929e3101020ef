"""Ranks that form a group, wrap their model, and yet do not train it together: they call what is inside."""

import torch
from torch import distributed, nn

distributed.init_process_group()  # the job's backend
model = nn.parallel.DistributedDataParallel(nn.Linear(8, 1))
torch.manual_seed(distributed.get_rank())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
with torch.no_grad():  # an evaluation, for which the job's gradient compression gets ready as well
    model(torch.randn(4, 8))
for _step in range(10):
    optimizer.zero_grad()
    model.module(torch.randn(4, 8)).mean().backward()
    optimizer.step()
distributed.barrier()
distributed.destroy_process_group()
