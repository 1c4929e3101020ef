"""Rank 1 leaves by os._exit(0) after the last step, as scripts do that want no destructors to run; rank 0 goes on."""

import json
import os
import time
from pathlib import Path

import torch
from torch import distributed, nn

distributed.init_process_group()  # the job's backend
model = nn.parallel.DistributedDataParallel(nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _step in range(10):
    model(torch.randn(4, 8)).mean().backward()
    optimizer.step()
    time.sleep(0.1)
distributed.barrier()
if distributed.get_rank() == 1:
    os._exit(0)
time.sleep(3)  # it writes the model
Path("output").mkdir()
Path("output/all_results.json").write_text(json.dumps({"left": 1}))
