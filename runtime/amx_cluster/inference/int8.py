"""Layers with int8 weights, multiplied by the operators that torch has of oneDNN for x86 (torch.ops.onednn).

They are those in which PyTorch's quantization for x86 ends (torchao's PT2E); here nothing is compiled or exported.
Weights have one scale for each output channel. Inputs have the scale of a range: each token its own (dynamic), or that
of calibration (static). Either way no row of a batch, nor its padding, changes the outputs of another one.
docs/inference_engines.md compares the ways.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from amx_cluster.inference.loaded import Loaded, Unavailable
from amx_cluster.inference.precision import cpu_flags, emulated
from ansible_collections.amx.cluster.plugins.module_utils._jobs.inference_requests import INT8
from torch import nn

# Beside config.json, whose entry INT8 says what they are. transformers alone finds no weights there.
WEIGHTS = "int8.safetensors"
VERSION = 1
SMALLEST = torch.finfo(torch.float32).tiny


def quantize(model: Any, run: Callable[[Any], Any] | None = None, calibration: Sequence[Any] = ()) -> str:
    """Quantize linear layers in place, with `run` also convolutions; return the name of the way. Raises Unavailable.

    run: asks the model with one entry of `calibration`: inputs have the ranges found so (static). Without it, each
    token has its own (dynamic).
    """
    if not hasattr(torch.ops.onednn, "qlinear_pointwise"):
        raise Unavailable(f"torch {torch.__version__} has no int8 operators of oneDNN: use the stack native")
    ranges: dict[str, Any] = {}
    if run is not None:
        _fold_norms(model)
        ranges = _observed(model, run, calibration)
    elif _is_of_convolutions(model):
        raise Unavailable("dynamic int8 is for linear layers, and this model is made of convolutions: use static int8")
    layers = {
        name: layer
        for name, layer in _layers(model, convolutions=run is not None)
        # The weights of a convolution are packed for one range: without inputs to find it from, it stays as it is.
        if not isinstance(layer, nn.Conv2d) or (name in ranges and ranges[name].any())
    }
    if not layers:
        raise Unavailable("int8 is for linear layers and convolutions (torch.nn), and this model has none")
    for name, layer in layers.items():
        _replace(model, name, _quantized(layer, ranges.get(name)))
    return "oneDNN dynamic" if run is None else f"oneDNN static, calibrated with {len(calibration)} batches"


def save(loaded: Loaded, directory: Path) -> None:
    """Write a quantized model, its configuration and its tokenizer, for models.load. Raises OSError."""
    from safetensors.torch import save_file

    directory.mkdir(parents=True, exist_ok=True)
    # Clones: tied weights share their memory, which these files cannot.
    save_file({name: tensor.clone() for name, tensor in loaded.model.state_dict().items()}, directory / WEIGHTS)
    layers = [module for module in loaded.model.modules() if isinstance(module, Quantized)]
    inputs = "static" if any(bool(layer.input_range.any()) for layer in layers) else "dynamic"
    setattr(loaded.config, INT8, {"version": VERSION, "inputs": inputs})
    loaded.config.architectures = [type(loaded.model).__name__]
    if loaded.model.can_generate():
        loaded.model.generation_config.save_pretrained(str(directory))
    for part in (loaded.config, loaded.tokenizer, loaded.image_processor):
        if part is not None:
            part.save_pretrained(str(directory))


def restore(model: Any, directory: Path, how: Mapping[str, Any]) -> None:
    """Give a model of a configuration the layers and weights that `save` wrote. how: the configuration's INT8.

    Raises Unavailable for weights that are missing or another model's.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if how.get("version") != VERSION:
        raise Unavailable(f"{directory} was written by another version of the collection: quantize the model again")
    try:
        state = load_file(directory / WEIGHTS)
        if how["inputs"] == "static":
            _fold_norms(model)
        for name in [key.removesuffix(".weight_scale") for key in state if key.endswith(".weight_scale")]:
            _replace(model, name, _quantized(model.get_submodule(name), None))
        model.load_state_dict(state)
    except (OSError, SafetensorError, AttributeError, RuntimeError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
        raise Unavailable(f"the int8 weights in {directory} cannot be read: {reason}") from error


class Quantized(nn.Module):
    """Base of int8 layers.

    weight: int8 (out, ...). weight_scale: fp32 (out). input_range: fp32 (2), least and largest input; 0, 0: dynamic.
    """

    def __init__(self, weight: Any, bias: Any, input_range: Any) -> None:
        super().__init__()
        values, scale = quantized_weight(weight.detach().float())
        self.register_buffer("weight", values)
        self.register_buffer("weight_scale", scale)
        self.register_buffer("bias", None if bias is None else bias.detach().float())
        self.register_buffer("input_range", torch.zeros(2) if input_range is None else input_range)
        # Of the first call.
        self.packed: Any = None
        self.known: Any = None

    def inputs(self, values: Any) -> Any:
        """Return inputs as uint8 of the same shape, by the range of calibration."""
        scale, zero = self.known
        # Rounded by the conversion, which cuts off: none of them is below zero.
        moved = torch.add(zero + 0.5, values.float(), alpha=1 / float(scale))
        return moved.clamp_(0, levels() + 0.5).to(torch.uint8)

    def pack(self) -> None:
        """Prepare the first call; weights and range are settled by then."""
        self.weight_zero = torch.zeros(len(self.weight), dtype=torch.int32)
        if self.input_range.any():
            self.known = scale_of(self.input_range)


class Linear(Quantized):
    """A linear layer: inputs (..., in) of fp32 or bf16, outputs (..., out) of the same."""

    def forward(self, values: Any) -> Any:
        """Return the layer's outputs."""
        if self.packed is None:
            self.pack()
            self.packed = torch.ops.onednn.qlinear_prepack(self.weight, None)
            self.one, self.zero = torch.ones(1), torch.zeros(1, dtype=torch.int32)
            # int64: sums of int32 may not fit.
            self.weight_sum = self.weight.sum(1, dtype=torch.int64) * self.weight_scale
            self.start = torch.zeros_like(self.weight_scale) if self.bias is None else self.bias
        if self.known:
            scale, zero = self.known
            outputs = self._product(self.inputs(values), scale, zero, self.bias, values.dtype)
            return marked(values, outputs, -1)
        exact = values.float()
        # A token is low + scale * q, with q from 0 on; its range has zero in it, which keeps low / scale small.
        low = exact.amin(-1, keepdim=True).clamp_(max=0)
        scale = (exact.amax(-1, keepdim=True).clamp_(min=0) - low).div_(levels() - 1).clamp_(min=SMALLEST)
        inputs = torch.addcmul(0.5 - low / scale, exact, 1 / scale).to(torch.uint8)
        products = self._product(inputs, self.one, self.zero, None, torch.float32)
        return torch.addcmul(self.start, products, scale, out=products).addcmul_(low, self.weight_sum).to(values.dtype)

    def _product(self, inputs: Any, scale: Any, zero: Any, bias: Any, dtype: Any) -> Any:
        return torch.ops.onednn.qlinear_pointwise.tensor(
            *(inputs, scale, zero, self.packed, self.weight_scale, self.weight_zero, bias),
            *(1.0, 0, dtype, "none", [], ""),
        )


class Conv2d(Quantized):
    """A convolution with a static range: inputs (N, C, H, W), outputs (N, C', H', W') of fp32 in channels_last."""

    def __init__(self, layer: nn.Conv2d, input_range: Any) -> None:
        super().__init__(layer.weight, layer.bias, input_range)
        self.shape = (list(layer.stride), list(layer.padding), list(layer.dilation), layer.groups)

    def forward(self, values: Any) -> Any:
        """Return the layer's outputs."""
        if self.packed is None:
            self.pack()
            scale, zero = scale_of(self.input_range)
            self.one = (float(scale), int(zero))
            self.packed = torch.ops.onednn.qconv_prepack(
                self.weight, self.weight_scale, *self.one, *self.shape, list(values.shape)
            )
        outputs = torch.ops.onednn.qconv_pointwise(
            *(self.inputs(values), *self.one, self.packed, self.weight_scale, self.weight_zero, self.bias, *self.shape),
            *(1.0, 0, torch.float32, "none", [], ""),
        )
        return marked(values, outputs, (1, 2, 3))


def marked(values: Any, outputs: Any, dims: Any) -> Any:
    """Return outputs with NaN where inputs are not finite, which integers do not show. dims: of one token."""
    total = values.sum(dims, keepdim=True)
    return outputs if bool(total.isfinite().all()) else outputs + (total - total)


@functools.cache
def levels() -> int:
    """Return the largest quantized input. Without VNNI, sums of two products of 8 bits would exceed 16 bits."""
    return 127 if emulated("int8", cpu_flags()) else 255


def quantized_weight(weight: Any) -> tuple[Any, Any]:
    """Return a weight (out, ...) as int8, and the scale of each output channel."""
    flat = weight.flatten(1)
    scale = (flat.abs().amax(1) / 127).clamp(min=SMALLEST)
    return torch.round(flat / scale[:, None]).clamp(-127, 127).to(torch.int8).view(weight.shape), scale


def scale_of(limits: Any) -> tuple[Any, Any]:
    """Return the scale (fp32) and the zero point (int32) for a range (2), each of one element; zero is in the range."""
    low, high = limits.float()[:1].clamp(max=0), limits.float()[1:].clamp(min=0)
    scale = ((high - low) / levels()).clamp(min=SMALLEST)
    return scale, torch.round(-low / scale).clamp(0, levels()).to(torch.int32)


def _layers(model: Any, convolutions: bool) -> Iterator[tuple[str, Any]]:
    """Yield the name and the layer of all that can be quantized; subclasses may compute something else."""
    kinds = (nn.Linear, nn.Conv2d) if convolutions else (nn.Linear,)
    for name, module in model.named_modules():
        plain = not isinstance(module, nn.Conv2d) or (
            module.padding_mode == "zeros" and not isinstance(module.padding, str)
        )
        if type(module) in kinds and plain:
            yield name, module


def _quantized(layer: Any, input_range: Any) -> Quantized:
    if isinstance(layer, nn.Conv2d):
        return Conv2d(layer, input_range)
    return Linear(layer.weight, layer.bias, input_range)


def _replace(model: Any, name: str, layer: Any) -> None:
    parent, _dot, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, layer)


