"""Programs that call scaled_dot_product_attention."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import torch
import torch.nn.functional as F
from layouts import LAYOUTS, laid, numbers, with_special
from records import Record
from torch.utils.checkpoint import checkpoint

HAS_EXACT = True
TYPES = {name: getattr(torch, name) for name in ("float32", "bfloat16", "float16", "float64")}
MASKS = (
    "none",
    "causal",
    "bool",
    "float",
    "bool of keys",
    "float of keys",
    "finfo.min of keys",
    "finfo.min of rows",
    "-inf of rows",
    "bool of rows",
    "-inf of all",
    "+inf",
    "nan",
    "-1e30",
    "of float64",
    "of bfloat16",
    "of float32",
    "expanded",
    "transposed",
    "trained",
    "causal and bool",
    "of integers",
    "of another shape",
    "of two dimensions",
    "of three dimensions",
    "as wide as 1",
)
USES = (
    "backward",
    "sum",
    "grad",
    "twice",
    "double",
    "double of the sum",
    "double of the sum",
    "forward",
    "view",
    "some of it",
    "one input",
    "change the result",
    "hooks",
    "checkpoint",
    "checkpoint_reentrant",
    "retain_grad",
    "nan gradient",
    "inf gradient",
    "transposed gradient",
    "func.grad",
    "func.vjp",
    "vmap",
    "vmap of grad",
    "jacrev",
    "jvp",
    "dual",
    "two layers",
    "hvp",
    "batched gradients",
    "deepcopy",
    "detached change",
)
# Fields of which the first choice is drawn half as often.
VARIED = ("related", "use", "dropout", "seed")
FIELDS: dict[str, tuple[Any, ...]] = {
    "dtype": ("bfloat16", "float32", "float32", "float16", "float64", "mixed"),
    "dropout": (0.0, 0.1, 0.1, 0.1, 0.5, 0.9, 0.01, 0.99, 1.0, -0.1, 1.5, 1 / 64, 1e-9),
    "batch": (2, 1, 3, 0),
    "heads": (4, 2, 1, 6, 0),
    "length": (96, 128, 33, 257, 1, 0, 7, 520),
    "keys": ("length", 64, 256, 257, 1, 0, 5),
    "size": (16, 8, 5, 1, 0, 64, 36),
    "value size": ("size", 24),
    "dimensions": (4, 4, 4, 3, 5, 2),
    "layout": LAYOUTS,
    "key layout": ("layout", *LAYOUTS),
    "related": ("independent", "all the same", "keys are values", "projected", "chunks", "chain", "views"),
    "mask": MASKS,
    "scale": (None, 0.3, 1.0, 3.0, 0.0, -0.5, 1e4, math.inf, math.nan),
    "groups": (0, 2, 1, -1),
    "special": ("none", "nan", "-nan", "inf", "-inf", "huge", "denormal", "zero"),
    "in": ("query", "key", "value"),
    "needed": ("qkv", "q", "k", "v", "qv", "kv", ""),
    "context": (
        "plain",
        "autocast",
        "autocast fp16",
        "autocast off",
        "no_grad",
        "inference_mode",
        "math",
        "saved_tensors_hooks",
        "save_on_cpu",
        "anomaly",
        "deterministic",
        "inference inputs",
    ),
    "use": USES,
    "changed after": ("nothing", "query", "key", "value", "mask"),
    "words": ("names", "positions", "as integers", "default type"),
    "small": (True, False, False),
    "seed": tuple(range(50)),
}
AUTOCAST = {"autocast": torch.bfloat16, "autocast fp16": torch.float16}


def run(record: Record, p: dict[str, Any]) -> None:
    _thresholds(p["small"])
    torch.manual_seed(p["seed"])
    leaves, (query, key, value) = _inputs(record, p)
    mask = _mask(record, p, query, key)
    if mask is not None and mask.requires_grad:
        leaves["mask"] = mask
    low = AUTOCAST.get(p["context"])
    if record.is_exact and low:
        query, key, value = (_rounded(each, low) for each in (query, key, value))
    least = torch.bfloat16 if p["dtype"] == "mixed" else TYPES.get(p["dtype"], torch.float32)
    record.precise = str(low or least).removeprefix("torch.")
    words: dict[str, Any] = {"dropout_p": p["dropout"], "scale": p["scale"]}
    if p["mask"].startswith("causal"):
        words["is_causal"] = True
    if p["groups"]:
        words["enable_gqa"] = True

    def call(*inputs: Any) -> Any:
        if p["words"] == "positions":
            found = mask, words["dropout_p"], words.get("is_causal", False)
            rest = {name: words[name] for name in ("scale", "enable_gqa") if name in words}
            return F.scaled_dot_product_attention(*inputs, *found, **rest)
        if p["words"] == "as integers":
            numbers = {name: int(each) if each in (0, 1) else each for name, each in words.items()}
            return F.scaled_dot_product_attention(*inputs, mask, **numbers)
        return F.scaled_dot_product_attention(*inputs, attn_mask=mask, **words)

    torch.set_default_dtype(torch.float64 if p["words"] == "default type" else torch.float32)
    try:
        with _context(record, p["context"]):
            _use(record, p, call, (query, key, value), mask, leaves)
    finally:
        torch.set_default_dtype(torch.float32)
    for name, leaf in leaves.items():
        if leaf.is_leaf:
            record.tensor(f"{name}.grad after backward", leaf.grad)
    if not record.is_exact:
        record.note("generator", "is as far", torch.rand(1, dtype=torch.float32).item())


def _thresholds(is_small: bool) -> None:
    import sys

    for name in ("attention", "masks"):
        if module := sys.modules.get(f"amx_cluster.optimize.{name}"):
            kept = module.__dict__.setdefault("_judged", getattr(module, "SMALL", 0))
            module.SMALL = 1 if is_small else kept  # type: ignore[attr-defined]


def _rounded(tensor: Any, dtype: Any) -> Any:
    """Return the values that autocast would have, with the gradient of an identity."""
    return tensor + (tensor.detach().float().to(dtype).double() - tensor.detach())


def _inputs(record: Record, p: dict[str, Any]) -> tuple[dict[str, Any], tuple[Any, Any, Any]]:
    rows = p["length"] if p["keys"] == "length" else p["keys"]
    size = p["size"]
    width = size if p["value size"] == "size" else p["value size"]
    groups = p["groups"] if p["groups"] > 0 else 1
    # -1: one that does not divide them.
    few = max(1, p["heads"] - 1) if p["groups"] == -1 else p["heads"] // groups
    outer = {2: (), 3: (p["batch"],), 4: (p["batch"], 0), 5: (2, p["batch"], 0)}[p["dimensions"]]

    def shape(heads: int, length: int, size: int) -> tuple[int, ...]:
        return (*outer[:-1], heads, length, size) if len(outer) > 1 else (*outer, length, size)

    shapes = shape(p["heads"], p["length"], size), shape(few, rows, size), shape(few, rows, width)
    names = ("query", "key", "value")
    types = [TYPES.get(p["dtype"], torch.float32)] * 3
    if p["dtype"] == "mixed":
        types[0] = torch.bfloat16
    related = p["related"]
    if related in ("all the same", "projected", "chunks", "chain") and len(set(shapes)) > 1:
        related = "independent"
    if related in ("keys are values", "views") and shapes[1] != shapes[2]:
        related = "independent"

    def made(at: int, layout: str) -> Any:
        values = numbers(shapes[at], 100 * p["seed"] + at)
        if p["in"] == names[at]:
            values = with_special(values, p["special"], p["seed"])
        tensor = laid(values.to(types[at]), layout)[0]
        if record.is_exact:
            tensor = tensor.double()
        return tensor.detach().requires_grad_(names[at][0] in p["needed"])

    other = p["layout"] if p["key layout"] == "layout" else p["key layout"]
    with torch.inference_mode(p["context"] == "inference inputs"):
        query = made(0, p["layout"])
        if related == "all the same":
            return {"query": query}, (query, query, query)
        if related == "chain":
            second = torch.tanh(query)
            return {"query": query}, (query * 1.5, second, second * 2)
        if related == "projected":
            weight = numbers((size, size), p["seed"]).to(query.dtype).requires_grad_()
            keys = query @ weight
            return {"query": query, "weight": weight}, (query, keys, keys)
        if related == "chunks":
            whole = torch.cat([made(each, "contiguous") for each in range(3)], -1).detach().requires_grad_()
            query, key, value = whole.chunk(3, -1)
            return {"whole": whole}, (query, key, value)
        key = made(1, other)
        if related == "keys are values":
            return {"query": query, "key": key}, (query, key, key)
        if related == "views":
            return {"query": query, "key": key}, (query, key, key.view_as(key))
        value = made(2, other)
    return {"query": query, "key": key, "value": value}, (query, key, value)


def _mask(record: Record, p: dict[str, Any], query: Any, key: Any) -> Any:
    name = p["mask"]
    if name in ("none", "causal") or query.dim() < 3:
        return None
    length, rows = query.shape[-2], key.shape[-2]
    seed = 7 + p["seed"]
    one, outer = (1,) * (query.dim() - 3), query.shape[:1]
    dtype = query.dtype if not record.is_exact else torch.float64
    smallest = torch.finfo(TYPES.get(p["dtype"], torch.float32)).min
    full = numbers((*outer, *one, length, rows), seed)
    seen = full > -0.3
    if rows:
        seen[..., 0] = True
    of_keys = seen[..., :1, :]
    if name in ("bool", "causal and bool"):
        mask = seen
    elif name in ("float", "transposed", "of float64", "of bfloat16", "of float32", "trained"):
        given = {"of float64": torch.float64, "of bfloat16": torch.bfloat16, "of float32": torch.float32}
        mask = full.to(given.get(name, TYPES.get(p["dtype"], torch.float32)))
        mask = mask.double() if record.is_exact else mask
        if name == "transposed":
            mask = laid(mask, "last two swapped")[0]
        if name == "trained":
            mask.requires_grad_()
    elif name == "bool of keys":
        mask = of_keys
    elif name == "float of keys":
        mask = torch.zeros(of_keys.shape, dtype=dtype).masked_fill(~of_keys, -math.inf)
    elif name == "finfo.min of keys":
        mask = torch.zeros(of_keys.shape, dtype=dtype).masked_fill(~of_keys, smallest)
    elif name == "finfo.min of rows":
        mask = torch.zeros(seen.shape, dtype=dtype).masked_fill(~seen, smallest)
        mask[..., :1, :] = smallest
    elif name in ("-inf of rows", "bool of rows"):
        seen[..., :1, :] = False
        mask = seen if name == "bool of rows" else torch.zeros(seen.shape, dtype=dtype).masked_fill(~seen, -math.inf)
    elif name == "-inf of all":
        mask = torch.full(seen.shape, -math.inf, dtype=dtype)
    elif name in ("+inf", "nan", "-1e30"):
        number = {"+inf": math.inf, "nan": math.nan, "-1e30": -1e30}[name]
        mask = torch.zeros(seen.shape, dtype=dtype)
        if mask.numel() and number == number:
            mask.view(-1)[p["seed"] % mask.numel()] = number
        elif mask.numel():
            mask.view(-1)[-1] = number
    elif name == "expanded":
        mask = of_keys.expand(seen.shape)
    elif name == "of integers":
        mask = seen.long()
    elif name == "of another shape":
        mask = torch.ones(length + 1, rows + 2, dtype=torch.bool)
    elif name == "of two dimensions":
        mask = seen[0].reshape(length, rows) if len(seen) and seen[0].numel() == length * rows else seen
    elif name == "of three dimensions":
        mask = seen[0].reshape(1, length, rows) if len(seen) and seen[0].numel() == length * rows else seen
    else:  # as wide as 1
        mask = torch.ones((*outer, *one, length, 1), dtype=torch.bool)
    return mask


@contextlib.contextmanager
def _context(record: Record, name: str) -> Any:
    with contextlib.ExitStack() as stack:
        if name in AUTOCAST and not record.is_exact:
            stack.enter_context(torch.autocast("cpu", AUTOCAST[name]))
        elif name == "autocast off" and not record.is_exact:
            stack.enter_context(torch.autocast("cpu", torch.bfloat16))
            stack.enter_context(torch.autocast("cpu", enabled=False))
        elif name == "no_grad":
            stack.enter_context(torch.no_grad())
        elif name == "inference_mode":
            stack.enter_context(torch.inference_mode())
        elif name == "math":
            stack.enter_context(torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH))
        elif name == "saved_tensors_hooks":
            hooks = torch.autograd.graph.saved_tensors_hooks(lambda each: each.clone(), lambda each: each)
            stack.enter_context(hooks)
        elif name == "save_on_cpu":
            stack.enter_context(torch.autograd.graph.save_on_cpu())
        elif name == "anomaly":
            stack.enter_context(torch.autograd.detect_anomaly())
        elif name == "deterministic":
            torch.use_deterministic_algorithms(True)
            stack.callback(torch.use_deterministic_algorithms, False)
        yield


def _gradient(record: Record, p: dict[str, Any], out: Any, layout: str = "contiguous") -> Any:
    values = numbers(out.shape, 900 + p["seed"]).to(TYPES.get(p["dtype"], torch.float32))
    special = {"nan gradient": "nan", "inf gradient": "inf"}.get(p["use"], "none")
    return laid(with_special(values, special, p["seed"]).to(out.dtype), layout)[0]


def _use(record: Record, p: dict[str, Any], call: Any, inputs: tuple[Any, ...], mask: Any, leaves: Any) -> None:
    use = p["use"]
    wanted = [leaf for leaf in leaves.values() if leaf.requires_grad]
    hooked: list[tuple[int, Any]] = []
    if use in TRANSFORMS:
        found = record.attempt(use, lambda: TRANSFORMS[use](call, *inputs))
        for at, each in enumerate(found if isinstance(found, tuple) else [found]):
            record.tensor(f"{use} {at}", each)
        return
    if use == "retain_grad":
        for each in inputs:
            if each.requires_grad and not each.is_leaf:
                each.retain_grad()
    if use == "hooks":
        for at, each in enumerate(inputs):
            if each.requires_grad:
                each.register_hook(lambda grad, at=at: hooked.append((at, grad)))
    if use.startswith("checkpoint"):
        out = record.attempt(
            "call", lambda: checkpoint(call, *inputs, use_reentrant=use.endswith("reentrant"), preserve_rng_state=True)
        )
        torch.rand(3)
    else:
        out = record.attempt("call", lambda: call(*inputs))
    if use == "two layers" and out.shape == inputs[0].shape == inputs[1].shape:
        record.tensor("first result", out)
        out = record.attempt("second call", lambda: call(out, *inputs[1:]))
    record.tensor("result", out)
    for name, each in zip(("query", "key", "value"), inputs):
        record.note("result", f"shares memory with {name}", out.data_ptr() == each.data_ptr() and out.numel() > 0)
    if use == "view":
        record.tensor("view", record.attempt("view", lambda: out.view(-1)))
    if use == "deepcopy":
        record.tensor("clone", out.clone())
        record.tensor("empty_like", torch.zeros_like(out))
    if use == "detached change":
        record.attempt("change of the detached result", lambda: out.detach().mul_(1))
    if use == "change the result":
        record.attempt("change of the result", lambda: out.mul_(2))
    changed = dict(zip(("query", "key", "value", "mask"), (*inputs, mask))).get(p["changed after"])
    # What is computed again of other inputs may raise an error (the page of torch.utils.checkpoint says so).
    if changed is not None and use != "checkpoint":
        with torch.no_grad():
            record.attempt("change", lambda: changed.fill_(True) if changed.dtype is torch.bool else changed.mul_(2))
    if use == "forward" or not out.requires_grad:
        return
    if use == "retain_grad":
        out.retain_grad()
    if use == "some of it":
        out = out[..., :1]
    if use in ("grad", "one input", "double", "double of the sum", "hvp", "batched gradients"):
        _differentiate(record, p, out, wanted)
        return
    if use == "sum":
        record.attempt("backward", lambda: out.sum().backward())
        return
    gradient = _gradient(record, p, out, "transposed" if use == "transposed gradient" else "contiguous")
    record.attempt("backward", lambda: out.backward(gradient, retain_graph=use == "twice"))
    # Autograd promises no order of these.
    for at, grad in sorted(hooked, key=lambda each: each[0]):
        record.tensor(f"hook {at} in backward", grad)
    if use == "twice":
        for each in wanted:
            record.tensor("first backward", each.grad)
        record.attempt("second backward", lambda: out.backward(gradient))
    if use == "view":
        record.attempt("third backward", lambda: out.backward(gradient))
    if use == "retain_grad":
        for at, each in enumerate((*inputs, out)):
            if each.requires_grad and not each.is_leaf:
                record.tensor(f"retained {at} of backward", each.grad)


def _differentiate(record: Record, p: dict[str, Any], out: Any, wanted: list[Any]) -> None:
    use = p["use"]
    gradient = _gradient(record, p, out)
    if use == "batched gradients":
        several = torch.stack([gradient, 2 * gradient])
        found = record.attempt(
            "backward of a batch",
            lambda: torch.autograd.grad(out, wanted, several, is_grads_batched=True, allow_unused=True),
        )
        for each in found:
            record.tensor("backward of a batch", each)
        return
    if use == "one input":
        wanted = wanted[-1:]
    again = use in ("double", "double of the sum", "hvp")
    source = out.square().sum() if use in ("double of the sum", "hvp") else out
    given = None if use in ("double of the sum", "hvp") else gradient
    if use == "double" and given is not None:
        given.requires_grad_()
    found = record.attempt(
        "backward", lambda: torch.autograd.grad(source, wanted, given, create_graph=again, allow_unused=True)
    )
    for each in found:
        record.tensor("backward", each)
    kept = [each for each in found if each is not None and each.requires_grad]
    if not again or not kept:
        return
    if use == "hvp":
        total = sum((each * numbers(each.shape, 5).to(each.dtype)).sum() for each in kept)
    else:
        total = sum(each.square().sum() for each in kept)
    second = record.attempt(
        "backward of backward",
        lambda: torch.autograd.grad(total, [*wanted, *([given] if use == "double" else [])], allow_unused=True),
    )
    for each in second:
        record.tensor("backward of backward", each)


def _vmap(call: Any, *inputs: Any) -> Any:
    return torch.func.vmap(lambda *each: call(*(one.unsqueeze(0) for one in each)), randomness="different")(*inputs)


def _vmap_of_grad(call: Any, *inputs: Any) -> Any:
    def one(*each: Any) -> Any:
        return call(*(single.unsqueeze(0) for single in each)).square().sum()

    return torch.func.vmap(torch.func.grad(one, (0, 1, 2)), randomness="same")(*inputs)


def _jacrev(call: Any, *inputs: Any) -> Any:
    return torch.func.jacrev(lambda query: call(query, *inputs[1:]).sum((-1, -2)))(inputs[0])


def _jvp(call: Any, *inputs: Any) -> Any:
    return torch.func.jvp(lambda query: call(query, *inputs[1:]), (inputs[0],), (torch.ones_like(inputs[0]),))


def _vjp(call: Any, *inputs: Any) -> Any:
    out, function = torch.func.vjp(call, *inputs)
    return (out, *function(torch.ones_like(out)))


def _dual(call: Any, *inputs: Any) -> Any:
    with torch.autograd.forward_ad.dual_level():
        query = torch.autograd.forward_ad.make_dual(inputs[0], torch.ones_like(inputs[0]))
        return tuple(torch.autograd.forward_ad.unpack_dual(call(query, *inputs[1:])))


TRANSFORMS = {
    "func.grad": lambda call, *inputs: torch.func.grad(lambda *each: call(*each).sum(), (0, 1, 2))(*inputs),
    "func.vjp": _vjp,
    "vmap": _vmap,
    "vmap of grad": _vmap_of_grad,
    "jacrev": _jacrev,
    "jvp": _jvp,
    "dual": _dual,
}
