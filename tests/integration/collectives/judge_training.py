"""Train small models in all the ways that use a group, with gloo and with backend mpi: the losses must be the same.

Prints "NAME: same losses" or "NAME: DIFFERS ..." on rank 0, each backend from the same seeds.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

import amx_cluster_mpi  # noqa: F401  it registers the backend
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

dist.init_process_group("gloo")
RANK, SIZE = dist.get_rank(), dist.get_world_size()
GROUPS = {"gloo": dist.new_group(backend="gloo"), "mpi": dist.new_group(backend="mpi")}
STEPS = 6


class Block(torch.nn.Module):
    """Two layers, of which the second is skipped where `short` says so."""

    def __init__(self, width: int, is_checkpointed: bool = False) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)
        self.extra = torch.nn.Linear(width, width)
        self.is_checkpointed = is_checkpointed

    def forward(self, inputs: torch.Tensor, uses_extra: bool = True) -> torch.Tensor:
        def inner(one: torch.Tensor) -> torch.Tensor:
            return self.second(torch.relu(self.first(one)))

        outputs = checkpoint(inner, inputs, use_reentrant=False) if self.is_checkpointed else inner(inputs)
        return self.extra(outputs) if uses_extra else outputs


def network(is_checkpointed: bool = False) -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(*(Block(48, is_checkpointed) for _block in range(3)), torch.nn.BatchNorm1d(48))


def batches(steps: int = STEPS) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(10 + RANK)
    return [torch.randn(8, 48, generator=generator) for _step in range(steps)]


def loss_of(model: Any, inputs: torch.Tensor, **more: Any) -> torch.Tensor:
    return (model(inputs, **more) - inputs.flip(1)).square().mean()


def train(model: Any, optimizer: Any, steps: int = STEPS) -> list[float]:
    losses = []
    for inputs in batches(steps):
        optimizer.zero_grad()
        loss = loss_of(model, inputs)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def ddp(group: Any) -> list[float]:
    model = DistributedDataParallel(network(), process_group=group, bucket_cap_mb=0.05)
    return train(model, torch.optim.AdamW(model.parameters(), 1e-3))


def views(group: Any) -> list[float]:
    model = DistributedDataParallel(network(), process_group=group, gradient_as_bucket_view=True, static_graph=True)
    return train(model, torch.optim.SGD(model.parameters(), 1e-2))


def no_sync(group: Any) -> list[float]:
    model = DistributedDataParallel(network(), process_group=group)
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    losses = []
    for step, inputs in enumerate(batches()):
        with contextlib.nullcontext() if step % 2 else model.no_sync():
            loss = loss_of(model, inputs)
            loss.backward()
        if step % 2:
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def unused(group: Any) -> list[float]:
    torch.manual_seed(1)
    model = DistributedDataParallel(Block(48), process_group=group, find_unused_parameters=True)
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    losses = []
    for step, inputs in enumerate(batches()):
        optimizer.zero_grad()
        loss = loss_of(model, inputs, uses_extra=(step + RANK) % 2 == 0)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def uneven(group: Any) -> list[float]:
    torch.manual_seed(1)
    model = DistributedDataParallel(Block(48), process_group=group)
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    with Join([model]):
        return train(model, optimizer, STEPS + RANK)


def checkpointing(group: Any) -> list[float]:
    torch.manual_seed(1)
    model = DistributedDataParallel(Block(48, is_checkpointed=True), process_group=group)
    return train(model, torch.optim.SGD(model.parameters(), 1e-2))


def zero(group: Any) -> list[float]:
    model = DistributedDataParallel(network(), process_group=group)
    optimizer = ZeroRedundancyOptimizer(
        model.parameters(), optimizer_class=torch.optim.Adam, process_group=group, lr=1e-3
    )
    return train(model, optimizer)


def fsdp(group: Any) -> list[float]:
    model = FullyShardedDataParallel(
        network()[:3], process_group=group, auto_wrap_policy=ModuleWrapPolicy({Block}), device_id=torch.device("cpu")
    )
    return train(model, torch.optim.SGD(model.parameters(), 1e-2))


def fsdp2(group: Any) -> list[float]:
    model = network()[:3]
    mesh = DeviceMesh.from_group(group, "cpu")
    for block in model:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return train(model, torch.optim.SGD(model.parameters(), 1e-2))


def power_sgd(group: Any) -> list[float]:
    """Its callbacks call collectives, and wait for them."""
    model = DistributedDataParallel(network(), process_group=group)
    state = PowerSGDState(group, start_powerSGD_iter=2, min_compression_rate=1)
    model.register_comm_hook(state, powerSGD_hook)
    return train(model, torch.optim.SGD(model.parameters(), 1e-2))


def half_gradients(group: Any) -> list[float]:
    model = DistributedDataParallel(network(), process_group=group, bucket_cap_mb=0.05)
    model.register_comm_hook(group, fp16_compress_hook)
    return train(model, torch.optim.SGD(model.parameters(), 1e-2))


WAYS: dict[str, Callable[[Any], list[float]]] = {
    "DDP": ddp,
    "DDP with views and a static graph": views,
    "no_sync": no_sync,
    "find_unused_parameters": unused,
    "Join": uneven,
    "gradient checkpointing": checkpointing,
    "ZeroRedundancyOptimizer": zero,
    "FSDP": fsdp,
    "FSDP2": fsdp2,
    "PowerSGD": power_sgd,
    "gradients of 16 bits": half_gradients,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or WAYS:
        gloo, mpi = (WAYS[name](group) for group in GROUPS.values())
        same = len(gloo) == len(mpi) and torch.allclose(torch.tensor(gloo), torch.tensor(mpi), rtol=1e-5)
        trained = len(set(gloo)) == len(gloo)
        mine = "same losses" if same and trained else f"DIFFERS on rank {RANK}: gloo {gloo}, mpi {mpi}"
        print(f"{name}: {mine}", flush=True)
    dist.destroy_process_group()
