"""Process groups over MPI communicators, one each, with all collectives that torch.distributed has for CPU tensors.

torch.distributed calls the methods by these names (torch 2.13, distributed_c10d.py), and its C++ code does through
PyProcessGroup.hpp; options are those of torch/csrc/distributed/c10d/Types.hpp. All shapes are the callers': elements
are counted, and go in the order of contiguous tensors. Methods return a Work. ValueError: a tensor or a reduction that
MPI cannot take. torch.distributed.DistBackendError: MPI has failed, with the operation and the group.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import torch
from torch.distributed import DistBackendError, ProcessGroup

from amx_cluster_mpi import agreement
from amx_cluster_mpi.buffers import Contiguous, checked, in_parts, moved
from amx_cluster_mpi.futures import Completions, depth
from amx_cluster_mpi.library import MPI
from amx_cluster_mpi.progress import Operation
from amx_cluster_mpi.reductions import add_sparse, reduction_of
from amx_cluster_mpi.runtime import runtime
from amx_cluster_mpi.watchdog import MESSAGE, Call, of_ranks
from amx_cluster_mpi.work import All, Begun, Message

# Of init_process_group where it is given none (torch.distributed.default_pg_timeout).
TIMEOUT = timedelta(minutes=30)
# How many groups of the same ranks there are.
_made: dict[tuple[int, ...], int] = {}


def create(ranks: Sequence[int], timeout: timedelta | None) -> MpiProcessGroup:
    """Return the group of these ranks, of all where there are none. All of them call it. Raises RuntimeError."""
    mpi = runtime()
    members = tuple(ranks) or tuple(range(mpi.world.size))
    number, name = _next(members)
    seconds = (timeout or TIMEOUT).total_seconds()
    with mpi.watchdog.watching(Call(members, name, 0, "forming the group", seconds)):
        comm = (
            mpi.world.Create_group(mpi.world.Get_group().Incl(list(members)), number % 1024)
            if ranks
            else mpi.world.Dup()
        )
    return MpiProcessGroup(comm, members, name, seconds)


def _next(members: tuple[int, ...]) -> tuple[int, str]:
    """Return the number of a new group among those of the same ranks, and its name, the same on all of them."""
    number = _made[members] = _made.get(members, -1) + 1
    return number, f"{number}:{','.join(map(str, members))}"


class MpiProcessGroup(ProcessGroup):
    """The ranks of one communicator."""

    def __init__(self, comm: Any, members: tuple[int, ...], name: str, timeout: float) -> None:
        super().__init__(comm.rank, comm.size)
        self.comm, self.members, self.key, self.timeout = comm, members, name, timeout
        # A communicator for collectives of the script, and one for each depth of callbacks that call some.
        self.comms = {0: comm}
        self.completions: dict[int, Completions] = {}
        self.lock = threading.Lock()
        self.names = {"name": "", "description": ""}
        self.debugs = agreement.is_wanted()
        self.gathered: list[Any] | None = None
        self.pauses: dict[Any, int] = {}
        self.closed = False

    # --- what it is ---

    def getBackendName(self) -> str:
        """Return the backend's name."""
        return "mpi"

    def setGroupName(self, name: str) -> None:
        """Take the name under which C++ finds the group; in PyTorch, it is a Backend that keeps it."""
        self.names["name"] = name

    def getGroupName(self) -> str:
        """Return that name."""
        return self.names["name"]

    def setGroupDesc(self, description: str) -> None:
        """Take what the group is for."""
        self.names["description"] = description

    def getGroupDesc(self) -> str:
        """Return what the group is for."""
        return self.names["description"]

    def set_timeout(self, timeout: timedelta) -> None:
        """Set how long a collective may take."""
        self.timeout = timeout.total_seconds()

    def shutdown(self) -> None:
        """Free the communicators."""
        if not self.closed and not MPI.Is_finalized():
            self.closed = True
            for deep in self.comms:
                runtime().progress.drain(self._name(deep))
            for completions in self.completions.values():
                completions.close()
            for deep, comm in self.comms.items():
                if self._name(deep) not in runtime().progress.broken:  # else MPI still uses it
                    comm.Free()

    def abort(self) -> None:
        """End without waiting for others: MPI has no way back from a collective that was begun."""
        self.closed = True

    def split_group(
        self, new_ranks: Sequence[int], timeout: timedelta | None = None, *_others: Any, **_named: Any
    ) -> MpiProcessGroup | None:
        """Return a group of these of its ranks, counted within it; None on all others. All of them call it."""
        place = list(new_ranks).index(self.comm.rank) if self.comm.rank in new_ranks else -1
        color = MPI.UNDEFINED if place < 0 else min(new_ranks)
        mpi = runtime()
        mpi.progress.drain(self.key)  # MPI needs the same order of calls on all ranks
        with mpi.watchdog.watching(Call(self.members, f"split of {self.key}", 0, "forming the group", self.timeout)):
            comm = self.comm.Split(color, max(place, 0))
        if place < 0:
            return None
        members = tuple(self.members[rank] for rank in new_ranks)
        _number, name = _next(members)
        return MpiProcessGroup(comm, members, name, (timeout or timedelta(seconds=self.timeout)).total_seconds())

    # --- how a collective is done ---

    def _do(
        self,
        name: str,
        todo: Callable[[Any], Iterator[Any]],
        result: Sequence[torch.Tensor],
        about: Sequence[torch.Tensor] = (),
        detail: Any = "",
        opts: Any = None,
    ) -> Any:
        """Begin a collective, and do it where the caller waits for it at once. about: what all ranks must agree on."""
        mpi = runtime()
        comm, key = self._communicator()
        kind = (about[0].numel(), about[0].dtype) if about else None
        call = Call(self.members, key, 0, name, self.timeout, kind)

        def steps() -> Iterator[Any]:
            try:
                if self.debugs:
                    yield from agreement.check(comm, call, about, detail)
                yield from todo(comm)
            except MPI.Exception as error:
                raise DistBackendError(
                    f"{call.label()}: {error.Get_error_string()}: do all ranks call it with tensors of one size? "
                    "TORCH_DISTRIBUTED_DEBUG=DETAIL compares them"
                ) from None

        def give_up(report: str) -> None:
            mpi.progress.fail(key, operation, DistBackendError(report))

        call.give_up = give_up
        operation = Operation(steps(), call)
        is_waited_for = self.gathered is None and not getattr(opts, "asyncOp", True)
        mpi.progress.begin(key, operation, is_waited_for)
        work = Begun(result, mpi.progress, key, operation, self._completions)
        if is_waited_for:
            work.wait()
        return self._collected(work)

    def _name(self, deep: int) -> str:
        return f"{self.key}+{deep}" if deep else self.key

    def _communicator(self) -> tuple[Any, str]:
        """Return the communicator for what the calling thread calls, and its name."""
        deep = depth()
        name = self._name(deep)
        if deep not in self.comms:
            with self.lock:
                if deep not in self.comms:
                    with runtime().watchdog.watching(Call(self.members, name, 0, "forming the group", self.timeout)):
                        self.comms[deep] = self.comm.Create_group(self.comm.Get_group(), deep)
        return self.comms[deep], name

    def _completions(self, deep: int) -> Completions:
        return self.completions.setdefault(deep, Completions())

    def _collected(self, work: Any) -> Any:
        if self.gathered is not None:
            self.gathered.append(work)
        return work

    def _start_coalescing(self, _device: Any) -> None:
        self.gathered = []

    def _end_coalescing(self, _device: Any) -> Any:
        works, self.gathered = self.gathered or [], None
        return All(works)

    # --- reductions ---

    def allreduce(self, tensors: Sequence[torch.Tensor], opts: Any = None, _timeout: Any = None) -> Any:
        """Reduce each tensor over all ranks, in place."""
        tensors = [checked(tensor, "all_reduce", is_sparse_allowed=True) for tensor in _listed(tensors)]
        operation = _operation(opts)
        reductions = [reduction_of(operation, tensor.dtype, self.comm.size) for tensor in tensors]
        if any(tensor.is_sparse for tensor in tensors) and operation != torch.distributed.ReduceOp.SUM:
            raise ValueError("all_reduce: backend mpi sums sparse tensors, and has no other reduction of them")

        def todo(comm: Any) -> Iterator[Any]:
            for tensor, reduction in zip(tensors, reductions):
                if tensor.is_sparse:
                    yield from add_sparse(comm, tensor)
                    continue
                source = Contiguous(tensor)
                yield from reduction.all_reduce(comm, source.flat, self.pauses)
                source.back()

        return self._do("all_reduce", todo, tensors, tensors, operation, opts)

    allreduce_coalesced = allreduce

    def reduce(self, tensors: Sequence[torch.Tensor], opts: Any, *others: Any) -> Any:
        """Reduce the tensor over all ranks into that of the root."""
        (tensor,) = (checked(tensor, "reduce") for tensor in _listed(tensors))
        root = int(getattr(opts, "rootRank", opts))
        operation = _operation(opts if hasattr(opts, "reduceOp") else next(iter(others), None))
        reduction = reduction_of(operation, tensor.dtype, self.comm.size)

        def todo(comm: Any) -> Iterator[Any]:
            source = Contiguous(tensor)
            yield from reduction.reduce(comm, source.flat, root)
            if self.comm.rank == root:
                source.back()

        return self._do("reduce", todo, [tensor], [tensor], (operation, root), opts)

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None, _timeout: Any = None) -> Any:
        """Reduce a list of tensors, one for each rank, into that rank's."""
        ((target,), (sources,)) = (_listed(outputs), _nested(inputs))
        target = checked(target, "reduce_scatter")
        sources = [checked(tensor, "reduce_scatter") for tensor in sources]
        counts = [source.numel() for source in sources]
        if len(sources) != self.comm.size or counts[self.comm.rank] != target.numel():
            raise ValueError("reduce_scatter: the input must have a tensor for each rank, of its output's size")
        operation = _operation(opts)
        reduction = reduction_of(operation, target.dtype, self.comm.size)

        def todo(comm: Any) -> Iterator[Any]:
            flat, mine = torch.cat([source.detach().reshape(-1) for source in sources]), Contiguous(target)
            yield from reduction.reduce_scatter(comm, flat, mine.flat, counts)
            mine.back()

        return self._do("reduce_scatter", todo, [target], sources, operation, opts)

    def reduce_scatter_single(self, output: torch.Tensor, source: torch.Tensor, opts: Any = None) -> Any:
        """Reduce a tensor over all ranks, and give each its part of the first dimension."""
        return self.reduce_scatter_single_coalesced([output], [source], opts)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Do reduce_scatter_single with several tensors."""
        targets = [checked(tensor, "reduce_scatter") for tensor in outputs]
        sources = [checked(tensor, "reduce_scatter") for tensor in inputs]
        for target, source in zip(targets, sources):
            if source.numel() != target.numel() * self.comm.size:
                raise ValueError(
                    f"reduce_scatter_tensor: the input must have {self.comm.size} times as many elements as the output"
                )
        operation = _operation(opts)
        reductions = [reduction_of(operation, target.dtype, self.comm.size) for target in targets]

        def todo(comm: Any) -> Iterator[Any]:
            for target, source, reduction in zip(targets, sources, reductions):
                mine = Contiguous(target)
                whole = _unshared(source.detach().contiguous().view(-1), mine.flat)
                yield from reduction.reduce_scatter(comm, whole, mine.flat, [target.numel()] * self.comm.size)
                mine.back()

        return self._do("reduce_scatter_tensor", todo, targets, sources, operation, opts)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    # --- data from one or to one ---

    def broadcast(self, tensors: Any, opts: Any = 0, _timeout: Any = None) -> Any:
        """Give all ranks the tensor of the root."""
        tensors = [checked(tensor, "broadcast") for tensor in _listed(tensors)]
        root = int(getattr(opts, "rootRank", opts))

        def todo(comm: Any) -> Iterator[Any]:
            for tensor in tensors:
                source = Contiguous(tensor)
                yield comm.Ibcast(moved(source.flat), root)
                source.back()

        return self._do("broadcast", todo, tensors, tensors, root, opts)

    def gather(self, outputs: Any, inputs: Any, opts: Any, _timeout: Any = None) -> Any:
        """Give the root a list of all ranks' tensors."""
        (source,) = (checked(tensor, "gather") for tensor in _listed(inputs))
        root = int(getattr(opts, "rootRank", opts))
        is_root = self.comm.rank == root
        targets = [checked(tensor, "gather") for tensor in _nested(outputs)[0]] if is_root else []
        if is_root and len(targets) != self.comm.size:
            raise ValueError("gather: the root's list must have a tensor for each rank")

        def todo(comm: Any) -> Iterator[Any]:
            flat = source.detach().contiguous().view(-1)
            counts = [target.numel() for target in targets]
            whole = flat.new_empty(sum(counts))
            yield comm.Igatherv(moved(flat), in_parts(whole, counts) if is_root else None, root)
            _spread(whole, targets)

        return self._do("gather", todo, targets, [source], root, opts)

    def scatter(self, outputs: Any, inputs: Any, opts: Any, _timeout: Any = None) -> Any:
        """Give each rank its tensor of the root's list."""
        (target,) = (checked(tensor, "scatter") for tensor in _listed(outputs))
        root = int(getattr(opts, "rootRank", opts))
        is_root = self.comm.rank == root
        sources = [checked(tensor, "scatter") for tensor in _nested(inputs)[0]] if is_root else []
        if is_root and len(sources) != self.comm.size:
            raise ValueError("scatter: the root's list must have a tensor for each rank")

        def todo(comm: Any) -> Iterator[Any]:
            mine = Contiguous(target)
            whole = torch.cat([source.detach().reshape(-1) for source in sources]) if is_root else mine.flat
            counts = [source.numel() for source in sources]
            yield comm.Iscatterv(in_parts(whole, counts) if is_root else None, moved(mine.flat), root)
            mine.back()

        return self._do("scatter", todo, [target], [target], root, opts)

    # --- data from all to all ---

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None, _timeout: Any = None) -> Any:
        """Give all ranks a list of all ranks' tensors."""
        (source,) = (checked(tensor, "all_gather") for tensor in _listed(inputs))
        targets = [checked(tensor, "all_gather") for tensor in _nested(outputs)[0]]
        if len(targets) != self.comm.size:
            raise ValueError("all_gather: the list must have a tensor for each rank")

        def todo(comm: Any) -> Iterator[Any]:
            flat = source.detach().contiguous().view(-1)
            counts = [target.numel() for target in targets]
            whole = flat.new_empty(sum(counts))
            yield comm.Iallgatherv(moved(flat), in_parts(whole, counts))
            _spread(whole, targets)

        return self._do("all_gather", todo, targets, targets, opts=opts)

    def allgather_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Do all_gather with several tensors: for each rank, a list of outputs."""
        rows = [[row[place] for row in outputs] for place in range(len(inputs))]
        return All([self.allgather([row], [tensor], opts) for row, tensor in zip(rows, inputs)])

    def all_gather_single(self, output: torch.Tensor, source: torch.Tensor, opts: Any = None) -> Any:
        """Give all ranks one tensor of all ranks' elements."""
        return self.all_gather_single_coalesced([output], [source], opts)

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Do all_gather_single with several tensors."""
        targets = [checked(tensor, "all_gather") for tensor in outputs]
        sources = [checked(tensor, "all_gather") for tensor in inputs]
        for target, source in zip(targets, sources):
            if target.numel() != source.numel() * self.comm.size:
                raise ValueError(
                    f"all_gather_into_tensor: the output must have {self.comm.size} times as many elements as the input"
                )

        def todo(comm: Any) -> Iterator[Any]:
            for target, source in zip(targets, sources):
                whole = Contiguous(target)
                # FSDP gathers into the tensor of which its shard is a part.
                flat = _unshared(source.detach().contiguous().view(-1), whole.flat)
                yield comm.Iallgather(moved(flat), moved(whole.flat, self.comm.size))
                whole.back()

        return self._do("all_gather_into_tensor", todo, targets, sources, opts=opts)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None, _timeout: Any = None) -> Any:
        """Send each rank its tensor of the list, and receive one from each."""
        targets = [checked(tensor, "all_to_all") for tensor in outputs]
        sources = [checked(tensor, "all_to_all") for tensor in inputs]

        def todo(comm: Any) -> Iterator[Any]:
            sent = torch.cat([source.detach().reshape(-1) for source in sources])
            received = sent.new_empty(sum(target.numel() for target in targets))
            yield comm.Ialltoallv(
                in_parts(sent, [source.numel() for source in sources]),
                in_parts(received, [target.numel() for target in targets]),
            )
            _spread(received, targets)

        return self._do("all_to_all", todo, targets, opts=opts)

    def all_to_all_single(
        self,
        output: torch.Tensor,
        source: torch.Tensor,
        output_sizes: Sequence[int] | None = None,
        input_sizes: Sequence[int] | None = None,
        opts: Any = None,
        _timeout: Any = None,
    ) -> Any:
        """Send each rank its part of the first dimension, and receive one from each; of equal sizes by default."""
        output, source = checked(output, "all_to_all"), checked(source, "all_to_all")
        received, sent = (
            _elements(tensor, sizes, self.comm.size)
            for tensor, sizes in ((output, output_sizes), (source, input_sizes))
        )

        def todo(comm: Any) -> Iterator[Any]:
            mine = Contiguous(output)
            flat = _unshared(source.detach().contiguous().view(-1), mine.flat)
            yield comm.Ialltoallv(in_parts(flat, sent), in_parts(mine.flat, received))
            mine.back()

        return self._do("all_to_all_single", todo, [output], opts=opts)

    alltoall_base = all_to_all_single

    # --- ranks wait for each other ---

    def barrier(self, _opts: Any = None, opts: Any = None, timeout: Any = None) -> Any:
        """Wait for all ranks."""

        def todo(comm: Any) -> Iterator[Any]:
            yield comm.Ibarrier()

        return self._do("barrier", todo, [], opts=opts or _opts)

    def monitored_barrier(self, timeout: timedelta | float | None = None, wait_all_ranks: bool = False) -> None:
        """Wait for all ranks. Raises RuntimeError, in gloo's words, that names those that did not come in time."""
        given = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        seconds = self.timeout if given is None else given
        end, tag = time.monotonic() + seconds, 7
        if self.comm.rank:
            try:
                self._message("monitored_barrier", torch.zeros(1), 0, tag, True, seconds).wait()
                self._message("monitored_barrier", torch.zeros(1), 0, tag, False, seconds).wait()
            except DistBackendError as error:
                raise RuntimeError(
                    f"Rank {self.comm.rank} successfully reached monitoredBarrier, but received errors while waiting "
                    f"for send/recv from rank 0: {error}"
                ) from None
            return
        late: list[int] = []
        for rank in range(1, self.comm.size):
            left = end - time.monotonic()
            if left <= 0 and not wait_all_ranks:
                raise RuntimeError(f"Rank 0 timed out in monitoredBarrier after {seconds * 1000:.0f} ms.")
            try:
                self._message("monitored_barrier", torch.zeros(1), rank, tag, False, max(left, 0)).wait()
            except DistBackendError:
                late.append(rank)
                if not wait_all_ranks:
                    break
        if late:
            names = f"Rank{'s' if len(late) > 1 else ''} {', '.join(map(str, late))}"
            raise RuntimeError(f"[Rank 0]: {names} failed to pass monitoredBarrier in {seconds * 1000:.0f} ms")
        for rank in range(1, self.comm.size):
            self._message("monitored_barrier", torch.zeros(1), rank, tag, True, seconds).wait()

    # --- from one rank to another ---

    def send(self, tensors: Any, dst: int, tag: int = 0) -> Any:
        """Send a tensor to a rank of the group."""
        (tensor,) = (checked(tensor, "send") for tensor in _listed(tensors))
        return self._message("send", tensor, dst, 2 * tag, True, self.timeout)

    def recv(self, tensors: Any, src: int, tag: int = 0) -> Any:
        """Receive a tensor from a rank of the group."""
        (tensor,) = (checked(tensor, "recv") for tensor in _listed(tensors))
        return self._message("recv", tensor, src, 2 * tag, False, self.timeout)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Any:
        """Receive a tensor from whichever rank of the group sends one first."""
        return self.recv(tensors, MPI.ANY_SOURCE, tag)

    def _message(self, name: str, tensor: torch.Tensor, peer: int, tag: int, is_send: bool, seconds: float) -> Any:
        """Begin to send or to receive. Tags of users are even, those in here odd."""
        most = self.comm.Get_attr(MPI.TAG_UB)
        if not 0 <= tag <= most:
            raise ValueError(f"{name}: tag {tag // 2} is not one of 0 to {most // 2}, which MPI has here")
        mpi = runtime()
        is_any = peer == MPI.ANY_SOURCE
        who = "any rank" if is_any else f"rank {self.members[peer]}"
        label = f"{name} {'to' if is_send else 'from'} {who} in the group of {of_ranks(self.members)}"
        needed = self.members if is_any else (self.members[peer],)
        call = Call(needed, f"messages of {self.key}", MESSAGE, label, seconds)

        def steps() -> Iterator[Any]:
            whole = Contiguous(tensor)
            try:
                yield (self.comm.Isend if is_send else self.comm.Irecv)(moved(whole.flat), peer, tag)
            except MPI.Exception as error:
                raise DistBackendError(f"{label}, tag {tag // 2}: {error.Get_error_string()}") from None
            if not is_send:
                whole.back()

        operation = Operation(steps(), status=MPI.Status(), target=self.members[peer] if is_send else None)
        mpi.progress.begin(operation, operation, False)
        if operation.error is not None:
            raise operation.error
        return self._collected(Message(tensor, mpi.progress, operation, self._completions, mpi.watchdog, call))


