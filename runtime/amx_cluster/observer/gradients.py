"""Check that ranks train one model: the gradients that they apply in one and the same step are compared."""

from __future__ import annotations

import contextlib
import functools
import importlib
import math
import weakref
from typing import Any

from amx_cluster.observer.backward import is_compiling
from amx_cluster.observer.heartbeat import Heartbeat
from amx_cluster.observer.rank import Rank, group
from ansible_collections.amx.cluster.plugins.module_utils._jobs.wire import MPI


class Gradients:
    """Finds the one gradient by which to tell whether ranks train one model, and leaves alone all that may differ.

    Under the Trainer that is what its own optimizer applies first, be the model wrapped in DistributedDataParallel or
    (the fault to be found) not at all. Elsewhere it is that of a model wrapped in DistributedDataParallel, where one
    optimizer makes two steps before another one makes any.
    """

    # Steps of which the gradient is looked at while it is not finite: it overflows at first in mixed precision.
    MOST = 10

    def __init__(self, rank: Rank, heartbeat: Heartbeat) -> None:
        self.rank, self.heartbeat = rank, heartbeat
        # The models in DistributedDataParallel, and those of them with a communication hook of the script's.
        self.wrapped: Any = weakref.WeakSet()
        self.hooked: Any = weakref.WeakSet()
        self.settled = False
        # The Trainer's optimizer (none of them is kept alive for being watched) and its parameters, by id().
        self.trainers: Any = None
        self.stepping: Any = None
        self.steps = 0
        self.found: dict[str, Any] | None = None

    def watch_steps(self, optimizer: Any) -> None:
        """Notice every optimizer's steps, and compare gradients at the first of them."""
        register = getattr(optimizer, "register_optimizer_step_pre_hook", None)  # torch 2.0 and newer
        if register is None:
            return

        def before_step(stepping: Any, *_arguments: Any) -> None:
            if is_compiling():
                return
            with contextlib.suppress(Exception):
                if self.rank.speaks():
                    self.heartbeat.activity.step(stepping)
                    self.look(stepping)

        register(before_step)

    def watch_ddp(self, module: Any) -> None:
        """Notice the models in DistributedDataParallel, and which of those exchange gradients as it does."""
        ddp = module.DistributedDataParallel
        construct, register = ddp.__init__, ddp.register_comm_hook
        gradients = self

        @functools.wraps(construct)
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            construct(self, *args, **kwargs)
            gradients.wrapped.add(self)

        compression = importlib.import_module(f"{MPI}.compression") if self.rank.compression else None

        @functools.wraps(register)
        def register_comm_hook(self: Any, state: Any, hook: Any) -> Any:
            # What a script's hook leaves on each rank is up to the script. The job's gives all of them the same mean.
            if compression is None or hook is not compression.compress:
                gradients.hooked.add(self)
            return register(self, state, hook)

        ddp.__init__, ddp.register_comm_hook = __init__, register_comm_hook
        if compression is not None:
            compression.watch_ddp(module)

    def trainer(self, model: Any, optimizer: Any) -> None:
        """Take in what a Trainer is about to train, and with which optimizer."""
        while hasattr(optimizer, "optimizer"):
            optimizer = optimizer.optimizer  # accelerate's and others' wrappers
        if self.settled or model is None or optimizer is None:
            return
        kinds = {base.__name__ for module in model.modules() for base in type(module).__mro__}
        if kinds & {"FullyShardedDataParallel", "FSDPModule", "DeepSpeedEngine", "FSDP"}:
            self.settled = True
            return
        self.trainers = weakref.ref(optimizer), {id(parameter) for parameter in model.parameters()}

    def look(self, optimizer: Any) -> None:
        """Look at the gradient that an optimizer is about to apply."""
        c10d, size = group(), self.rank.size
        if self.settled or c10d is None or size < 2 or not self.rank.is_watched("gradients"):
            return
        if c10d.get_world_size() != size:
            return  # a group for something else, or another one than planned
        parameters = [
            parameter for entry in optimizer.param_groups for parameter in entry["params"] if parameter.grad is not None
        ]
        if self.trainers is not None:
            theirs, known = self.trainers
            if optimizer is theirs():
                plain = {id(parameter) for parameter in parameters} <= known - self.own_exchange()
                self.judge(optimizer, parameters if plain else [])
                self.publish()
            return
        if not parameters or not {id(parameter) for parameter in parameters} <= self.shared():
            return  # it trains something of this rank's own
        if self.stepping is None:
            self.judge(optimizer, parameters)
        elif optimizer is self.stepping():
            self.judge(optimizer, parameters)
            self.publish()
        else:
            self.settled = True

    def judge(self, optimizer: Any, parameters: list[Any]) -> None:
        """Sum up the gradient of this step, unless one of an earlier step is known."""
        self.stepping = weakref.ref(optimizer)
        self.steps += 1
        if self.found is None:
            summed = gradient_of(parameters)
            self.found = summed and {"step": self.steps, **summed}

    def publish(self) -> None:
        """Report the result to the supervisor; end the search when something was found, or nothing will be."""
        self.heartbeat.gradient = self.found
        self.settled = self.found is not None or self.steps >= self.MOST

    def reducing(self) -> list[Any]:
        """Return the models whose gradients DistributedDataParallel reduces in the next backward pass."""
        return [model for model in self.wrapped if model.require_forward_param_sync and model.process_group.size() > 1]

    def shared(self) -> set[int]:
        """Return the parameters, by id(), whose gradients DistributedDataParallel makes the same on all ranks."""
        return {
            id(parameter)
            for model in self.wrapped
            if model not in self.hooked
            and model.require_backward_grad_sync
            and model.process_group.size() == self.rank.size
            for name, parameter in model.module.named_parameters()
            if name not in model.parameters_to_ignore
        }

    def own_exchange(self) -> set[int]:
        """Return the parameters, by id(), that are in DistributedDataParallel without having to have one gradient."""
        inside = {id(parameter) for model in self.wrapped for parameter in model.module.parameters()}
        return inside - self.shared()


def gradient_of(parameters: list[Any]) -> dict[str, Any] | None:
    """Return {parameters (how many have one), sum, norm} of gradients; None unless all are plain tensors and finite.

    Ranks that train one model apply the same gradient. The norm alone would not tell: clipping makes it the same. A
    part of a tensor at a time, because these are copies.
    """
    import torch

    total = square = 0.0
    for parameter in parameters:
        gradient = parameter.grad
        # DTensor and its like are subclasses: a rank has its part only.
        if gradient.__class__ is not torch.Tensor or gradient.layout is not torch.strided or gradient.is_meta:
            return None
        for part in gradient.detach().reshape(-1).split(1 << 20):
            part = part.double()
            total += part.sum().item()
            square += part.square().sum().item()
    if not parameters or not math.isfinite(total) or not math.isfinite(square):
        return None
    return {"parameters": len(parameters), "sum": total, "norm": square**0.5}
