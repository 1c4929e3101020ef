"""Tensors of given values in every order and place of memory."""

from __future__ import annotations

import math
from typing import Any

import torch

LAYOUTS = (
    "contiguous",
    "transposed",
    "columns",
    "rows",
    "every second",
    "offset",
    "channels_last",
    "last two swapped",
    "expanded",
)
CANARY = 7.0


def laid(values: Any, layout: str) -> tuple[Any, Any]:
    """Return a tensor of these values (of the first of them: expanded), and all the memory around it."""
    shape, dims = values.shape, values.dim()
    if layout == "transposed" and dims >= 3:
        return _same(values.transpose(1, -2).contiguous().transpose(1, -2))
    if layout in ("transposed", "last two swapped") and dims >= 2:
        return _same(values.transpose(-1, -2).contiguous().transpose(-1, -2))
    if layout == "channels_last" and dims == 4:
        return _same(values.contiguous(memory_format=torch.channels_last))
    if layout == "columns" and dims:
        around = torch.full((*shape[:-1], 2 * shape[-1] + 1), CANARY, dtype=values.dtype)
        return _put(around, around[..., 1 : shape[-1] + 1], values)
    if layout == "rows" and dims >= 2:
        around = torch.full((*shape[:-2], 2 * shape[-2] + 1, shape[-1]), CANARY, dtype=values.dtype)
        return _put(around, around[..., 1 : shape[-2] + 1, :], values)
    if layout == "every second" and dims:
        around = torch.full((*shape[:-1], 2 * shape[-1]), CANARY, dtype=values.dtype)
        return _put(around, around[..., ::2], values)
    if layout == "expanded" and dims and shape[0]:
        return _same(values[:1].expand(shape))
    if layout == "offset":
        around = torch.full((math.prod(shape) + 2,), CANARY, dtype=values.dtype)
        return _put(around, around[1:-1].view(shape), values)
    return _same(values.contiguous())


def _same(tensor: Any) -> tuple[Any, Any]:
    return tensor, tensor


def _put(around: Any, inside: Any, values: Any) -> tuple[Any, Any]:
    inside.copy_(values)
    return inside, around


def numbers(shape: Any, seed: int, dtype: Any = torch.float64) -> Any:
    """Return normal numbers without a change of PyTorch's own generator."""
    return torch.randn(tuple(shape), generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


SPECIAL = {
    "nan": math.nan,
    "-nan": math.copysign(math.nan, -1),
    "inf": math.inf,
    "-inf": -math.inf,
    "huge": 1e30,
    "denormal": 1e-40,
    "zero": 0.0,
}


def with_special(values: Any, special: str, seed: int) -> Any:
    """Return the numbers with one of them, of denormal and zero all, replaced."""
    if special == "none" or not values.numel() or not values.is_floating_point():
        return values
    if special in ("denormal", "zero"):
        return values * SPECIAL[special]
    values = values.clone()
    values.view(-1)[seed % values.numel()] = SPECIAL[special]
    return values
