"""What a program of judge_programs.py did, and how two records differ."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy
import torch

EPS = {"float64": 2.0**-53, "float32": 2.0**-24, "bfloat16": 2.0**-9, "float16": 2.0**-12}
# Steps of an optimizer make rounding larger.
EPS["float32 after steps"] = 16 * EPS["float32"]


class Stopped(Exception):
    """The program ended with an error, which is recorded."""


@dataclass
class Tensor:
    """What is seen of a tensor. precise: the type that says how exact its values are."""

    facts: tuple[Any, ...]
    values: Any
    precise: str


class Record:
    """is_exact: the program is run in float64, with the same values."""

    def __init__(self, is_exact: bool) -> None:
        self.is_exact = is_exact
        self.events: list[tuple[str, str, Any]] = []
        self.precise = ""

    def run(self, program: Callable[..., None], choices: dict[str, Any]) -> None:
        try:
            program(self, choices)
        except Stopped:
            pass
        except Exception as error:
            self.events.append(("program", "raises", type(error).__name__))
            self.events.append(("program", "says", str(error)))

    def train(self, program: Any, steps: int) -> None:
        """Make the steps of a program of transformers, and undo what it has changed of this process. program: `undo`
        is an ExitStack."""
        warnings.simplefilter("ignore")
        logging.getLogger("transformers").setLevel(logging.ERROR)
        try:
            for step in range(steps):
                program.step(step)
        finally:
            torch.set_grad_enabled(True)
            program.undo.close()

    def type_of(self, choices: dict[str, Any]) -> Any:
        """Return the type of a program's model, and note which of its types says how exact values are."""
        low = {*(each for each in (choices["dtype"], choices["autocast"]) if each not in ("none", "float64"))}
        self.precise = next((each for each in ("bfloat16", "float16", "float32") if each in low), "float64")
        return torch.float64 if self.is_exact else getattr(torch, choices["dtype"])

    def attempt(self, label: str, function: Callable[..., Any], *args: Any) -> Any:
        """Call what may fail: the program ends with it."""
        try:
            return function(*args)
        except Exception as error:
            self.events.append((label, "raises", type(error).__name__))
            self.events.append((label, "says", str(error).partition("\n")[0]))
            raise Stopped from error

    def note(self, label: str, what: str, value: Any) -> None:
        self.events.append((label, what, value))

    def tensor(self, label: str, tensor: Any, precise: str = "") -> None:
        """Record a tensor's values and all that a script can see of it."""
        if tensor is None:
            self.note(label, "is None", True)
            return
        dtype = str(tensor.dtype).removeprefix("torch.")
        facts = (
            ("dtype", None if self.is_exact else dtype),
            ("shape", tuple(tensor.shape)),
            ("strides", strides(tensor)),
            ("is contiguous", tensor.is_contiguous()),
            ("requires_grad", tensor.requires_grad),
            ("has a grad_fn", tensor.grad_fn is not None),
            ("is a leaf", tensor.is_leaf),
            ("is of inference", tensor.is_inference()),
            ("is of another class", type(tensor).__name__),
        )
        plain = tensor.detach()
        plain = plain.to_dense() if plain.layout is not torch.strided else plain
        values = plain.double().contiguous().cpu().numpy() if not plain.is_complex() else plain.numpy()
        self.events.append((label, "tensor", Tensor(facts, values.copy(), precise or self.precise or dtype)))


def strides(tensor: Any) -> tuple[int, ...]:
    """Return the strides that say where elements are: those of sides of one element do not."""
    if tensor.layout is not torch.strided or tensor.numel() == 0:
        return ()
    return tuple(stride for size, stride in zip(tensor.shape, tensor.stride()) if size > 1)


