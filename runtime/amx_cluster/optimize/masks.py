"""Random masks, computed by all threads of a rank.

PyTorch draws the mask of dropout as doubles of a Mersenne Twister, an element after another, on one thread: 6 ns an
element on a core of an AMD EPYC (2.13; it looks at no vendor of the CPU), whatever the number of cores. Here a counter
is hashed, by operations of whole tensors that PyTorch vectorises and divides among its threads: a rank of 14 cores
draws a mask in the fourteenth part of the time.

The hash is lowbias32 (Chris Wellons, hash-prospector, public domain). Each call draws two words from PyTorch's
generator, the first value and the distance of its counter: a seed, and a state that a checkpoint has saved, give the
same masks again, with any number of threads. An element is kept if 16 bits of a hash are at least a threshold: its
probability is exact to 2^-17.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from amx_cluster.optimize import calls

# Hashes that a thread computes at a time: they and the counter stay in its second-level cache.
STEP = 1 << 17
# Elements below which PyTorch's own way is faster, and probabilities below which 2^-17 would be much of them.
SMALL, RARE = 1 << 14, 1 / 64
FRACTION = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
_counters: dict[int, torch.Tensor] = {}


def _signed(value: int) -> int:
    """Return the int32 with the lowest 32 bits of a number."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


FIRST, SECOND = _signed(0x7FEB352D), _signed(0x846CA68B)


def draw() -> tuple[int, int]:
    """Return what makes a mask another one than all before: the first value of its counter, and the distance."""
    first, distance = torch.empty(2, dtype=torch.int64).random_().tolist()
    return first, distance | 1


def fill(flat: torch.Tensor, probability: float, drawn: tuple[int, int], place: int = 0) -> None:
    """Set each element to 1 with a probability, else to 0.

    flat: one dimension, contiguous. drawn: as draw() returned it. place: of its first element among those of the same
    draw. Raises ValueError for a probability that rounds to 0 or 1.
    """
    for start, bits in _dropped(flat.numel(), probability, drawn, place):
        flat[start : start + len(bits)].copy_(bits.add_(1))


def negate(flat: torch.Tensor, probability: float, drawn: tuple[int, int], place: int = 0) -> None:
    """Set the sign of the elements that `fill` would set to 0; the others' must be positive.

    flat: of bfloat16 or float32, one dimension, contiguous. The others: as of fill().
    """
    for start, bits in _dropped(flat.numel(), probability, drawn, place):
        part = as_integers(flat[start : start + len(bits)])
        if part.dtype is torch.int16:
            part.bitwise_or_(bits.bitwise_and_(-(1 << 15)))
        else:
            part.bitwise_or_(bits.int().bitwise_and_(-(1 << 31)))


def as_integers(fractions: torch.Tensor) -> torch.Tensor:
    """Return the bits of bfloat16 or float32 as integers of that size, in the same memory: quickly compared and cut."""
    return fractions.view(torch.int16 if fractions.dtype is torch.bfloat16 else torch.int32)


def _dropped(size: int, probability: float, drawn: tuple[int, int], place: int) -> Iterator[tuple[int, torch.Tensor]]:
    """Return parts of a mask, -1 for what is dropped and else 0, as int16: where each begins, and its elements."""
    threshold = (1 << 15) - round(probability * (1 << 16))
    if not -(1 << 15) < threshold < 1 << 15:
        raise ValueError(f"a mask of probability {probability} is not random")
    odd, hashes = place % 2, (place % 2 + size + 1) // 2
    step = STEP * torch.get_num_threads()
    hashed = torch.empty(min(hashes, step), dtype=torch.int32)
    shifted = torch.empty_like(hashed)
    for done in range(0, hashes, step):
        count = min(step, hashes - done)
        bits = _hashes(hashed[:count], shifted[:count], drawn, place // 2 + done).view(torch.int16)
        # The first element of an odd place is the second half of a hash.
        start, end = max(0, 2 * done - odd), min(size, 2 * (done + count) - odd)
        skipped = odd if done == 0 else 0
        yield start, bits[skipped : skipped + end - start].clamp_(threshold - 1, threshold).sub_(threshold)


def _hashes(into: torch.Tensor, shifted: torch.Tensor, drawn: tuple[int, int], place: int) -> torch.Tensor:
    """Hash the counter from a place on. shifted: memory of the same size."""
    first, distance = drawn
    start = torch.tensor(_signed(first + place * distance), dtype=torch.int32)
    torch.add(start, _counter(len(into)), alpha=_signed(distance), out=into)
    for bits, factor in ((16, FIRST), (15, SECOND), (16, 1)):
        # PyTorch shifts the sign in.
        torch.bitwise_right_shift(into, bits, out=shifted)
        into.bitwise_xor_(shifted.bitwise_and_((1 << (32 - bits)) - 1))
        if factor != 1:
            into.mul_(factor)
    return into


def _counter(size: int) -> torch.Tensor:
    """Return 0, 1, 2 and so on."""
    whole = STEP * torch.get_num_threads()
    if whole not in _counters:
        _counters[whole] = torch.arange(whole, dtype=torch.int32)
    return _counters[whole][:size]


def takes(values: torch.Tensor, p: float) -> bool:
    """Return whether dropout of a tensor is faster here and computed alike."""
    return (
        calls.is_plain(values)
        and not calls.are_seen()
        and values.dtype in FRACTION
        and values.numel() >= SMALL
        and RARE <= p <= 1 - RARE
    )


def noise(like: torch.Tensor, p: float) -> torch.Tensor:
    """Return what dropout multiplies with: 0, or 1 / (1 - p), in the order of elements that PyTorch has it."""
    factors = torch.empty_like(like, requires_grad=False)
    whole = factors if factors.is_contiguous() else torch.empty(factors.shape, dtype=factors.dtype)
    fill(whole.view(-1), 1 - p, draw())
    if whole is not factors:
        factors.copy_(whole)
    return factors.div_(1 - p)


def _keeps_all(p: float, train: bool) -> bool:
    """Return whether dropout returns its input, as PyTorch does: calling its operator would take longer."""
    return p == 0 or (not train and 0 <= p <= 1)


def install(_torch: Any) -> None:
    """Replace PyTorch's operators by these. Raises what PyTorch raises where it has not the operators."""
    calls.try_checks()

    def dropout(input: torch.Tensor, p: float, train: bool) -> Any:
        if _keeps_all(p, train):
            return input
        return input.mul(noise(input, p)) if train and takes(input, p) else theirs(input, p, train)

    def dropout_(input: torch.Tensor, p: float, train: bool) -> Any:
        if _keeps_all(p, train):
            return input
        return input.mul_(noise(input, p)) if train and takes(input, p) else theirs_in_place(input, p, train)

    theirs = calls.replace("dropout", dropout)
    theirs_in_place = calls.replace("dropout_", dropout_)
