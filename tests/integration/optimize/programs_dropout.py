"""Programs that draw random masks."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from layouts import CANARY, LAYOUTS, laid, numbers, with_special
from records import Record
from torch.utils.checkpoint import checkpoint

HAS_EXACT = False
# Fields of which the first choice is drawn half as often.
VARIED = ("function", "shape", "seed")
FIELDS: dict[str, tuple[Any, ...]] = {
    "function": (
        "dropout",
        "dropout in place",
        "Module",
        "bernoulli_",
        "bernoulli_ of a tensor",
        "bernoulli",
        "bernoulli of p",
        "alpha_dropout",
        "feature_alpha_dropout",
        "dropout1d",
        "dropout2d",
        "dropout3d",
        "native_dropout",
        "functional bernoulli",
    ),
    "shape": (
        (130, 128),
        (1 << 14,),
        ((1 << 14) - 1,),
        ((1 << 14) + 1,),
        (3, 7, 31, 33),
        (2, 20000, 1, 1),
        (0, 5),
        (),
        (1,),
        ((1 << 17) * 2 + 3,),
        (17, 1025),
        (2, 3, 4, 5, 200),
    ),
    "p": (0.1, 0.5, 0.9, 0.0, 1.0, 1 / 64, 1 - 1 / 64, 0.001, 0.999, -0.1, 1.5, math.nan, 1e-30),
    "dtype": ("float32", "bfloat16", "float16", "float64", "int64", "bool", "uint8", "complex64"),
    "layout": LAYOUTS,
    "special": ("none", "nan", "inf", "-inf", "huge", "denormal", "zero"),
    "context": ("plain", "no_grad", "inference_mode", "autocast", "meta", "generator", "vmap", "deterministic"),
    "use": ("backward", "forward", "checkpoint", "checkpoint_reentrant", "double", "eval", "leaf", "func.grad"),
    "seed": tuple(range(50)),
}


def run(record: Record, p: dict[str, Any]) -> None:
    dtype = getattr(torch, p["dtype"])
    torch.manual_seed(p["seed"])
    device = "meta" if p["context"] == "meta" else "cpu"
    values = with_special(numbers(p["shape"], p["seed"]), p["special"], p["seed"])
    around: Any
    x, around = laid(values.to(dtype), p["layout"])
    if device == "meta":
        x = x.to("meta")
    elif around is not x:
        outside = around.eq(torch.full((), CANARY).to(dtype))
    is_fraction = dtype.is_floating_point
    in_place = p["function"] in ("dropout in place", "bernoulli_", "bernoulli_ of a tensor")
    if is_fraction and p["use"] != "forward":
        x.requires_grad_()
    source = x * 1 if in_place and x.requires_grad and p["use"] != "leaf" else x
    if p["layout"] not in ("contiguous",) and in_place and not x.requires_grad:
        source = x
    generator = torch.Generator().manual_seed(p["seed"]) if p["context"] == "generator" else None
    version = source._version

    def call(given: Any) -> Any:
        return _call(p, given, generator)

    with (
        torch.autocast("cpu", enabled=p["context"] == "autocast"),
        torch.inference_mode(p["context"] == "inference_mode"),
        torch.set_grad_enabled(p["context"] not in ("no_grad", "inference_mode")),
    ):
        if p["context"] == "vmap":
            out = record.attempt("vmap", lambda: torch.func.vmap(call, randomness="different")(source))
        elif p["use"] == "func.grad" and is_fraction and not in_place:
            out = record.attempt("func.grad", lambda: torch.func.grad(lambda each: call(each).sum())(source.detach()))
        elif p["use"].startswith("checkpoint"):
            again = p["use"].endswith("reentrant")
            out = record.attempt("call", lambda: checkpoint(call, source, use_reentrant=again))
        else:
            out = record.attempt("call", lambda: call(source))
    if device == "meta":
        record.note("call", "is of", (str(out.device), str(out.dtype), tuple(out.shape), out.stride()))
        return
    _result(record, p, "result", out, x)
    record.note("result", "is what was given", out is source)
    record.note("call", "raised the version by", source._version - version)
    if around is not x:
        record.note("memory beside", "is as it was", bool(around.detach()[outside].eq(CANARY).all()))
    if out.requires_grad:
        again = p["use"] == "double"
        found = record.attempt(
            "backward", lambda: torch.autograd.grad(out.sum(), x, create_graph=again, allow_unused=True)
        )[0]
        if found is None:
            record.note("gradient", "is None", True)
            return
        _result(record, p, "gradient", found, x)
        if p["function"] in ("dropout", "Module", "dropout in place") and p["context"] in ("plain", "generator"):
            plain = x.detach() * found.detach()
            is_same = torch.equal(plain.nan_to_num(), out.detach().nan_to_num())
            record.note("gradient", "is of the mask of the result", is_same)
            record.note("result", "has NaN where it should", torch.equal(plain.isnan(), out.isnan()))
        if again and found.requires_grad:
            record.tensor("second", torch.autograd.grad(found.sum(), x, allow_unused=True)[0])


def _call(p: dict[str, Any], x: Any, generator: Any) -> Any:
    name, rate, trains = p["function"], p["p"], p["use"] != "eval"
    if name == "dropout":
        return F.dropout(x, rate, trains)
    if name == "dropout in place":
        return F.dropout(x, rate, trains, inplace=True)
    if name == "Module":
        return torch.nn.Dropout(rate).train(trains)(x)
    if name == "bernoulli_":
        return x.bernoulli_(rate, generator=generator)
    if name == "bernoulli_ of a tensor":
        return x.bernoulli_(torch.full(x.shape, rate, dtype=torch.float32), generator=generator)
    if name == "bernoulli":
        return torch.bernoulli(torch.full_like(x, rate), generator=generator)
    if name == "bernoulli of p":
        return torch.bernoulli(x, rate, generator=generator)
    if name == "native_dropout":
        return torch.native_dropout(x, rate, trains)[0]
    if name == "functional bernoulli":
        return torch.ops.aten.bernoulli.p(x, rate, generator=generator)
    return getattr(F, name)(x, rate, trains)


def _result(record: Record, p: dict[str, Any], label: str, out: Any, x: Any) -> None:
    """Record all that does not depend on the mask; where there is none, the values, too."""
    facts = torch.zeros_like(out, requires_grad=False)
    record.note(
        label,
        "looks so",
        (str(out.dtype), tuple(out.shape), out.stride(), out.requires_grad, out.grad_fn is not None, out.is_leaf),
    )
    record.note(label, "is like", facts.stride())
    plain = out.detach()
    bernoulli = p["function"].startswith(("bern", "func"))
    if not 0 < p["p"] < 1 or (p["use"] == "eval" and not bernoulli) or p["p"] < 1e-20:
        record.tensor(label, plain)
        return
    if plain.is_complex():
        return
    flat = plain.double().reshape(-1)
    if p["function"] in ("dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout") or p["layout"] == "expanded":
        return
    ones = label == "gradient" or bernoulli
    if flat.numel() > 1 << 13 and 0.02 < p["p"] < 0.98 and ones:
        record.note(label, "has the numbers", tuple(flat.unique().tolist()))
    kept = flat.ne(0).double()
    share = p["p"] if bernoulli else 1 - p["p"]
    if flat.numel() > 1 << 10 and p["function"] != "alpha_dropout" and p["special"] != "denormal":
        far = abs(kept.mean().item() - share) / math.sqrt(share * (1 - share) / flat.numel())
        record.note(label, "keeps the share", far < 6.5 or p["dtype"] in ("int64", "uint8", "bool"))
