"""The parts of optimize beside PyTorch's own: a line for each promise, and exit code 1 if one is false.

judge_parts.py OBSERVE: the directory of amx_cluster.optimize.
"""

from __future__ import annotations

import contextlib
import math
import pickle
import sys
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F

sys.path.insert(0, sys.argv[1])
import amx_cluster.optimize

_kernel = torch.library.get_kernel("aten::scaled_dot_product_attention", "AutogradCPU")


def theirs(*args: Any, **kwargs: Any) -> Any:
    """PyTorch's attention; with the masks of the part dropout, which are the attention part's, too."""
    return _kernel.call_boxed(torch._C.DispatchKeySet(torch._C.DispatchKey.AutogradCPU), *args, **kwargs)


amx_cluster.optimize.install(["dropout", "attention", "optimizer", "loss", "padding"])

import transformers
from amx_cluster.optimize import attention, calls, loss, masks, optimizer

mine = F.scaled_dot_product_attention
wrong = 0


def judge(what: str, is_so: object) -> None:
    global wrong
    wrong += not is_so
    print("ok" if is_so else "FALSE", what, flush=True)


def mask(
    seed: int, size: int = 1_000_003, p: float = 0.9, threads: int = 1, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    return kept(torch.ones(size, dtype=dtype), p)


def kept(ones: torch.Tensor, p: float = 0.5) -> torch.Tensor:
    """Return what dropout keeps with this probability, as 0 and 1."""
    return F.dropout(ones, 1 - p).ne(0).to(ones.dtype)


def masks_are_random() -> None:
    for p in (0.1, 0.5, 0.9, 0.98):
        found = mask(1, p=p)
        # Five standard deviations of the mean of so many independent elements.
        near = 5 * math.sqrt(p * (1 - p) / found.numel())
        judge(f"the mean of a mask of {p}", abs(found.mean().item() - p) < near)
        centred = found - found.mean()
        for lag in (1, 2, 3, 64, 4096, 131072, 262144):
            related = (centred[lag:] * centred[:-lag]).mean() / centred.square().mean()
            judge(f"elements {lag} apart, {p}", abs(related.item()) < 5 / math.sqrt(found.numel()))
    torch.manual_seed(1)
    calls = torch.stack([kept(torch.ones(100_000)) for _call in range(40)])
    related = torch.corrcoef(calls) - torch.eye(40)
    judge("masks of 40 calls", related.abs().max().item() < 6 / math.sqrt(100_000))
    counts = calls.sum(0).var().item()
    judge("how often an element is kept in 40 calls", abs(counts - 10) < 0.5)
    other = torch.corrcoef(torch.stack([mask(seed, 100_000) for seed in range(20)])) - torch.eye(20)
    judge("masks of 20 seeds, as ranks have them", other.abs().max().item() < 6 / math.sqrt(100_000))
    blocks = mask(3, 1 << 20, 0.5).view(-1, 64).sum(1)
    judge("the spread of sums of 64", abs(blocks.var().item() / 16 - 1) < 0.06)


def masks_are_the_same_again() -> None:
    first = mask(7)
    judge("the same seed", torch.equal(first, mask(7)))
    judge("another seed", not torch.equal(first, mask(8)))
    judge("with two threads", torch.equal(first, mask(7, threads=2)))
    judge("in bfloat16", torch.equal(first, mask(7, dtype=torch.bfloat16).float()))
    torch.manual_seed(9)
    kept(torch.ones(50_000))
    state = torch.get_rng_state()
    after = kept(torch.ones(50_000))
    torch.set_rng_state(state)
    judge("from a saved state", torch.equal(after, kept(torch.ones(50_000))))
    drawn = masks.draw()
    whole, part = torch.empty(400_001), torch.empty(100_000)
    masks.fill(whole, 0.9, drawn)
    for place in (0, 1, 7, 262_149, 300_000):
        masks.fill(part, 0.9, drawn, place)
        judge(f"a part from {place} on", torch.equal(part, whole[place : place + 100_000]))


def masks_are_pytorchs_elsewhere() -> None:
    torch.manual_seed(0)
    small = kept(torch.ones(12)).tolist()
    judge("few elements", small == [0, 0, 1, 0, 0, 0, 1, 1, 0, 1, 1, 1])
    torch.manual_seed(0)
    drawn = torch.empty(100_000).bernoulli_(0.5)
    judge("random numbers that are no dropout", drawn[:12].tolist() == small)
    rare = F.dropout(torch.ones(1_000_000), 1 - 1e-4).ne(0).float().mean().item()
    judge("rare ones", 5e-5 < rare < 2e-4)
    judge("another order", abs(kept(torch.ones(300, 400).t(), 0.25).mean().item() - 0.25) < 0.01)
    strides = [F.dropout(each, 0.5).stride() for each in (torch.ones(300, 400).t(), torch.ones(400).expand(300, 400))]
    judge("strides", strides == [(1, 400), (400, 1)])
    lost = F.dropout(torch.full((100_000,), math.inf), 0.5).isnan().double().mean().item()
    judge("infinity that is dropped is no number", abs(lost - 0.5) < 0.01)
    ones = torch.ones(100_000, requires_grad=True)
    judge("what is recorded", F.dropout(ones, 0.5).grad_fn.name() == "MulBackward0")
    try:
        F.dropout(ones, 0.5, inplace=True)
        judge("a leaf in place", False)
    except RuntimeError as error:
        judge("a leaf in place", "a leaf Variable that requires grad" in str(error))
    doubled = ones * 1
    judge("in place", F.dropout(doubled, 0.5, inplace=True) is doubled and set(doubled.tolist()) == {0, 2})
    scripted = torch.jit.script(torch.nn.Dropout(0.2))(torch.ones(100_000))
    judge("torch.jit.script", abs(scripted.mean().item() - 1) < 0.02)
    with torch.device("meta"):
        judge("meta tensors", F.dropout(torch.ones(100_000), 0.1).is_meta)
    weights = torch.ones(50_000, requires_grad=True)
    out = torch.utils.checkpoint.checkpoint(lambda x: F.dropout(x, 0.5) * x, weights, use_reentrant=False)
    out.sum().backward()
    judge("checkpointing", torch.equal(weights.grad, 2 * out))


def inputs(dtype: torch.dtype, length: int = 70, keys: int = 70) -> list[torch.Tensor]:
    rows = (length, keys, keys)
    return [torch.randn(3, each, 5, 16).transpose(1, 2).to(dtype).requires_grad_() for each in rows]


def gradients(function: Any, tensors: list[torch.Tensor], *args: Any, **kwargs: Any) -> list[torch.Tensor]:
    own = [tensor.detach().contiguous().requires_grad_() for tensor in tensors]
    torch.manual_seed(6)
    out = function(*own, *args, **kwargs)
    torch.manual_seed(5)
    out.backward(torch.randn(out.shape).to(out.dtype))
    return [out.detach().double(), *(tensor.grad.double() for tensor in own)]


def farthest(found: list[torch.Tensor], right: list[torch.Tensor]) -> float:
    return max(((one - other).norm() / other.norm()).item() for one, other in zip(found, right))


def attention_is_exact() -> None:
    """Beside PyTorch's in float64; in bfloat16 not further from it than twice as far as PyTorch's own."""

    def direct(q: Any, k: Any, v: Any, mask: Any, scale: float) -> Any:
        if mask is not None and mask.dtype is torch.bool:
            mask = torch.zeros(mask.shape).masked_fill_(~mask, -math.inf).to(q.dtype)
        return attention.Attention.apply(q, k, v, mask, 0.0, False, scale)

    for dtype in (torch.float32, torch.bfloat16):
        for keys in (70, 33):
            tensors = inputs(dtype, keys=keys)
            added = torch.randn(3, 5, 70, keys).to(dtype)
            for given in (None, torch.rand(3, 1, 70, keys) > 0.3, torch.rand(1, 1, 70, 1) > -1, added):
                for block in (1 << 18, 2 * 70 * 70, 10):
                    attention.BLOCK = block
                    found = gradients(direct, tensors, given, 0.25)
                    exact = given.double() if given is added else given
                    right = gradients(theirs, [each.double() for each in tensors], exact, scale=0.25)
                    their_own = gradients(theirs, tensors, given, scale=0.25)
                    far = farthest(found, right)
                    most = 1e-6 if dtype is torch.float32 else 2 * farthest(their_own, right)
                    name = given.dtype if given is not None else None
                    judge(f"attention {dtype}, {keys} keys, mask {name}, blocks of {block}: {far:.5f}", far < most)
    attention.BLOCK = 1 << 18


def attention_is_exact_with_dropout() -> None:
    """Also of values that are all near another number than 0: differences of their products are what counts."""
    for dtype in (torch.float32, torch.bfloat16):
        for shift, scale in ((0, 0.25), (5, 0.25), (5, 2.0)):
            for is_causal in (True, False):
                tensors = inputs(dtype)
                tensors[2] = (tensors[2] + shift).detach()
                words: dict[str, Any] = {"dropout_p": 0.3, "is_causal": is_causal, "scale": scale}
                found, their_own = (gradients(way, tensors, **words) for way in (mine, theirs))
                right = gradients(theirs, [each.double() for each in tensors], **words)
                far, theirs_far = farthest(found, right), farthest(their_own, right)
                most = 2e-6 if dtype is torch.float32 else 2 * theirs_far
                judge(
                    f"with dropout, {dtype}, values near {shift}, scale {scale}: {far:.7f} ({theirs_far:.7f})",
                    far < most,
                )


def attention_is_exact_for_decoders() -> None:
    """A causal one whose keys belong to several heads of the query, as decoders have them, in bfloat16."""
    for heads in (5, 1):
        for is_causal in (True, False):
            q, k, v = inputs(torch.bfloat16)
            tensors = [q, *(each.detach()[:, :heads].requires_grad_() for each in (k, v))]
            words: dict[str, Any] = {"is_causal": is_causal, "scale": 0.3, "enable_gqa": True}
            found, their_own = (gradients(way, tensors, **words) for way in (mine, theirs))
            right = gradients(theirs, [each.double() for each in tensors], **words)
            far, theirs_far = farthest(found, right), farthest(their_own, right)
            judge(f"causal {is_causal}, {heads} heads of keys: {far:.5f} ({theirs_far:.5f})", far < 2 * theirs_far)


def attention_drops() -> None:
    """Beside the same formula by PyTorch's operations with the same mask, in both orders of gradients."""
    tensors = inputs(torch.float32)
    for is_causal in (False, True):
        own, others = ([each.detach().requires_grad_() for each in tensors] for _side in range(2))
        torch.manual_seed(1)
        out = mine(*own, dropout_p=0.3, is_causal=is_causal)
        kept = ~out.grad_fn.saved_tensors[4].signbit()
        seen = torch.ones(70, 70).tril().bool() if is_causal else torch.ones(70, 70).bool()
        share = kept[..., seen].float()
        judge("the share that is kept", abs(share.mean().item() - 0.7) < 5 * math.sqrt(0.21 / share.numel()))
        scores = (others[0] @ others[1].transpose(-1, -2) / 4).masked_fill(~seen, -math.inf)
        plain = (scores.softmax(-1) * kept / 0.7) @ others[2]
        given = torch.randn_like(out)
        judge("its result", torch.allclose(out, plain, atol=1e-5))
        once = torch.autograd.grad(out, own, given, retain_graph=True)
        right = torch.autograd.grad(plain, others, given, create_graph=True)
        judge("its gradients", all(torch.allclose(one, other, atol=1e-5) for one, other in zip(once, right)))
        twice = torch.autograd.grad(out, own, given, create_graph=True)
        second, right = (
            torch.autograd.grad(sum(each.square().sum() for each in found), side)
            for found, side in ((twice, own), (right, others))
        )
        judge("gradients of gradients", all(torch.allclose(a, b, rtol=1e-3, atol=1e-3) for a, b in zip(second, right)))
        torch.set_num_threads(2)
        torch.manual_seed(1)
        judge("with another number of threads", torch.allclose(out, mine(*own, dropout_p=0.3, is_causal=is_causal)))
        torch.set_num_threads(1)


def attention_is_computed_again() -> None:
    """With checkpointing, which computes the forward pass again with the state of the generator that it had."""
    found = []
    given_ones = inputs(torch.bfloat16)
    for again in (False, True):
        tensors = [each.detach().requires_grad_() for each in given_ones]
        call = lambda *given: mine(*given, dropout_p=0.2, is_causal=True)  # noqa: E731
        torch.manual_seed(9)
        out = torch.utils.checkpoint.checkpoint(call, *tensors, use_reentrant=False) if again else call(*tensors)
        found.append([out, *torch.autograd.grad(out.float().square().sum(), tensors)])
        torch.manual_seed(4)
        other = call(*tensors)
    judge("attention with checkpointing", all(torch.equal(one, two) for one, two in zip(*found)))
    judge("attention with another seed", not torch.equal(found[0][0], other))


def attention_is_differentiated_again() -> None:
    """Where query, key and value depend on one another, in both ways of PyTorch."""
    x = torch.randn(2, 4, 80, 16, requires_grad=True)
    weight = torch.randn(16, 16, requires_grad=True)
    related: dict[str, Any] = {
        "all the same": lambda: (x, x, x),
        "keys are values": lambda: (x, x @ weight, x @ weight),
        "a chain": lambda: (x, torch.tanh(x), torch.tanh(x) * 2),
    }
    for name, make in related.items():
        first = []
        for create in (True, False):
            torch.manual_seed(1)
            found = torch.autograd.grad(mine(*make(), dropout_p=0.1).square().sum(), x, create_graph=create)[0]
            first.append(found)
        judge(f"create_graph, {name}", farthest([first[0]], [first[1]]) < 1e-5)
        second = []
        for way in (mine, theirs):
            torch.manual_seed(1)
            found = torch.autograd.grad(way(*make(), dropout_p=0.1).square().sum(), x, create_graph=True)[0]
            second.append(torch.autograd.grad(found.square().sum(), x)[0])
        judge(f"twice, {name}", torch.allclose(*second, rtol=1e-3, atol=1e-3 * second[1].abs().max().item()))


def attention_lets_nan_through() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        for at, name in enumerate(("query", "key", "value", "gradient")):
            for number in (math.nan, -math.nan, math.inf):
                for dropout in (0.0, 0.3):
                    tensors = inputs(dtype)
                    given = torch.randn(3, 5, 70, 16).to(dtype)
                    with torch.no_grad():
                        (*tensors, given)[at][1, 2, 3, 4] = number
                    found = []
                    for way in (mine, theirs):
                        torch.manual_seed(2)
                        out = way(*tensors, dropout_p=dropout)
                        found.append([out, *torch.autograd.grad(out, tensors, given)])
                    is_same = all(torch.equal(a.isnan(), b.isnan()) for a, b in zip(*found))
                    judge(f"{number} in the {name}, {dtype}, dropout {dropout}", is_same and found[0][1].isnan().any())


def attention_is_left_to_hooks_of_scripts() -> None:
    """PyTorch computes from what was changed in place, where hooks have taken its check of that."""
    for name, hooks in (
        ("save_on_cpu", torch.autograd.graph.save_on_cpu()),
        ("saved_tensors_hooks", torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x)),
    ):
        found = []
        for way in (mine, theirs):
            torch.manual_seed(3)
            leaves = [torch.randn(2, 3, 64, 8).bfloat16().requires_grad_() for _each in range(3)]
            copies = [each * 1 for each in leaves]
            with hooks:
                out = way(*copies, dropout_p=0.0)
            with torch.no_grad():
                copies[2].fill_(1)
            found.append(torch.autograd.grad(out, leaves, torch.ones_like(out)))
        judge(f"a value changed under {name}", all(torch.equal(a, b) for a, b in zip(*found)))


