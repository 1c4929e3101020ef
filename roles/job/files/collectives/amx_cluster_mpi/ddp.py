"""What is different in a DistributedDataParallel whose group has backend mpi: the size of its buckets, and compression.

PyTorch's buckets of 25 MiB are made for backends to which each bucket costs milliseconds (gloo: 3). To this one it
costs a twentieth of one, and what is in the last bucket, which is complete when the backward pass ends, overlaps with
nothing. docs/collectives.md has what was measured.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

MIB = 1 << 20
# PyTorch's own (torch 2.13, _DEFAULT_BUCKET_CAP_MB).
OTHERS = 25 * MIB


def watch_ddp(module: Any, size: int, hook: Any = None) -> None:
    """Have each DistributedDataParallel use such buckets and this hook, unless the script gives it others.

    module: torch.nn.parallel.distributed. size: bytes from which on a bucket takes no further gradient; gradients are
    not divided, and a larger one is a bucket itself. hook: a communication hook for a group of several ranks, None for
    none.
    """
    ddp = module.DistributedDataParallel
    construct = ddp.__init__
    signature = inspect.signature(construct)

    @functools.wraps(construct)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            given = signature.bind(self, *args, **kwargs)
        except TypeError:
            construct(self, *args, **kwargs)  # which raises it
            return
        if _takes_ours(given.arguments, module.dist):
            given.arguments["bucket_cap_mb"] = size / MIB
            construct(*given.args, **given.kwargs)
            # By this torch.compile divides the graph, where the buckets' size costs fused operations.
            self.bucket_bytes_cap = OTHERS
        else:
            construct(self, *args, **kwargs)
        if hook is not None:
            _register_before_first(self, hook)

    ddp.__init__ = __init__


def _takes_ours(given: dict[str, Any], dist: Any) -> bool:
    """Tell whether a model's arguments leave the size of buckets open, and its group has backend mpi."""
    if given.get("bucket_cap_mb") is not None or given.get("bucket_cap_mb_list") or not dist.is_initialized():
        return False
    mesh = given.get("device_mesh")
    group = given.get("process_group") or (mesh.get_group(0) if mesh is not None else None)
    c10d = dist.distributed_c10d
    return not c10d._rank_not_in_group(group) and c10d.get_backend(group) == c10d.Backend.MPI


def _register_before_first(model: Any, hook: Any) -> None:
    """Register a communication hook before the first forward pass, unless the script has registered one by then."""

    def before_first(_model: Any, _inputs: Any) -> None:
        registered.remove()
        if not model._comm_hooks and model.process_group.size() > 1:
            model.register_comm_hook(model.process_group, hook)

    registered = model.register_forward_pre_hook(before_first)
