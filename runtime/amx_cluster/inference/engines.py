"""Ways to run a model: eager, torch.compile, a frozen trace, IPEX; each in fp32, bf16, fp16 or int8.

`prepare` returns what answers requests. Which engine does what, and what it needs: docs/inference_engines.md.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from amx_cluster.inference import precision
from amx_cluster.inference.loaded import Loaded, Unavailable
from amx_cluster.inference.tasks import Inputs
from ansible_collections.amx.cluster.plugins.module_utils._jobs.inference_requests import ENGINES
from ansible_collections.amx.cluster.plugins.module_utils._jobs.known_models import EMBEDDING


@dataclass
class Prepared:
    """A model that answers: call it with tasks.Inputs, it returns outputs as tasks describes them.

    fixed_shapes: every call must have the shape of the example: tasks.in_batches and tasks.encode with fixed=True.
    int8_route: the name of the way to int8, None for other precisions. emulated: the CPU has no instructions for the
    precision. marks: for text-generation, seconds (time.perf_counter) of the last call: its begin, then each token.
    """

    call: Callable[[Inputs], dict[str, Any]]
    marks: list[float] = field(default_factory=list)
    fixed_shapes: bool = False
    int8_route: str | None = None
    emulated: bool = False

    def __call__(self, inputs: Inputs) -> dict[str, Any]:
        """Return the outputs for inputs; call it within torch.inference_mode()."""
        return self.call(inputs)


def prepare(loaded: Loaded, cell: Mapping[str, Any], example: Inputs, calibration: Sequence[Inputs] = ()) -> Prepared:
    """Convert a loaded model, which is used up by it, to the precision and engine of a cell.

    Keys of the cell that count: precision, autocast, int8 (None: dynamic), engine, channels_last, emulation,
    new_tokens, and stop_at_end (text-generation: end a text where the model ends it; else it always makes new_tokens).
    autocast: torch converts weights in each call, instead of once before. example: inputs of the shape that will come.
    calibration: inputs of static int8, the example where there are none. The first call may take much longer than the
    next (torch.compile). Raises Unavailable for what cannot run here.
    """
    check(cell, loaded.task)
    emulated = precision.check(cell["precision"], bool(cell.get("emulation")), precision.cpu_flags())
    model = loaded.model
    if cell.get("channels_last"):
        import torch

        model = model.to(memory_format=torch.channels_last)
    route = None
    if loaded.int8:
        if cell["precision"] != "int8" or cell["engine"] == "ipex":
            raise Unavailable(f"{loaded.name} has int8 weights: run it in int8 by eager")
        route = f"oneDNN {loaded.int8}, as saved"
    elif cell["precision"] in ("bf16", "fp16") and not cell.get("autocast"):
        model = model.to(precision.dtype(cell["precision"]))
    elif cell["precision"] == "int8" and cell["engine"] == "ipex":
        model, route = _ipex_int8(model, list(calibration) or [example])
    elif cell["precision"] == "int8":
        from amx_cluster.inference import int8

        static = cell.get("int8") == "static"
        route = int8.quantize(
            model, *((_caller(loaded, cell, model), list(calibration) or [example]) if static else ())
        )
    prepared = _ENGINES[cell["engine"]](loaded, cell, model, example)
    call = prepared.call
    if cell.get("autocast"):
        call = _within_autocast(prepared.call, precision.dtype(cell["precision"]))
    return replace(prepared, call=call, emulated=emulated, int8_route=route)


def _within_autocast(call: Callable[[Inputs], dict[str, Any]], dtype: Any) -> Callable[[Inputs], dict[str, Any]]:
    import torch

    def within(inputs: Inputs) -> dict[str, Any]:
        with torch.autocast("cpu", dtype):
            return call(inputs)

    return within


def check(cell: Mapping[str, Any], task: str) -> None:
    """Raise Unavailable for an engine that this host or this task has not, and combinations that do not work.

    Imports nothing large: it may be called before a model is loaded.
    """
    engine = cell["engine"]
    if engine not in ENGINES:
        raise Unavailable(f"{engine} is not one of the engines {', '.join(ENGINES)}")
    if engine == "compile" and compiler() is None:
        raise Unavailable("torch.compile needs a C++ compiler, and this host has none: install g++ (or set CXX)")
    if engine in ("compile", "trace") and cell["precision"] == "int8":
        raise Unavailable(f"the packed weights of int8 are not for the engine {engine}: use eager for int8")
    if engine == "ipex" and cell["precision"] == "int8" and cell.get("int8") != "static":
        raise Unavailable(
            "IPEX's dynamic int8 has one range for all rows of a batch, so that a row's answer depends on the others: "
            "use eager, or int8: static"
        )
    if engine == "ipex" and cell["precision"] == "fp16":
        raise Unavailable("fp16 is not for the engine ipex: use eager, compile or trace")
    if cell.get("autocast") and (cell["precision"] not in ("bf16", "fp16") or engine not in ("eager", "compile")):
        raise Unavailable("autocast is for bf16 and fp16, by eager or compile")
    if engine == "trace" and task == "text-generation":
        raise Unavailable("a trace cannot generate text, whose cache grows with each token: use eager or compile")
    if engine == "ipex" and cell["precision"] == "int8" and task == "text-generation":
        raise Unavailable("IPEX's int8 is traced, and a trace cannot generate text: use eager for int8")
    if engine == "ipex" and importlib.util.find_spec("intel_extension_for_pytorch") is None:
        raise Unavailable("this stack has no IPEX: use a stack that has it, such as ipex-2.8")
    if cell.get("channels_last") and task != "image-classification":
        raise Unavailable(f"channels_last is for image-classification, not for {task}")


def compiler() -> str | None:
    """Return the C++ compiler that torch.compile would use (torch._inductor.cpp_builder), None without one."""
    names = [os.environ["CXX"]] if os.environ.get("CXX") else ["g++", "clang++"]
    return next((program for program in map(shutil.which, names) if program), None)


def _caller(loaded: Loaded, cell: Mapping[str, Any], model: Any) -> Callable[[Inputs], dict[str, Any]]:
    """Return what asks a model (or what behaves like its forward) about inputs."""
    import torch

    if loaded.task == "text-generation":
        return _generator(loaded, cell, model, [])
    dtype = precision.dtype("fp32" if cell.get("autocast") else cell["precision"])
    channels_last = bool(cell.get("channels_last"))
    names = ("start_logits", "end_logits") if loaded.task == "question-answering" else ("logits",)
    sentences = loaded.sentences if loaded.task == EMBEDDING else None

    def call(inputs: Inputs) -> dict[str, Any]:
        tensors: dict[str, Any] = inputs
        if "pixel_values" in tensors:
            pixels = tensors["pixel_values"].to(dtype)
            if channels_last:
                pixels = pixels.contiguous(memory_format=torch.channels_last)
            tensors = {"pixel_values": pixels}
        outputs = model(**tensors)
        if sentences is not None:
            return {"embedding": pooled(outputs["last_hidden_state"], inputs, sentences)}
        return {name: outputs[name] for name in names}

    return call


def pooled(hidden: Any, inputs: Inputs, sentences: Mapping[str, Any]) -> Any:
    """Return the vector of each text, (entries, size) in fp32, of the vectors of its tokens, as sentence-transformers.

    hidden: (entries, tokens, size). sentences: see sentence_models.described. Padding has no part in it.
    """
    import torch

    mask = inputs.get("attention_mask")
    mask = torch.ones_like(inputs["input_ids"]) if mask is None else mask
    there = mask.bool()[..., None]
    hidden = hidden.float().masked_fill(~there, 0)
    places, rows = mask.cumsum(dim=1), torch.arange(len(mask))
    count = places[:, -1:].clamp(min=1).float()
    ways: dict[str, Callable[[], Any]] = {
        "cls": lambda: hidden[rows, mask.argmax(dim=1)],
        "max": lambda: hidden.masked_fill(~there, -torch.inf).amax(dim=1),
        "mean": lambda: hidden.sum(dim=1) / count,
        "mean_sqrt_len_tokens": lambda: hidden.sum(dim=1) / count.sqrt(),
        "weightedmean": lambda: (hidden * places[..., None]).sum(dim=1) / (count * (count + 1) / 2),
        "lasttoken": lambda: hidden[rows, (places * mask).argmax(dim=1)],
    }
    vectors = torch.cat([ways[name]() for name in sentences["pooling"]], dim=-1)
    return torch.nn.functional.normalize(vectors, dim=-1) if sentences["normalize"] else vectors


class _Numbers:
    """Notes which texts of a batch had a logit that is NaN or infinite, of which generate() would choose a token."""

    def __init__(self) -> None:
        self.lost: Any = False

    def __call__(self, _tokens: Any, logits: Any) -> Any:
        self.lost = self.lost | (logits.isnan() | logits.isposinf()).any(dim=-1)
        return logits


class _Marks:
    """Writes down when each token came: generate() hands them to it (a streamer), first the prompt."""

    def __init__(self, marks: list[float]) -> None:
        self.marks = marks

    def put(self, _tokens: Any) -> None:
        self.marks.append(time.perf_counter())

    def end(self) -> None:
        pass


def _generator(
    loaded: Loaded, cell: Mapping[str, Any], model: Any, marks: list[float]
) -> Callable[[Inputs], dict[str, Any]]:
    import torch
    import transformers

    new_tokens = int(cell.get("new_tokens") or 16)
    padding = model.generation_config.pad_token_id
    if padding is None:
        ends = model.generation_config.eos_token_id
        padding = ends[0] if isinstance(ends, list) else ends if ends is not None else 0
    if not hasattr(transformers, "TextStreamer"):
        raise Unavailable(f"tokens are timed with transformers 4.28 or newer, and this is {transformers.__version__}")
    options: dict[str, Any] = {"max_new_tokens": new_tokens, "do_sample": False, "pad_token_id": padding}
    if not cell.get("stop_at_end"):
        options["min_new_tokens"] = new_tokens

    def call(inputs: Inputs) -> dict[str, Any]:
        marks.clear()
        numbers = _Numbers()
        sequences = model.generate(
            **inputs, **options, streamer=_Marks(marks), logits_processor=transformers.LogitsProcessorList([numbers])
        )
        tokens = sequences[:, inputs["input_ids"].shape[1] :]
        if cell.get("stop_at_end"):
            ends = model.generation_config.eos_token_id
            ended = torch.isin(tokens, torch.tensor(ends if isinstance(ends, list) else [ends] if ends else []))
            tokens = tokens.masked_fill(ended.int().cumsum(dim=1) > 0, -1)
            tokens = torch.nn.functional.pad(tokens, (0, new_tokens - tokens.shape[1]), value=-1)
        return {"tokens": tokens.masked_fill(numbers.lost[:, None], -2)}

    return call


def _eager(loaded: Loaded, cell: Mapping[str, Any], model: Any, _example: Inputs) -> Prepared:
    if loaded.task != "text-generation":
        return Prepared(_caller(loaded, cell, model))
    marks: list[float] = []
    return Prepared(_generator(loaded, cell, model, marks), marks)


def _compiled(loaded: Loaded, cell: Mapping[str, Any], model: Any, example: Inputs) -> Prepared:
    import torch

    if loaded.task == "text-generation":
        # A cache that grows would have every token compiled anew.
        model.generation_config.cache_implementation = "static"
    model.forward = torch.compile(model.forward)
    return replace(_eager(loaded, cell, model, example), fixed_shapes=True)


def _traced(loaded: Loaded, cell: Mapping[str, Any], model: Any, example: Inputs) -> Prepared:
    import torch

    dtype = precision.dtype(cell["precision"])
    tensors = {name: tensor.to(dtype) if name == "pixel_values" else tensor for name, tensor in example.items()}
    if cell.get("channels_last"):
        tensors["pixel_values"] = tensors["pixel_values"].contiguous(memory_format=torch.channels_last)
    model.config.return_dict = True
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            traced = torch.jit.trace(model, example_kwarg_inputs=tensors, strict=False, check_trace=False)
            traced = torch.jit.freeze(traced)
    except Exception as error:  # Whatever torch raises, this model cannot be traced.
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise Unavailable(f"{loaded.name} cannot be traced: {reason}") from error
    return Prepared(_caller(loaded, cell, traced), fixed_shapes=True)


def _ipex(loaded: Loaded, cell: Mapping[str, Any], model: Any, example: Inputs) -> Prepared:
    """IPEX's optimize, then a frozen trace, as its documentation has it; text-generation without the trace.

    ipex.llm.optimize replaces layers of older versions of transformers than the stack's: it fails at the first text.
    https://intel.github.io/intel-extension-for-pytorch/cpu/2.8.0+cpu/tutorials/examples.html
    """
    import intel_extension_for_pytorch as ipex

    if cell["precision"] != "int8":
        model = ipex.optimize(model, dtype=precision.dtype(cell["precision"]), inplace=True)
    return (_eager if loaded.task == "text-generation" else _traced)(loaded, cell, model, example)


def _ipex_int8(model: Any, calibration: Sequence[Inputs]) -> tuple[Any, str]:
    """Quantize a model by IPEX's static int8; return it, which is traced afterwards, and the name of the way.

    https://intel.github.io/intel-extension-for-pytorch/cpu/2.8.0+cpu/tutorials/features/int8_overview.html
    """
    import torch
    from intel_extension_for_pytorch import quantization

    mapping = quantization.default_static_qconfig_mapping
    ready = quantization.prepare(model, mapping, example_kwarg_inputs=dict(calibration[0]), inplace=True)
    with torch.no_grad():
        for inputs in calibration:
            ready(**inputs)
    return quantization.convert(ready), "IPEX static"


_ENGINES = {"eager": _eager, "compile": _compiled, "trace": _traced, "ipex": _ipex}
