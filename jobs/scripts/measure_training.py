"""Measure what exchanging gradients costs: steps of a model trained alone, and with DistributedDataParallel by backend.

    measure_training.py [--backends mpi gloo] [--steps 3] [--rounds 5] [--batch 32] [--length 128] [--views true]

All ranks train a BERT of 23 million parameters from random weights in bf16, by turns: each for itself (at the same
time, so that they share the machine as the others do), and together. Rank 0 prints the medians over the rounds, in
samples a second of all ranks, and the share of the unconnected ones' that each backend reaches; and a line of JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from transformers import BertConfig, BertForSequenceClassification

ALONE = "unconnected"


def model() -> Any:
    torch.manual_seed(0)
    size = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
    return BertForSequenceClassification(BertConfig(**size))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backends", nargs="+", default=["mpi", "gloo"])
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--views", default="true", choices=["true", "false"], help="gradient_as_bucket_view")
    options = parser.parse_args()
    dist.init_process_group("gloo")
    ranks = dist.get_world_size()
    trained: dict[str, Any] = {ALONE: model()}
    for name in options.backends:
        trained[name] = DistributedDataParallel(
            model(), process_group=dist.new_group(backend=name), gradient_as_bucket_view=options.views == "true"
        )
    optimizers = {name: torch.optim.AdamW(each.parameters()) for name, each in trained.items()}
    batch = {
        "input_ids": torch.randint(0, 30000, (options.batch, options.length)),
        "attention_mask": torch.ones(options.batch, options.length, dtype=torch.int64),
        "labels": torch.randint(0, 2, (options.batch,)),
    }
    found: dict[str, list[float]] = {name: [] for name in trained}
    for turn in range(options.rounds + 1):
        for name, each in trained.items():
            dist.barrier()
            began = time.perf_counter()
            for _step in range(options.steps if turn else 1):
                with torch.autocast("cpu", torch.bfloat16):
                    loss = each(**batch).loss
                loss.backward()
                optimizers[name].step()
                optimizers[name].zero_grad()
            took = torch.tensor([options.steps * options.batch / (time.perf_counter() - began)], dtype=torch.float64)
            dist.all_reduce(took)
            if turn:  # the first of each is warm-up
                found[name].append(took.item())
            if turn and dist.get_rank() == 0:
                sys.stdout.write(f"round {turn}: {name} {took.item():.2f} samples/s\n")
                sys.stdout.flush()
    if dist.get_rank() == 0:
        medians = {name: statistics.median(rates) for name, rates in found.items()}
        for name, rate in medians.items():
            sys.stdout.write(f"{name:>12}: {rate:8.2f} samples/s, {rate / medians[ALONE]:.3f} of {ALONE}\n")
        sys.stdout.write(json.dumps({"ranks": ranks, "samples_per_second": medians, "rounds": found}) + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