def attention_leaves_tiny_numbers() -> None:
    """Numbers whose squares are 0 in float32 are no zeros: products of AMX and AVX512 lose them."""
    for dtype in (torch.float32, torch.bfloat16):
        for dropout in (0.0, 0.3):
            for number, is_taken in ((0.0, True), (1e-38, False), (1e-25, False)):
                tensors = inputs(dtype)
                tensors[2] = torch.full_like(tensors[2], number).requires_grad_()
                out = mine(*tensors, dropout_p=dropout)
                is_attention = out.grad_fn is not None and out.grad_fn.name() == "AttentionBackward"
                is_worth = dropout > 0 or dtype is torch.bfloat16
                judge(f"values of {number}, {dtype}, dropout {dropout}", is_attention is (is_taken and is_worth))


def attention_looks_like_pytorchs() -> None:
    """Strides of results and gradients; and what may be changed before the backward pass, and what may not."""
    orders: dict[str, Any] = {
        "contiguous": lambda *shape: torch.randn(shape),
        "transposed": lambda a, b, c, d: torch.randn(a, c, b, d).transpose(1, 2),
        "batch within": lambda a, b, c, d: torch.randn(b, c, a, d).permute(2, 0, 1, 3),
        "expanded": lambda a, b, c, d: torch.randn(1, b, c, d).expand(a, b, c, d),
    }
    for dtype in (torch.float32, torch.bfloat16):
        for dropout in (0.0, 0.2):
            for order, make in orders.items():
                tensors = [make(2, 3, 64, 8).to(dtype).detach().requires_grad_() for _each in range(3)]
                seen = []
                for way in (mine, theirs):
                    out = way(*tensors, dropout_p=dropout)
                    found = [out, *torch.autograd.grad(out, tensors, torch.randn(out.shape).to(dtype))]
                    seen.append([out._is_view(), *((each.stride(), each.dtype) for each in found)])
                judge(f"strides, {order}, {dtype}, dropout {dropout}", seen[0] == seen[1])
            for changed in ("query", "key", "value", "transposed value", "mask", "result", "bool mask"):
                found = []
                for way in (mine, theirs):
                    torch.manual_seed(3)
                    values = orders["transposed" if changed == "transposed value" else "contiguous"](2, 3, 64, 8)
                    tensors = [torch.randn(2, 3, 64, 8), torch.randn(2, 3, 64, 8), values]
                    tensors = [each.to(dtype).detach().requires_grad_() for each in tensors]
                    mask = torch.randn(64, 64).to(dtype) if changed != "bool mask" else torch.rand(64, 64) > 0.2
                    copies = [each * 1 for each in tensors]
                    out = way(*copies, mask, dropout_p=dropout)
                    names = dict(
                        zip(("query", "key", "value", "mask", "bool mask", "result"), (*copies, mask, mask, out)),
                        **{"transposed value": copies[2]},
                    )
                    with torch.no_grad():
                        names[changed].fill_(1)
                    try:
                        found.append(torch.autograd.grad(out, tensors, torch.ones_like(out)))
                    except RuntimeError as error:
                        found.append(str(error).partition(":")[0])
                is_same = (
                    found[0] == found[1]
                    if "" in map(str, found) or isinstance(found[1], str)
                    else (
                        not isinstance(found[0], str)
                        and all(torch.allclose(a, b, rtol=0.05, atol=0.05) for a, b in zip(*found))
                    )
                )
                judge(f"a changed {changed}, {dtype}, dropout {dropout}", is_same)
    for dropout in (0.0, 0.2):
        found = []
        for way in (mine, theirs):
            torch.manual_seed(3)
            out = way(*tensors, dropout_p=dropout)
            given = torch.stack([torch.ones_like(out), 2 * torch.ones_like(out)])
            found.append(torch.autograd.grad(out, tensors, given, is_grads_batched=True))
        is_same = all(torch.allclose(a, b, rtol=0.05, atol=0.05) for a, b in zip(*found))
        judge(f"a batch of gradients, dropout {dropout}", is_same)
    judge("view", mine(*tensors, dropout_p=0.2).view(-1).shape == (2 * 3 * 64 * 8,))
    for scale in (0.0, -0.5, math.nan, math.inf):
        found = []
        for way in (mine, theirs):
            torch.manual_seed(4)
            found.append(gradients(way, inputs(torch.bfloat16), scale=scale, dropout_p=0.1))
        is_same = all(torch.allclose(a, b, rtol=0.02, atol=0.02, equal_nan=True) for a, b in zip(*found))
        judge(f"scale {scale}", is_same)


