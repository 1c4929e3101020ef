# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Model of a step's time while gradients are exchanged: computation, communication, and their cores.

A step is the forward pass, the backward pass, in which buckets of gradients become complete one after another, and the
update of the weights, which needs all of them. Buckets are exchanged in their order, one at a time, while the backward
pass goes on. Moving bytes needs the link and time of a processor: of a communication core, or of the core that
computes, which then computes that much later. All ranks are alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.amx.cluster.plugins.module_utils._measure.prediction import BUCKET, FIRST_BUCKET

FORWARD = 1 / 3
"""Share of the forward pass in computing: the backward pass multiplies twice as many matrices."""
PIECE = 1 << 20
"""Bytes that backend mpi reduces at a time (runtime/amx_cluster_mpi/reductions.py)."""
PER_BYTE = {"mpi": 40.1e-3 / (64 << 20), "gloo": 63.8e-3 / (64 << 20)}
"""Seconds of a processor for each byte of gradients: all_reduce of 64 MiB between two hosts that do nothing else."""
FAIR = 0.5
"""Share of a core that a thread gets at most beside another that computes on it."""


@dataclass(frozen=True)
class Weight:
    """A tensor of weights. size: of its gradient, in bytes. work: share of the model's computing."""

    size: int
    work: float


@dataclass(frozen=True)
class Link:
    """Between hosts. rate: bytes a second that a host sends while it receives as many. latency: seconds."""

    rate: float
    latency: float = 30e-6


@dataclass(frozen=True)
class Moving:
    """Exchanging one bucket, on each host. wire: seconds of the link. processor: seconds of a core of each rank."""

    wire: float
    processor: float

    @property
    def seconds(self) -> float:
        """Return the time where nothing else runs: a link and a processor work at the same time."""
        return max(self.wire, self.processor)


def transformer(hidden: int, layers: int, vocabulary: int, layer_weights: int, bytes_each: int = 4) -> list[Weight]:
    """Return the weights of a transformer in the order in which the backward pass has their gradients.

    layer_weights: weights of a layer, in tensors of hidden x hidden as far as they reach. The embedding is the last,
    one tensor, and computes next to nothing.
    """
    square = hidden * hidden
    parts = [square] * (layer_weights // square) + ([layer_weights % square] if layer_weights % square else [])
    total = layers * layer_weights
    weights = [Weight(part * bytes_each, part / total) for _layer in range(layers) for part in parts]
    return [*weights, Weight(vocabulary * hidden * bytes_each, 0.0)]


def buckets(weights: Sequence[Weight], size: int = BUCKET) -> list[Weight]:
    """Return DistributedDataParallel's buckets: tensors are added until a bucket has its size, and never divided."""
    filled: list[Weight] = []
    collected, work = 0, 0.0
    for weight in weights:
        collected, work = collected + weight.size, work + weight.work
        if collected >= (size if filled else min(size, FIRST_BUCKET)):
            filled.append(Weight(collected, work))
            collected, work = 0, 0.0
    return [*filled, Weight(collected, work)] if collected else filled


def all_reduce(
    size: int, hosts: int, ranks_per_host: int, link: Link, per_byte: float, is_hierarchical: bool
) -> Moving:
    """Return what exchanging so many bytes of gradients takes.

    per_byte: seconds of a processor for each byte of a rank's gradients. is_hierarchical: ranks of a host reduce among
    themselves first, so that each byte leaves a host once; else each rank sends its own over the host's link. Messages
    follow one another as in an exchange by halves and doubles: log2 of the ranks for each way.
    """
    if hosts * ranks_per_host == 1:
        return Moving(0.0, 0.0)
    sent = 2 * (hosts - 1) / hosts * size * (1 if is_hierarchical else ranks_per_host)
    partners = hosts if is_hierarchical else hosts * ranks_per_host
    messages = 2 * math.ceil(math.log2(partners)) if hosts > 1 else 0
    return Moving(sent / link.rate + math.ceil(size / PIECE) * messages * link.latency, size * per_byte)


def step_seconds(
    computing: float, shares: Sequence[float], moving: Sequence[Moving], update: float, has_comm_core: bool
) -> float:
    """Return the seconds of a step.

    computing: seconds of the forward and the backward pass of a rank whose cores do nothing else. shares: of each
    bucket in the computing. moving: what its exchange takes. update: seconds of the optimizer. Raises ValueError where
    there are not as many of the one as of the other.
    """
    backward = computing * (1 - FORWARD)
    ready, complete = [], 0.0
    for share in shares:
        complete += share * backward
        ready.append(min(complete, backward))
    if len(shares) != len(moving):
        raise ValueError(f"{len(shares)} buckets are computed and {len(moving)} moved")
    now, computed, bucket, left = 0.0, 0.0, 0, 1.0
    while bucket < len(moving) or computed < backward:
        moves = bucket < len(moving) and computed >= ready[bucket] - 1e-12
        computes = computed < backward
        wanted = moving[bucket].processor / moving[bucket].seconds if moves and moving[bucket].seconds else 0.0
        given = min(wanted, FAIR) if computes and not has_comm_core else wanted
        speed = 1.0 if has_comm_core else 1.0 - given
        ends = []
        if moves:
            pace = given / wanted if wanted else 1.0
            ends.append(left * moving[bucket].seconds / pace)
        if computes:
            following = next((at for at in ready if at > computed + 1e-12), backward)
            ends.append((following - computed) / speed)
        passed = min(ends)
        now += passed
        if computes:
            computed = backward if computed + passed * speed > backward - 1e-12 else computed + passed * speed
        if moves:
            left -= passed * pace / moving[bucket].seconds if moving[bucket].seconds else left
            if left < 1e-9:
                bucket, left = bucket + 1, 1.0
    return computing * FORWARD + now + update
