"""Time of a rank's steps by kind of operation: torch's profiler, over a few steps after the warm-up.

The first rank of a host is profiled: one thread of Python calls the operations, forward and backward, one after another
(on a CPU autograd runs the backward pass in the thread that calls it), so that their own times have no overlap. What is
left of the steps is `other`: the sum of all kinds is the time of the steps.

An operation is of the kind of the outermost one around it that decides (DECIDING), itself included: what is within an
optimizer's step is the optimizer's, whatever it is. Operations of the backward pass have the sequence number of the
last operation of the forward pass that began with it, which is the one that made their node: where that is attention or
dropout, its backward pass is.
"""

from __future__ import annotations

import contextlib
import functools
import re
import time
from collections.abc import Iterable
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs.wire import OPERATIONS

PRODUCTS, ATTENTION, DROPOUT, ELEMENTWISE, CASTS, OPTIMIZER, COLLECTIVES, INPUT, OTHER = OPERATIONS
# Operations that are reported, and letters of their names: a script may have some of its own.
MOST, LONGEST = 10, 60

OTHERS = "the script uses torch's profiler itself"
ENGINE = "autograd::engine::evaluate_function: "
STEP = "Optimizer.step#"
# What decides for all that is within it, by its name, which has its namespace where there is one: aten::mm.
DECIDING = (
    # _foreach_: operations on lists of tensors, as optimizers and the clipping of gradients have them.
    (
        OPTIMIZER,
        re.compile(r"Optimizer\.(step|zero_grad)#|\w+::_(fused_(adam|adamw|sgd|adagrad)|foreach_\w+|amp_\w+)_?$"),
    ),
    (INPUT, re.compile(r"enumerate\(DataLoader\)#")),
    # The last two are those of amx_cluster/optimize/attention.py.
    (
        ATTENTION,
        re.compile(
            r"\w+::_?(scaled_dot_product_|native_multi_head_attention|flex_attention)"
            r"|(autograd::engine::evaluate_function: )?(ScaledDotProduct\w+Backward\d*|AttentionBackward)$|Attention$"
        ),
    ),
    (
        COLLECTIVES,
        re.compile(
            r"(c10d|_c10d_functional|gloo|mpi|nccl|ccl|xccl|oneccl_bindings_for_pytorch|torch_ccl)(::|:)"
            r"|torch::distributed::reducer::|torch\.distributed\.ddp\.reducer::|record_param_comms|fsdp::|FSDP::"
        ),
    ),
    (
        DROPOUT,
        re.compile(
            r"\w+::(native_dropout(_backward)?|_fused_dropout|(feature_|alpha_|feature_alpha_)?dropout_?"
            r"|(bernoulli|random|uniform|normal|exponential|rand|randn|randint|randperm|multinomial)(_like)?_?)$"
        ),
    ),
    (
        PRODUCTS,
        re.compile(
            r"\w+::(_?(addmm|mm|bmm|baddbmm|addbmm|mv|addmv|dot|vdot)(_activation|_dtype)?_?|_(scaled|grouped|int)_mm"
            r"|mkldnn_(linear|convolution|rnn_layer)\w*|\w*linear_(backward|pointwise)\w*|\w*ipex_\w*linear\w*"
            r"|_?(slow_|thnn_)?conv(olution|_transpose|_depthwise|_tbc|[123]d)\w*)$"
        ),
    ),
    (CASTS, re.compile(r"\w+::_to_copy$")),
)
# What decides for itself alone. An operation is NAMESPACE::NAME: other names are Python's, autograd's and scripts'.
ITSELF = {"aten::linear": PRODUCTS, "aten::matmul": PRODUCTS, "aten::einsum": PRODUCTS, "aten::to": CASTS}
OPERATION = re.compile(r"\w+::\w+$|\w*cpp_fused\w*$")
OF_BACKWARD = re.compile(r"Backward\d*$")


def decides(name: str) -> str:
    """Return the kind of all that is within an event of this name; an empty string where it decides nothing."""
    return next((kind for kind, pattern in DECIDING if pattern.match(name)), "")


def own_kind(name: str) -> str:
    """Return the kind of an event's own time, where nothing around it decides, and neither does it."""
    return ITSELF.get(name) or (ELEMENTWISE if OPERATION.match(name) else OTHER)


