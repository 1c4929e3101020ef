"""Compare every collective of backend mpi with gloo's in the same run: each rank prints what differs, and "checked N".

What only moves data must agree bit by bit; what is computed, within the rounding of another order. Where gloo does not
have a collective or a reduction, what it should give is computed from all ranks' inputs, which gloo brings together.
"""

from __future__ import annotations

import functools
import itertools
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import amx_cluster_mpi  # noqa: F401  it registers the backend
import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

dist.init_process_group("gloo")
RANK, SIZE = dist.get_rank(), dist.get_world_size()
MPI = dist.new_group(backend="mpi")
GLOO = dist.group.WORLD
FRACTIONS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTEGERS = (torch.int32, torch.int64, torch.uint8, torch.int8, torch.int16)
COMPLEX = (torch.complex64, torch.complex128)
TYPES = (*FRACTIONS, *INTEGERS, torch.bool, *COMPLEX)
# Elements: none, one, odd ones, more than a piece, and than a thread of PyTorch computes with alone.
SIZES = (0, 1, 7, 4099, 40001, 600_011)
TOLERANCE = {torch.bfloat16: 2e-2, torch.float16: 3e-3, torch.float32: 1e-5, torch.complex64: 1e-5}
checked = 0


def made(dtype: torch.dtype, *shape: int, seed: int = 0) -> torch.Tensor:
    """A tensor of this rank's own: others have other elements."""
    generator = torch.Generator().manual_seed(seed * 100 + RANK)
    if dtype is torch.bool:
        return torch.rand(*shape, generator=generator) > 0.5
    if dtype.is_floating_point:
        return (torch.rand(*shape, generator=generator) + 0.5).to(dtype)
    if dtype.is_complex:
        return torch.complex(torch.rand(*shape, generator=generator), torch.rand(*shape, generator=generator)).to(dtype)
    return torch.randint(0, 11, shape, generator=generator).to(dtype)


def of_all(tensor: torch.Tensor) -> list[torch.Tensor]:
    """All ranks' tensors, by gloo."""
    found: list[Any] = [None] * SIZE
    dist.all_gather_object(found, tensor, group=GLOO)
    return found


def compare(what: str, ours: torch.Tensor, theirs: torch.Tensor, exact: bool) -> None:
    global checked
    checked += 1
    if exact:
        same = ours.dtype == theirs.dtype and torch.equal(ours, theirs)
    else:
        tolerance = TOLERANCE.get(ours.dtype, 1e-12)
        same = torch.allclose(ours, theirs, rtol=tolerance, atol=tolerance)
    if not same:
        print(f"DIFFERS on rank {RANK}: {what}: {ours.flatten()[:4]} and {theirs.flatten()[:4]}", flush=True)


