"""What the scripts beside this one share: settings, and what they report at their end besides what a user writes."""

import json
import os
from pathlib import Path
from typing import Any

import torch
from torch import distributed

BATCH = 16  # of all ranks
SETTINGS: dict[str, Any] = {
    "output_dir": "output",
    "per_device_train_batch_size": BATCH // int(os.environ["WORLD_SIZE"]),
    "num_train_epochs": 2,
    "learning_rate": 0.1,
    "optim": "sgd",
    "logging_steps": 1,
    "report_to": "none",
}
"""What the scripts with a Trainer set."""


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


def report_trainer(trainer: Any) -> None:
    """Report the training that a Trainer has made."""
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    report(trainer.model, first=losses[0], loss=losses[-1], precision=trainer.args.mixed_precision)
