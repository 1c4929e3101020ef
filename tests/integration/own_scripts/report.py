"""What the scripts beside this one report at their end, besides what a user writes."""

import json
import os
from pathlib import Path
from typing import Any

import torch
from torch import distributed


def report(model: torch.nn.Module, **facts: Any) -> None:
    """Write the weights of rank 0, and whether those of the other ranks are the same, bit by bit."""
    weights = torch.cat([parameter.detach().float().flatten() for parameter in model.parameters()])
    world, least, most = 1, weights.clone(), weights.clone()
    if distributed.is_initialized():
        world = distributed.get_world_size()
        distributed.all_reduce(least, distributed.ReduceOp.MIN)
        distributed.all_reduce(most, distributed.ReduceOp.MAX)
    if os.environ.get("RANK", "0") == "0":
        Path("output").mkdir(exist_ok=True)
        Path("output/weights.json").write_text(json.dumps(weights.tolist()))
        found = {"world": world, "equal": int(torch.equal(least, most)), **facts}
        Path("output/all_results.json").write_text(json.dumps(found))