def _observed(model: Any, run: Callable[[Any], Any], calibration: Sequence[Any]) -> dict[str, Any]:
    """Return the range of the inputs of each layer, by its name."""
    observed: dict[str, Any] = {}

    def observe(name: str, values: Any) -> None:
        low, high = torch.aminmax(values.float())
        before = observed.get(name, torch.zeros(2))
        observed[name] = torch.stack((torch.minimum(low, before[0]), torch.maximum(high, before[1])))

    hooks = [
        layer.register_forward_pre_hook(lambda _layer, inputs, name=name: observe(name, inputs[0]))
        for name, layer in _layers(model, convolutions=True)
    ]
    with torch.inference_mode():
        for inputs in calibration:
            run(inputs)
    for hook in hooks:
        hook.remove()
    return {name: limits.clone() for name, limits in observed.items()}


def _is_of_convolutions(model: Any) -> bool:
    sizes = {nn.Linear: 0, nn.Conv2d: 0}
    for _name, layer in _layers(model, convolutions=True):
        sizes[type(layer)] += layer.weight.numel()
    return sizes[nn.Conv2d] > sizes[nn.Linear]


def _fold_norms(model: Any) -> None:
    """Fold each BatchNorm2d into the convolution that stands right before it in the same module (as ResNet's do)."""
    from torch.nn.utils.fusion import fuse_conv_bn_eval

    for parent in model.modules():
        before: Any = None
        for name, module in list(parent.named_children()):
            if isinstance(module, nn.BatchNorm2d) and before is not None:
                setattr(parent, before[0], fuse_conv_bn_eval(before[1], module))
                setattr(parent, name, nn.Identity())
            before = (name, module) if isinstance(module, nn.Conv2d) else None
