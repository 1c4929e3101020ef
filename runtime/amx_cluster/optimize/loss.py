"""Cross-entropy of causal language models at the positions that have a label, some rows at a time.

transformers computes the logits of all positions, converts them to float32 and goes through them several times; most of
them have no label where prompts are masked or rows are padded. Here the head of a model returns a Lazy tensor instead
of its logits. Where cross_entropy receives one, the logits of labelled rows are computed, a chunk at a time, and at
once what the backward pass needs of them: the gradients of the hidden states and of the head's weight. Matrix
multiplications are in the type of the script (bfloat16 in autocast), sums over chunks in float32.

Whatever else reads a Lazy tensor (a metric, a hook, another loss) gets the logits as PyTorch computes them, with their
gradients. A script that reads them at each step gains nothing: then the part turns itself off for this model.
"""

from __future__ import annotations

import functools
import math
import sys
import threading
import types
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from amx_cluster.optimize import calls
from torch.nn import functional
from torch.utils import _pytree

# Bytes of the logits of a chunk, in float32.
CHUNK = 1 << 27
# Bytes of those whose softmax is computed at a time in float32, for each thread: as many as its cache has.
BLOCK = 1 << 21
# Rows times logits of a row below which PyTorch's own way is as fast.
SMALL = 1 << 20
# How often a script reads logits before a model's are no longer left out, in training and in evaluation each.
READ = 3
# What logits may be at most, far below the largest number of their types.
LARGE = 1e36
INTEGERS = {torch.float32: torch.int32, torch.bfloat16: torch.int16}
DTYPES = tuple(INTEGERS)
ADVICE = "leave `loss` out of `optimize` in the job file"


class Logits:
    """The logits of a head: its input and weight as they were, from which the logits can be computed.

    hidden: (..., size), weight: (vocabulary, size) and bias: (vocabulary) or None, all in the type of the matrix
    multiplication. trains: whether weight and bias have gradients.
    """

    def __init__(self, head: Any, tensors: list[Any], trains: tuple[bool, bool]) -> None:
        self.head, self.trains = weakref.ref(head), trains
        self.hidden, self.weight, self.bias = tensors
        self.is_training = torch.is_grad_enabled()
        self.versions = [each._version for each in self._tensors()]
        self.sample = self._sample()

    def _tensors(self) -> list[Any]:
        return [each for each in (self.hidden, self.weight, self.bias) if each is not None]

    def _sample(self) -> Any:
        """Return some of the weight's numbers: an assignment to .data does not count as a change."""
        numbers = self.weight.detach().view(-1)
        # As integers: a NaN is equal to itself.
        return numbers[:: max(1, len(numbers) >> 10)].clone().view(INTEGERS[self.weight.dtype])

    def _is_changed(self) -> bool:
        return (
            [each._version for each in self._tensors()] != self.versions
            # FullyShardedDataParallel takes the memory of weights back after a forward pass.
            or not self.weight.untyped_storage().nbytes()
            or not torch.equal(self.sample, self._sample())
        )

    def value(self) -> Any:
        """Compute the logits: (..., vocabulary). Raises RuntimeError where they cannot be computed any more."""
        with _lock:
            is_changed, weight, bias = self._is_changed(), self.weight, self.bias
        if is_changed:
            raise RuntimeError(f"the logits of this step are gone, as the model has been changed since: {ADVICE}")
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            return functional.linear(self.hidden, weight, bias)

    def are_finite(self) -> bool:
        """Return whether no logit can be infinite or NaN, by what it is at most."""
        with torch.no_grad():
            low, high = torch.aminmax(self.weight)
            most = float(self.hidden.abs().sum(-1, dtype=torch.float32).max()) * max(-float(low), float(high))
            most += 0.0 if self.bias is None else float(self.bias.abs().max())
        return most < LARGE

    def keep(self, copies: dict[Any, Any]) -> None:
        """Keep the weight as it is now: an optimizer is about to change it. copies: of weights, made so far."""
        if self._is_changed():
            return
        for name in ("weight", "bias"):
            tensor = getattr(self, name)
            if tensor is not None:
                place = tensor.data_ptr(), tensor.shape
                if place not in copies:
                    copies[place] = tensor.detach().clone()
                setattr(self, name, copies[place])
        self.versions = [each._version for each in self._tensors()]


