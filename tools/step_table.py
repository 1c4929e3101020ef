# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of docs/scaling.md: how much of a step is left on servers while gradients travel, computed by step_model.

What a server's core computes is an estimate, and what a byte costs its processor was measured on another one (see
docs/performance.md, "Collectives between two hosts"): the table tells ways apart, and predicts no cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.amx.cluster.plugins.module_utils._measure.step_model import (
    PER_BYTE,
    Link,
    Weight,
    all_reduce,
    buckets,
    step_seconds,
    transformer,
)

CORES = 112
# Operations a second of a core with AMX in bf16, and bytes a second that the optimizer of a rank reads and writes.
CORE, MEMORY = 1.3e12, 40e9
# AdamW reads the weight, its gradient and two means, and writes three of them.
UPDATED = 7
MIB = 1 << 20
SIZES = (1 * MIB, 25 * MIB, 100 * MIB)
HOSTS, RATES = (4, 16, 64), (10, 25, 100)
# What the table shows of them; the other model differs by 0.03 at most.
SHOWN, MODEL = (4, 64), "BERT-large"
MODELS = {
    "BERT-large": transformer(hidden=1024, layers=24, vocabulary=30522, layer_weights=12 * 1024 * 1024),
    "decoder of 1.5 B": transformer(hidden=1536, layers=28, vocabulary=151936, layer_weights=46_792_704),
}


@dataclass(frozen=True)
class Way:
    """Exchange of gradients between ranks. comm_cores: 0 or 1 of each rank. bytes_each: of an element."""

    backend: str
    comm_cores: int = 0
    bytes_each: int = 4


WAYS = (Way("gloo"), Way("mpi"), Way("mpi", 1), Way("mpi", 1, 2))


def share(
    weights: Sequence[Weight],
    method: Way,
    hosts: int,
    gigabits: float,
    cores: int = 14,
    tokens: int = 8192,
    size: int = 0,
) -> float:
    """Return the speed as a share of that of hosts that are not connected and compute on all cores.

    gigabits: of the link, a second. cores: of a rank. tokens: of a rank and step. size: of a bucket in bytes, 0 for the
    best of SIZES.
    """
    if not size:
        return max(share(weights, method, hosts, gigabits, cores, tokens, each) for each in SIZES)
    computing = 6 * sum(weight.size for weight in weights if weight.work) / 4 * tokens / (cores * CORE)
    update = UPDATED * sum(weight.size for weight in weights) / MEMORY
    fewer = cores / (cores - method.comm_cores)
    parts = buckets(weights, size)
    # The processor converts what travels as bf16, and is as busy with half the bytes.
    moving = [
        all_reduce(
            part.size * method.bytes_each // 4,
            hosts,
            CORES // cores,
            Link(gigabits * 1e9 / 8),
            PER_BYTE[method.backend] * 4 / method.bytes_each,
            is_hierarchical=method.backend == "mpi",
        )
        for part in parts
    ]
    took = step_seconds(computing * fewer, [part.work for part in parts], moving, update, method.comm_cores > 0)
    return (computing + update) / took


def table() -> str:
    """Return the table in Markdown."""
    titles = ["Gbit/s", "hosts", "gloo", "mpi", "mpi, communication core", "the same, bf16 gradients"]
    rows = [titles, ["---"] * len(titles)]
    for gigabits in RATES:
        for hosts in SHOWN:
            shares = [f"{share(MODELS[MODEL], method, hosts, gigabits):.2f}" for method in WAYS]
            rows.append([str(gigabits), str(hosts), *shares])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
