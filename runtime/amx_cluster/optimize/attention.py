"""scaled_dot_product_attention for training on CPUs, some heads at a time.

PyTorch has two ways on CPUs (2.13). With dropout it computes in float32, also of bfloat16, so that no matrix product of
attention uses AMX, and writes all scores several times. Without dropout its fused backward pass takes, for bfloat16 and
short sequences, two to four times as long as the same matrix products. Here the scores of as many heads as fit into a
core's cache are computed, in float32 but for the products themselves, and given up; what the backward pass needs of
them is their softmax in the type of the query, with the sign as the mask of dropout.

A bfloat16 product is rounded to bfloat16. What that loses of a score is computed by a second product, which
subtracts the rounded one before it rounds: scores are exact to about 2^-17, as PyTorch's are.

Strides of results and gradients, and what may be changed in place after the call, are those of PyTorch's way for the
same call. Numbers that are not finite, or so large that rounding would show, are left to PyTorch, also of a gradient.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import torch
from amx_cluster.optimize import calls, masks

# Scores that a thread has at a time, and scores of a call below which PyTorch's own way is as fast.
BLOCK, SMALL = 1 << 18, 1 << 18
# The longest sequence whose softmax is kept where PyTorch, without dropout, would keep nothing. From 192 on, PyTorch
# 2.13 takes larger blocks, which are faster with AMX. Shorter ones are faster in this way there, if a batch has HEADS
# heads or more for each thread (measured with 32 and 64 numbers a head, one thread and two).
SHORT, SHORT_WITH_AMX, HEADS = 256, 191, 24
# The largest score that lengths of query and key allow, by type, and what a mask may add to the largest of a row.
SCORE, ADDED = {torch.bfloat16: 256.0, torch.float32: 4096.0}, 128.0
# The lengths that values and gradients, as a whole, may have; the least, also the longest row of query and key.
LEAST, MOST = 1e-20, 1e12
# What _fused_sdp_choice returns.
MATH, FLASH = 0, 1


class Attention(torch.autograd.Function):
    """softmax(query key^T scale + bias), with dropout, times value.

    query, key, value: (batch, heads, length, size); with dropout, key and value have as many heads as the query. bias:
    what is added to the scores, of a shape that expands to (batch, heads, length, length of the keys), or None.

    What is saved is what PyTorch saves: without dropout the arguments themselves, with dropout only the value, and
    query and key as copies that the caller has made.
    """

    @staticmethod
    def forward(
        ctx: Any, query: Any, key: Any, value: Any, bias: Any, dropout: float, is_causal: bool, scale: float
    ) -> torch.Tensor:
        ctx.set_materialize_grads(False)
        shape = *query.shape[:3], key.shape[2]
        kept = query.new_empty(shape)
        out = query.new_empty(query.shape) if dropout else torch.empty_like(query)
        drawn = masks.draw() if dropout else None
        added = _causal(shape) if is_causal else bias
        expanded = None if added is None else added.expand(shape)
        keys, values = _repeated(key, query), _repeated(value, query)
        for rows, some, place in blocks(shape):
            part = (rows, some)
            scores = _scores(query[part], keys[part], None if expanded is None else expanded[part], scale)
            probabilities = kept[part].view(-1, *shape[2:])
            probabilities.copy_(torch.softmax(scores, -1).view(probabilities.shape))
            if drawn:
                # The sign of what is dropped is negative.
                masks.negate(probabilities.view(-1), 1 - dropout, drawn, place)
                probabilities = _positive(probabilities)
            _product(probabilities, values[part].flatten(0, 1), 1 / (1 - dropout), out[part])
        ctx.dropout, ctx.is_causal, ctx.scale = dropout, is_causal, scale
        if dropout:
            is_scored = ctx.needs_input_grad[0] or ctx.needs_input_grad[1]
            ctx.save_for_backward(*((query, key, value) if is_scored else (None, None, None)), None, kept, None)
        else:
            ctx.save_for_backward(query, key, value, bias, kept, out)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        query, key, value, bias, kept, _out = ctx.saved_tensors
        rest = (None,) * 4
        if gradient is None:
            return (None, None, None, *rest)
        if torch.is_grad_enabled() or not _is_usual(gradient):
            method = _plainly if ctx.dropout else _flash
            return *method(ctx, gradient, query, key, value, bias, kept), *rest
        with torch.autocast("cpu", enabled=False):
            return *_gradients(ctx, gradient, query, key, value, kept), *rest


def _gradients(ctx: Any, gradient: Any, query: Any, key: Any, value: Any, kept: Any) -> tuple[Any, ...]:
    """Return the gradients, with strides as PyTorch's have."""
    size, factor = gradient.shape[3], 1 / (1 - ctx.dropout)
    is_scored = ctx.needs_input_grad[0] or ctx.needs_input_grad[1]
    of_query, of_key, of_value = (
        _empty(kept, kept.shape[dim], size, ctx.dropout, is_key) if is_needed else None
        for dim, is_key, is_needed in zip((2, 3, 3), (False, True, False), ctx.needs_input_grad)
    )
    keys, values = (_repeated(each, kept) if is_scored else None for each in (key, value))
    for rows, some, _place in blocks(kept.shape):
        part = (rows, some)
        given, softmax = gradient[part].flatten(0, 1), kept[part].flatten(0, 1)
        if of_value is not None:
            used = _positive(softmax) if ctx.dropout else softmax
            _product(used.transpose(1, 2), given, factor, of_value[part])
        if keys is None or values is None:
            continue
        second = values[part].flatten(0, 1).transpose(1, 2)
        if ctx.dropout:
            # As exact as PyTorch's, which has this in float32: differences within a row are what counts.
            of_scores, softmax = _exactly(given, second, factor), softmax.float()
            _drop(of_scores, softmax)
            softmax = _absolute(softmax)
            if kept.dtype is not softmax.dtype:
                softmax = softmax.div_(softmax.sum(-1, keepdim=True))
        else:
            of_scores = _product(given, second, factor)
        of_scores = torch._softmax_backward_data(of_scores, softmax, -1, softmax.dtype).to(kept.dtype)
        if of_query is not None:
            _product(of_scores, keys[part].flatten(0, 1), ctx.scale, of_query[part])
        if of_key is not None:
            queries = query[part].flatten(0, 1)
            if ctx.dropout:
                _product(queries.transpose(1, 2), of_scores, ctx.scale, of_key[part].transpose(2, 3))
            else:
                _product(of_scores.transpose(1, 2), queries, ctx.scale, of_key[part])
    return of_query, *(_summed(each, like) for each, like in ((of_key, key), (of_value, value)))