class Gradient:
    """The gradient of a cross-entropy for the logits, and what follows from it for the head's input and weight.

    labels: (rows) of the indices `rows` among the logits' rows. products: the gradients of hidden (all rows, size), of
    weight and bias in float32 or None, of the sum of losses. share, scale: by which all are multiplied. is_last: the
    loss keeps no products for another backward pass.
    """

    def __init__(
        self, logits: Logits, shape: Any, kept: Any, labels: Any, share: float, products: Any, scale: Any, is_last: bool
    ) -> None:
        self.logits, self.shape, self.kept, self.labels = logits, shape, kept, labels
        self.share, self.products, self.scale, self.is_last = share, products, scale, is_last

    def take(self, like: Any) -> list[Any]:
        """Return the gradients of hidden, weight and bias in types and shapes of `like`, None where that is None."""
        is_kept = torch._C._autograd._get_current_graph_task_keep_graph()
        products, self.products = self.products, self.products if is_kept else None
        scale = self.scale * self.share
        scaled = (lambda each: each.mul_(scale)) if self.is_last and not is_kept else (lambda each: each * scale)
        return [
            None if each is None else scaled(made).to(each.dtype).view(each.shape) for made, each in zip(products, like)
        ]

    def value(self) -> Any:
        """Compute the gradient for what cross_entropy was given: (rows, vocabulary), in float32."""
        logits = self.logits.value().view(-1, self.shape[-1])
        place, rows = self.kept
        softmax = torch.softmax(logits.index_select(0, rows).float(), -1)
        softmax[torch.arange(len(rows)), self.labels] -= 1
        return softmax.new_zeros(self.shape).index_copy_(0, place, softmax * (self.share * self.scale))


class Memory:
    """The memory that a Lazy tensor and its views would share, and the tensors in which it was read."""

    def __init__(self) -> None:
        self.read: list[tuple[Any, int]] = []

    def is_changed(self) -> bool:
        return any(tensor._version != version for tensor, version in self.read)