def attention_is_pytorchs_elsewhere() -> None:
    def takes(*args: Any, **kwargs: Any) -> bool:
        out = mine(*args, **kwargs)
        return out.grad_fn is not None and out.grad_fn.name() == "AttentionBackward"

    tensors, exact = inputs(torch.bfloat16), inputs(torch.float32)
    judge("bfloat16", takes(*tensors))
    judge("dropout", takes(*exact, dropout_p=0.1))
    judge("float32 without dropout", not takes(*exact))
    judge("float64", not takes(*inputs(torch.float64), dropout_p=0.1))
    judge("a causal one", takes(*tensors, is_causal=True))
    judge("heads that share keys", takes(tensors[0], *(each[:, :1] for each in tensors[1:]), enable_gqa=True))
    judge("long rows", not takes(*inputs(torch.bfloat16, 300, 300), is_causal=True))
    for has_amx, length in ((False, 256), (True, 191)):
        with mock.patch.object(attention, "has_amx", lambda has_amx=has_amx: has_amx):
            for size in (length, length + 1):
                is_taken = takes(*inputs(torch.bfloat16, size, size))
                judge(f"rows of {size} with{'' if has_amx else 'out'} AMX", is_taken == (size == length))
            with mock.patch.object(attention, "SMALL", 1 << 60):
                few, many = (torch.randn(2, heads, 20, 32).bfloat16().requires_grad_() for heads in (11, 12))
                judge(f"few heads with{'' if has_amx else 'out'} AMX", not takes(few, few, few))
                with mock.patch.object(torch, "get_num_threads", lambda: 1):
                    judge(f"many heads with{'' if has_amx else 'out'} AMX", takes(many, many, many) == has_amx)
    judge("rows without anything", not takes(*tensors, torch.zeros(70, 70).bool()))
    with torch.no_grad():
        judge("no gradients", not takes(*tensors))
    with torch.autocast("cpu", torch.bfloat16):
        judge("autocast", takes(*exact) and mine(*exact).dtype is torch.bfloat16)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        judge("a way that the script chooses", not takes(*tensors))
    judge("torch.func", torch.func.grad(lambda q: mine(q, *tensors[1:], dropout_p=0.1).sum())(tensors[0]).shape)

    class Module(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.scaled_dot_product_attention(x, x, x, dropout_p=0.2)

    judge("PyTorch's own function", mine is torch._C._nn.scaled_dot_product_attention)
    judge("pickle", pickle.loads(pickle.dumps(mine)) is mine)
    judge("torch.jit.script", torch.jit.script(Module())(tensors[0]).shape == tensors[0].shape)


def trained(
    params: list[torch.Tensor], gradients: list[Any], steps: int = 3, kind: Any = torch.optim.AdamW, **words: Any
) -> tuple[int, list[torch.Tensor]]:
    """Return how many tensors the fused implementation was given, and parameters and states after some steps."""
    optimizer = kind(params, **{"lr": 1e-2, **words})
    taken = 0
    names = ("_fused_adam_", "_fused_adamw_")
    with contextlib.ExitStack() as stack:
        fused = [stack.enter_context(mock.patch.object(torch, name, wraps=getattr(torch, name))) for name in names]
        for _step in range(steps):
            for param, gradient in zip(params, gradients):
                param.grad = gradient(param.detach())
            optimizer.step()
        taken = sum(len(call.args[0]) for each in fused for call in each.call_args_list)
    states = [each for param in params for each in optimizer.state[param].values()]
    return taken, [each.detach().clone() for each in (*params, *states)]


def optimizers_are_fused_where_it_is_right() -> None:
    """Beside PyTorch's loop: how many tensors are fused, and that weights and states are the same."""

    def plain(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.randn(shape, dtype=dtype)

    def columns() -> torch.Tensor:
        return torch.randn(8, 16)[:, :4]

    flat = torch.randn(600)
    sin: Any = torch.sin
    inf = lambda param: torch.sin(param).index_fill(0, torch.tensor([1]), math.inf)  # noqa: E731
    turned = lambda param: torch.sin(param).t().contiguous().t()  # noqa: E731
    one_row = lambda param: torch.sin(param[0]).expand(param.shape)  # noqa: E731
    cases: dict[str, tuple[int, Any, Any, dict[str, Any]]] = {
        "usual ones": (6, lambda: [plain(30, 30), plain(30)], sin, {}),
        "Adam": (6, lambda: [plain(30, 30), plain(30)], sin, {"kind": torch.optim.Adam}),
        "float64": (3, lambda: [plain(30, 30, dtype=torch.float64)], sin, {}),
        "maximize": (3, lambda: [plain(30, 30)], sin, {"maximize": True}),
        "bfloat16, which PyTorch rounds more often": (0, lambda: [plain(30, dtype=torch.bfloat16)], sin, {}),
        "float16": (0, lambda: [plain(30, dtype=torch.float16)], sin, {}),
        "complex": (0, lambda: [torch.randn(9, dtype=torch.complex64)], sin, {}),
        "gradients in another order": (3, lambda: [plain(30, 20), plain(20)], turned, {}),
        "channels_last": (0, lambda: [plain(4, 3, 5, 5).to(memory_format=torch.channels_last)], sin, {}),
        "a transposed parameter": (0, lambda: [plain(30, 20).t()], sin, {}),
        "columns of a tensor": (0, lambda: [columns()], sin, {}),
        "expanded gradients": (0, lambda: [plain(30, 20)], one_row, {}),
        "parameters that overlap": (0, lambda: [flat.clone()[:400], flat[100:500], flat[450:600]], sin, {}),
        "a gradient that is the parameter": (0, lambda: [plain(30)], lambda param: param, {}),
        "infinite gradients": (0, lambda: [plain(30)], inf, {}),
        "huge gradients": (0, lambda: [plain(37)], lambda param: torch.sin(param) * 3e19, {}),
        "amsgrad": (0, lambda: [plain(30)], sin, {"amsgrad": True}),
        "weight decay within the gradient": (
            0,
            lambda: [plain(9)],
            sin,
            {"kind": torch.optim.Adam, "weight_decay": 0.1},
        ),
        "an eps of 0": (0, lambda: [plain(30)], sin, {"eps": 0.0}),
        "a learning rate that is a tensor": (0, lambda: [plain(30)], sin, {"lr": torch.tensor(1e-2)}),
        "as the script has it": (0, lambda: [plain(30)], sin, {"foreach": True}),
        "a single number": (3, lambda: [plain()], sin, {}),
        "nothing": (0, lambda: [plain(0)], sin, {}),
    }
    for name, (wanted, make, gradient, words) in cases.items():
        found = []
        for stock in ({}, {"fused": False}):
            torch.manual_seed(3)
            flat = torch.randn(600)
            params = [each.requires_grad_() for each in make()]
            found.append(
                trained(params, [gradient] * len(params), **{**words, **(stock if "foreach" not in words else {})})
            )
        taken, same = found[0][0], zip(found[0][1], found[1][1])
        judge(f"optimizer, {name}: {taken} fused", taken == wanted)
        judge(
            f"optimizer, {name}: as PyTorch's",
            all(
                torch.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True) and a.stride() == b.stride() for a, b in same
            ),
        )


def optimizers_stop_where_pytorch_does() -> None:
    """An error of one parameter leaves those after it as they were."""
    found: list[Any] = []
    for words in ({}, {"fused": False}):
        params = [torch.ones(5, requires_grad=True) for _each in range(3)]
        stepped = torch.optim.AdamW(params, **words)
        for average in (torch.zeros(5), torch.zeros(7)):
            for param in params:
                param.grad = torch.ones(5)
            if stepped.state:
                stepped.state[params[1]]["exp_avg"] = average
            try:
                stepped.step()
                found.append("no error")
            except RuntimeError as error:
                found.append(str(error))
        found.append([[param[0].item(), stepped.state[param]["step"].item()] for param in params])
    judge("optimizer, an error of the second of three", found[:3] == found[3:] and "size" in found[1])
    for size, is_fused in ((5, False), (1 << 12, True)):
        with mock.patch.object(optimizer, "SMALL", 1 << 12):
            lists = [[torch.ones(size)] for _each in range(4)]
            found = optimizer.which(*lists, [], [torch.tensor(1.0)])
        judge(f"optimizer, tensors of {size} numbers", found == [is_fused])


def optimizers_stay_the_scripts() -> None:
    weights = torch.nn.Linear(30, 30)
    for kind in (torch.optim.Adam, torch.optim.AdamW):
        mine_, theirs_ = kind(weights.parameters()), kind(weights.parameters(), fused=None)
        judge("defaults", mine_.defaults == theirs_.defaults and mine_.defaults["fused"] is None)
        weights(torch.randn(3, 30)).sum().backward()
        mine_.step()
        saved = mine_.state_dict()
        judge("groups", saved["param_groups"][0]["fused"] is None)
        judge("no scaling of gradients by the optimizer", not hasattr(mine_, "_step_supports_amp_scaling"))
        again = pickle.loads(pickle.dumps(mine_))
        judge("pickled", again.state_dict()["param_groups"] == saved["param_groups"])
        held = weights.weight.square().sum()
        mine_.step()
        try:
            held.backward()
            judge("a weight that a graph has saved, after a step", False)
        except RuntimeError as error:
            judge("a weight that a graph has saved, after a step", "inplace operation" in str(error))
        mine_.zero_grad()
    compiled = torch.optim.AdamW(weights.parameters())
    weights(torch.randn(3, 30)).sum().backward()
    torch.compile(compiled.step, backend="eager")()
    judge("compiled", compiled.state[weights.weight]["step"].item() == 1)


def rows_are_filled() -> None:
    filled = {rows: calls.filled(rows) for rows in range(1, 20_000)}
    judge("filled rows", all(0 <= more - rows < max(16, rows / 15) for rows, more in filled.items()))
    judge("few numbers of rows", len({more for rows, more in filled.items() if 1000 <= rows <= 2000}) <= 33)
    for rows, vocabulary in ((1, 100), (16, 32_000), (1048, 32_000), (1049, 32_000), (9999, 152_000), (5, 1 << 26)):
        chunk = loss._chunk(rows, vocabulary)
        judge(f"chunks of {rows} rows", chunk % 16 == 0 and rows / -(-rows // chunk) <= chunk)
        judge(f"memory of {rows} rows", chunk * vocabulary * 4 <= loss.CHUNK or chunk == 16)


def steps_have_few_numbers_of_rows() -> None:
    def counted(operator: str, model: Any, rows: Any) -> tuple[int, int]:
        """Return how many numbers of rows an operator had, and the steps."""
        made = [rows() for _step in range(24)]
        with torch.profiler.profile(record_shapes=True) as profile, torch.autocast("cpu", torch.bfloat16):
            for each in made:
                model(**each).loss.backward()
        return len({each.input_shapes[0][-2] for each in profile.events() if each.name == operator}), len(made)

    size = {"hidden_size": 512, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = transformers.BertConfig(vocab_size=50, attn_implementation="sdpa", **size)

    def padded() -> Any:
        ones = torch.ones(32, 64, dtype=torch.int64)
        places = torch.arange(64) < torch.randint(10, 50, (32, 1))
        return {"input_ids": ones, "attention_mask": places.long(), "labels": ones[:, 0]}

    different, steps = counted("aten::gelu", transformers.BertForSequenceClassification(config), padded)
    judge("numbers of tokens", 1 < different < steps / 2)

    def labelled() -> Any:
        rows = torch.randint(0, 5000, (8, 64))
        ids = torch.where(torch.arange(512).view(8, 64) < torch.randint(100, 200, ()), -100, rows)
        return {"input_ids": rows, "labels": ids}

    words = {"vocab_size": 5000, "num_key_value_heads": 2, **size, "hidden_size": 32}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**words))
    different, steps = counted("aten::_log_softmax", model, labelled)
    judge("numbers of labels", 1 < different < steps / 2)


torch.manual_seed(0)
attention.SMALL = optimizer.SMALL = 0
for part in (
    masks_are_random,
    masks_are_the_same_again,
    masks_are_pytorchs_elsewhere,
    attention_is_exact,
    attention_is_exact_with_dropout,
    attention_is_exact_for_decoders,
    attention_drops,
    attention_is_differentiated_again,
    attention_lets_nan_through,
    attention_is_left_to_hooks_of_scripts,
    attention_leaves_tiny_numbers,
    attention_looks_like_pytorchs,
    attention_is_computed_again,
    attention_is_pytorchs_elsewhere,
    rows_are_filled,
    steps_have_few_numbers_of_rows,
    optimizers_are_fused_where_it_is_right,
    optimizers_stop_where_pytorch_does,
    optimizers_stay_the_scripts,
):
    part()
sys.exit(wrong > 0)