def differences(stock: list[Any], mine: list[Any], exact: list[Any] | None, rounding: float = 1.0) -> Iterator[str]:
    """Yield how two records differ: which step, what of it, and after " | " its numbers.

    exact: the record in float64; None to compare the two alone, more strictly. rounding: by how much a program makes
    errors of rounding larger.
    """
    # In float64 a program may end earlier.
    scale = max(_largest(exact), _largest(stock)) if exact else _largest(stock)
    for at, (label, what, theirs) in enumerate(stock):
        if what == "says":
            continue
        found: Any = mine[at] if at < len(mine) else ("nothing", "", None)
        if what == "raises" and found[:2] != (label, what):
            says = stock[at + 1][2].replace("-", "")
            # PyTorch needs what was changed, or cannot: that more programs run is no difference.
            if "backward" not in label or not ("inplace" in says or "is not implemented" in says):
                yield f"{label} raises {theirs} only in PyTorch | {says}"
            return
        if found[1] == "raises" and "leave `loss` out" in mine[at + 1][2]:
            # A refusal that says what to do: weights were changed past PyTorch's own checks before logits were read.
            return
        if found[1] == "raises" and what != "raises":
            yield f"{found[0]} raises {found[2]} | {mine[at + 1][2]}"
            return
        if found[:2] != (label, what):
            yield f"{label} {what}, and {found[0]} {found[1]} | "
            return
        if not isinstance(theirs, Tensor):
            if theirs != found[2]:
                yield f"{label}: {what} | {found[2]} instead of {theirs}"
            continue
        for (name, one), (_name, other) in zip(theirs.facts, found[2].facts):
            if one != other:
                yield f"{label}: {name} | {other} instead of {one}"
                if name == "shape":
                    return
        right = exact[at][2].values if exact and at < len(exact) and exact[at][:2] == (label, what) else None
        if wrong := _values(theirs, found[2], right, scale, exact is None, rounding):
            yield f"{label}: {wrong}"
    if len(mine) > len(stock):
        yield f"{mine[len(stock)][0]} {mine[len(stock)][1]} | {mine[len(stock)][2]}"


def _largest(events: list[Any]) -> float:
    """Return the largest finite number of a record, as far as it is of a usual size."""
    found = [value.values for _label, what, value in events if what == "tensor" and value.values.size]
    sizes = [abs(each[numpy.isfinite(each)]).max(initial=0.0) for each in found]
    return min(max([float(size) for size in sizes], default=0.0), 1e4)


def _values(stock: Tensor, mine: Tensor, exact: Any, scale: float, is_strict: bool, rounding: float) -> str:
    """is_strict: there is no record in float64 yet; else none of this tensor, as the program ended elsewhere there."""
    one, other = stock.values, mine.values
    for name, test in (("NaN", numpy.isnan), ("inf", numpy.isposinf), ("-inf", numpy.isneginf)):
        if numpy.iscomplexobj(one):
            continue
        theirs, ours = test(one), test(other)
        if not numpy.array_equal(theirs, ours):
            return f"{name} at other places | {int(ours.sum())} instead of {int(theirs.sum())} of {one.size}"
    finite = numpy.isfinite(one)
    one, other = one[finite], other[finite]
    if not one.size or numpy.array_equal(one, other):
        return ""
    eps = EPS.get(stock.precise, 0.0)
    # In half precision, more would hide what is wrong.
    rounding = rounding if eps < 2.0**-20 else min(rounding, 8.0)
    with numpy.errstate(all="ignore"):
        if exact is None or exact.shape != stock.values.shape:
            far, largest = abs(one - other).max(), abs(one).max()
            most = 4 * eps * largest if is_strict else 16 * rounding * eps * max(scale, largest)
            return "" if far <= most else f"values | {far:.3g} apart, largest {largest:.3g}"
        right = exact[finite]
        known = numpy.isfinite(right)
        one, other, right = one[known], other[known], right[known]
        if not one.size:
            return ""
        for name, size in (("norm", lambda each: math.sqrt(float((each**2).mean()))), ("max", lambda e: abs(e).max())):
            theirs_far, far = size(one - right), size(other - right)
            floor = rounding * ((2 if name == "norm" else 8) * eps * size(right) + eps * scale)
            factor = 2 if name == "norm" else 3
            if not far <= factor * theirs_far + floor:
                return f"values | {far:.3g} from float64 and PyTorch's {theirs_far:.3g} ({name} {size(right):.3g})"
    return ""