class Lazy(torch.Tensor):
    """A tensor that is computed when it is read: the logits of a head, or their gradient.

    root: a Logits or Gradient; base: the Lazy tensor that it was made of by `step`, a change of type or shape, or None.
    """

    root: Any
    base: Any
    step: Any
    memory: Memory
    numbers: Any
    plain: Any
    # Which function of autograd made it when it was read.
    node: Any

    @staticmethod
    def __new__(cls, root: Any, base: Any, step: Any, like: Any) -> Any:
        made = torch.Tensor._make_wrapper_subclass(
            cls, like.shape, strides=like.stride(), dtype=like.dtype, device="cpu"
        )
        # Code in C++ that takes its memory gets an error, as it has none.
        torch._C._set_throw_on_mutable_data_ptr(made)
        made.root, made.base, made.step, made.numbers, made.plain, made.node = root, base, step, None, None, None
        made.memory = Memory() if base is None or step.func in COPIES else base.memory
        return made

    def __init__(self, *_args: Any, **_words: Any) -> None:
        """Do nothing: __new__ has made it, or torch.Tensor() returns it once more."""

    def value(self) -> Any:
        """Return its numbers, without a graph: in memory that its views share, once they are computed."""
        if self.plain is not None:
            return self.plain.detach()
        if self.numbers is None:
            self.numbers = self.root.value() if self.base is None else self.step(self._source())
        return self.numbers

    def _source(self) -> Any:
        """Return the numbers that the step begins with. A copy was made before its source was changed in place."""
        if self.memory is not self.base.memory and self.base.memory.is_changed():
            return self.base.anew()
        return self.base.value()

    def anew(self) -> Any:
        """Compute its numbers as they were first."""
        return self.root.value() if self.base is None else self.step(self.base.anew())

    def steps(self) -> list[Any]:
        """Return what was done since the logits of the head."""
        return [] if self.base is None else [*self.base.steps(), self.step]

    def read(self) -> Any:
        """Return the tensor that PyTorch would have in its place, with its graph; always the same one.

        Another one, in the same memory, once a function of autograd has changed it in place.
        """
        if self.plain is None or self.grad_fn is not self.node:
            with torch.enable_grad():
                made = Read.apply(self, False)
            self.plain, self.node = made, self.grad_fn
            self.memory.read.append((made, made._version))
            if isinstance(self.root, Logits):
                _count_read(self.root)
        return self.plain

    @property
    def is_read(self) -> bool:
        """Return whether a script has any of it, so that it may change."""
        return bool(self.memory.read)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        is_read = any(each.is_read for each in _pytree.tree_leaves((args, kwargs)) if type(each) is Lazy)
        if func is functional.cross_entropy and not is_read:
            loss = cross_entropy(*args, **kwargs)
            if loss is not None:
                return loss
        if func in ATTRIBUTES or (func in UNREAD and not is_read):
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        args, kwargs = _pytree.tree_map(lambda each: each.read() if type(each) is Lazy else each, (args, kwargs))
        return func(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in STEPS and type(args[0]) is Lazy and not args[0].is_read:
            step = Step(func, args[1:], kwargs)
            like = step(torch.empty_strided(args[0].shape, args[0].stride(), dtype=args[0].dtype, device="meta"))
            if like.dtype in DTYPES:
                return Lazy(args[0].root, args[0], step, like)
        if func._schema.is_mutable:
            # From here on the script has them, such as a sum over ranks.
            for each in _pytree.tree_leaves((args, kwargs)):
                if type(each) is Lazy:
                    each.read()
        args, kwargs = _pytree.tree_map(lambda each: each.value() if type(each) is Lazy else each, (args, kwargs))
        return func(*args, **kwargs)


@dataclass(frozen=True)
class Step:
    """An operator of a tensor with its other arguments."""

    func: Any
    args: Any
    kwargs: Any

    def __call__(self, tensor: Any) -> Any:
        kwargs = {**self.kwargs, "device": tensor.device} if "device" in self.kwargs else self.kwargs
        return self.func(tensor, *self.args, **kwargs)


_aten = torch.ops.aten
# What autograd and transformers do to logits and their gradients on the way to the loss and back.
STEPS = {
    _aten._to_copy.default,
    _aten.view.default,
    _aten._unsafe_view.default,
    _aten.detach.default,
    _aten.alias.default,
    _aten.clone.default,
    _aten.slice.Tensor,
    _aten.slice_backward.default,
}
COPIES = {_aten._to_copy.default, _aten.clone.default, _aten.slice_backward.default}
UNREAD = {
    torch.Tensor.float,
    torch.Tensor.to,
    torch.Tensor.view,
    torch.Tensor.reshape,
    torch.Tensor.contiguous,
    torch.Tensor.detach,
    torch.Tensor.__getitem__,
}
ATTRIBUTES = {
    *(
        getattr(torch.Tensor, name).__get__
        for name in (
            *("shape", "dtype", "device", "layout", "ndim", "requires_grad", "grad_fn", "is_leaf", "grad"),
            *("is_cpu", "is_cuda", "is_meta", "is_mkldnn", "is_nested", "is_quantized", "is_sparse", "_version"),
            *("retains_grad", "output_nr", "name", "_backward_hooks"),
        )
    ),
    # What PyTorch does itself, with a lock, where it records hooks of a view.
    torch.Tensor._backward_hooks.__set__,
    *(
        getattr(torch.Tensor, name)
        for name in (
            *("size", "stride", "dim", "ndimension", "numel", "nelement", "element_size", "get_device", "__len__"),
            *("is_contiguous", "is_floating_point", "is_complex", "is_signed", "register_hook", "retain_grad"),
        )
    ),
    torch.is_floating_point,
    torch.is_complex,
    torch.numel,
    # The logits are in the graph themselves.
    torch.autograd.grad,
    torch.autograd.backward,
    torch.Tensor.backward,
}


class Read(torch.autograd.Function):
    """The tensor that a Lazy one stands for."""

    @staticmethod
    def forward(ctx: Any, lazy: Any, is_first: bool) -> Any:
        """is_first: give what it was before a script changed it."""
        numbers = lazy.anew() if is_first and lazy.memory.is_changed() else lazy.value()
        # In the same memory, but no view of what a function of autograd has made: those cannot be changed in place.
        storage = numbers.untyped_storage()
        return numbers.new_empty(0).set_(storage, numbers.storage_offset(), numbers.shape, numbers.stride())

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient, None


class Head(torch.autograd.Function):
    """A linear layer whose output is Lazy.

    hidden: (..., size), weight: (vocabulary, size), bias: (vocabulary) or None; dtype: of the matrix multiplication.
    """

    @staticmethod
    def forward(ctx: Any, head: Any, hidden: Any, weight: Any, bias: Any, dtype: Any) -> Any:
        tensors = [each if each is None else each.detach().to(dtype) for each in (hidden, weight, bias)]
        root = Logits(head, tensors, ctx.needs_input_grad[2:4])
        if root.weight.data_ptr() == weight.data_ptr():
            with _lock:
                _unkept.add(root)
        # As PyTorch: what the backward pass multiplies by, in the type of the matrix multiplication.
        of_hidden, of_weight = ctx.needs_input_grad[1:3]
        ctx.save_for_backward(tensors[0] if of_weight else None, tensors[1] if of_hidden else None)
        ctx.given = [(each, each if each is None else each._version) for each in (hidden, weight, bias)]
        ctx.root, ctx.dtype = weakref.ref(root), dtype
        return Lazy(root, None, None, torch.empty((*hidden.shape[:-1], len(weight)), dtype=dtype, device="meta"))

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        hidden, weight = ctx.saved_tensors
        given = [each for each, _version in ctx.given]
        needed = ctx.needs_input_grad[1:4]
        if torch.is_grad_enabled():
            return None, *_differentiable(ctx, gradient.read() if type(gradient) is Lazy else gradient), None
        if not torch._C._autograd._get_current_graph_task_keep_graph():
            ctx.given = [
                (torch.empty_like(each, device="meta"), 0) if each is not None else (None, 0) for each in given
            ]
        root = gradient.root if type(gradient) is Lazy else None
        is_whole = isinstance(root, Gradient) and root.logits is ctx.root() and root.products
        # A hook may have changed it in place.
        if is_whole and not gradient.memory.is_changed():
            like = [each if is_needed else None for each, is_needed in zip(given, needed)]
            return None, *gradient.root.take(like), None
        rows = _rows(gradient.read() if type(gradient) is Lazy else gradient, ctx.dtype)
        return (
            None,
            (rows @ weight).to(given[0].dtype).view(given[0].shape) if needed[0] else None,
            (rows.t() @ hidden.flatten(0, -2)).to(given[1].dtype) if needed[1] else None,
            rows.sum(0).to(given[2].dtype) if needed[2] else None,
            None,
        )


def _rows(gradient: Any, dtype: Any) -> Any:
    """Return a gradient as a matrix of rows: of several gradients at once, PyTorch cannot flatten dimensions."""
    return gradient.to(dtype).contiguous().view(-1, gradient.shape[-1])


def _is_batched(gradient: Any) -> bool:
    """Return whether a gradient stands for several that are computed at once (`is_grads_batched`, torch.func)."""
    functorch = torch._C._functorch
    return functorch.is_legacy_batchedtensor(gradient) or functorch.is_functorch_wrapped_tensor(gradient)


def _differentiable(ctx: Any, gradient: Any) -> Any:
    """Return the gradients of a head's input, weight and bias, which can be differentiated again."""
    if any(each is not None and each._version != version for each, version in ctx.given):
        raise RuntimeError(f"the head of the model was changed since, and its gradient cannot be had again: {ADVICE}")
    hidden, weight, bias = (each for each, _version in ctx.given)
    of_hidden, of_weight, of_bias = ctx.needs_input_grad[1:4]
    rows = _rows(gradient, ctx.dtype)
    return (
        (rows @ weight.to(ctx.dtype)).to(hidden.dtype).view(hidden.shape) if of_hidden else None,
        (rows.t() @ hidden.to(ctx.dtype).flatten(0, -2)).to(weight.dtype) if of_weight else None,
        rows.sum(0).to(bias.dtype) if of_bias else None,
    )


class CrossEntropy(torch.autograd.Function):
    """cross_entropy of Lazy logits (rows, vocabulary), of which `kept` have these labels.

    kept: the labelled rows' indices among the rows of logits, and among those of the head.
    """

    @staticmethod
    def forward(ctx: Any, logits: Any, target: Any, kept: Any, labels: Any, words: Any) -> Any:
        ctx.set_materialize_grads(False)
        share = 1 / len(labels) if words["reduction"] == "mean" else 1.0
        total, products = _sums(logits.root, kept[1], labels, ctx.needs_input_grad[0])
        ctx.words, ctx.logits = words, logits
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward(target, *kept, labels, *products)
        return (total * share).float()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        if gradient is None:
            return (None,) * 5
        target, place, rows, labels, *products = ctx.saved_tensors
        logits = ctx.logits
        is_last = not torch._C._autograd._get_current_graph_task_keep_graph()
        if is_last:
            ctx.logits = None
        if torch.is_grad_enabled():
            read = Read.apply(logits, True)
            loss = functional.cross_entropy(read, target, **ctx.words)
            return torch.autograd.grad(loss, read, gradient, create_graph=True)[0], *(None,) * 4
        share = 1 / len(labels) if ctx.words["reduction"] == "mean" else 1.0
        is_batched = _is_batched(gradient)
        scale = torch.ones(()) if is_batched else gradient.clone()
        root = Gradient(logits.root, logits.shape, (place, rows), labels, share, products, scale, is_last)
        if is_batched:
            return root.value().to(logits.dtype) * gradient, *(None,) * 4
        return Lazy(root, None, None, logits), *(None,) * 4


def _chunk(rows: int, vocabulary: int) -> int:
    """Return how many rows are computed at a time: alike in all chunks, and in most steps."""
    most = max(calls.FILL, CHUNK // 17 * 16 // (4 * vocabulary))
    return calls.filled(math.ceil(rows / math.ceil(rows / most)))


def _to_gradient(chunk: Any, labels: Any, total: Any, of_bias: Any, is_differentiated: bool) -> None:
    """Add the losses of a chunk of logits to a total, and replace the logits by their gradient where that is needed.

    Some rows at a time are computed in float32. chunk: (rows, vocabulary), of which the first have these labels, (rows,
    1). of_bias: the gradient of the head's bias, to which that of these rows is added; None where it has none.
    """
    block = torch.get_num_threads() * max(1, BLOCK // (4 * chunk.shape[1]))
    for start in range(0, len(chunk), block):
        part, own = chunk[start : start + block], labels[start : start + block]
        logs = torch.log_softmax(part.float(), -1)
        total -= logs[: len(own)].gather(1, own).double().sum()
        if is_differentiated:
            softmax = logs.exp_()
            softmax[: len(own)].scatter_add_(1, own, softmax.new_full((1, 1), -1).expand(own.shape))
            softmax[len(own) :] = 0
            part.copy_(softmax)
            if of_bias is not None:
                of_bias += softmax.sum(0)


def _sums(logits: Logits, rows: Any, labels: Any, is_differentiated: bool) -> Any:
    """Return the sum of the losses of rows with these labels, and the gradients of hidden, weight and bias."""
    hidden, weight, bias = logits.hidden.flatten(0, -2), logits.weight, logits.bias
    of_weight, of_bias = logits.trains
    total = torch.zeros((), dtype=torch.float64)
    products: list[Any] = [None] * 3
    if is_differentiated:
        products[0] = torch.zeros_like(hidden)
        products[1] = torch.zeros(weight.shape, dtype=torch.float32) if of_weight else None
        products[2] = torch.zeros(bias.shape, dtype=torch.float32) if of_bias else None
    with torch.autocast("cpu", enabled=False):
        size = _chunk(len(rows), len(weight))
        for first in range(0, len(rows), size):
            place, label = rows[first : first + size], labels[first : first + size, None]
            count = len(place)
            # The last chunk is filled up with one of its rows.
            some = hidden.index_select(0, torch.cat([place, place[:1].expand(size - count)]))
            chunk = functional.linear(some, weight, bias)
            _to_gradient(chunk, label, total, products[2], is_differentiated)
            if is_differentiated:
                products[0].index_copy_(0, place, (chunk @ weight)[:count])
                if of_weight:
                    products[1] += chunk.t() @ some
            del chunk  # else there are two while the next one is computed
    return total, products


def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """Return the cross-entropy of Lazy logits, or None where PyTorch is to compute it."""
    if (
        type(input) is not Lazy
        or not isinstance(input.root, Logits)
        or input.dim() != 2
        or input.dtype is not torch.float32
        or any(each is not None for each in (weight, size_average, reduce))
        or label_smoothing
        or reduction not in ("mean", "sum")
        or not calls.is_plain(target)
        or target.dtype is not torch.int64
        or target.shape != input.shape[:1]
        or calls.are_seen()
        or _are_packed()
        or (places := _places(input)) is None
    ):
        return None
    place = (target != ignore_index).nonzero().flatten()
    labels = target.index_select(0, place)
    if not len(labels) or labels.min() < 0 or labels.max() >= input.shape[1]:
        return None
    # A row without a label has no part in the loss, but a NaN in its logits is in all gradients of PyTorch.
    if len(labels) < len(target) and not input.root.are_finite():
        return None
    kept = place, places.index_select(0, place)
    loss = CrossEntropy.apply(input, target, kept, labels, {"ignore_index": ignore_index, "reduction": reduction})
    return loss if math.isfinite(loss.detach()) else None


def _places(lazy: Lazy) -> Any:
    """Return which row of the head's output each row of a tensor is, or None where its rows are no longer those."""
    vocabulary = lazy.root.weight.shape[0]
    if lazy.shape[-1] != vocabulary:
        return None
    shape = lazy.root.hidden.shape[:-1]
    places = torch.arange(shape.numel()).view(*shape, 1)
    size = (*shape, vocabulary)
    for step in lazy.steps():
        # A row stays a row where the last dimension stays whole: then the same is done to the rows' numbers.
        size = step(torch.empty(size, device="meta")).shape
        if size[-1] != vocabulary:
            return None
        if step.func is _aten.slice.Tensor:
            places = step(places)
        places = places.reshape(*size[:-1], 1)
    return places.flatten()


def _is_sharded() -> bool:
    """Return whether fully_shard() has a part of any model: it takes the memory of weights back without a trace."""
    states = sys.modules.get("torch.distributed._composable_state")
    return bool(states and states._module_state_mapping)


def _are_packed() -> bool:
    return bool(torch._C._autograd._top_saved_tensors_default_hooks(True))


# Threads may train models side by side.
_lock = threading.RLock()
_unkept: Any = weakref.WeakSet()
_reads: Any = weakref.WeakKeyDictionary()


def _count_read(logits: Logits) -> None:
    """Note that a script reads logits; after a few, leave its head to PyTorch."""
    head = logits.head()
    if head is None:
        return
    counts = _reads.setdefault(head, {True: 0, False: 0})
    counts[logits.is_training] += 1
    if counts[logits.is_training] == READ and logits.is_training:
        text = "optimize: loss is left to PyTorch, because the script reads the logits of its steps"
        print(text, file=sys.stderr, flush=True)


def _keep(*_args: Any) -> None:
    """Keep the weights of logits that may still be read, before an optimizer changes them."""
    copies: dict[Any, Any] = {}
    # Another thread's optimizer waits until its own model's weights are kept.
    with _lock:
        for logits in list(_unkept):
            logits.keep(copies)
        _unkept.clear()


def install(modeling: Any) -> None:
    """Leave out logits in the models of transformers, whose transformers.modeling_utils has just been imported."""
    base = modeling.PreTrainedModel
    theirs = base.__init_subclass__.__func__
    sys.modules["torch.optim.optimizer"].register_optimizer_step_pre_hook(_keep)

    def __init_subclass__(cls: Any, **words: Any) -> None:
        theirs(cls, **words)
        if isinstance(cls.__dict__.get("forward"), types.FunctionType):
            cls.forward = deferring(cls.__dict__["forward"])

    base.__init_subclass__ = classmethod(__init_subclass__)


def deferring(theirs: Callable[..., Any]) -> Callable[..., Any]:
    """Return a model's forward() during which its head returns Lazy logits, where that computes the same."""

    @functools.wraps(theirs)
    def forward(self: Any, *args: Any, **words: Any) -> Any:
        if words.get("labels") is None or torch.compiler.is_compiling() or (head := _head(self)) is None:
            return theirs(self, *args, **words)
        head.forward = functools.partial(_defer, head, threading.get_ident())
        try:
            return theirs(self, *args, **words)
        finally:
            head.__dict__.pop("forward", None)

    return forward


def _head(model: Any) -> Any:
    """Return the head of a model with the loss of causal language models, or None where PyTorch is to compute it."""
    losses = sys.modules.get("transformers.loss.loss_utils")
    if losses is None or calls.are_seen() or calls.are_compiled() or _are_packed() or _is_sharded():
        return None
    try:
        head = model.get_output_embeddings()
    except Exception:  # a script's own class may have none
        return None
    if type(head) is not torch.nn.Linear or "forward" in head.__dict__:
        return None
    if getattr(model, "loss_function", None) is not losses.ForCausalLMLoss:
        return None
    if calls.is_hooked(head) or calls.are_all_hooked():
        return None
    if _reads.get(head, {True: 0, False: 0})[torch.is_grad_enabled()] >= READ:
        return None
    return head


def _defer(head: Any, thread: int, input: Any) -> Any:
    """Return the Lazy output of a head, or what PyTorch computes. input: named as by torch.nn.Linear."""
    hidden = input
    dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else hidden.dtype
    tensors = [each for each in (hidden, head.weight, head.bias) if each is not None]
    if (
        threading.get_ident() != thread
        # A script may compute its head again in the backward pass, where it is PyTorch's.
        or _are_packed()
        or not all(map(calls.is_plain, tensors))
        or type(head.weight) is not torch.nn.Parameter
        or not head.weight.is_contiguous()
        or dtype not in DTYPES
        or any(each.dtype not in DTYPES for each in tensors)
        or (not torch.is_autocast_enabled("cpu") and any(each.dtype is not dtype for each in tensors))
        or hidden.dim() < 2
        or hidden.shape[:-1].numel() * len(head.weight) < SMALL
    ):
        return functional.linear(hidden, head.weight, head.bias)
    return Head.apply(head, hidden, head.weight, head.bias, dtype)
