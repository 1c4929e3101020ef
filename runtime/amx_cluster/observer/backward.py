"""End of a backward pass's computation, after which it waits for DistributedDataParallel's reductions.

Python is at the call of the pass all the time, whether it computes or waits. What torch.compile makes of a step is to
have nothing of this in it.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from typing import Any


class Watcher:
    """Watcher of backward passes. One that begins elsewhere than in the rank's main thread is left alone."""

    def is_here(self) -> bool:
        """Return whether this is the rank's main thread."""
        raise NotImplementedError

    def begins(self) -> None:
        """Note that a pass begins."""

    def waits(self, models: list[Any]) -> None:
        """Note that it has computed all gradients of these models, and waits until they are reduced."""
        raise NotImplementedError

    def ends(self) -> None:
        """Note that the pass has ended."""
        raise NotImplementedError


def watch(autograd: Any, watcher: Watcher, reducing: Callable[[], list[Any]]) -> None:
    """Watch all backward passes. reducing: returns the models whose gradients are reduced in the next pass."""
    original = autograd.backward

    @functools.wraps(original)
    def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if not watcher.is_here():
            return original(tensors, *args, **kwargs)
        watcher.begins()
        hook = None
        with contextlib.suppress(Exception):
            hook = at_last_gradient(tensors, autograd, watcher, reducing())
        try:
            return original(tensors, *args, **kwargs)
        finally:
            watcher.ends()
            if hook is not None:
                with contextlib.suppress(Exception):
                    hook.remove()

    autograd.backward = undisturbed(backward)


def at_last_gradient(tensors: Any, autograd: Any, watcher: Watcher, models: list[Any]) -> Any:
    """Report when a pass from these tensors has computed all gradients of the models; return the hook for that.

    The pass calls back in the order in which it was asked to, and DistributedDataParallel asks at its last gradient.
    None: these gradients are not reduced, or it is unknown when.
    """
    compiled = sys.modules.get("torch._dynamo.compiled_autograd")
    if not models or getattr(compiled, "compiled_autograd_enabled", False):
        return None
    roots = [tensors] if hasattr(tensors, "register_hook") else tensors
    root = next((root for root in roots if root.requires_grad), None)
    queued: list[bool] = []

    def ask(_gradient: Any) -> None:
        if not queued and watcher.is_here():
            queued.append(True)
            autograd.Variable._execution_engine.queue_callback(lambda: watcher.waits(models))

    return root.register_hook(ask) if root is not None else None


def undisturbed(function: Any) -> Any:
    """Return a function that torch.compile leaves alone."""
    disable = getattr(sys.modules.get("torch"), "_disable_dynamo", None)
    return disable(function) if disable is not None else function


def is_compiling() -> bool:
    """Return whether torch.compile traces what runs now."""
    compiler = getattr(sys.modules["torch"], "compiler", None)
    return bool(getattr(compiler, "is_compiling", bool)())
