"""Adam and AdamW in one pass over the weights.

PyTorch has a fused implementation for CPUs, which it takes only where that is set (2.13): it goes through the memory
of parameter, gradient and states at once, and looks neither at their strides nor at what else is there. Each step, the
tensors that it may be given are found. The others are left to PyTorch's loop, and so is what differs by more than
rounding: bfloat16, which PyTorch rounds after each operation, amsgrad, weight decay within the gradient, an eps near 0.
Optimizers stay as the script made them: their defaults, groups and states are PyTorch's.
"""

from __future__ import annotations

import functools
import math
import operator
import sys
from typing import Any

import torch
from amx_cluster.optimize import calls

# Gradients whose squares may overflow, an eps that rounding of tiny squares reaches, steps that float32 cannot count.
LARGE, LEAST, LAST = 1e18, 1e-16, 1 << 24
DTYPES = (torch.float32, torch.float64)
# Numbers of a tensor, on average, below which checking it takes as long as PyTorch's loop.
SMALL = 1 << 12


def install(torch: Any) -> None:
    """Make PyTorch's function of a step fuse what can be. Raises KeyError, AttributeError where PyTorch has not it."""
    module = sys.modules["torch.optim.adam"]
    theirs = module.adam
    calls.try_checks()
    for name in ("_fused_adam_", "_fused_adamw_", "_foreach_norm", "autograd.graph.increment_version"):
        operator.attrgetter(name)(torch)

    @functools.wraps(theirs)
    def adam(*args: Any, **words: Any) -> None:
        if torch.compiler.is_compiling() or len(args) != 6 or not are_usual(words):
            return theirs(*args, **words)
        chosen = which(*args)
        for fused in (True, False):
            lists = [[each for each, is_so in zip(tensors, chosen) if is_so is fused] for tensors in args]
            if lists[0]:
                theirs(*lists, **{**words, "fused": fused or None})
            if fused:
                # The fused implementation does not: a graph that has saved a weight would go on with another one.
                torch.autograd.graph.increment_version([each for at in (0, 2, 3) for each in lists[at]])
        return None

    module.adam = adam  # type: ignore[attr-defined]


def are_usual(words: dict[str, Any]) -> bool:
    """Return whether the settings of a step are ones with which the fused implementation computes the same."""
    numbers = [words.get(name) for name in ("lr", "beta1", "beta2", "eps", "weight_decay")]
    if torch.is_grad_enabled() or calls.are_seen() or not all(type(each) in (float, int) for each in numbers):
        return False
    lr, beta1, beta2, eps, weight_decay = (float(each or 0) for each in numbers)
    return (
        all(words.get(name) is None for name in ("foreach", "fused", "grad_scale", "found_inf"))
        and not any(words.get(name) for name in ("capturable", "differentiable", "amsgrad", "has_complex"))
        and all(math.isfinite(each) for each in (lr, eps, weight_decay))
        and lr >= 0
        and 0 <= beta1 < 1
        and 0 <= beta2 < 1
        and eps >= LEAST
        and (weight_decay == 0 or bool(words.get("decoupled_weight_decay")))
    )


def which(*lists: Any) -> list[bool]:
    """Return for each parameter whether the fused implementation is right for it: of none if one's memory is another's.

    lists: of parameters, gradients, exp_avgs, exp_avg_sqs, an empty one (of amsgrad), and of steps.
    """
    params, gradients, averages, squares, _largest, steps = lists
    if not len(params) == len(gradients) == len(averages) == len(squares) == len(steps):
        return [False] * len(params)
    if sum(map(torch.numel, params)) < SMALL * len(params):
        return [False] * len(params)
    rows = [*zip(params, gradients, averages, squares, steps)]
    everything = [each for row in rows for each in row]
    if not all(map(calls.is_plain, everything)):
        return [False] * len(params)
    # PyTorch raises an error of some rows that differ in themselves: then with those before it changed, and none after.
    is_even = all(_is_even(*row[:4]) for row in rows)
    chosen = [is_even and _fits(*row) for row in rows]
    fitting = [row for row, is_so in zip(rows, chosen) if is_so]
    if not fitting or not calls.are_apart(everything):
        return [False] * len(params)
    norms = iter(torch.stack([norm.double() for norm in torch._foreach_norm([row[1] for row in fitting])]).tolist())
    return [is_so and next(norms) < LARGE for is_so in chosen]


def _is_even(param: Any, *others: Any) -> bool:
    return all(each.dtype is param.dtype and each.shape == param.shape for each in others)


def _fits(param: Any, gradient: Any, average: Any, square: Any, step: Any) -> bool:
    return (
        param.dtype in DTYPES
        and param.numel() > 0
        and all(each.is_contiguous() for each in (param, gradient, average, square))
        and step.dtype in DTYPES
        and step.dim() == 0
        and 0 <= (made := step.item()) < LAST
        and made == int(made)
    )
