"""Programs that make steps of Adam and AdamW."""

from __future__ import annotations

import copy
import io
from typing import Any

import torch
from layouts import LAYOUTS, laid, numbers, with_special
from records import Record

HAS_EXACT = True
TYPES = {name: getattr(torch, name) for name in ("float32", "bfloat16", "float16", "float64", "complex64")}
SHAPES = ((4, 6), (3, 5), (8,), (1,), (), (0,), (2, 3, 4, 5), (1, 1), (17, 33), (0, 3), (1, 9), (2, 8, 3, 3), (40, 50))
GRADS = (
    "own layout",
    "contiguous",
    "last two swapped",
    "expanded",
    "columns",
    "rows",
    "offset",
    "every second",
    "channels_last",
    "one number",
    "none",
    "none later",
    "none at first",
    "zero",
    "sparse",
    "shared",
    "of the parameter itself",
    "part of the parameter",
    "loss",
    "sum",
    "with a graph",
    "flat",
    "another each step",
)
BETWEEN = (
    "nothing",
    "load its state",
    "load into a new one",
    "load into a loop",
    "load from a loop",
    "save and load",
    "deepcopy",
    "deepcopy of all",
    "pickle",
    "add_param_group",
    "add_param_group of columns",
    "scheduler",
    "rate",
    "tensor rate",
    "zero_grad",
    "zero_grad kept",
    "data in other order",
    "data of another type",
    "data of columns",
    "new data",
    "state in other order",
    "state of another type",
    "state of one memory",
    "without state",
    "pre hook changes gradients",
    "post hook",
    "hook of all optimizers",
    "closure",
    "scaler",
    "scaler after unscale_",
    "scaler with inf",
    "freeze",
    "foreach of the group",
    "fused of the group",
    "capturable of the group",
    "differentiable of the group",
    "amsgrad of the group",
    "decay of the group",
    "betas of the group",
    "maximize of the group",
    "gradients in half",
    "parameter in another place",
    "state step as a number",
    "clip",
    "twice",
    "inference tensors",
    "view taken before",
    "saved for backward",
    "grad_fn of the step",
)
# Fields of which the first choice is drawn half as often.
VARIED = ("gradient", "layout", "between", "seed")
FIELDS: dict[str, tuple[Any, ...]] = {
    "class": ("AdamW", "Adam", "derived", "NAdam"),
    "shapes": (((4, 6),), *((shape,) for shape in SHAPES), ((4, 6), (8,), ()), ((2, 3, 4, 5), (17, 33)), ((4, 6),) * 3),
    "dtype": ("float32", "bfloat16", "float16", "float64", "mixed", "complex64"),
    "layout": (*LAYOUTS, "overlapping", "same memory twice"),
    "gradient": GRADS,
    "special": ("none", "nan", "inf", "-inf", "huge", "denormal", "zero"),
    "of": ("gradient", "parameter"),
    "given": (
        "list",
        "generator",
        "named",
        "groups",
        "tuple",
        "group of one tensor",
        "group of a generator",
        "group of names",
        "group that is not fused",
        "group that is a loop",
        "group with a rate",
        "a tensor",
        "nothing",
        "the same twice",
        "a result",
        "a number",
        "an integer tensor",
        "without a gradient",
        "dictionary",
        "keyword",
    ),
    "words": (
        {},
        {"amsgrad": True},
        {"maximize": True},
        {"weight_decay": 0.1},
        {"weight_decay": 0.0},
        {"weight_decay": 0.1, "amsgrad": True, "maximize": True},
        {"betas": (0.0, 0.0)},
        {"betas": (0.9, 1.5)},
        {"eps": 0.0},
        {"eps": 1e-2},
        {"lr": 0.0},
        {"lr": torch.tensor(0.01)},
        {"lr": torch.tensor([0.01])},
        {"lr": -1.0},
        {"foreach": True},
        {"foreach": False},
        {"foreach": None},
        {"fused": False},
        {"fused": None},
        # Not "fused": PyTorch itself reads beside gradients that are not dense then, so that no two runs are alike.
        {"foreach": True},
        {"capturable": True},
        {"differentiable": True},
        {"decoupled_weight_decay": True},
        {"unknown": 1},
        {"lr": 0.01, "betas": (torch.tensor(0.9), torch.tensor(0.99))},
    ),
    "between": BETWEEN,
    "at": (1, 0, 2),
    "steps": (2, 1, 3, 5),
    "default": ("float32", "float64", "float32"),
    "seed": tuple(range(50)),
}


