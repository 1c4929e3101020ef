"""Numbers of fewer bits: bf16 and int8, and what of them this CPU multiplies.

What was compared, and why these ways were taken: docs/inference_engines.md.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from models import Unavailable

# CPU flags (Linux, arch/x86/include/asm/cpufeatures.h) of instructions that multiply a precision; any of them will do.
INSTRUCTIONS = {"bf16": ("avx512_bf16", "amx_bf16"), "int8": ("avx512_vnni", "avx_vnni", "amx_int8")}


def cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """Return the flags of the first CPU. Raises OSError."""
    for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
        name, _colon, value = line.partition(":")
        if name.strip() == "flags":
            return frozenset(value.split())
    return frozenset()


def emulated(precision: str, flags: frozenset[str]) -> bool:
    """Return whether a CPU with these flags has no instructions for products in this precision."""
    needed = INSTRUCTIONS.get(precision)
    return needed is not None and not flags.intersection(needed)


def check(precision: str, emulation: bool, flags: frozenset[str]) -> bool:
    """Return whether the precision is emulated; raises Unavailable where it would be and that was not asked for."""
    if precision not in ("fp32", *INSTRUCTIONS):
        raise Unavailable(f"{precision} is not one of the precisions fp32, bf16 and int8")
    without = emulated(precision, flags)
    if without and not emulation:
        names = " or ".join(INSTRUCTIONS[precision])
        raise Unavailable(
            f"this CPU has no instructions for {precision} ({names}): set `emulation: true` to run it more slowly"
        )
    return without


def to_bf16(model: Any) -> Any:
    """Convert a model to bfloat16, its weights and what it computes."""
    import torch

    return model.to(torch.bfloat16)


def int8_dynamic(model: Any) -> str:
    """Quantize the linear layers in place: weights per channel before, inputs by their range in each call.

    Returns the name of the way. Raises Unavailable for a model without linear layers in what takes the time.
    """
    import torch

    if any(isinstance(module, torch.nn.Conv2d) for module in _leaves(model)) and _share_of_linear(model) < 0.5:
        raise Unavailable("dynamic int8 is for linear layers, and this model is made of convolutions: use static int8")
    engine = _choose_engine()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.ao.quantization import per_channel_dynamic_qconfig, quantize_dynamic

        quantize_dynamic(model, {torch.nn.Linear: per_channel_dynamic_qconfig}, inplace=True)
    return f"torch.ao.quantization dynamic, engine {engine}"


def int8_static(model: Any, run: Callable[[Any], Any], calibration: Sequence[Any]) -> str:
    """Quantize linear layers and convolutions in place, with the ranges that their inputs have in `calibration`.

    run: asks the model with one of them. Returns the name of the way. Raises Unavailable.
    """
    import torch

    engine = _choose_engine()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.ao.quantization import QuantWrapper, convert, get_default_qconfig, prepare

        _fold_norms(model)
        config = get_default_qconfig(engine)
        for parent, name, module in list(_children(model)):
            if isinstance(module, (torch.nn.Linear, torch.nn.Conv2d)):
                wrapper = QuantWrapper(module)
                wrapper.qconfig = config
                setattr(parent, name, wrapper)
        prepare(model, inplace=True)
        with torch.inference_mode():
            for inputs in calibration:
                run(inputs)
        convert(model, inplace=True)
    return f"torch.ao.quantization static by layer, engine {engine}, calibrated with {len(calibration)} batches"


def _choose_engine() -> str:
    import torch

    supported = torch.backends.quantized.supported_engines
    # Without VNNI sums of 16 bits overflow, unless one bit less is used: x86 and fbgemm do that, oneDNN does not.
    fastest = () if emulated("int8", cpu_flags()) else ("onednn",)
    for engine in (*fastest, "x86", "fbgemm"):
        if engine in supported:
            torch.backends.quantized.engine = engine
            return engine
    raise Unavailable(f"this torch has no int8 engine for x86 (it has {', '.join(supported)})")


def _leaves(model: Any) -> list[Any]:
    return [module for module in model.modules() if not list(module.children())]


def _share_of_linear(model: Any) -> float:
    import torch

    sizes = dict.fromkeys((torch.nn.Linear, torch.nn.Conv2d), 0)
    for module in _leaves(model):
        if type(module) in sizes:
            sizes[type(module)] += module.weight.numel()
    return float(sizes[torch.nn.Linear]) / max(1, sum(sizes.values()))


def _children(model: Any) -> Any:
    """Yield (parent, name, module) of every module in a model."""
    for parent in model.modules():
        for name, module in parent.named_children():
            yield parent, name, module


def _fold_norms(model: Any) -> None:
    """Fold each BatchNorm2d into the convolution that stands right before it in the same module (as ResNet's do)."""
    import torch
    from torch.nn.utils.fusion import fuse_conv_bn_eval

    for parent in model.modules():
        before: Any = None
        for name, module in list(parent.named_children()):
            if isinstance(module, torch.nn.BatchNorm2d) and before is not None:
                setattr(parent, before[0], fuse_conv_bn_eval(before[1], module))
                setattr(parent, name, torch.nn.Identity())
            before = (name, module) if isinstance(module, torch.nn.Conv2d) else None
