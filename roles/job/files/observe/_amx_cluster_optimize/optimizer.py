"""Adam and AdamW in one pass over the weights.

PyTorch has a fused implementation for CPUs, which it takes only where it is told to (2.13). It has the same state, and
computes the same up to rounding. transformers' Trainer asks for it by itself.
"""

from __future__ import annotations

import functools
from typing import Any

import torch


def install(torch: Any) -> None:
    """Have these optimizers take the fused implementation where a script leaves it open."""
    for optimizer in (torch.optim.Adam, torch.optim.AdamW):
        _watch(optimizer)


def _watch(optimizer: Any) -> None:
    construct = optimizer.__init__

    @functools.wraps(construct)
    def __init__(self: Any, params: Any, *args: Any, **kwargs: Any) -> None:
        if type(self) is optimizer and not args[4:] and not kwargs.keys() & LEFT_ALONE:
            params = list(params)
            if _are_plain(params):
                kwargs["fused"] = True
        construct(self, params, *args, **kwargs)

    optimizer.__init__ = __init__


# Arguments of a script that knows better, or with which the fused implementation does not go.
LEFT_ALONE = {"foreach", "fused", "capturable", "differentiable"}


def _are_plain(params: list[Any]) -> bool:
    """Tell whether all parameters are tensors of fractions on CPUs. params: tensors, (name, tensor), or groups."""
    found: list[Any] = []
    for entry in params:
        inside = entry["params"] if isinstance(entry, dict) else [entry]
        if isinstance(entry, dict) and (entry.keys() & LEFT_ALONE or not isinstance(inside, (list, tuple))):
            return False
        found += [each[1] if isinstance(each, tuple) else each for each in inside]
    return all(
        type(each) in (torch.Tensor, torch.nn.Parameter) and each.device.type == "cpu" and each.is_floating_point()
        for each in found
    )