# DistributedDataParallel's C++ code calls these within a compiled forward pass, where Dynamo would compile them.
for _name in ("allreduce", "broadcast", "allgather", "barrier"):
    setattr(MpiProcessGroup, _name, torch._disable_dynamo(getattr(MpiProcessGroup, _name)))


def _operation(opts: Any) -> Any:
    """Return the reduction that options ask for, which may be the reduction itself; a sum by default."""
    if opts is None:
        return torch.distributed.ReduceOp.RedOpType.SUM
    operation = getattr(opts, "reduceOp", opts)
    return getattr(operation, "op", operation)


def _listed(tensors: Any) -> list[Any]:
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def _nested(lists: Any) -> list[list[Any]]:
    """Return lists of tensors, of one list where there is but that."""
    return [list(lists)] if lists and isinstance(lists[0], torch.Tensor) else [list(tensors) for tensors in lists]


def _unshared(flat: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the elements, in memory of their own where they may share the other's: MPI refuses that."""
    shared = flat.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
    return flat.clone() if shared else flat


def _spread(whole: torch.Tensor, targets: Sequence[torch.Tensor]) -> None:
    """Copy the elements of one tensor into several, in their order."""
    with torch.no_grad():
        for target, part in zip(targets, whole.split([target.numel() for target in targets])):
            target.copy_(part.view(target.shape))


def _elements(tensor: torch.Tensor, sizes: Sequence[int] | None, ranks: int) -> list[int]:
    """Return how many elements of a tensor belong to each rank, where so many of its first dimension do."""
    first = tensor.shape[0] if tensor.dim() else 1
    if not sizes:
        if first % ranks:
            raise ValueError(f"all_to_all_single: the first dimension, {first}, is no multiple of {ranks} ranks")
        sizes = [first // ranks] * ranks
    if len(sizes) != ranks or sum(sizes) != first:
        raise ValueError(f"all_to_all_single: the sizes {list(sizes)} are not those of a first dimension of {first}")
    row = tensor.numel() // first if first else 0
    return [size * row for size in sizes]
