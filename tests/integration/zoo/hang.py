"""Rank 1 does not come to the fourth step. The other one waits for it within the backward pass."""

import os
import time

import torch
from torch import distributed, nn

distributed.init_process_group()  # the job's backend
model = nn.parallel.DistributedDataParallel(nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(1, 10):
    if step == 4 and os.environ["RANK"] == "1":
        time.sleep(3600)
    model(torch.randn(4, 8)).mean().backward()
    optimizer.step()