def layouts(tensor: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """The same elements in other orders of memory."""
    yield "contiguous", tensor
    if tensor.numel() > 1:
        wide = torch.empty(tensor.numel(), 2, dtype=tensor.dtype)
        wide[:, 0] = tensor.flatten()
        yield "strided", wide[:, 0]
        yield "part", torch.cat([tensor.flatten(), tensor.flatten()])[tensor.numel() :]


REDUCTIONS: dict[str, tuple[Any, Callable[[torch.Tensor], torch.Tensor], tuple[torch.dtype, ...]]] = {
    "SUM": (ReduceOp.SUM, lambda rows: rows.sum(0), (*FRACTIONS, *INTEGERS, *COMPLEX)),
    "AVG": (ReduceOp.AVG, lambda rows: rows.sum(0) / SIZE, (*FRACTIONS, *COMPLEX)),
    "PRODUCT": (ReduceOp.PRODUCT, lambda rows: rows.prod(0), (*FRACTIONS, *INTEGERS)),
    "MIN": (ReduceOp.MIN, lambda rows: rows.amin(0), (*FRACTIONS, *INTEGERS)),
    "MAX": (ReduceOp.MAX, lambda rows: rows.amax(0), (*FRACTIONS, *INTEGERS)),
}
BITWISE = {"BAND": (ReduceOp.BAND, "__and__"), "BOR": (ReduceOp.BOR, "__or__"), "BXOR": (ReduceOp.BXOR, "__xor__")}


def expected(name: str, rows: torch.Tensor) -> torch.Tensor:
    """What a reduction gives, from the rows of all ranks."""
    dtype = rows.dtype
    if name in BITWISE or dtype is torch.bool:
        method = BITWISE[name][1] if name in BITWISE else {"SUM": "__or__", "MAX": "__or__"}.get(name, "__and__")
        result = rows[0]
        for row in rows[1:]:
            result = getattr(result, method)(row)
        return result
    wide = rows.float() if dtype in (torch.bfloat16, torch.float16) else rows
    return REDUCTIONS[name][1](wide).to(dtype)


def operations(dtype: torch.dtype) -> Iterator[tuple[str, Any]]:
    for name, (operation, _rows, types) in REDUCTIONS.items():
        if dtype in types or (dtype is torch.bool and name != "AVG"):
            yield name, operation
    if dtype in INTEGERS or dtype is torch.bool:
        for name, (operation, _method) in BITWISE.items():
            yield name, operation


def by_gloo(what: str, ours: torch.Tensor, run: Callable[[torch.Tensor], Any], source: torch.Tensor) -> None:
    """Compare with gloo itself, where it has this."""
    theirs = source.clone()
    try:
        run(theirs)
    except (RuntimeError, ValueError):
        return
    if source.dtype is not torch.bool:  # gloo adds them as bytes
        compare(f"{what}, beside gloo", ours, theirs, exact=False)


def reductions() -> None:
    for dtype, count in itertools.product(TYPES, SIZES):
        for name, operation in operations(dtype):
            source = made(dtype, count, seed=count)
            rows = torch.stack(of_all(source))
            wanted = expected(name, rows)
            for layout, tensor in list(layouts(source.clone())):
                dist.all_reduce(tensor, operation, group=MPI)
                what = f"all_reduce {name} {dtype} {count} {layout}"
                compare(what, tensor, wanted, exact=not dtype.is_floating_point and not dtype.is_complex)
            by_gloo(what, tensor, functools.partial(dist.all_reduce, op=operation, group=GLOO), source)
            root = count % SIZE
            tensor = source.clone()
            dist.reduce(tensor, root, operation, group=MPI)
            compare(f"reduce {name} {dtype} {count}", tensor, wanted if root == RANK else source, exact=False)
            if count <= 40001:
                parts = made(dtype, SIZE, count, seed=count + 1)
                whole = expected(name, torch.stack(of_all(parts)))
                target = torch.empty(count, dtype=dtype)
                dist.reduce_scatter_tensor(target, parts.flatten(), operation, group=MPI)
                compare(f"reduce_scatter_tensor {name} {dtype} {count}", target, whole[RANK], exact=False)
                uneven = [made(dtype, count + rank, seed=rank) for rank in range(SIZE)]
                sums = [expected(name, torch.stack(of_all(one))) for one in uneven]
                target = torch.empty(count + RANK, dtype=dtype)
                dist.reduce_scatter(target, uneven, operation, group=MPI)
                compare(f"reduce_scatter {name} {dtype} {count}", target, sums[RANK], exact=False)


def movements() -> None:
    for dtype, count in itertools.product(TYPES, SIZES[:-1]):
        source = made(dtype, count, seed=count)
        rows = of_all(source)
        about = f"{dtype} {count}"
        for layout, tensor in list(layouts(source.clone())):
            root = (count + 1) % SIZE
            dist.broadcast(tensor, root, group=MPI)
            compare(f"broadcast {about} {layout}", tensor, rows[root], exact=True)
        uneven = of_all(made(dtype, count + RANK, seed=3))
        targets = [torch.empty(count + rank, dtype=dtype) for rank in range(SIZE)]
        dist.all_gather(targets, made(dtype, count + RANK, seed=3), group=MPI)
        for rank in range(SIZE):
            compare(f"all_gather {about}", targets[rank], uneven[rank], exact=True)
        target = torch.empty(SIZE * count, dtype=dtype)
        dist.all_gather_into_tensor(target, source, group=MPI)
        compare(f"all_gather_into_tensor {about}", target, torch.cat(rows), exact=True)
        stacked = torch.empty(SIZE, count, dtype=dtype)
        dist.all_gather_into_tensor(stacked, source, group=MPI)
        compare(f"all_gather_into_tensor {about}, stacked", stacked, torch.stack(rows), exact=True)
        in_place = torch.zeros(SIZE, count, dtype=dtype)
        in_place[RANK] = source
        dist.all_gather_into_tensor(in_place, in_place[RANK], group=MPI)
        compare(f"all_gather_into_tensor {about}, in place", in_place, torch.stack(rows), exact=True)
        for root in range(SIZE):
            found = [torch.empty(count, dtype=dtype) for _rank in range(SIZE)] if root == RANK else None
            dist.gather(source, found, root, group=MPI)
            for rank, one in enumerate(found or []):
                compare(f"gather {about}", one, rows[rank], exact=True)
            lists = of_all(made(dtype, SIZE, count, seed=root))
            mine = torch.empty(count, dtype=dtype)
            given = list(made(dtype, SIZE, count, seed=root)) if root == RANK else None
            dist.scatter(mine, given, root, group=MPI)
            compare(f"scatter {about}", mine, lists[root][RANK], exact=True)
        sizes = [[(sender * 3 + receiver * 2) % 5 + (count % 3) for receiver in range(SIZE)] for sender in range(SIZE)]
        sent = made(dtype, sum(sizes[RANK]), 2, seed=9)
        everything = of_all(sent)
        parts = [everything[sender].split(sizes[sender])[RANK] for sender in range(SIZE)]
        received = torch.empty(sum(row[RANK] for row in sizes), 2, dtype=dtype)
        dist.all_to_all_single(received, sent, [row[RANK] for row in sizes], sizes[RANK], group=MPI)
        compare(f"all_to_all_single {about}", received, torch.cat(parts), exact=True)
        listed = [torch.empty_like(part) for part in parts]
        dist.all_to_all(listed, list(sent.split(sizes[RANK])), group=MPI)
        for mine, theirs in zip(listed, parts):
            compare(f"all_to_all {about}", mine, theirs, exact=True)
        if not dtype.is_complex:
            even = torch.empty(SIZE * count, dtype=dtype)
            dist.all_to_all_single(even, torch.cat([source] * SIZE), group=MPI)
            compare(f"all_to_all_single {about}, even", even, torch.cat(rows), exact=True)
        if SIZE > 1:
            right, left = (RANK + 1) % SIZE, (RANK - 1) % SIZE
            got = torch.empty(count, dtype=dtype)
            works = [dist.irecv(got, left, group=MPI, tag=count), dist.isend(source, right, group=MPI, tag=count)]
            for work in works:
                work.wait()
            compare(f"send and receive {about}", got, rows[left], exact=True)


def the_rest() -> None:
    """Objects, any source, several at once, groups within the group, futures, and works that are waited for later."""
    objects: list[Any] = [None] * SIZE
    dist.all_gather_object(objects, {"rank": RANK}, group=MPI)
    compare("all_gather_object", torch.tensor([one["rank"] for one in objects]), torch.arange(SIZE), exact=True)
    told: list[Any] = [RANK, "x" * RANK]
    dist.broadcast_object_list(told, SIZE - 1, group=MPI)
    compare("broadcast_object_list", torch.tensor(told[0]), torch.tensor(SIZE - 1), exact=True)
    given: list[Any] = [None]
    dist.scatter_object_list(given, [f"for {rank}" for rank in range(SIZE)], 0, group=MPI)
    compare("scatter_object_list", torch.tensor(int(given[0][4:])), torch.tensor(RANK), exact=True)
    if RANK == 0 and SIZE > 1:
        senders = [dist.recv(torch.empty(3), group=MPI) for _rank in range(SIZE - 1)]
        compare("any source", torch.tensor(sorted(senders)), torch.arange(1, SIZE), exact=True)
    elif RANK:
        dist.send(torch.ones(3) * RANK, 0, group=MPI)
    tensors = [made(torch.float32, 100 + place, seed=place) for place in range(5)]
    wanted = [expected("SUM", torch.stack(of_all(tensor))) for tensor in tensors]
    works = [dist.all_reduce(tensor, group=MPI, async_op=True) for tensor in tensors]
    for work in reversed(works):
        work.wait()
    for tensor, one in zip(tensors, wanted):
        compare("async all_reduce", tensor, one, exact=False)
    tensors = [made(torch.float32, 100 + place, seed=place) for place in range(5)]
    with dist.distributed_c10d._coalescing_manager(MPI, async_ops=True) as coalesced:
        for tensor in tensors:
            dist.all_reduce(tensor, group=MPI)
    coalesced.wait()
    for tensor, one in zip(tensors, wanted):
        compare("coalesced all_reduce", tensor, one, exact=False)
    tensor = made(torch.float32, 50, seed=1)
    one = expected("SUM", torch.stack(of_all(tensor)))
    future = dist.all_reduce(tensor, group=MPI, async_op=True).get_future()
    doubled = future.then(lambda ended: ended.value()[0] * 2).wait()
    compare("a future", doubled, one * 2, exact=False)
    requests = [
        dist.P2POp(dist.isend, torch.full((4,), float(RANK)), (RANK + 1) % SIZE, MPI),
        dist.P2POp(dist.irecv, got := torch.empty(4), (RANK - 1) % SIZE, MPI),
    ]
    if SIZE > 1:
        for work in dist.batch_isend_irecv(requests):
            work.wait()
        compare("batch_isend_irecv", got, torch.full((4,), float((RANK - 1) % SIZE)), exact=True)
    for members in itertools.chain.from_iterable(itertools.combinations(range(SIZE), n) for n in range(1, SIZE + 1)):
        group = dist.new_group(list(members), backend="mpi")
        if RANK in members:
            tensor = torch.tensor([float(RANK)])
            dist.all_reduce(tensor, group=group)
            compare(f"all_reduce in {members}", tensor, torch.tensor([float(sum(members))]), exact=True)
            dist.broadcast(tensor.fill_(RANK), members[-1], group=group)
            compare(f"broadcast in {members}", tensor, torch.tensor([float(members[-1])]), exact=True)
            dist.destroy_process_group(group)
    half = MPI.split_group([rank for rank in range(SIZE) if rank % 2 == RANK % 2])
    half.allreduce([tensor := torch.tensor([float(RANK)])]).wait()
    wanted_sum = float(sum(rank for rank in range(SIZE) if rank % 2 == RANK % 2))
    compare("split_group", tensor, torch.tensor([wanted_sum]), exact=True)
    dist.monitored_barrier(group=MPI)
    dist.barrier(group=MPI)


def functional() -> None:
    """What compiled models call: C++, which calls the group through its methods of the same names."""
    import torch.distributed._functional_collectives as funcol

    source = made(torch.float32, SIZE * 6, seed=5)
    rows = of_all(source)
    whole = expected("SUM", torch.stack(rows))
    compare("functional all_reduce", funcol.all_reduce(source, "sum", MPI).clone(), whole, exact=False)
    compare("functional all_gather", funcol.all_gather_tensor(source, 0, MPI).clone(), torch.cat(rows), exact=True)
    scattered = funcol.reduce_scatter_tensor(source, "sum", 0, MPI).clone()
    compare("functional reduce_scatter", scattered, whole.split(6)[RANK], exact=False)
    compare("functional broadcast", funcol.broadcast(source, 0, MPI).clone(), rows[0], exact=True)
    swapped = funcol.all_to_all_single(source, [6] * SIZE, [6] * SIZE, MPI).clone()
    compare("functional all_to_all", swapped, torch.cat([row.split(6)[RANK] for row in rows]), exact=True)


if __name__ == "__main__":
    random.seed(0)
    for part in sys.argv[1:]:
        {"reductions": reductions, "movements": movements, "the_rest": the_rest, "functional": functional}[part]()
    print(f"checked {checked}", flush=True)
    dist.destroy_process_group()