def run(record: Record, p: dict[str, Any]) -> None:
    if p["words"].get("fused") and p["gradient"] == "sum":
        return  # PyTorch itself reads what is behind an expanded gradient: something else each time
    torch.manual_seed(p["seed"])
    types = _types(record, p)
    record.precise = p["dtype"] if p["dtype"] in ("bfloat16", "float16", "float64") else "float32"
    if p["dtype"] == "mixed":
        record.precise = "bfloat16"
    torch.set_default_dtype(torch.float64 if p["default"] == "float64" else torch.float32)
    try:
        _run(record, p, types)
    finally:
        torch.set_default_dtype(torch.float32)


def _types(record: Record, p: dict[str, Any]) -> list[Any]:
    if record.is_exact:
        return [torch.complex128 if p["dtype"] == "complex64" else torch.float64]
    return [torch.float32, torch.bfloat16] if p["dtype"] == "mixed" else [TYPES[p["dtype"]]]


def _run(record: Record, p: dict[str, Any], types: list[Any]) -> None:
    low = [TYPES["float32"], TYPES["bfloat16"]] if p["dtype"] == "mixed" else [TYPES[p["dtype"]]]
    params: list[Any] = []
    memory: list[Any] = []
    for at, shape in enumerate(p["shapes"]):
        values = numbers(shape, 10 * p["seed"] + at)
        if p["of"] == "parameter":
            values = with_special(values, p["special"], p["seed"])
        values = values.to(low[at % len(low)]).to(types[at % len(types)])
        if p["layout"] in ("overlapping", "same memory twice") and memory:
            around = memory[0]
            moved = 3 if p["layout"] == "overlapping" else 0
            flat = around.view(-1)
            inside = flat[moved : moved + values.numel()] if moved + values.numel() <= flat.numel() else flat[:0]
            inside = inside.view(shape) if inside.numel() == values.numel() else inside
        else:
            inside, around = laid(values, p["layout"])
        params.append(torch.nn.Parameter(inside))
        memory.append(around)
    kept: list[Any] = []
    optimizer = record.attempt("constructor", lambda: _optimizer(p, params))
    _look(record, "constructor", optimizer)
    handles: list[Any] = []
    for step in range(p["steps"]):
        label = f"step {step + 1}"
        for at in range(len(params)):
            _give(record, p, params, at, step)
        call = optimizer.step
        if step == p["at"]:
            label += f" after {p['between']}"
            found = record.attempt(p["between"], _between, record, p, optimizer, params, memory, handles, kept)
            if found is not None:
                optimizer, params, call = found
        versions = [each._version for each in params]
        record.attempt(label, call)
        for at, param in enumerate(params):
            record.tensor(f"{label}, parameter {at}", param)
            record.note(f"{label}, parameter {at}", "has another version", param._version > versions[at])
            record.tensor(f"{label}, gradient {at}", param.grad)
            if param.grad is not None:
                record.note(f"{label}, gradient {at}", "is changed", param.grad._version > 0)
        for at, around in enumerate(memory):
            record.tensor(f"{label}, memory {at}", around.detach())
        _look(record, label, optimizer)
        for each in kept:
            record.attempt("backward of what was kept", torch.autograd.grad, each, params[0], None, True)
    for handle in handles:
        handle.remove()


