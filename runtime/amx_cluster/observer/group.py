"""The group of all ranks: who is in it, and that a training does not go on without it."""

from __future__ import annotations

import functools
import importlib
import json
import os
import time
from typing import Any

from amx_cluster.observer.activity import Activity
from amx_cluster.observer.rank import Rank, group
from ansible_collections.amx.cluster.plugins.module_utils._jobs.wire import ENTERED, MPI, WORLD

ALONE = """
This rank would train a model of its own: {size} ranks were started and the script {does}.
accelerate trains with all ranks if ACCELERATE_USE_CPU is true, as in jobs, and nothing but PartialState(cpu=True)
comes before Accelerator(); another script must call torch.distributed.init_process_group before its first step."""
# Seconds after the last collective in which gloo's threads give back its tensors, for which they need the GIL. A model
# in DistributedDataParallel that is freed meanwhile, after destroy_process_group, waits for these threads and keeps the
# GIL: such a rank would hang at its end (pytorch#56297, #75097; torch 2.13).
SETTLING = 0.05


def libraries() -> list[str]:
    """Return the files of the OpenMP run times and allocators in this process's memory map."""
    wanted = ("libiomp5", "libgomp", "libomp", "libtcmalloc", "libjemalloc")
    with open("/proc/self/maps", encoding="utf-8") as stream:
        paths = {line.split(None, 5)[5].strip() for line in stream if len(line.split(None, 5)) == 6}
    return sorted(path for path in paths if os.path.basename(path).startswith(wanted))


def gather(c10d: Any, value: Any) -> list[Any]:
    """Return what each rank of the group passes, in their order. It travels as JSON: no peer's pickle is loaded."""
    import torch

    mine = list(json.dumps(value).encode())
    sizes = [torch.zeros(1, dtype=torch.int64) for _rank in range(c10d.get_world_size())]
    c10d.all_gather(sizes, torch.tensor([len(mine)], dtype=torch.int64))
    lengths = [size.tolist()[0] for size in sizes]
    parts = [torch.zeros(max(lengths), dtype=torch.uint8) for _rank in lengths]
    c10d.all_gather(parts, torch.tensor(mine + [0] * (max(lengths) - len(mine)), dtype=torch.uint8))
    return [json.loads(bytes(part.tolist()[:length])) for part, length in zip(parts, lengths)]


class Group:
    """Watches torch.distributed and accelerate."""

    def __init__(self, rank: Rank, activity: Activity) -> None:
        self.rank, self.activity = rank, activity

    def watch(self, c10d: Any) -> None:
        """Make init_process_group write world.json when the first group is there, and its end be safe.

        Where the stack has oneCCL, its bindings are imported before: no script has to name them.
        """
        rank = self.rank
        if rank.bindings == MPI:
            # At once: accelerate asks whether there is such a backend before it forms the group.
            importlib.import_module(MPI).register(c10d)
        begin, end = c10d.init_process_group, c10d.destroy_process_group

        @functools.wraps(begin)
        def init_process_group(*args: Any, **kwargs: Any) -> Any:
            first = rank.speaks() and not c10d.is_initialized()
            if first and rank.bindings and rank.bindings != MPI:
                importlib.import_module(rank.bindings)  # which registers the backend ccl
            if first and rank.number == 0 and rank.is_watched("group"):
                rank.write(ENTERED, {"pid": os.getpid()})
            result = begin(*args, **kwargs)
            if first and rank.is_watched("group"):
                ranks = gather(c10d, self.member())
                if rank.number == 0:
                    rank.write(WORLD, {"size": len(ranks), "backend": c10d.get_backend(), "ranks": ranks})
            return result

        @functools.wraps(end)
        def destroy_process_group(*args: Any, **kwargs: Any) -> Any:
            if rank.speaks():
                time.sleep(SETTLING)
            return end(*args, **kwargs)

        c10d.init_process_group, c10d.destroy_process_group = init_process_group, destroy_process_group

    def member(self) -> dict[str, Any]:
        """Return where this rank is and on what it runs."""
        import torch

        return {
            "rank": self.rank.number,
            "host": self.rank.host,
            "pid": os.getpid(),
            "cpus": sorted(os.sched_getaffinity(0)),
            "threads": torch.get_num_threads(),
            "libraries": libraries(),
        }

    def refuse_alone(self, ranks: Any) -> None:
        """End a training that is made for the group of all ranks, and is in none, or does not make use of it.

        ranks: how many accelerate trains with. Without ACCELERATE_USE_CPU that is one, in a group or not. A script that
        has taken the group's variables out of its environment trains alone on purpose.
        """
        size = self.rank.size
        meant = self.rank.is_watched("group") and os.environ.get("WORLD_SIZE") == str(size)
        if not self.rank.speaks() or not meant or size < 2:
            return
        if group() is None:
            raise RuntimeError(ALONE.format(size=size, does="has formed no group with them"))
        if ranks == 1:
            raise RuntimeError(ALONE.format(size=size, does="trains as if it were the only one"))

    def watch_accelerate(self, module: Any) -> None:
        """Make accelerate's optimizer refuse its step without a group: it knows the launcher's variables."""
        original = module.AcceleratedOptimizer.step
        watcher = self

        @functools.wraps(original)
        def step(self: Any, *args: Any, **kwargs: Any) -> Any:
            watcher.refuse_alone(getattr(getattr(self, "accelerator_state", None), "num_processes", None))
            watcher.activity.note()
            return original(self, *args, **kwargs)

        module.AcceleratedOptimizer.step = step
