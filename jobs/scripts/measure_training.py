"""Measure what exchanging gradients costs: steps of a model trained alone, and with DistributedDataParallel by backend.

    measure_training.py [--backends mpi "mpi, bf16 gradients" gloo] [--steps 3] [--rounds 5] [--batch 32]
        [--length 128] [--views true] [--precision bf16]

All ranks train a BERT of 23 million parameters from random weights, by turns: each for itself (at the same
time, so that they share the machine as the others do), the same with as many bytes sent and received over plain TCP
after each step as an all_reduce of the gradients has to move, and together. Rank 0 prints the medians over the rounds,
in samples a second of all ranks, and the share of the unconnected ones' that each reaches; and a line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import sys
import threading
import time
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from transformers import BertConfig, BertForSequenceClassification

ALONE = "unconnected"
BARE = "unconnected, and bytes over TCP"
COMPRESSED = ", bf16 gradients"


class Ring:
    """A TCP connection to the next rank and one from the previous rank, which carry bytes and do nothing else."""

    def __init__(self, size: int) -> None:
        """Connect the ranks. size: of the gradients, in bytes."""
        ranks, rank = dist.get_world_size(), dist.get_rank()
        listener = socket.create_server((_address(), 0))
        places: list[Any] = [None] * ranks
        dist.all_gather_object(places, listener.getsockname())
        self.following = socket.create_connection(places[(rank + 1) % ranks])
        self.previous = listener.accept()[0]
        listener.close()
        # reduce_scatter and all_gather each move all parts but one.
        moved = 2 * size * (ranks - 1) // ranks
        self.sent, self.received = memoryview(bytearray(moved)), memoryview(bytearray(moved))

    def exchange(self) -> None:
        """Send and receive as many bytes as each rank does in a ring all_reduce."""
        sender = threading.Thread(target=self.following.sendall, args=(self.sent,))
        sender.start()
        filled = 0
        while filled < len(self.received):
            filled += self.previous.recv_into(self.received[filled:])
        sender.join()


def _address() -> str:
    """Return this host's address on the network of the group."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((os.environ["MASTER_ADDR"], 9))
        return str(probe.getsockname()[0])


def model() -> Any:
    torch.manual_seed(0)
    size = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
    return BertForSequenceClassification(BertConfig(**size))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backends", nargs="+", default=["mpi", "mpi" + COMPRESSED, "gloo"])
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--views", default="true", choices=["true", "false"], help="gradient_as_bucket_view")
    parser.add_argument("--precision", default="bf16", choices=["bf16", "fp32"], help="fp32 where CPUs have no bf16")
    options = parser.parse_args()
    dist.init_process_group("gloo")
    ranks = dist.get_world_size()
    trained: dict[str, Any] = {ALONE: model(), BARE: model()}
    ring = Ring(sum(each.numel() * each.element_size() for each in trained[BARE].parameters()))
    for name in options.backends:
        group = dist.new_group(backend=name.removesuffix(COMPRESSED))
        together = DistributedDataParallel(
            model(), process_group=group, gradient_as_bucket_view=options.views == "true"
        )
        if name.endswith(COMPRESSED):
            from amx_cluster_mpi.compression import compress  # what gradient_compression: bf16 of a job registers

            together.register_comm_hook(group, compress)
        trained[name] = together
    optimizers = {name: torch.optim.AdamW(each.parameters()) for name, each in trained.items()}
    torch.manual_seed(1 + dist.get_rank())  # each rank has words of its own
    batch = {
        "input_ids": torch.randint(0, 30000, (options.batch, options.length)),
        "attention_mask": torch.ones(options.batch, options.length, dtype=torch.int64),
        "labels": torch.randint(0, 2, (options.batch,)),
    }
    figures: dict[str, list[float]] = {name: [] for name in trained}
    for turn in range(options.rounds + 1):
        for name, each in trained.items():
            dist.barrier()
            began = time.perf_counter()
            for _step in range(options.steps if turn else 1):
                with torch.autocast("cpu", torch.bfloat16, enabled=options.precision == "bf16"):
                    loss = each(**batch).loss
                loss.backward()
                if name == BARE:
                    ring.exchange()
                optimizers[name].step()
                optimizers[name].zero_grad()
            took = torch.tensor([options.steps * options.batch / (time.perf_counter() - began)], dtype=torch.float64)
            dist.all_reduce(took)
            if turn:  # the first of each is warm-up
                figures[name].append(took.item())
            if turn and dist.get_rank() == 0:
                sys.stdout.write(f"round {turn}: {name} {took.item():.2f} samples/s\n")
                sys.stdout.flush()
    if dist.get_rank() == 0:
        medians = {name: statistics.median(rates) for name, rates in figures.items()}
        for name, rate in medians.items():
            sys.stdout.write(f"{name:>32}: {rate:8.2f} samples/s, {rate / medians[ALONE]:.3f} of {ALONE}\n")
        measured = {"ranks": ranks, "batch": options.batch, "sent_bytes": len(ring.sent), "samples_per_second": medians}
        sys.stdout.write(json.dumps({**measured, "rounds": figures}) + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
