"""Time where a rank's steps go: computing, waiting for other ranks, waiting for input. docs/where_the_time_goes.md.

The observer loads this only for a job with `measure`. A rank's time is divided without gaps: at every moment the main
thread is in one of PARTS, so that their sum is the time of the steps.
- A step lasts from the end of one step of the first optimizer that stepped to the end of its next one. Micro-batches
  of gradient accumulation are no steps of an optimizer.
- communication: the main thread is in a collective of torch.distributed, or waits for one. DistributedDataParallel
  reduces gradients while the backward pass goes on; only from the last gradient on does the pass wait for it.
- input: the thread is in the DataLoader's __next__.
- other: from the end of a step to the next batch, where a DataLoader delivers batches.
- compute: all else.

Whatever goes wrong in here must not become the script's error.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

PARTS = ("compute", "communication", "input", "other")
COMPUTE, COMMUNICATION, INPUT, OTHER = range(len(PARTS))
# Times of steps that are kept for the median; of more than these every second one is dropped.
KEPT = 4096
# Blocks of consecutive steps at most whose times of computing are kept apart; of more, two become one.
BLOCKS = 20
# Collectives of a process group, as torch.distributed's functions, FSDP and communication hooks call them.
COLLECTIVES = (
    *("allreduce", "allreduce_coalesced", "reduce", "broadcast", "gather", "scatter", "barrier", "monitored_barrier"),
    *("allgather", "allgather_coalesced", "allgather_into_tensor_coalesced", "_allgather_base", "all_gather_single"),
    *("reduce_scatter", "reduce_scatter_tensor_coalesced", "_reduce_scatter_base", "reduce_scatter_single"),
    *("alltoall", "alltoall_base", "all_to_all_single", "send", "recv", "recv_anysource"),
)


class Timers:
    """The time of the main thread of this process, divided, and summed up over the steps after the warm-up."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.pid = os.getpid()
        self.thread = threading.main_thread().ident
        self.warmup, self.split = 0, True
        # The part that the time since `mark` belongs to, and those around it.
        self.part = COMPUTE
        self.around: list[int] = []
        self.mark = self.clock()
        self.parts = [0.0] * len(PARTS)
        self.calls = self.bytes = 0
        # Steps of the leading optimizer so far, and when the last one ended.
        self.leading: Any = None
        self.steps = 0
        self.ended = self.mark
        # Whether a DataLoader has delivered a batch since then.
        self.delivered = False
        # Of the steps that count: how many, their seconds (at most KEPT of them, every `stride`-th), and sums.
        self.counted, self.stride = 0, 1
        self.seconds: list[float] = []
        self.total = 0.0
        self.sums = [0.0] * len(PARTS)
        self.sum_calls = self.sum_bytes = 0
        # Seconds of computing in each block of so many steps; the last one may have fewer.
        self.blocks: list[float] = []
        self.block_steps = 1
        # Whether all collectives were counted that had bytes.
        self.complete = True

    def is_here(self) -> bool:
        """Tell whether this is the thread whose time is divided; not one of a forked child's."""
        return threading.get_ident() == self.thread and os.getpid() == self.pid

    def spend(self) -> float:
        """Give the time since the last mark to the current part, and return the time of now."""
        now = self.clock()
        self.parts[self.part] += now - self.mark
        self.mark = now
        return now

    def enter(self, part: int) -> None:
        """Begin with a part, within the current one."""
        self.spend()
        self.around.append(self.part)
        self.part = part

    def leave(self) -> None:
        """End what `enter` began."""
        self.spend()
        if self.around:
            self.part = self.around.pop()

    def delivering(self) -> None:
        """Note that a batch was delivered: what follows it is computing, and what follows the step is not."""
        self.delivered = True
        if not self.around:
            self.part = COMPUTE

    def step(self, optimizer: Any) -> None:
        """Note that an optimizer has made a step."""
        if not self.is_here():
            return
        leading = self.leading() if self.leading is not None else None
        if leading is None:
            self.leading = weakref.ref(optimizer)
            leading = optimizer
        if leading is not optimizer:
            return
        now = self.spend()
        self.steps += 1
        if self.steps > max(1, self.warmup):  # the first one began with the script
            self.count(now - self.ended)
        self.ended = now
        self.parts = [0.0] * len(PARTS)
        self.calls = self.bytes = 0
        if not self.around:
            self.part = OTHER if self.delivered else COMPUTE
        self.delivered = False

    def count(self, seconds: float) -> None:
        """Add a step that lasted so long."""
        if self.counted % self.stride == 0:
            if len(self.seconds) >= KEPT:
                self.seconds, self.stride = self.seconds[::2], 2 * self.stride
            if self.counted % self.stride == 0:
                self.seconds.append(seconds)
        if self.counted % self.block_steps == 0:
            if len(self.blocks) == BLOCKS:
                self.blocks = [one + other for one, other in zip(self.blocks[::2], self.blocks[1::2])]
                self.block_steps *= 2
            self.blocks.append(0.0)
        self.blocks[-1] += self.parts[COMPUTE]
        self.counted += 1
        self.total += seconds
        self.sums = [summed + part for summed, part in zip(self.sums, self.parts)]
        self.sum_calls += self.calls
        self.sum_bytes += self.bytes

    def summary(self) -> dict[str, Any]:
        """Return the means and percentiles of the steps so far; module_utils/_jobs/measured.py merges the ranks'."""
        steps, seconds = self.counted, sorted(self.seconds)
        found: dict[str, Any] = {"warmup_steps": self.warmup, "made": self.steps, "steps": steps}
        if not steps or not seconds:
            return found
        found["step_seconds"] = {
            **{name: seconds[int(share * (len(seconds) - 1) + 0.5)] for name, share in SHARES.items()},
            "mean": self.total / steps,
            "count": steps,
        }
        if self.split:
            found.update({name: part / steps for name, part in zip(PARTS, self.sums)})
            complete = self.blocks[: steps // self.block_steps]
            found["compute_blocks"] = [float(f"{block / self.block_steps:.6g}") for block in complete]
            if self.complete and "torch.distributed.distributed_c10d" in sys.modules:
                found.update(calls=self.sum_calls / steps, bytes=self.sum_bytes / steps)
        return found


SHARES = {"low": 0.1, "median": 0.5, "high": 0.9}
TIMERS = Timers()
# The observer's Gradients: which models are wrapped in DistributedDataParallel.
MODELS: Any = None


def undisturbed(function: Any) -> Any:
    """Return a function that torch.compile leaves alone."""
    disable = getattr(sys.modules.get("torch"), "_disable_dynamo", None)
    return disable(function) if disable is not None else function


def timed(function: Any, part: int, count: Any = None) -> Any:
    """Return a function whose time belongs to a part. count: receives its arguments when it is the outermost one."""

    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        if not TIMERS.is_here():
            return function(*args, **kwargs)
        if count is not None and TIMERS.part != part:
            with contextlib.suppress(Exception):
                count(*args)
        TIMERS.enter(part)
        try:
            return function(*args, **kwargs)
        finally:
            TIMERS.leave()

    return inner


def put(owner: Any, name: str, part: int, count: Any = None) -> None:
    """Have the time of a function or method belong to a part, where the owner has one of that name of its own."""
    with contextlib.suppress(Exception):
        if name in vars(owner):
            setattr(owner, name, undisturbed(timed(vars(owner)[name], part, count)))


def watch_optimizers(module: Any) -> None:
    """Notice the end of every optimizer's steps."""
    register = getattr(module, "register_optimizer_step_post_hook", None)  # torch 2.0 and newer
    if register is not None:
        register(after_step)
        return
    original = module.Optimizer._hook_for_profile

    def _hook_for_profile(self: Any) -> None:
        original(self)
        with contextlib.suppress(Exception):
            step = type(self).step
            if getattr(step, "amx_cluster", False):
                return

            @functools.wraps(step)
            def noticed(stepping: Any, *args: Any, **kwargs: Any) -> Any:
                result = step(stepping, *args, **kwargs)
                after_step(stepping)
                return result

            vars(noticed).update(hooked=True, amx_cluster=True)
            type(self).step = noticed

    module.Optimizer._hook_for_profile = _hook_for_profile


def after_step(stepping: Any, *_arguments: Any) -> None:
    """Note that an optimizer has made a step."""
    compiler = getattr(sys.modules["torch"], "compiler", None)
    if compiler is not None and getattr(compiler, "is_compiling", bool)():
        return
    with contextlib.suppress(Exception):
        TIMERS.step(stepping)


def watch_loader(module: Any) -> None:
    """Time how long a DataLoader's batches take."""
    original = module._BaseDataLoaderIter.__next__

    @functools.wraps(original)
    def __next__(self: Any) -> Any:
        if not TIMERS.is_here():
            return original(self)
        TIMERS.enter(INPUT)
        try:
            return original(self)
        finally:
            TIMERS.leave()
            TIMERS.delivering()

    # torch.compile does not trace it: it is called by a loop over batches, which is not compiled.
    module._BaseDataLoaderIter.__next__ = __next__
    if "next" in vars(module._BaseDataLoaderIter):
        module._BaseDataLoaderIter.next = __next__


def watch_backward(module: Any) -> None:
    """Divide the backward pass into computing and waiting for DistributedDataParallel's gradients."""
    original = module.backward

    @functools.wraps(original)
    def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if not TIMERS.is_here():
            return original(tensors, *args, **kwargs)
        TIMERS.enter(COMPUTE)
        hook = None
        with contextlib.suppress(Exception):
            models = MODELS.reducing()
            hook = at_last_gradient(tensors, module, models, lambda: waits(models))
        try:
            return original(tensors, *args, **kwargs)
        finally:
            TIMERS.leave()
            if hook is not None:
                with contextlib.suppress(Exception):
                    hook.remove()

    module.backward = undisturbed(backward)


def at_last_gradient(tensors: Any, autograd: Any, models: list[Any], call: Callable[[], None]) -> Any:
    """Have a pass from these tensors call back when all gradients of the models are computed; return the hook for that.

    The pass calls back in the order in which it was asked to, and DistributedDataParallel asks at its last gradient.
    None: these gradients are not reduced, or it cannot be told when.
    """
    compiled = sys.modules.get("torch._dynamo.compiled_autograd")
    if not models or getattr(compiled, "compiled_autograd_enabled", False):
        return None
    roots = [tensors] if hasattr(tensors, "register_hook") else tensors
    root = next((root for root in roots if root.requires_grad), None)
    asked: list[bool] = []

    def ask(_gradient: Any) -> None:
        if not asked and TIMERS.is_here():
            asked.append(True)
            autograd.Variable._execution_engine.queue_callback(call)

    return root.register_hook(ask) if root is not None else None


def waits(models: list[Any]) -> None:
    """Note that the backward pass has computed all gradients and waits for their reduction."""
    with contextlib.suppress(Exception):
        TIMERS.spend()
        TIMERS.part = COMMUNICATION
        if len(models) > 1:
            TIMERS.complete = False  # which of them took part in this pass is not known
        elif models[0] not in MODELS.hooked and type(models[0].process_group).__name__ != "MpiProcessGroup":
            # The collectives of hooks and of the backend mpi are called in Python, and counted there.
            calls, size = buckets(models[0])
            TIMERS.calls += calls
            TIMERS.bytes += size


def buckets(model: Any) -> tuple[int, int]:
    """Return how many buckets a model's gradients are reduced in, and their bytes."""
    known = BUCKETS.get(model)
    # They are made anew after the first pass.
    if known is None or (known[0] < TIMERS.steps and known[0] < 3):
        data = model._get_ddp_logging_data()
        sizes = str(data.get("rebuilt_bucket_sizes") or data.get("bucket_sizes") or "")
        numbers = [int(size) for size in sizes.replace(",", " ").split()]
        known = BUCKETS[model] = (TIMERS.steps, len(numbers), sum(numbers))
    return known[1], known[2]


BUCKETS: Any = weakref.WeakKeyDictionary()


def watch_collectives(module: Any) -> None:
    """Time and count the collectives that Python code calls, and the waits for them."""
    native = sys.modules.get("torch._C._distributed_c10d")
    for group in {getattr(native, name, None) for name in ("ProcessGroup", "Backend", "ProcessGroupGloo")} - {None}:
        for name in COLLECTIVES:
            put(group, name, COMMUNICATION, counted)
    put(native.Work if native is not None else module.Work, "wait", COMMUNICATION)
    put(native.Work if native is not None else module.Work, "synchronize", COMMUNICATION)


def watch_mpi_group(module: Any) -> None:
    """Time and count the collectives of the backend mpi, which does them in the calling thread or in one of its own."""
    for name in COLLECTIVES:
        put(module.MpiProcessGroup, name, COMMUNICATION, counted)


def watch_mpi_works(module: Any) -> None:
    """Time the waits for collectives of the backend mpi."""
    for work in (module.Begun, module.Message, module.All):
        put(work, "wait", COMMUNICATION)


def watch_ddp(module: Any) -> None:
    """Time how long the forward pass waits for the buffers of rank 0."""
    put(module.DistributedDataParallel, "_distributed_broadcast_coalesced", COMMUNICATION)


def counted(_group: Any, *arguments: Any) -> None:
    """Count a collective of a process group, with the bytes of the tensors in its first argument."""
    TIMERS.calls += 1
    TIMERS.bytes += bytes_of(arguments[0]) if arguments else 0


def bytes_of(content: Any) -> int:
    """Return the bytes of a tensor, or of those in a list of lists."""
    if isinstance(content, (list, tuple)):
        return sum(map(bytes_of, content))
    return int(content.numel() * content.element_size()) if hasattr(content, "element_size") else 0


STEPS = {"torch.optim.optimizer": watch_optimizers}
SPLIT = {
    "torch.autograd": watch_backward,
    "torch.distributed.distributed_c10d": watch_collectives,
    "torch.nn.parallel.distributed": watch_ddp,
    "torch.utils.data.dataloader": watch_loader,
    "amx_cluster_mpi.group": watch_mpi_group,
    "amx_cluster_mpi.work": watch_mpi_works,
}


def start(settings: dict[str, Any], models: Any) -> dict[str, Any]:
    """Begin to measure this process; return which module is to be watched with which function.

    settings: the job's `measure`. models: the observer's Gradients.
    """
    global MODELS
    MODELS = models
    TIMERS.warmup, TIMERS.split = int(settings.get("warmup_steps", 5)), bool(settings.get("split", True))
    return {**STEPS, **(SPLIT if TIMERS.split else {})}
