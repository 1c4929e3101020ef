"""Checks of the parts at each call, and their installation between PyTorch's operators and callers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch

# The modules whose hooks give back exactly what was saved, or compute it again.
EXACT = ("torch.utils.checkpoint",)
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
# Rows are filled up to a multiple of this share of them, a power of 2, at least FILL.
FILLED, FILL = 1 / 32, 16
# The libraries that register the parts' operators: they are PyTorch's own again once these are gone.
_libraries: list[Any] = []


def are_seen() -> bool:
    """Return whether something else than autograd is to see PyTorch's operators: modes, compilers, torch.func."""
    return (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or torch._C._is_torch_function_mode_enabled()
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._functorch.peek_interpreter_stack() is not None
        or torch.autograd.forward_ad._current_level >= 0
        or _is_traced()
    )


def are_compiled() -> bool:
    """Return whether torch.compile sees the frames of this call, also where it leaves them as they are."""
    return torch._C._dynamo.eval_frame.get_eval_frame_callback() is not None


def _is_traced() -> bool:
    return torch._C._dispatch_tls_is_dispatch_key_included(torch._C.DispatchKey.PythonDispatcher)


def are_saved_otherwise() -> bool:
    """Return whether a script's own hooks get what is saved for the backward pass, which they may round."""
    hooks = torch._C._autograd._top_saved_tensors_default_hooks(True)
    return bool(hooks) and any(getattr(hook, "__module__", "") not in EXACT for hook in hooks)


def filled(rows: int) -> int:
    """Return how many rows to compute for so many: at most a sixteenth, or FILL, more.

    oneDNN compiles a kernel for each number of rows that it has not had lately, in milliseconds, and keeps 1,024, of up
    to a megabyte each; the C library's allocator seldom uses the memory of a tensor again for one of another size.
    """
    step = max(FILL, 1 << math.ceil(math.log2(max(1.0, rows * FILLED))))
    return -(-rows // step) * step


def is_hooked(module: Any) -> bool:
    """Return whether a module has hooks of its own that see what it gets, returns, or the gradients of these."""
    return any(getattr(module, name) for name in HOOKS)


def are_all_hooked() -> bool:
    """Return whether hooks see each module of the process."""
    return any(getattr(torch.nn.modules.module, f"_global{name}") for name in HOOKS)


def is_plain(tensor: Any) -> bool:
    """Return whether a tensor is memory of this host with strides, and nothing more."""
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.device.type == "cpu"
        and tensor.layout is torch.strided
        and not tensor.is_nested
        and not tensor.is_quantized
        and not tensor.is_inference()
        and not tensor.is_neg()
        and not tensor._is_zerotensor()
        and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
        and not torch._C._functorch.is_legacy_batchedtensor(tensor)
    )


def try_checks() -> None:
    """Raise AttributeError where PyTorch has not what the checks of calls look at."""
    are_seen()
    are_compiled()
    are_saved_otherwise()
    are_all_hooked()
    is_hooked(torch.nn.Identity())
    is_plain(torch.empty(0))


def are_apart(tensors: Iterable[Any]) -> bool:
    """Return whether no two tensors share memory: dense ones, or any."""
    places = sorted(_place(tensor) for tensor in tensors)
    return all(span[1] <= other[0] for span, other in zip(places, places[1:]))


def _place(tensor: Any) -> tuple[int, int]:
    """Return where the memory of a tensor begins and ends."""
    begin = tensor.data_ptr()
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return begin, begin + (last + 1) * tensor.element_size() if tensor.numel() else begin


def replace(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Send CPU tensors to a function, where autograd records, instead of to PyTorch's composition of operators.

    It comes after autocast, torch.func and subclasses of tensors, so that all of these see PyTorch's operator.
    name: such as "dropout". Returns what PyTorch does by itself. Raises what PyTorch raises if it has no such operator.
    """
    kernel = torch.library.get_kernel(f"aten::{name}", "AutogradCPU")
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutogradCPU)
    operator = getattr(torch.ops.aten, name).default

    def theirs(*args: Any, **words: Any) -> Any:
        # A compiler has decompositions of its own.
        return operator.decompose(*args, **words) if _is_traced() else kernel.call_boxed(keys, *args, **words)

    library = torch.library.Library("aten", "IMPL")
    library.impl(name, function, "AutogradCPU")
    _libraries.append(library)
    return theirs