def _look(record: Record, label: str, optimizer: Any) -> None:
    """Record what a script can see of an optimizer."""
    for group in optimizer.param_groups:
        for name, value in group.items():
            if name != "params":
                record.note(f"{label}, group", name, repr(value))
    for name, value in optimizer.defaults.items():
        record.note(f"{label}, defaults", name, repr(value))
    state = optimizer.state_dict()
    record.note(f"{label}, state", "is of", sorted(map(str, state["state"])))
    for at, values in state["state"].items():
        record.note(f"{label}, state", "has the names", tuple(values))
        for name, value in values.items():
            if torch.is_tensor(value):
                record.tensor(f"{label}, state {name}", value, "float64" if name == "step" else "")
                record.note(f"{label}, state {name}", "is changed", value._version > 0)
            else:
                record.note(f"{label}, state {name}", f"of {at} is", value)
    record.note(f"{label}, optimizer", "is written", repr(optimizer))
    seen = [
        name
        for name in ("_step_supports_amp_scaling", "_need_device_dtype_check_for_fused")
        if hasattr(optimizer, name)
    ]
    record.note(f"{label}, optimizer", "has", seen)


def _optimizer(p: dict[str, Any], params: list[Any]) -> Any:
    class Derived(torch.optim.AdamW):
        pass

    made = {"AdamW": torch.optim.AdamW, "Adam": torch.optim.Adam, "derived": Derived, "NAdam": torch.optim.NAdam}
    words = {"lr": 1e-2, **p["words"]}
    if torch.is_tensor(words["lr"]):
        words["lr"] = words["lr"].clone()
    names = [(f"p{at}", each) for at, each in enumerate(params)]
    odd: dict[str, Any] = {
        "generator": (each for each in params),
        "named": iter(names),
        "groups": [{"params": params[:1], "lr": 0.02}, {"params": params[1:], "weight_decay": 0.3}],
        "tuple": tuple(params),
        "group of one tensor": [{"params": each} for each in params],
        "group of a generator": [{"params": (each for each in params)}],
        "group of names": [{"params": names}],
        "group that is not fused": [{"params": params, "fused": False}],
        "group that is a loop": [{"params": params, "foreach": False}],
        "group with a rate": [{"params": params, "lr": torch.tensor(0.02)}],
        "a tensor": params[0],
        "nothing": [],
        "the same twice": [*params, params[0]],
        "a result": [params[0] * 2],
        "a number": [1.0],
        "an integer tensor": [torch.arange(4)],
        "without a gradient": [each.requires_grad_(False) for each in params]
        if p["given"] == "without a gradient"
        else [],
        "dictionary": {"params": params},
    }
    if p["given"] == "keyword":
        return made[p["class"]](params=params, **words)
    return made[p["class"]](odd.get(p["given"], params), **words)


def _give(record: Record, p: dict[str, Any], params: list[Any], at: int, step: int) -> None:
    """Set the gradient of a parameter."""
    param, name = params[at], p["gradient"]
    if not param.requires_grad:
        return
    if name == "another each step":
        name = ("own layout", "last two swapped", "expanded", "none", "columns")[(step + p["seed"]) % 5]
    values = numbers(param.shape, 1000 * p["seed"] + 10 * step + at)
    if p["of"] == "gradient" and step == p["at"]:
        values = with_special(values, p["special"], p["seed"])
    low = TYPES.get(p["dtype"], torch.bfloat16 if at % 2 else torch.float32)
    values = values.to(low).to(param.dtype)
    if name in ("none", "none later", "none at first"):
        if name == "none" or (name == "none later") == (step > 0):
            param.grad = None
            return
        name = "contiguous"
    if name == "loss":
        param.grad = None
        (param * values).sum().backward()
    elif name == "sum":
        param.grad = None
        param.grad = torch.autograd.grad(param.sum(), param)[0]
    elif name == "with a graph":
        param.grad = None
        (param * param * values).sum().backward(create_graph=True)
    elif name == "own layout":
        param.grad = torch.empty_like(param).copy_(values).detach()
    elif name == "one number":
        param.grad = torch.ones((), dtype=param.dtype).expand(param.shape)
    elif name == "zero":
        param.grad = torch.zeros_like(param)
    elif name == "sparse":
        param.grad = values.to_sparse()
    elif name == "shared":
        first = params[0].grad
        is_alike = at and first is not None and first.shape == param.shape and first.dtype == param.dtype
        param.grad = first if is_alike else values
    elif name == "of the parameter itself":
        param.grad = param.detach()
    elif name == "part of the parameter":
        param.grad = param.detach()[:1].expand(param.shape) if param.dim() and len(param) else values
    elif name == "flat":
        flat = torch.cat([values.reshape(-1), values.reshape(-1)])
        param.grad = flat[values.numel() :].view(param.shape)
    else:
        param.grad = laid(values, name)[0]


