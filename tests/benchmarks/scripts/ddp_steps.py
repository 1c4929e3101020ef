"""Train steps with DistributedDataParallel, however the ranks were started, and report their speed.

    ddp_steps.py [--processes N] [--batch 16] [--length 128] [--steps 6] [--warmup 2]

A BERT of 23 million parameters from random weights in bf16. A rank takes its place in the group from RANK and
WORLD_SIZE, or from the PMI_RANK and PMI_SIZE of an mpirun that sets nothing else. With --processes it starts that many
ranks on this host itself, as torch.multiprocessing.spawn does by default. Rank 0 prints a line of JSON:
{samples_per_second (of all ranks), ranks, threads (of each rank), cpus (that each may run on), steps: seconds of each}.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from transformers import BertConfig, BertForSequenceClassification


def train(local: int, options: argparse.Namespace) -> None:
    """Be one rank of the group. local: its number on this host where this program has started it."""
    if options.processes:
        os.environ.update(RANK=str(local), WORLD_SIZE=str(options.processes))
    else:
        for name, theirs in (("RANK", "PMI_RANK"), ("WORLD_SIZE", "PMI_SIZE")):
            os.environ.setdefault(name, os.environ.get(theirs, "0"))
    # The backend that is there by itself: gloo, or the one that the job's plan has.
    dist.init_process_group(os.environ.get("AMX_BENCHMARK_BACKEND"), timeout=timedelta(minutes=5))
    torch.manual_seed(0)
    size = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
    model = DistributedDataParallel(BertForSequenceClassification(BertConfig(**size)))
    optimizer = torch.optim.AdamW(model.parameters())
    batch = {
        "input_ids": torch.randint(0, 30000, (options.batch, options.length)),
        "attention_mask": torch.ones(options.batch, options.length, dtype=torch.int64),
        "labels": torch.randint(0, 2, (options.batch,)),
    }
    took = []
    for _step in range(options.warmup + options.steps):
        began = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        took.append(time.perf_counter() - began)
    ranks, mine = dist.get_world_size(), [torch.get_num_threads(), len(os.sched_getaffinity(0))]
    found = [torch.zeros(2, dtype=torch.int64) for _rank in range(ranks)]
    dist.all_gather(found, torch.tensor(mine))
    if dist.get_rank() == 0:
        measured = took[options.warmup :]
        report: dict[str, Any] = {
            "samples_per_second": options.batch * ranks / statistics.median(measured),
            "ranks": ranks,
            "threads": [int(one[0]) for one in found],
            "cpus": [int(one[1]) for one in found],
            "steps": measured,
        }
        sys.stdout.write(json.dumps(report) + "\n")
        sys.stdout.flush()
    dist.barrier()
    time.sleep(
        0.2
    )  # gloo's threads may hang with the model that is freed next; jobs of the collection wait by themselves
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=0)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--warmup", type=int, default=2)
    options = parser.parse_args()
    if options.processes:
        torch.multiprocessing.spawn(train, (options,), nprocs=options.processes)
    else:
        train(0, options)


if __name__ == "__main__":
    main()
