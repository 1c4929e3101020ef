"""Process groups over MPI communicators, one each, with all collectives that torch.distributed has for CPU tensors.

torch.distributed calls the methods by these names (torch 2.13, distributed_c10d.py), and its C++ code does through
PyProcessGroup.hpp; options are those of torch/csrc/distributed/c10d/Types.hpp. All shapes are the callers': elements
are counted, and go in the order of contiguous tensors. Methods return a Work. ValueError: a tensor or a reduction that
MPI cannot take. torch.distributed.DistBackendError: MPI has failed, with the operation and the group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
from torch.distributed import DistBackendError, ProcessGroup

from amx_cluster_mpi import agreement
from amx_cluster_mpi.buffers import Contiguous, checked, in_parts, moved
from amx_cluster_mpi.library import MPI
from amx_cluster_mpi.reductions import Reduction, name_of
from amx_cluster_mpi.runtime import runtime
from amx_cluster_mpi.watchdog import Call, of_ranks
from amx_cluster_mpi.work import All, Done, Message, Pending, poll

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
    with mpi.watchdog.watching(Call(members, name, 0, "forming the group", "", seconds)):
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
        self.calls = 0
        self.names = {"name": "", "description": ""}
        self.debugs = agreement.is_wanted()
        self.gathered: list[Any] | None = None
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
        """Free the communicator."""
        if not self.closed and not MPI.Is_finalized():
            self.closed = True
            mpi = runtime()
            if mpi.thread:
                mpi.thread.drain()
            self.comm.Free()

    def abort(self) -> None:
        """End without waiting for others: MPI has no way back from a collective that was begun."""
        self.closed = True

    def split_group(
        self, new_ranks: Sequence[int], timeout: timedelta | None = None, *_others: Any, **_named: Any
    ) -> MpiProcessGroup | None:
        """Return a group of these of its ranks, counted within it; None on all others. All of them call it."""
        place = list(new_ranks).index(self.comm.rank) if self.comm.rank in new_ranks else -1
        color = MPI.UNDEFINED if place < 0 else min(new_ranks)
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
        todo: Callable[[], object],
        result: Sequence[torch.Tensor],
        about: Sequence[torch.Tensor] = (),
        detail: str = "",
    ) -> Any:
        """Do a collective, in the calling thread or on the communication cores. about: what all ranks must agree on."""
        self.calls += 1
        number = self.calls
        what = "".join(f" of {tensor.numel()} {str(tensor.dtype)[6:]}" for tensor in about[:1])

        def run() -> None:
            call = Call(self.members, self.key, number, name, what, self.timeout)
            with mpi.watchdog.watching(call):
                try:
                    if self.debugs:
                        agreement.check(self.comm, call, about, detail)
                    todo()
                except MPI.Exception as error:
                    raise DistBackendError(
                        f"{call.label()}: {error.Get_error_string()}: do all ranks call it with tensors of one size? "
                        "TORCH_DISTRIBUTED_DEBUG=DETAIL compares them"
                    ) from None

        mpi = runtime()
        if mpi.thread:
            return self._collected(mpi.thread.do(Pending(result, run)))
        run()
        return self._collected(Done(result))

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
        tensors = [checked(tensor, "all_reduce") for tensor in _listed(tensors)]
        operation = _operation(opts)
        reductions = [Reduction(operation, tensor.dtype, self.comm.size) for tensor in tensors]

        def todo() -> None:
            for tensor, reduction in zip(tensors, reductions):
                source = Contiguous(tensor)
                reduction.all_reduce(self.comm, source.flat)
                source.back()

        return self._do("all_reduce", todo, tensors, tensors, name_of(operation))

    allreduce_coalesced = allreduce

    def reduce(self, tensors: Sequence[torch.Tensor], opts: Any, *others: Any) -> Any:
        """Reduce the tensor over all ranks into that of the root."""
        (tensor,) = (checked(one, "reduce") for one in _listed(tensors))
        root = int(getattr(opts, "rootRank", opts))
        operation = _operation(opts if hasattr(opts, "reduceOp") else next(iter(others), None))
        reduction = Reduction(operation, tensor.dtype, self.comm.size)

        def todo() -> None:
            source = Contiguous(tensor)
            reduction.reduce(self.comm, source.flat, root)
            if self.comm.rank == root:
                source.back()

        return self._do("reduce", todo, [tensor], [tensor], f"{name_of(operation)} to {root}")

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None, _timeout: Any = None) -> Any:
        """Reduce a list of tensors, one for each rank, into that rank's."""
        ((target,), (sources,)) = (_listed(outputs), _nested(inputs))
        target = checked(target, "reduce_scatter")
        sources = [checked(one, "reduce_scatter") for one in sources]
        counts = [source.numel() for source in sources]
        if len(sources) != self.comm.size or counts[self.comm.rank] != target.numel():
            raise ValueError("reduce_scatter: the input must have a tensor for each rank, of its output's size")
        operation = _operation(opts)
        reduction = Reduction(operation, target.dtype, self.comm.size)

        def todo() -> None:
            flat, mine = torch.cat([source.detach().reshape(-1) for source in sources]), Contiguous(target)
            reduction.reduce_scatter(self.comm, flat, mine.flat, counts)
            mine.back()

        return self._do("reduce_scatter", todo, [target], sources, name_of(operation))

    def reduce_scatter_single(self, output: torch.Tensor, source: torch.Tensor, opts: Any = None) -> Any:
        """Reduce a tensor over all ranks, and give each its part of the first dimension."""
        return self.reduce_scatter_single_coalesced([output], [source], opts)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Do reduce_scatter_single with several tensors."""
        targets = [checked(one, "reduce_scatter") for one in outputs]
        sources = [checked(one, "reduce_scatter") for one in inputs]
        for target, source in zip(targets, sources):
            if source.numel() != target.numel() * self.comm.size:
                raise ValueError(
                    f"reduce_scatter_tensor: the input must have {self.comm.size} times as many elements as the output"
                )
        operation = _operation(opts)
        reductions = [Reduction(operation, target.dtype, self.comm.size) for target in targets]

        def todo() -> None:
            for target, source, reduction in zip(targets, sources, reductions):
                mine = Contiguous(target)
                whole = _apart(source.detach().contiguous().view(-1), mine.flat)
                reduction.reduce_scatter(self.comm, whole, mine.flat, [target.numel()] * self.comm.size)
                mine.back()

        return self._do("reduce_scatter_tensor", todo, targets, sources, name_of(operation))

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    # --- data from one or to one ---

    def broadcast(self, tensors: Any, opts: Any = 0, _timeout: Any = None) -> Any:
        """Give all ranks the tensor of the root."""
        tensors = [checked(tensor, "broadcast") for tensor in _listed(tensors)]
        root = int(getattr(opts, "rootRank", opts))

        def todo() -> None:
            for tensor in tensors:
                source = Contiguous(tensor)
                self.comm.Bcast(moved(source.flat), root)
                source.back()

        return self._do("broadcast", todo, tensors, tensors, f"from {root}")

    def gather(self, outputs: Any, inputs: Any, opts: Any, _timeout: Any = None) -> Any:
        """Give the root a list of all ranks' tensors."""
        (source,) = (checked(one, "gather") for one in _listed(inputs))
        root = int(getattr(opts, "rootRank", opts))
        is_root = self.comm.rank == root
        targets = [checked(one, "gather") for one in _nested(outputs)[0]] if is_root else []
        if is_root and len(targets) != self.comm.size:
            raise ValueError("gather: the root's list must have a tensor for each rank")

        def todo() -> None:
            flat = source.detach().contiguous().view(-1)
            counts = [target.numel() for target in targets]
            whole = flat.new_empty(sum(counts))
            self.comm.Gatherv(moved(flat), in_parts(whole, counts) if is_root else None, root)
            _spread(whole, targets)

        return self._do("gather", todo, targets, [source], f"to {root}")

    def scatter(self, outputs: Any, inputs: Any, opts: Any, _timeout: Any = None) -> Any:
        """Give each rank its tensor of the root's list."""
        (target,) = (checked(one, "scatter") for one in _listed(outputs))
        root = int(getattr(opts, "rootRank", opts))
        is_root = self.comm.rank == root
        sources = [checked(one, "scatter") for one in _nested(inputs)[0]] if is_root else []
        if is_root and len(sources) != self.comm.size:
            raise ValueError("scatter: the root's list must have a tensor for each rank")

        def todo() -> None:
            mine = Contiguous(target)
            whole = torch.cat([source.detach().reshape(-1) for source in sources]) if is_root else mine.flat
            counts = [source.numel() for source in sources]
            self.comm.Scatterv(in_parts(whole, counts) if is_root else None, moved(mine.flat), root)
            mine.back()

        return self._do("scatter", todo, [target], [target], f"from {root}")

    # --- data from all to all ---

    def allgather(self, outputs: Any, inputs: Any, _opts: Any = None, _timeout: Any = None) -> Any:
        """Give all ranks a list of all ranks' tensors."""
        (source,) = (checked(one, "all_gather") for one in _listed(inputs))
        targets = [checked(one, "all_gather") for one in _nested(outputs)[0]]
        if len(targets) != self.comm.size:
            raise ValueError("all_gather: the list must have a tensor for each rank")

        def todo() -> None:
            flat = source.detach().contiguous().view(-1)
            counts = [target.numel() for target in targets]
            whole = flat.new_empty(sum(counts))
            self.comm.Allgatherv(moved(flat), in_parts(whole, counts))
            _spread(whole, targets)

        return self._do("all_gather", todo, targets, targets)

    def allgather_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Do all_gather with several tensors: for each rank, a list of outputs."""
        rows = [[row[place] for row in outputs] for place in range(len(inputs))]
        return All([self.allgather([row], [one], opts) for row, one in zip(rows, inputs)])

    def all_gather_single(self, output: torch.Tensor, source: torch.Tensor, opts: Any = None) -> Any:
        """Give all ranks one tensor of all ranks' elements."""
        return self.all_gather_single_coalesced([output], [source], opts)

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(self, outputs: Any, inputs: Any, _opts: Any = None) -> Any:
        """Do all_gather_single with several tensors."""
        targets = [checked(one, "all_gather") for one in outputs]
        sources = [checked(one, "all_gather") for one in inputs]
        for target, source in zip(targets, sources):
            if target.numel() != source.numel() * self.comm.size:
                raise ValueError(
                    f"all_gather_into_tensor: the output must have {self.comm.size} times as many elements as the input"
                )

        def todo() -> None:
            for target, source in zip(targets, sources):
                whole = Contiguous(target)
                # FSDP gathers into the tensor of which its shard is a part.
                flat = _apart(source.detach().contiguous().view(-1), whole.flat)
                self.comm.Allgather(moved(flat), moved(whole.flat, self.comm.size))
                whole.back()

        return self._do("all_gather_into_tensor", todo, targets, sources)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def alltoall(self, outputs: Any, inputs: Any, _opts: Any = None, _timeout: Any = None) -> Any:
        """Send each rank its tensor of the list, and receive one from each."""
        targets = [checked(one, "all_to_all") for one in outputs]
        sources = [checked(one, "all_to_all") for one in inputs]

        def todo() -> None:
            sent = torch.cat([source.detach().reshape(-1) for source in sources])
            received = sent.new_empty(sum(target.numel() for target in targets))
            self.comm.Alltoallv(
                in_parts(sent, [source.numel() for source in sources]),
                in_parts(received, [target.numel() for target in targets]),
            )
            _spread(received, targets)

        return self._do("all_to_all", todo, targets)

    def all_to_all_single(
        self,
        output: torch.Tensor,
        source: torch.Tensor,
        output_sizes: Sequence[int] | None = None,
        input_sizes: Sequence[int] | None = None,
        _opts: Any = None,
        _timeout: Any = None,
    ) -> Any:
        """Send each rank its part of the first dimension, and receive one from each; of equal sizes by default."""
        output, source = checked(output, "all_to_all"), checked(source, "all_to_all")
        received, sent = (
            _elements(tensor, sizes, self.comm.size)
            for tensor, sizes in ((output, output_sizes), (source, input_sizes))
        )

        def todo() -> None:
            mine = Contiguous(output)
            flat = _apart(source.detach().contiguous().view(-1), mine.flat)
            self.comm.Alltoallv(in_parts(flat, sent), in_parts(mine.flat, received))
            mine.back()

        return self._do("all_to_all_single", todo, [output])

    alltoall_base = all_to_all_single

    # --- ranks wait for each other ---

    def barrier(self, _opts: Any = None, opts: Any = None, timeout: Any = None) -> Any:
        """Wait for all ranks, without keeping a core busy."""
        return self._do("barrier", lambda: poll(self.comm.Ibarrier().Test, None), [])

    def wait_for_all(self, timeout: timedelta | float | None = None, wait_all_ranks: bool = False) -> None:
        """Do monitored_barrier. Raises RuntimeError on rank 0 that names those that did not come in time."""
        given = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        seconds = given or self.timeout
        tag = 7
        if self.comm.rank:
            work = self._message("monitored_barrier", torch.zeros(1), 0, tag, True, seconds)
            work.wait()
            self._message("monitored_barrier", torch.zeros(1), 0, tag, False, seconds).wait()
            return
        late: list[int] = []
        for rank in range(1, self.comm.size):
            try:
                self._message("monitored_barrier", torch.zeros(1), rank, tag, False, 0 if late else seconds).wait()
            except RuntimeError:
                late.append(rank)
                if not wait_all_ranks:
                    break
        if late:
            names = of_ranks([self.members[rank] for rank in late])
            raise RuntimeError(f"monitored_barrier: {names} did not come within {seconds:g} s")
        for rank in range(1, self.comm.size):
            self._message("monitored_barrier", torch.zeros(1), rank, tag, True, seconds).wait()

    # --- from one rank to another ---

    def send(self, tensors: Any, dst: int, tag: int = 0) -> Any:
        """Send a tensor to a rank of the group."""
        (tensor,) = (checked(one, "send") for one in _listed(tensors))
        return self._message("send", tensor, dst, 2 * tag, True, self.timeout)

    def recv(self, tensors: Any, src: int, tag: int = 0) -> Any:
        """Receive a tensor from a rank of the group."""
        (tensor,) = (checked(one, "recv") for one in _listed(tensors))
        return self._message("recv", tensor, src, 2 * tag, False, self.timeout)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Any:
        """Receive a tensor from whichever rank of the group sends one first."""
        return self.recv(tensors, MPI.ANY_SOURCE, tag)

    def _message(self, name: str, tensor: torch.Tensor, peer: int, tag: int, is_send: bool, seconds: float) -> Any:
        """Begin to send or to receive. Tags of users are even, those in here odd."""
        most = self.comm.Get_attr(MPI.TAG_UB)
        if not 0 <= tag <= most:
            raise ValueError(f"{name}: tag {tag // 2} is not one of 0 to {most // 2}, which MPI has here")
        whole = Contiguous(tensor)
        start = self.comm.Isend if is_send else self.comm.Irecv
        try:
            request = start(moved(whole.flat), peer, tag)
        except MPI.Exception as error:
            raise DistBackendError(f"{name}, tag {tag // 2}: {error.Get_error_string()}") from None
        who = "any rank" if peer == MPI.ANY_SOURCE else f"rank {self.members[peer]}"
        label = f"{name} {'to' if is_send else 'from'} {who} in the group of {of_ranks(self.members)}"
        arrived = None if is_send else whole.back
        return self._collected(Message(request, MPI.Status(), tensor, arrived, label, seconds, whole.flat))


# DistributedDataParallel's C++ code calls these within a compiled forward pass, where Dynamo would compile them.
for _name in ("allreduce", "broadcast", "allgather", "barrier"):
    setattr(MpiProcessGroup, _name, torch._disable_dynamo(getattr(MpiProcessGroup, _name)))


def _operation(opts: Any) -> Any:
    """Return the reduction that options ask for, which may be the reduction itself; a sum by default."""
    if opts is None:
        return torch.distributed.ReduceOp.SUM
    return getattr(opts, "reduceOp", opts)


def _listed(tensors: Any) -> list[Any]:
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def _nested(lists: Any) -> list[list[Any]]:
    """Return lists of tensors, of one list where there is but that."""
    return [list(lists)] if lists and isinstance(lists[0], torch.Tensor) else [list(one) for one in lists]


def _apart(flat: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
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