def _between(
    record: Record, p: dict[str, Any], optimizer: Any, params: list[Any], memory: list[Any], handles: list[Any],
    kept: list[Any],
) -> Any:  # fmt: skip
    """Do what a script does before a step. Returns the optimizer, its parameters, and what makes the step."""
    name = p["between"]
    group = optimizer.param_groups[0]
    new = lambda **words: _optimizer({**p, "given": "list", "words": {**p["words"], **words}}, params)  # noqa: E731
    if name == "load its state":
        optimizer.load_state_dict(optimizer.state_dict())
    elif name in ("load into a new one", "load into a loop", "load from a loop"):
        other = new(**({"foreach": False} if name == "load into a loop" else {}))
        if name == "load from a loop":
            other = new(foreach=False)
            other.load_state_dict(optimizer.state_dict())
            optimizer.load_state_dict(other.state_dict())
        else:
            other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
            optimizer = other
    elif name == "save and load":
        kept_in = io.BytesIO()
        torch.save(optimizer.state_dict(), kept_in)
        kept_in.seek(0)
        optimizer.load_state_dict(torch.load(kept_in))
    elif name == "deepcopy":
        return (
            (other := copy.deepcopy(optimizer)),
            [each for g in other.param_groups for each in g["params"]],
            other.step,
        )
    elif name == "deepcopy of all":
        other, params = copy.deepcopy((optimizer, params))
        return other, params, other.step
    elif name == "pickle":
        kept_in = io.BytesIO()
        torch.save(optimizer, kept_in)
        kept_in.seek(0)
        other = torch.load(kept_in, weights_only=False)
        params = [each for g in other.param_groups for each in g["params"]]
        for at in range(len(params)):
            _give(record, p, params, at, 9)
        return other, params, other.step
    elif name.startswith("add_param_group"):
        values = numbers((3, 4), 77).to(params[0].dtype)
        inside, around = laid(values, "columns" if name.endswith("columns") else "contiguous")
        more = torch.nn.Parameter(inside)
        more.grad = values * 2
        memory.append(around)
        optimizer.add_param_group({"params": [more], "lr": 0.1})
        return optimizer, [*params, more], optimizer.step
    elif name == "scheduler":
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        return optimizer, params, lambda: (optimizer.step(), schedule.step())
    elif name == "rate":
        group["lr"] = 0.5
    elif name == "tensor rate":
        group["lr"] = torch.tensor(0.5)
    elif name.startswith("zero_grad"):
        optimizer.zero_grad(set_to_none=not name.endswith("kept"))
    elif name == "data in other order" and params[0].dim() >= 2:
        for each in params:
            if each.dim() >= 2:
                each.data = each.data.transpose(0, 1).contiguous().transpose(0, 1)
    elif name == "data of columns":
        for each in params:
            each.data, around = laid(each.data, "columns")
            memory.append(around)
    elif name == "new data":
        for each in params:
            each.data = each.data.clone()
    elif name == "data of another type":
        for each in params:
            each.grad = None
            each.data = each.data.to(torch.float64 if record.is_exact else torch.bfloat16)
    elif name in ("state in other order", "state of another type", "state of one memory"):
        for state in optimizer.state.values():
            for key in ("exp_avg", "exp_avg_sq"):
                if name == "state of another type":
                    state[key] = state[key].to(torch.float64 if record.is_exact else torch.bfloat16)
                elif name == "state in other order" and state[key].dim() >= 2:
                    state[key] = state[key].transpose(0, 1).contiguous().transpose(0, 1)
                elif name == "state of one memory":
                    state[key] = laid(state[key], "columns")[0]
    elif name == "state step as a number":
        for state in optimizer.state.values():
            state["step"] = float(state["step"])
    elif name == "without state":
        optimizer.state.clear()
    elif name == "pre hook changes gradients":

        def change(*_given: Any) -> None:
            for each in params:
                if each.grad is not None and each.grad.layout is torch.strided:
                    each.grad = laid(each.grad.detach() * 2, "last two swapped")[0]

        handles.append(optimizer.register_step_pre_hook(change))
    elif name == "post hook":
        handles.append(optimizer.register_step_post_hook(lambda *_g: record.tensor("post hook", params[0])))
    elif name == "hook of all optimizers":
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        handles.append(register_optimizer_step_pre_hook(lambda *_g: record.note("hook", "is called", True)))
    elif name == "closure":

        def closure() -> Any:
            for at in range(len(params)):
                _give(record, p, params, at, 8)
            record.note("closure", "has gradients", torch.is_grad_enabled())
            return torch.tensor(1.5)

        return optimizer, params, lambda: record.note("step", "returns", repr(optimizer.step(closure)))
    elif name.startswith("scaler"):
        return optimizer, params, _scaled(record, name, optimizer, params)
    elif name == "freeze":
        params[0].requires_grad_(False)
        params[0].grad = None
    elif name.endswith("of the group"):
        word = name.partition(" ")[0]
        values = {"foreach": False, "fused": False, "decay": 0.2, "betas": (0.5, 0.6)}
        group["weight_decay" if word == "decay" else word] = values.get(word, True)
    elif name == "gradients in half":
        for each in params:
            if each.grad is not None and each.grad.layout is torch.strided:
                each.grad = None
                each.grad_dtype = None
                each.grad = torch.ones(each.shape, dtype=torch.bfloat16)
    elif name == "parameter in another place":
        params[0] = torch.nn.Parameter(params[0].detach().clone())
        params[0].grad = torch.ones_like(params[0])
        group["params"][0] = params[0]
    elif name == "clip":
        record.tensor("norm", torch.nn.utils.clip_grad_norm_(params, 0.1))
    elif name == "twice":
        optimizer.step()
    elif name == "inference tensors":
        with torch.inference_mode():
            for each in params:
                if each.grad is not None and each.grad.layout is torch.strided:
                    each.grad = each.grad.clone()
    elif name == "view taken before":
        taken = params[0].view_as(params[0])

        def look() -> None:
            optimizer.step()
            record.tensor("the view", taken)

        return optimizer, params, look
    elif name == "saved for backward":
        kept.append((params[0] * params[0]).sum())
    elif name == "grad_fn of the step":
        with torch.enable_grad():
            optimizer.step()
    return optimizer, params, optimizer.step


def _scaled(record: Record, name: str, optimizer: Any, params: list[Any]) -> Any:
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)

    def step() -> None:
        scaler.scale(torch.ones(()))
        for each in params:
            if each.grad is not None:
                each.grad = each.grad * 4
                if name == "scaler with inf" and each.grad.numel():
                    each.grad = each.grad * float("inf")
        if name == "scaler after unscale_":
            scaler.unscale_(optimizer)
        found = scaler.step(optimizer)
        record.note("scaler", "step returns", repr(found))
        scaler.update()
        record.note("scaler", "has the scale", scaler.get_scale())
        record.note("scaler", "has the state", repr(scaler.state_dict()))

    return step
