"""scaled_dot_product_attention for training on CPUs, some heads at a time.

PyTorch has two ways on CPUs (2.13). With dropout it computes in float32, also of bfloat16, so that no matrix product of
attention uses AMX, and writes all scores several times. Without dropout its fused backward pass takes, for bfloat16 and
short sequences, two to four times as long as the same matrix products. Here the scores of as many heads as fit into a
core's cache are computed, in float32 but for the products themselves, and given up; what the backward pass needs of
them is their softmax in the type of the query, with the sign as the mask of dropout.

A bfloat16 product is rounded to bfloat16. What that loses of a score is computed by a second product, which
subtracts the rounded one before it rounds: scores are exact to about 2^-17, as PyTorch's are.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import torch

from _amx_cluster_optimize import masks

# Scores that a thread has at a time, and scores of a call below which PyTorch's own way is as fast.
BLOCK, SMALL = 1 << 18, 1 << 16
# The longest sequence whose softmax is kept where PyTorch, without dropout, would keep nothing.
SHORT = 256
# The mask of what comes before.
CAUSAL = "causal"


class Attention(torch.autograd.Function):
    """softmax(query key^T scale + mask), with dropout, times value.

    query, key, value: (batch, heads, length, size), contiguous. mask: of bool (what is seen) or float (what is added to
    the scores), of a shape that expands to (batch, heads, length, length of the keys); None; or CAUSAL.
    """

    @staticmethod
    def forward(ctx: Any, query: Any, key: Any, value: Any, mask: Any, dropout: float, scale: float) -> torch.Tensor:
        batch, heads, length, size = query.shape
        shape = batch, heads, length, key.shape[2]
        kept = query.new_empty(shape)
        out = query.new_empty(batch, length, heads, size)
        drawn = masks.draw() if dropout else None
        bias = _bias(mask, length, key.shape[2])
        expanded: Any = None if bias is None else bias.expand(shape)
        with torch.autocast("cpu", enabled=False):
            for rows, some, place in blocks(shape):
                part = (rows, some)
                scores = _scores(query[part], key[part], None if bias is None else expanded[part], scale)
                found = kept[part].view(-1, *shape[2:])
                found.copy_(torch.softmax(scores, -1).view(found.shape))
                if drawn:
                    # The sign of what is dropped is negative.
                    masks.negate(found.view(-1), 1 - dropout, drawn, place)
                    found = _positive(found)
                product = _product(found, value[part].flatten(0, 1), 1 / (1 - dropout))
                out[rows, :, some] = product.view(*scores.shape[:3], size).transpose(1, 2)
        ctx.save_for_backward(query, key, value, None if mask is CAUSAL else mask, kept)
        ctx.dropout, ctx.scale, ctx.is_causal = dropout, scale, mask is CAUSAL
        return out.transpose(1, 2)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        query, key, value, mask, kept = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient of the gradient is wanted: by operations that have one
            bias = _bias(CAUSAL if ctx.is_causal else mask, query.shape[2], key.shape[2])
            out = _plainly(query, key, value, bias, kept, ctx.dropout, ctx.scale)
            inputs = [tensor for tensor, needed in zip((query, key, value), ctx.needs_input_grad) if needed]
            found = iter(torch.autograd.grad(out, inputs, gradient, create_graph=True))
            return (*(next(found) if needed else None for needed in ctx.needs_input_grad[:3]), None, None, None)
        of_query, of_key, of_value = (torch.empty_like(tensor) for tensor in (query, key, value))
        for rows, some, _place in blocks(kept.shape):
            q, k, v, given, softmax = (each[rows, some].flatten(0, 1) for each in (query, key, value, gradient, kept))
            used = _positive(softmax) if ctx.dropout else softmax
            factor = 1 / (1 - ctx.dropout)
            _product(used.transpose(1, 2), given, factor, of_value[rows, some])
            of_scores = _product(given, v.transpose(1, 2), factor)
            if ctx.dropout:
                _drop(of_scores, softmax)
                softmax = _absolute(softmax)
            of_scores = torch._softmax_backward_data(of_scores, softmax, -1, softmax.dtype)
            _product(of_scores, k, ctx.scale, of_query[rows, some])
            _product(of_scores.transpose(1, 2), q, ctx.scale, of_key[rows, some])
        return of_query, of_key, of_value, None, None, None


def blocks(shape: Any) -> Iterator[tuple[slice, slice, int]]:
    """Return the parts of scores that are computed at a time: of the batch, of its heads, and the first one's place."""
    batch, heads, length, keys = shape
    most = max(1, BLOCK * torch.get_num_threads() // (length * keys))
    if most >= heads:
        for row in range(0, batch, most // heads):
            yield slice(row, row + most // heads), slice(None), row * heads * length * keys
        return
    for row in range(batch):
        for head in range(0, heads, most):
            yield slice(row, row + 1), slice(head, head + most), (row * heads + head) * length * keys


def _scores(query: Any, key: Any, mask: Any, scale: float) -> Any:
    """Return the scores in float32."""
    first, second = query.flatten(0, 1), key.flatten(0, 1).transpose(1, 2)
    found = _product(first, second, scale)
    if found.dtype is not torch.float32:
        rest = torch.baddbmm(found, first, second, beta=-1, alpha=scale)
        found = found.float().add_(rest)
    found = found.view(*query.shape[:3], key.shape[2])
    return found if mask is None else found.add_(mask)


def _product(first: Any, second: Any, factor: float, out: Any = None) -> Any:
    """Return the product of matrices times a factor, which is applied before it is rounded. out: where it is put."""
    shape = len(first), first.shape[1], second.shape[2]
    into = first.new_empty(shape) if out is None else out.view(shape)
    # The same tensor twice: of another one, also of the same memory, PyTorch first makes a copy, though beta is 0.
    return torch.baddbmm(into, first, second, beta=0, alpha=factor, out=into)


def _positive(softmax: Any) -> Any:
    """Return what dropout has left: zero for what is negative."""
    return masks.as_integers(softmax).clamp(min=0).view(softmax.dtype)


def _absolute(softmax: Any) -> Any:
    bits = masks.as_integers(softmax)
    return bits.bitwise_and(torch.iinfo(bits.dtype).max).view(softmax.dtype)


def _drop(gradient: Any, softmax: Any) -> None:
    """Set to zero what belongs to a negative weight."""
    bits = masks.as_integers(softmax)
    dropped = bits.bitwise_right_shift(torch.iinfo(bits.dtype).bits - 1)
    masks.as_integers(gradient).bitwise_and_(dropped.bitwise_not_())


def _plainly(query: Any, key: Any, value: Any, mask: Any, kept: Any, dropout: float, scale: float) -> Any:
    """Compute the same by PyTorch's operations, which it differentiates."""
    scores = torch.matmul(query.float(), key.float().transpose(-1, -2)) * scale
    if mask is not None:
        scores = scores + mask
    found = torch.softmax(scores, -1)
    if dropout:
        found = found * kept.signbit().logical_not().float() / (1 - dropout)
    return torch.matmul(found, value.float()).to(query.dtype)


def _bias(mask: Any, length: int, keys: int) -> Any:
    """Return what is added to the scores; None for nothing."""
    if mask is CAUSAL:
        return torch.full((length, keys), -math.inf).triu(1)
    if mask is None or mask.dtype is not torch.bool:
        return mask
    return torch.zeros(mask.shape).masked_fill_(~mask, -math.inf)


def applies(query: Any, key: Any, value: Any, mask: Any, dropout: float, is_causal: bool, is_grouped: bool) -> bool:
    """Tell whether a call is one that is faster here and computed alike."""
    tensors = (query, key, value) if mask is None else (query, key, value, mask)
    return (
        all(type(tensor) in (torch.Tensor, torch.nn.Parameter) for tensor in tensors)
        and all(tensor.device.type == "cpu" and tensor.layout is torch.strided for tensor in tensors)
        and not _is_watched()
        and query.dim() == key.dim() == value.dim() == 4
        and query.shape[0] == key.shape[0] == value.shape[0]
        and (query.shape[1] == key.shape[1] == value.shape[1] or (is_grouped and _divides(query, key, value)))
        and key.shape[2] == value.shape[2]
        and query.shape[3] == key.shape[3] == value.shape[3]
        and query[..., 0].numel() * key.shape[2] >= SMALL
        and _is_worth(query, key, value, dropout)
        and _is_plain(mask, is_causal)
    )


def _divides(query: Any, key: Any, value: Any) -> bool:
    return all(tensor.shape[1] and query.shape[1] % tensor.shape[1] == 0 for tensor in (key, value))


def _is_worth(query: Any, key: Any, value: Any, dropout: float) -> bool:
    """Tell whether PyTorch takes longer."""
    dtype = _dtype(query)
    if any(_dtype(tensor) is not dtype for tensor in (key, value)) or dtype not in (torch.float32, torch.bfloat16):
        return False
    if dropout:
        return masks.RARE <= dropout <= 1 - masks.RARE
    is_trained = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (query, key, value))
    return is_trained and dtype is torch.bfloat16 and key.shape[2] <= SHORT


def _is_plain(mask: Any, is_causal: bool) -> bool:
    """Tell whether a mask leaves something of each row: PyTorch returns zeros where it does not."""
    if mask is None:
        return True
    if is_causal or mask.requires_grad or not (mask.dtype is torch.bool or mask.is_floating_point()):
        return False
    left = mask if mask.dtype is torch.bool else mask > -math.inf
    return bool(left.any(-1).all())


def _is_watched() -> bool:
    """Tell whether something else than autograd and autocast is to see PyTorch's operator."""
    return (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or torch._C._is_torch_function_mode_enabled()
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._functorch.peek_interpreter_stack() is not None
        or torch.autograd.forward_ad._current_level >= 0
        or not (torch._C._get_math_sdp_enabled() and torch._C._get_flash_sdp_enabled())
    )


def _dtype(tensor: Any) -> Any:
    """Return the type in which PyTorch's operator computes with a tensor."""
    if torch.is_autocast_enabled("cpu") and tensor.is_floating_point() and tensor.dtype is not torch.float64:
        return torch.get_autocast_dtype("cpu")
    return tensor.dtype


def install(torch: Any) -> None:
    """Put this in PyTorch's place. Raises AttributeError where PyTorch has not what it needs."""
    functional = torch.nn.functional
    theirs = functional.scaled_dot_product_attention
    names = ("get_num_threads", "is_autocast_enabled", "get_autocast_dtype", "_softmax_backward_data")
    for name in names:
        getattr(torch, name)
    _is_watched()

    @functools.wraps(theirs)
    def scaled_dot_product_attention(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Any:
        if not applies(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa):
            return theirs(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
        query, key, value = (tensor.to(_dtype(tensor)) for tensor in (query, key, value))
        if enable_gqa:
            key, value = (tensor.repeat_interleave(query.shape[1] // tensor.shape[1], 1) for tensor in (key, value))
        query, key, value = (tensor.contiguous() for tensor in (query, key, value))
        factor = 1 / math.sqrt(query.shape[3]) if scale is None else scale
        return Attention.apply(query, key, value, CAUSAL if is_causal else attn_mask, dropout_p, factor)

    # torch.jit.script takes it for the operator, as it does PyTorch's own.
    torch.jit._builtins._register_builtin(scaled_dot_product_attention, "aten::scaled_dot_product_attention")
    # The name by which pickle finds it, and PyTorch's own where the model is loaded.
    scaled_dot_product_attention.__module__ = functional.__name__
    functional.scaled_dot_product_attention = scaled_dot_product_attention