def _empty(kept: Any, length: int, size: int, dropout: float, is_key: bool) -> Any:
    """Return memory for the gradient of a query, key or value: no view, as PyTorch's is none."""
    batch, heads = kept.shape[:2]
    head, row = length * size, (1, length) if is_key else (size, 1)
    if dropout:
        return kept.new_empty_strided((batch, heads, length, size), (heads * head, head, *row))
    return kept.new_empty_strided((batch, heads, length, size), (heads * head, size, heads * size, 1))


def _repeated(tensor: Any, like: Any) -> Any:
    """Return keys or values for each head of a query."""
    return tensor if tensor.shape[1] == like.shape[1] else tensor.repeat_interleave(like.shape[1] // tensor.shape[1], 1)


def _summed(gradient: Any, tensor: Any) -> Any:
    """Return the gradient of keys or values that several heads of a query have used."""
    if gradient is None or tensor is None or gradient.shape[1] == tensor.shape[1]:
        return gradient
    rows = gradient.transpose(1, 2).unflatten(2, (tensor.shape[1], gradient.shape[1] // tensor.shape[1]))
    return rows.sum(3).transpose(1, 2)


def _plainly(ctx: Any, gradient: Any, query: Any, key: Any, value: Any, _bias: Any, kept: Any) -> list[Any]:
    """Return the gradients by the operations of PyTorch's way with dropout, which can be differentiated again."""
    is_again = torch.is_grad_enabled()
    with torch.enable_grad():
        noise = kept.signbit().logical_not().float().div_(1 - ctx.dropout)
        softmax = _absolute(kept).float()
        if query is None:
            return [None, None, torch.matmul((softmax * noise).transpose(-1, -2), gradient.float()).to(gradient.dtype)]
        # Views: a gradient ends at them, also where query, key and value depend on one another.
        tensors = [each.view_as(each) if is_again else each.detach().requires_grad_() for each in (query, key, value)]
        first, second, third = (each.float() for each in tensors)
        scores = torch.matmul(first, second.transpose(-1, -2)) * ctx.scale
        softmax = torch.softmax(scores + (softmax.log() - scores).detach(), -1)
        out = torch.matmul(softmax * noise, third).to(query.dtype)
        needed = [tensor for tensor, is_needed in zip(tensors, ctx.needs_input_grad) if is_needed]
        gradients = iter(torch.autograd.grad(out, needed, gradient, create_graph=is_again))
    return [next(gradients) if is_needed else None for is_needed in ctx.needs_input_grad[:3]]


def _flash(ctx: Any, gradient: Any, query: Any, key: Any, value: Any, bias: Any, _kept: Any) -> tuple[Any, ...]:
    """Return the gradients by PyTorch's way without dropout."""
    operators = torch.ops.aten
    words = {"attn_mask": bias, "scale": ctx.scale}
    with torch.no_grad():
        made = operators._scaled_dot_product_flash_attention_for_cpu(query, key, value, 0.0, ctx.is_causal, **words)
    return operators._scaled_dot_product_flash_attention_for_cpu_backward(
        gradient, query, key, value, *made, 0.0, ctx.is_causal, **words
    )


def _is_usual(gradient: Any) -> bool:
    """Return whether a gradient is finite, and nothing else is to see what is computed of it."""
    return calls.is_plain(gradient) and not calls.are_seen() and _is_moderate(gradient)


def _is_moderate(tensor: Any) -> bool:
    length = torch.linalg.vector_norm(tensor, dtype=torch.float32).item()
    # Squares of small numbers are 0, too.
    return LEAST < length < MOST or (length == 0 and not tensor.any())


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
    scores = _exactly(query.flatten(0, 1), key.flatten(0, 1).transpose(1, 2), scale)
    scores = scores.view(*query.shape[:3], key.shape[2])
    return scores if mask is None else scores.add_(mask)


def _exactly(first: Any, second: Any, factor: float) -> Any:
    """Return the product of matrices times a factor in float32."""
    product = _product(first, second, factor)
    if product.dtype is torch.float32:
        return product
    rest = torch.baddbmm(product, first, second, beta=-1, alpha=factor)
    return product.float().add_(rest)


def _product(first: Any, second: Any, factor: float, out: Any = None) -> Any:
    """Return the product of matrices times a factor, which is applied before it is rounded. out: where it is put."""
    shape = len(first), first.shape[1], second.shape[2]
    is_direct = out is not None and out.is_contiguous()
    into = out.view(shape) if is_direct else first.new_empty(shape)
    # The same tensor twice: of another one, also of the same memory, PyTorch first makes a copy, though beta is 0.
    product = torch.baddbmm(into, first, second, beta=0, alpha=factor, out=into)
    if out is not None and not is_direct:
        out.copy_(product.view(out.shape))
    return product


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


def _has_one_stride_of_heads(value: Any) -> bool:
    """Return whether (batch, heads, ...) can be viewed as (batch * heads, ...), as matmul does without a copy."""
    return 1 in value.shape[:2] or value.stride(0) == value.shape[1] * value.stride(1)


def _causal(shape: Any) -> Any:
    return torch.full(shape[2:], -math.inf, dtype=torch.float32).triu(1)


def applies(
    query: Any, key: Any, value: Any, mask: Any, dropout: float, is_causal: bool, scale: float, is_grouped: bool
) -> bool:
    """Return whether a call is one that is faster here and computed alike."""
    tensors = (query, key, value) if mask is None else (query, key, value, mask)
    return (
        all(calls.is_plain(tensor) for tensor in tensors)
        and not calls.are_seen()
        and query.dim() == key.dim() == value.dim() == 4
        and query.shape[0] == key.shape[0] == value.shape[0]
        and (query.shape[1] == key.shape[1] == value.shape[1] or (is_grouped and _divides(query, key, value)))
        and key.shape[2] == value.shape[2]
        and query.shape[3] == key.shape[3] == value.shape[3] > 0
        and query[..., 0].numel() * key.shape[2] > 0
        and _is_worth(query, key, value, dropout)
        and not calls.are_saved_otherwise()
        and 0 < scale < math.inf
        and (mask is None or (not is_causal and _is_plain(mask, (*query.shape[:3], key.shape[2]), query.dtype)))
        and torch._fused_sdp_choice(query, key, value, mask, dropout, is_causal, scale=scale, enable_gqa=is_grouped)
        == (MATH if dropout else FLASH)
        and (first := _longest(query)) > LEAST
        and (second := _longest(key)) > LEAST
        and first * second * scale < SCORE[query.dtype]
        and _is_moderate(value)
    )


def _divides(query: Any, key: Any, value: Any) -> bool:
    return all(tensor.shape[1] and query.shape[1] % tensor.shape[1] == 0 for tensor in (key, value))


def _is_worth(query: Any, key: Any, value: Any, dropout: float) -> bool:
    """Return whether PyTorch takes longer."""
    if not (query.dtype is key.dtype is value.dtype and query.dtype in SCORE):
        return False
    is_large = query[..., 0].numel() * key.shape[2] >= SMALL
    if dropout:
        return is_large and masks.RARE <= dropout <= 1 - masks.RARE
    if not (_is_recorded(query, key, value) and query.dtype is torch.bfloat16):
        return False
    if not has_amx():
        return is_large and key.shape[2] <= SHORT
    is_large = is_large or query.shape[0] * query.shape[1] >= HEADS * torch.get_num_threads()
    return is_large and key.shape[2] <= SHORT_WITH_AMX


@functools.cache
def has_amx() -> bool:
    """Return whether the CPU multiplies bfloat16 with AMX."""
    return torch.cpu._is_amx_tile_supported()


def _is_recorded(*tensors: Any) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def _is_plain(mask: Any, shape: Any, dtype: Any) -> bool:
    """Return whether a mask leaves something of each row, where PyTorch returns zeros, and adds nothing large to it."""
    sizes = (1,) * (4 - mask.dim()) + tuple(mask.shape)
    if mask.requires_grad or mask.dim() > 4 or any(size not in (1, whole) for size, whole in zip(sizes, shape)):
        return False
    if mask.dtype is torch.bool:
        return bool(_compact(mask).any(-1).all())
    # NaN is the largest.
    return mask.dtype is dtype and bool((_compact(mask).amax(-1).abs() <= ADDED).all())


def _compact(mask: Any) -> Any:
    """Return what an expanded mask was made of."""
    for dim, (size, stride) in enumerate(zip(mask.shape, mask.stride())):
        mask = mask.narrow(dim, 0, 1) if stride == 0 and size > 1 else mask
    return mask


def _longest(tensor: Any) -> float:
    """Return the length of the longest row; not a number, or infinite, if one is."""
    return torch.linalg.vector_norm(tensor, dim=-1, dtype=torch.float32).amax().item()


def install(torch: Any) -> None:
    """Replace PyTorch's operator by this one. Raises what PyTorch raises where it has not what this needs."""
    calls.try_checks()
    names = ("_fused_sdp_choice", "_softmax_backward_data")
    for name in names:
        getattr(torch, name)
    has_amx()

    def attend(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Any:
        size = query.shape[-1] if calls.is_plain(query) and query.dim() else 0
        factor = scale if scale is not None else 1 / math.sqrt(size or 1)
        if not size or not applies(query, key, value, attn_mask, dropout_p, is_causal, factor, enable_gqa):
            return theirs(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
        bias = attn_mask
        if bias is not None and bias.dtype is torch.bool:
            bias = _compact(bias)
            bias = torch.zeros(bias.shape, dtype=query.dtype).masked_fill_(~bias, -math.inf)
        if dropout_p:
            key, value = _repeated(key, query), _repeated(value, query)
            if _is_recorded(query, key, value):
                # Copies: PyTorch lets query and key be changed after the call, and a value that it converts or copies.
                query, key = (each.clone(memory_format=torch.contiguous_format) for each in (query, key))
                is_copied = value.dtype is torch.bfloat16 or not _has_one_stride_of_heads(value)
                value = value.clone(memory_format=torch.contiguous_format) if is_copied else value
        return Attention.apply(query, key, value, bias, dropout_p, is_causal, factor)

    theirs = calls.replace("scaled_dot_product_attention", attend)
