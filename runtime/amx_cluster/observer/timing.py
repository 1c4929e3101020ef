"""Time a rank's steps in a job that is to be measured: torch's own functions tell where its main thread is."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import weakref
from collections.abc import Callable
from typing import Any

from amx_cluster.observer import backward
from amx_cluster.observer.gradients import Gradients
from amx_cluster.observer.profiling import Profiling
from amx_cluster.observer.timers import COMMUNICATION, COMPUTE, INPUT, Timers
from ansible_collections.amx.cluster.plugins.module_utils._jobs.wire import MPI

# Collectives of a process group, as torch.distributed's functions, FSDP and communication hooks call them.
COLLECTIVES = (
    *("allreduce", "allreduce_coalesced", "reduce", "broadcast", "gather", "scatter", "barrier", "monitored_barrier"),
    *("allgather", "allgather_coalesced", "allgather_into_tensor_coalesced", "_allgather_base", "all_gather_single"),
    *("reduce_scatter", "reduce_scatter_tensor_coalesced", "_reduce_scatter_base", "reduce_scatter_single"),
    *("alltoall", "alltoall_base", "all_to_all_single", "send", "recv", "recv_anysource"),
)


class Timing(backward.Watcher):
    """Timing of a rank, which runs its timers."""

    def __init__(self, settings: dict[str, Any], gradients: Gradients) -> None:
        """Begin to measure this process. settings: the job's `measure`. gradients: know the reduced models."""
        self.timers, self.gradients = Timers(), gradients
        self.timers.warmup = int(settings.get("warmup_steps", 5))
        self.timers.split = bool(settings.get("split", True))
        self.profiling: Profiling | None = None
        profiled = int(settings.get("profile") or 0)
        if profiled:
            # In the step after them, other ranks wait for the one that sums up.
            self.timers.profiled = profiled + 1
            if gradients.rank.is_first:
                self.profiling = Profiling(max(1, self.timers.warmup), profiled)
                # Else it logs that it starts and stops. It is read when torch is imported.
                os.environ.setdefault("KINETO_LOG_LEVEL", "99")
        # The buckets of models: (steps when they were looked at, how many, bytes).
        self.buckets: Any = weakref.WeakKeyDictionary()

    def watched(self) -> dict[str, Callable[[Any], None]]:
        """Return which module is to be watched with which function."""
        steps: dict[str, Callable[[Any], None]] = {"torch.optim.optimizer": self.watch_optimizers}
        if not self.timers.split:
            return steps
        return {
            **steps,
            "torch.autograd": lambda module: backward.watch(module, self, self.gradients.reducing),
            "torch.distributed.distributed_c10d": self.watch_collectives,
            "torch.nn.parallel.distributed": self.watch_ddp,
            "torch.utils.data.dataloader": self.watch_loader,
            f"{MPI}.group": self.watch_mpi_group,
            f"{MPI}.work": self.watch_mpi_works,
        }

    def summary(self) -> dict[str, Any]:
        """Return what the timers have, and the profile where there is one."""
        profile = self.profiling.found if self.profiling is not None else {}
        return {**self.timers.summary(), **({"profile": profile} if profile else {})}

    # --- steps and input ---

    def watch_optimizers(self, module: Any) -> None:
        """Notice the end of every optimizer's steps."""
        register = getattr(module, "register_optimizer_step_post_hook", None)  # torch 2.0 and newer
        if register is not None:
            register(self.after_step)
            return
        original, after_step = module.Optimizer._hook_for_profile, self.after_step

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

    def after_step(self, stepping: Any, *_arguments: Any) -> None:
        """Note that an optimizer has made a step."""
        if backward.is_compiling():
            return
        with contextlib.suppress(Exception):
            if not self.timers.step(stepping) or self.profiling is None:
                return
            if self.profiling.after(self.timers.steps, self.timers.communicated):
                self.timers.restart()

    def watch_loader(self, module: Any) -> None:
        """Time how long a DataLoader's batches take."""
        original, timers = module._BaseDataLoaderIter.__next__, self.timers

        @functools.wraps(original)
        def __next__(self: Any) -> Any:
            if not timers.is_here():
                return original(self)
            timers.enter(INPUT)
            try:
                return original(self)
            finally:
                timers.leave()
                timers.delivering()

        # torch.compile does not trace it: it is called by a loop over batches, which is not compiled.
        module._BaseDataLoaderIter.__next__ = __next__
        if "next" in vars(module._BaseDataLoaderIter):
            module._BaseDataLoaderIter.next = __next__

    # --- backward passes ---

    def is_here(self) -> bool:
        return self.timers.is_here()

    def begins(self) -> None:
        self.timers.enter(COMPUTE)

    def waits(self, models: list[Any]) -> None:
        with contextlib.suppress(Exception):
            self.timers.spend()
            self.timers.part = COMMUNICATION
            if len(models) > 1:
                self.timers.complete = False  # which of them took part in this pass is not known
            elif models[0] not in self.gradients.hooked and type(models[0].process_group).__name__ != "MpiProcessGroup":
                # The collectives of hooks and of the backend mpi are called in Python, and counted there.
                calls, size = self.buckets_of(models[0])
                self.timers.calls += calls
                self.timers.bytes += size

    def ends(self) -> None:
        self.timers.leave()

    def buckets_of(self, model: Any) -> tuple[int, int]:
        """Return how many buckets a model's gradients are reduced in, and their bytes."""
        known = self.buckets.get(model)
        # They are made anew after the first pass.
        if known is None or (known[0] < self.timers.steps and known[0] < 3):
            data = model._get_ddp_logging_data()
            sizes = str(data.get("rebuilt_bucket_sizes") or data.get("bucket_sizes") or "")
            numbers = [int(size) for size in sizes.replace(",", " ").split()]
            known = self.buckets[model] = (self.timers.steps, len(numbers), sum(numbers))
        return known[1], known[2]

    # --- collectives ---

    def watch_collectives(self, module: Any) -> None:
        """Time and count the collectives that Python code calls, and the waits for them."""
        native = sys.modules.get("torch._C._distributed_c10d")
        for group in {getattr(native, name, None) for name in ("ProcessGroup", "Backend", "ProcessGroupGloo")} - {None}:
            self.time(group, COLLECTIVES, self.count)
        self.time(native.Work if native is not None else module.Work, ("wait", "synchronize"))

    def watch_mpi_group(self, module: Any) -> None:
        """Time and count the collectives of the backend mpi, which does them in the calling thread or in its own."""
        self.time(module.MpiProcessGroup, COLLECTIVES, self.count)

    def watch_mpi_works(self, module: Any) -> None:
        """Time the waits for collectives of the backend mpi."""
        for work in (module.Begun, module.Message, module.All):
            self.time(work, ("wait",))

    def watch_ddp(self, module: Any) -> None:
        """Time how long the forward pass waits for the buffers of rank 0."""
        self.time(module.DistributedDataParallel, ("_distributed_broadcast_coalesced",))

    def time(self, owner: Any, names: tuple[str, ...], count: Any = None) -> None:
        """Count the time of functions or methods as communication, of those that the owner has of its own.

        count: receives the arguments of those that are called by no other one of them.
        """
        for name in names:
            with contextlib.suppress(Exception):
                if name in vars(owner):
                    setattr(owner, name, backward.undisturbed(self.timed(vars(owner)[name], count)))

    def timed(self, function: Any, count: Any = None) -> Any:
        """Return a function whose time is communication. count: as for `time`."""
        timers = self.timers

        @functools.wraps(function)
        def inner(*args: Any, **kwargs: Any) -> Any:
            if not timers.is_here():
                return function(*args, **kwargs)
            if count is not None and timers.part != COMMUNICATION:
                with contextlib.suppress(Exception):
                    count(*args)
            timers.enter(COMMUNICATION)
            try:
                return function(*args, **kwargs)
            finally:
                timers.leave()

        return inner

    def count(self, _group: Any, *arguments: Any) -> None:
        """Count a collective of a process group, with the bytes of the tensors in its first argument."""
        self.timers.calls += 1
        self.timers.bytes += bytes_of(arguments[0]) if arguments else 0


def bytes_of(value: Any) -> int:
    """Return the bytes of a tensor, or of those in a list of lists."""
    if isinstance(value, (list, tuple)):
        return sum(map(bytes_of, value))
    return int(value.numel() * value.element_size()) if hasattr(value, "element_size") else 0
