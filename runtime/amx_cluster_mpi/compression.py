"""gradient_compression: bf16 - DistributedDataParallel's gradients travel as bfloat16, half the bytes.

PyTorch's own bf16_compress_hook asserts NCCL or XCCL (torch 2.13, default_hooks.py). Each rank rounds its gradient to
bfloat16; the ranks' gradients are summed in float32 and the mean is rounded to bfloat16 once (reductions.py). The
result differs from that without compression by about the third digit: off by default.
"""

from __future__ import annotations

import functools
from typing import Any


def watch_ddp(module: Any) -> None:
    """Make each DistributedDataParallel compress its gradients, unless the script gives it a hook of its own."""
    ddp = module.DistributedDataParallel
    construct = ddp.__init__

    @functools.wraps(construct)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        construct(self, *args, **kwargs)

        def before_first(model: Any, _inputs: Any) -> None:
            registered.remove()
            if not model._comm_hooks and model.process_group.size() > 1:
                model.register_comm_hook(model.process_group, compress)

        registered = self.register_forward_pre_hook(before_first)

    ddp.__init__ = __init__


def compress(group: Any, bucket: Any) -> Any:
    """Return a future of the mean of a bucket's gradients over the group."""
    import torch
    import torch.distributed as dist

    buffer = bucket.buffer()
    if buffer.dtype is not torch.float32:
        work = dist.all_reduce(buffer, dist.ReduceOp.AVG, group, async_op=True)
        return work.get_future().then(lambda ended: ended.value()[0])
    small = buffer.to(torch.bfloat16)
    work = dist.all_reduce(small, dist.ReduceOp.AVG, group, async_op=True)
    return work.get_future().then(lambda _ended: buffer.copy_(small))


# PyTorch compares a hook's annotations with types, and here they are strings.
compress.__annotations__.clear()