def summed(events: Iterable[Any], seconds: float, waited: float = 0.0) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Return {kind: seconds}, and the operations with the most time, {name, kind, seconds, calls}.

    events: as torch.profiler has them, in microseconds. seconds: the time of all steps, which the kinds add up to.
    waited: how long the rank was in collectives, where it is known; what no operation shows of it is part of `other`.
    """
    every = list(events)
    threads: dict[Any, float] = {}
    for event in every:
        if event.cpu_parent is None:
            # The optimizer's steps are in the thread that is looked at, whatever other threads do.
            many = 1e12 if event.name.startswith(STEP) else event.cpu_time_total
            threads[event.thread] = threads.get(event.thread, 0.0) + many
    main = max(threads, key=lambda thread: threads[thread], default=None)
    mine = [event for event in every if event.thread == main]
    mine.sort(key=lambda event: (event.time_range.start, -event.time_range.end))
    # The last step of the optimizer has not ended when the profiler stops: it has no operations within it.
    last = next((event for event in reversed(mine) if event.is_async and event.name.startswith(STEP)), None)
    deciding: dict[int, str] = {}
    makers: dict[int, str] = {}
    totals: dict[tuple[str, str], list[float]] = {}
    within = 0.0

    def add(name: str, kind: str, spent: float) -> None:
        # What autograd does around an operation of the backward pass is part of it, and no call of its own.
        own = name[len(ENGINE) :] if name.startswith(ENGINE) else name
        entry = totals.setdefault((own, kind), [0.0, 0])
        entry[0] += spent
        entry[1] += own is name

    for event in mine:
        if event.is_async:
            continue
        name, number = event.name, event.sequence_nr
        kind = deciding.get(id(event.cpu_parent), "") if event.cpu_parent is not None else ""
        if not kind and last is not None and event.time_range.start >= last.time_range.start:
            kind = OPTIMIZER
            within += event.cpu_time_total if event.cpu_parent is None else 0.0
        if not kind and name.startswith(ENGINE) and makers.get(number) in (ATTENTION, DROPOUT):
            kind = makers[number]
        deciding[id(event)] = kind = kind or decides(name)
        if number >= 0 and not OF_BACKWARD.search(name):
            makers[number] = kind
        add(name, kind or own_kind(name), event.self_cpu_time_total)
    if last is not None:
        add(last.name, OPTIMIZER, max(0.0, last.time_range.end - last.time_range.start - within))

    kinds = dict.fromkeys(OPERATIONS, 0.0)
    for (_name, kind), (spent, _calls) in totals.items():
        kinds[kind] += spent / 1e6
    kinds[OTHER] = seconds - sum(spent for kind, spent in kinds.items() if kind != OTHER)
    # DistributedDataParallel, and what Python waits for, is in no operation.
    hidden = min(max(0.0, waited - kinds[COLLECTIVES]), max(0.0, kinds[OTHER]))
    kinds[COLLECTIVES] += hidden
    kinds[OTHER] -= hidden
    most = sorted(totals.items(), key=lambda item: -item[1][0])[:MOST]
    operations = [
        {"name": name[:LONGEST], "kind": kind, "seconds": spent / 1e6, "calls": calls}
        for (name, kind), (spent, calls) in most
    ]
    return kinds, operations


class Profiling:
    """Profiles so many steps of this process, beginning when the step with the number `first` ends."""

    def __init__(self, first: int, steps: int) -> None:
        self.first, self.steps = first, steps
        self.profiler: Any = None
        self.began = self.waited = 0.0
        # {steps, seconds, kinds, operations} of a step, or {note}: why there is nothing.
        self.found: dict[str, Any] = {}

    def after(self, made: int, waited: float) -> bool:
        """Begin or end where that is due; return whether it was, which takes time.

        made: how many steps there were. waited: the seconds in collectives so far.
        """
        if made not in (self.first, self.first + self.steps) or self.found:
            return False
        try:
            if made == self.first:
                self.begin(waited)
            else:
                self.end(waited)
        except Exception as error:
            self.profiler = None
            self.found = {"note": f"{type(error).__name__}: {error}"[:200]}
        return True

    def give_way(self, profile: Any) -> None:
        """Stop where the script starts a profiler, of which there can be one. profile: the class of autograd's."""
        prepare = profile._prepare_trace

        @functools.wraps(prepare)
        def _prepare_trace(inner: Any) -> Any:
            if self.profiler is not None:
                with contextlib.suppress(Exception):
                    profiler, self.profiler = self.profiler, None
                    self.found = {"note": OTHERS}
                    profiler.stop()
            return prepare(inner)

        profile._prepare_trace = _prepare_trace

    def begin(self, waited: float) -> None:
        """Start the profiler."""
        import torch
        from torch.profiler import ProfilerActivity, profile

        if getattr(torch.autograd, "_profiler_enabled", bool)():
            raise RuntimeError(OTHERS)
        profiler = profile(activities=[ProfilerActivity.CPU])
        profiler.start()
        self.give_way(torch.autograd.profiler.profile)
        self.profiler = profiler
        self.began, self.waited = time.perf_counter(), waited

    def end(self, waited: float) -> None:
        """Stop the profiler, and sum up what it has seen."""
        seconds = time.perf_counter() - self.began
        profiler, self.profiler = self.profiler, None
        profiler.stop()
        kinds, operations = summed(profiler.events(), seconds, waited - self.waited)
        self.found = {
            "steps": self.steps,
            "seconds": seconds / self.steps,
            "kinds": {kind: spent / self.steps for kind, spent in kinds.items()},
            "operations": [
                {**operation, "seconds": operation["seconds"] / self.steps, "calls": operation["calls"] / self.steps}
                for operation in operations
            ],
        }
