"""See from within a rank, without a change to its script, how the job goes. docs/watching.md has what follows from it.

sitecustomize.py starts this in the process that rank.py became, and in no other: what that process starts or forks
does not speak for the rank, but the processor time that it uses counts as the rank's.
- Where the stack has oneCCL, its bindings are imported before the script's first call of
  torch.distributed.init_process_group, so that no script has to name them. After that call each rank sends the others
  where it is, and rank 0 writes world.json.
- transformers' Trainer, or accelerate's optimizer, is refused where it would train without a group: each rank would
  train a model of its own.
- While the Trainer trains, rank 0 writes progress.json. Each rank marks the checkpoints that it has saved.
- Every rank sends the job's supervisor a heartbeat every two seconds: what it uses, and when it last made progress.
- Where the job is to be measured, the steps' times go with the heartbeats (_amx_cluster_timers.py).
- What ends a rank is printed in one piece, with its rank and host; also that its arguments are wrong.

Whatever goes wrong in here must not become the script's error. All that is needed of the environment is read at the
start: it belongs to the script afterwards.
"""

from __future__ import annotations

import atexit
import contextlib
import difflib
import errno
import functools
import importlib
import importlib.abc
import importlib.machinery
import json
import linecache
import math
import os
import resource
import socket
import sys
import threading
import time
import traceback
import weakref
from typing import Any

ALONE = """
This rank would train a model of its own: {size} ranks were started and the script {does}.
With transformers and accelerate 1.13 or newer a job on CPUs becomes distributed only with --use_cpu and
--ddp_backend; another script must call torch.distributed.init_process_group before its first step."""

# What rank.py's observed() returns: pid, rank, size, together, host, interface, job, watch, measure.
ME: dict[str, Any] = {}


def speaks() -> bool:
    """Tell whether this process is the rank. A forked child has all that the rank had, but is not."""
    return ME.get("pid") == os.getpid()


def is_watched(name: str) -> bool:
    """Tell whether one of the job file's switches under `watch` is on, as it is by default."""
    return bool(ME["watch"].get(name, True))


def write(name: str, content: Any) -> None:
    """Put a JSON file into the job directory, complete or not at all, and send it to a supervisor on another host."""
    if not speaks():
        return
    HEARTBEAT.files[name] = content
    with contextlib.suppress(OSError):  # a disk that is full is no reason to end the script
        path = os.path.join(ME["job"], name)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        replace(path, json.dumps(content, indent=1))


def replace(path: str, text: str) -> None:
    """Replace a file by one with this text, which nobody else can read, at once. Raises OSError."""
    directory, name = os.path.split(path)
    part = os.path.join(directory, f".{name.lstrip('.')}.{os.getpid()}")
    # The umask is the script's.
    with open(part, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as stream:
        stream.write(text)
    os.replace(part, path)


def read(path: str) -> str:
    """Return the text of a file. Raises OSError."""
    with open(path, encoding="utf-8", errors="replace") as stream:
        return stream.read()


# --- the group ---


def libraries() -> list[str]:
    """Return the files of the OpenMP run times and allocators in this process's memory map."""
    wanted = ("libiomp5", "libgomp", "libomp", "libtcmalloc", "libjemalloc")
    with open("/proc/self/maps", encoding="utf-8") as stream:
        paths = {line.split(None, 5)[5].strip() for line in stream if len(line.split(None, 5)) == 6}
    return sorted(path for path in paths if os.path.basename(path).startswith(wanted))


def myself() -> dict[str, Any]:
    """Return where this rank is and on what it runs."""
    import torch

    return {
        "rank": ME["rank"],
        "host": ME["host"],
        "pid": os.getpid(),
        "cpus": sorted(os.sched_getaffinity(0)),
        "threads": torch.get_num_threads(),
        "libraries": libraries(),
    }


def gather(c10d: Any, content: Any) -> list[Any]:
    """Return what each rank of the group passes, in their order. It travels as JSON: no peer's pickle is loaded."""
    import torch

    mine = list(json.dumps(content).encode())
    sizes = [torch.zeros(1, dtype=torch.int64) for _rank in range(c10d.get_world_size())]
    c10d.all_gather(sizes, torch.tensor([len(mine)], dtype=torch.int64))
    lengths = [size.tolist()[0] for size in sizes]
    parts = [torch.zeros(max(lengths), dtype=torch.uint8) for _rank in lengths]
    c10d.all_gather(parts, torch.tensor(mine + [0] * (max(lengths) - len(mine)), dtype=torch.uint8))
    return [json.loads(bytes(part.tolist()[:length])) for part, length in zip(parts, lengths)]


# The package that registers the backend mpi.
MPI = "amx_cluster_mpi"


def watch_group(c10d: Any) -> None:
    """Have init_process_group write world.json when the first group is there, and destroy_process_group be safe."""
    if MPI == BINDINGS:
        # At once: accelerate asks whether there is such a backend before it forms the group.
        importlib.import_module(BINDINGS).register(c10d)
    original = c10d.init_process_group

    @functools.wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        first = speaks() and not c10d.is_initialized()
        if first and BINDINGS and MPI != BINDINGS:
            importlib.import_module(BINDINGS)  # which registers the backend ccl
        if first and ME["rank"] == 0 and is_watched("group"):
            write("ranks/entered.json", {"pid": os.getpid()})
        result = original(*args, **kwargs)
        if first and is_watched("group"):
            ranks = gather(c10d, myself())
            if ME["rank"] == 0:
                write("world.json", {"size": len(ranks), "backend": c10d.get_backend(), "ranks": ranks})
        return result

    c10d.init_process_group = init_process_group
    end = c10d.destroy_process_group

    @functools.wraps(end)
    def destroy_process_group(*args: Any, **kwargs: Any) -> Any:
        if speaks():
            time.sleep(SETTLING)
        return end(*args, **kwargs)

    c10d.destroy_process_group = destroy_process_group


# Seconds after the last collective in which gloo's threads give back its tensors, for which they need the GIL. A model
# in DistributedDataParallel that is freed meanwhile, after destroy_process_group, waits for these threads and keeps the
# GIL: such a rank would hang at its end (pytorch#56297, #75097; torch 2.13).
SETTLING = 0.05


def group() -> Any:
    """Return the module torch.distributed.distributed_c10d when this process is in a group, else None."""
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    return c10d if c10d is not None and c10d.is_initialized() else None


def refuse_alone(ranks: Any) -> None:
    """End a training that is made for the group of all ranks, and is in none, or does not make use of it.

    ranks: how many accelerate trains with. Without --use_cpu that is one, in a group or not. A script that has taken
    the group's variables out of its environment trains alone on purpose.
    """
    size = ME["size"]
    if not speaks() or not is_watched("group") or size < 2 or os.environ.get("WORLD_SIZE") != str(size):
        return
    if group() is None:
        raise RuntimeError(ALONE.format(size=size, does="has formed no group with them"))
    if ranks == 1:
        raise RuntimeError(ALONE.format(size=size, does="trains as if it were the only one"))


def watch_accelerate(module: Any) -> None:
    """Have accelerate's optimizer refuse its step without a group. It knows the launcher's variables: one is meant."""
    original = module.AcceleratedOptimizer.step

    @functools.wraps(original)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        refuse_alone(getattr(getattr(self, "accelerator_state", None), "num_processes", None))
        HEARTBEAT.note()
        return original(self, *args, **kwargs)

    module.AcceleratedOptimizer.step = step


# --- steps and gradients ---


def watch_steps(optimizer: Any) -> None:
    """Notice every optimizer's steps, and compare gradients at the first of them."""
    register = getattr(optimizer, "register_optimizer_step_pre_hook", None)  # torch 2.0 and newer
    if register is None:
        return

    torch = sys.modules["torch"]

    def before_step(stepping: Any, *_arguments: Any) -> None:
        # What torch.compile makes of a step is to have nothing of this in it.
        compiler = getattr(torch, "compiler", None)
        if compiler is not None and compiler.is_compiling():
            return
        with contextlib.suppress(Exception):
            if speaks():
                HEARTBEAT.step()
                GRADIENTS.look(stepping)

    register(before_step)


def watch_ddp(module: Any) -> None:
    """Notice which models are wrapped in DistributedDataParallel, and which of those exchange gradients as it does."""
    ddp = module.DistributedDataParallel
    construct, register = ddp.__init__, ddp.register_comm_hook

    @functools.wraps(construct)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        construct(self, *args, **kwargs)
        GRADIENTS.wrapped.add(self)

    compression = importlib.import_module(f"{MPI}.compression") if COMPRESSION else None

    @functools.wraps(register)
    def register_comm_hook(self: Any, state: Any, hook: Any) -> Any:
        # What a script's hook leaves on each rank is up to the script. The job's gives all of them the same mean.
        if compression is None or hook is not compression.compress:
            GRADIENTS.hooked.add(self)
        return register(self, state, hook)

    ddp.__init__, ddp.register_comm_hook = __init__, register_comm_hook
    if compression is not None:
        compression.watch_ddp(module)


def watch_backward(module: Any) -> None:
    """Notice when a backward pass has computed all gradients, and waits for DistributedDataParallel's reductions.

    oneCCL waits in C++, where it uses a processor: Python's stack is the one of a pass that computes.
    """
    timers = importlib.import_module("_amx_cluster_timers")
    original = module.backward

    @functools.wraps(original)
    def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if not speaks() or threading.get_ident() != HEARTBEAT.main:
            return original(tensors, *args, **kwargs)
        hook = None
        with contextlib.suppress(Exception):
            hook = timers.at_last_gradient(tensors, module, GRADIENTS.reducing(), HEARTBEAT.reduces)
        try:
            return original(tensors, *args, **kwargs)
        finally:
            HEARTBEAT.reducing = False
            if hook is not None:
                with contextlib.suppress(Exception):
                    hook.remove()

    module.backward = timers.undisturbed(backward)


class Gradients:
    """Finds the one gradient by which to tell whether ranks train one model, and leaves alone all that may differ.

    Under the Trainer that is what its own optimizer applies first, be the model wrapped in DistributedDataParallel or
    (the fault to be found) not at all. Elsewhere it is that of a model wrapped in DistributedDataParallel, where one
    optimizer makes two steps before another one makes any.
    """

    # Steps of which the gradient is looked at while it is not finite: it overflows at first in mixed precision.
    MOST = 10

    def __init__(self) -> None:
        self.wrapped: Any = weakref.WeakSet()
        self.hooked: Any = weakref.WeakSet()
        self.settled = False
        # The Trainer's optimizer (none of them is kept alive for being watched) and its parameters, by id().
        self.trainers: Any = None
        self.stepping: Any = None
        self.steps = 0
        self.found: dict[str, Any] | None = None

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
        c10d = group()
        if self.settled or c10d is None or ME["size"] < 2 or not is_watched("gradients"):
            return
        if c10d.get_world_size() != ME["size"]:
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
        """Tell the supervisor what was found; look no further when something was, or nothing will be."""
        HEARTBEAT.gradient = self.found
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
            and model.process_group.size() == ME["size"]
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


GRADIENTS = Gradients()


# --- transformers' Trainer ---


def watch_trainer(trainer: Any) -> None:
    """Have transformers' Trainer report its steps to progress.json, at most once a second, on rank 0."""
    from transformers import TrainerCallback

    class Progress(TrainerCallback):
        """Keeps progress.json: {step, max_steps, epoch, samples_per_step, began, first_step, time, metrics}."""

        def __init__(self) -> None:
            self.metrics: dict[str, float] = {}
            self.began = self.wrote = 0.0
            self.first_step = 0

        def on_train_begin(
            self, args: Any, state: Any, control: Any, model: Any = None, optimizer: Any = None, **_others: Any
        ) -> None:
            refuse_alone(getattr(args, "world_size", None))
            with contextlib.suppress(Exception):
                GRADIENTS.trainer(model, optimizer)
            self.began = time.time()
            self.first_step = state.global_step
            self.report(args, state)

        def on_substep_end(self, args: Any, state: Any, control: Any, **_others: Any) -> None:
            HEARTBEAT.note()

        def on_prediction_step(self, args: Any, state: Any, control: Any, **_others: Any) -> None:
            HEARTBEAT.note()

        def on_evaluate(self, args: Any, state: Any, control: Any, **_others: Any) -> None:
            HEARTBEAT.note()

        def on_save(self, args: Any, state: Any, control: Any, **_others: Any) -> None:
            HEARTBEAT.note()
            with contextlib.suppress(OSError):  # then it does not count as complete
                mark_saved(os.path.join(args.output_dir, f"checkpoint-{state.global_step}"))

        def on_step_end(self, args: Any, state: Any, control: Any, **_others: Any) -> None:
            HEARTBEAT.step()
            if time.time() - self.wrote >= 1:
                self.report(args, state)

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_others: Any) -> None:
            HEARTBEAT.note()
            self.metrics.update({key: value for key, value in (logs or {}).items() if isinstance(value, (int, float))})
            self.report(args, state)

        def report(self, args: Any, state: Any) -> None:
            if ME["rank"] != 0 or not state.max_steps:
                return
            self.wrote = time.time()
            write(
                "progress.json",
                {
                    "step": state.global_step,
                    "max_steps": state.max_steps,
                    "epoch": state.epoch,
                    "samples_per_step": args.train_batch_size * args.gradient_accumulation_steps * args.world_size,
                    "began": self.began,
                    "first_step": self.first_step,
                    "time": self.wrote,
                    "metrics": self.metrics,
                },
            )

    trainer.DEFAULT_CALLBACKS.append(Progress)


# A rank's mark in a checkpoint: it has saved its part.
SAVED = ".saved.{rank}"


def mark_saved(directory: str) -> None:
    """Leave this rank's mark in a checkpoint, now that it has saved its part, and the job's if it is the last to do so.

    Other ranks that write to the same directory may be at their parts still. Whoever finds all their marks there has
    found all files as they will be: of two who find them at once each writes the same.
    """
    together = ME["together"]
    if not speaks() or not os.path.isdir(directory):
        return
    attempt = HEARTBEAT.attempt()
    replace(os.path.join(directory, SAVED.format(rank=ME["rank"])), attempt)
    marks = [os.path.join(directory, SAVED.format(rank=rank)) for rank in together]
    # A mark of an earlier start is no mark: a checkpoint is written over where the job went on from an older one.
    with contextlib.suppress(FileNotFoundError):
        if all(read(mark) == attempt for mark in marks):
            mark_complete(directory, COMPLETE if 0 in together else PART)
            for mark in marks:
                os.unlink(mark)


# The mark of a checkpoint where rank 0 has written, and that of a part of it on another host.
COMPLETE, PART = "complete.json", "part.json"


def mark_complete(directory: str, mark: str) -> None:
    """Write into a checkpoint which files it has and how large they are: without that it is not resumed from."""
    sizes = {}
    for place, _directories, names in os.walk(directory):
        for name in names:
            # Of a checkpoint that is written over, the last mark is still there.
            if name not in (COMPLETE, PART) and not name.startswith((f".{COMPLETE}", f".{PART}", ".saved.")):
                path = os.path.join(place, name)
                sizes[os.path.relpath(path, directory)] = os.path.getsize(path)
    replace(os.path.join(directory, mark), json.dumps(sizes))


def newest_part() -> dict[str, list[str]]:
    """Return {checkpoint: files} of the newest checkpoint of which this host has a part and rank 0 does not write here.

    One rank of a host tells. Should the host be lost, the supervisor knows that its part is missing.
    """
    together = ME["together"]
    if 0 in together or [ME["rank"]] != sorted(together)[:1]:
        return {}
    output = os.path.join(ME["job"], "output")
    newest = max(
        (name for name in os.listdir(output) if name.startswith("checkpoint-") and name[11:].isdigit()),
        key=lambda name: int(name[11:]),
        default="",
    )
    folder = os.path.join(output, newest)
    files = [
        os.path.relpath(os.path.join(place, name), folder)
        for place, _folders, names in os.walk(folder)
        for name in names
    ]
    return {newest: files[:MOST_FILES]} if newest and files else {}


# Files of a part that are named to the supervisor: one would do to know that there is a part.
MOST_FILES = 64


# --- what the rank uses ---

TICK = os.sysconf("SC_CLK_TCK")
# Bytes that count for a major page fault (proc(5), majflt): programs and libraries are read from a disk as they are
# used, without a call of read(2), and several pages at a time.
PAGED = 1 << 16
# A process that was asked for has ended, or belongs to another user by now.
VANISHED = (FileNotFoundError, ProcessLookupError, PermissionError)


def stat(path: str) -> list[str]:
    """Return the fields of a /proc/.../stat file from the third on: the second, a name, may hold anything."""
    return read(path).rpartition(")")[2].split()


def family(pid: int) -> list[int]:
    """Return the processes that a process has started, and those that these have."""
    if not os.path.exists(f"/proc/{pid}/task/{pid}/children"):
        return family_by_parents(pid)  # a kernel without CONFIG_PROC_CHILDREN
    found, left = [], [pid]
    while left:
        parent = left.pop()
        with contextlib.suppress(*VANISHED):
            # Each thread has the children that it started.
            for thread in os.listdir(f"/proc/{parent}/task"):
                with contextlib.suppress(*VANISHED):
                    left += map(int, read(f"/proc/{parent}/task/{thread}/children").split())
        found.append(parent)
    return found[1:]


def family_by_parents(pid: int) -> list[int]:
    """Return what `family` does, from all processes' parents."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(*VANISHED):
            children.setdefault(int(stat(f"/proc/{name}/stat")[1]), []).append(int(name))
    found, left = [], [pid]
    while left:
        new = children.get(left.pop(), [])
        found += new
        left += new
    return found


def moved_bytes(pid: int) -> int:
    """Return how many bytes a process has read and written, from files and connections, as far as the kernel counts."""
    with contextlib.suppress(*VANISHED):
        fields = dict(line.split(": ") for line in read(f"/proc/{pid}/io").splitlines())
        return sum(int(fields[name]) for name in ("rchar", "wchar", "read_bytes"))
    return 0


def communication_seconds(domain: set[int]) -> float:
    """Return the processor time of this process's threads that communicate: no work of the rank's.

    They are pinned elsewhere than the rank, as oneCCL's workers, or are in the backend mpi. They poll without end, also
    while there is nothing to be done.
    """
    used = 0
    polling = threads_in_mpi()
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(*VANISHED):
            if int(thread) in polling or os.sched_getaffinity(int(thread)).isdisjoint(domain):
                used += sum(map(int, stat(f"/proc/self/task/{thread}/stat")[11:13]))
    return used / TICK


def delays(pid: int, thread: int | None = None) -> dict[int, float]:
    """Return how many seconds each thread of a process, or the one named, could have run and had no processor.

    {thread: seconds}, empty where the kernel does not tell (CONFIG_SCHED_INFO). Documentation/scheduler/sched-stats.rst
    of the kernel has the file's format.
    """
    found = {}
    with contextlib.suppress(*VANISHED):
        for name in os.listdir(f"/proc/{pid}/task") if thread is None else [str(thread)]:
            with contextlib.suppress(*VANISHED, IndexError):
                found[int(name)] = int(read(f"/proc/{pid}/task/{name}/schedstat").split()[1]) / 1e9
    return found


class Usage:
    """What the rank has used since it began: own (seconds, of the rank's process), others (those of all that it has
    started), moved (bytes read and written by all of them, also those of files that they have in their memory)."""

    def __init__(self, domain: set[int]) -> None:
        times = os.times()
        self.own = time.process_time() - communication_seconds(domain)
        self.others = times.children_user + times.children_system
        self.moved = moved_bytes(os.getpid()) + resource.getrusage(resource.RUSAGE_SELF).ru_majflt * PAGED
        for pid in family(os.getpid()):
            with contextlib.suppress(*VANISHED):
                # Its own, and what it has waited for.
                fields = [int(field) for field in stat(f"/proc/{pid}/stat")[9:15]]
                self.others += sum(fields[2:]) / TICK
                self.moved += fields[0] * PAGED
            self.moved += moved_bytes(pid)


def longest(before: dict[int, float], after: dict[int, float]) -> float:
    """Return the seconds by which the delay of one thread grew most; 0 where there is none.

    What a thread that was not there before has waited altogether counts.
    """
    return max([delay - before.get(thread, 0.0) for thread, delay in after.items()], default=0.0)


def read_number(path: str, name: str) -> int:
    """Return the number behind `name` in a file of the kernel's; -1 where there is none."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in read(path).splitlines():
            words = line.replace(":", " ").split()
            if words and words[0] == name:
                return int(words[1])
    return -1


def read_counter(path: str) -> int:
    """Return the number in a file of the kernel's; 0 where there is none."""
    with contextlib.suppress(OSError, ValueError):
        return int(read(path))
    return 0


# --- where the script is ---

# Where a collective operation of torch is called, and comes back when all ranks have taken part.
COLLECTIVES = (
    "torch/distributed/distributed_c10d.py",
    "torch/distributed/rendezvous.py",
    "torch/distributed/utils.py",
    "torch/distributed/_functional_collectives.py",
    "torch/nn/parallel/distributed.py",
)
# A gradient's part in a collective operation: DistributedDataParallel's and FSDP's run within the backward pass.
BACKWARD = "_engine_run_backward"


def places(frame: Any) -> list[tuple[str, str, int]]:
    """Return (file, function, line) of a frame and its callers, the innermost first, at most eight."""
    found: list[tuple[str, str, int]] = []
    while frame is not None and len(found) < 8:
        found.append((frame.f_code.co_filename, frame.f_code.co_name, frame.f_lineno))
        frame = frame.f_back
    return found


def is_in_mpi(where: list[tuple[str, str, int]]) -> bool:
    """Tell whether a thread at these places is in the backend mpi, or waits for another thread there."""
    innermost = next((path for path, _function, _line in where if path != threading.__file__), "")
    return f"/{MPI}/" in innermost


def threads_in_mpi() -> set[int]:
    """Return the threads of this process, as the kernel numbers them, that are in the backend mpi; not the main one."""
    if MPI not in sys.modules:
        return set()
    frames = sys._current_frames()
    return {
        thread.native_id
        for thread in threading.enumerate()
        if thread.ident != HEARTBEAT.main and thread.native_id and is_in_mpi(places(frames.get(thread.ident or 0)))
    }


def ended_in_mpi() -> int:
    """Return how many operations of the backend mpi have ended in this process."""
    return getattr(sys.modules.get(f"{MPI}.activity"), "ended", 0)


def is_in_collective(where: list[tuple[str, str, int]]) -> bool:
    """Tell whether a thread at these places is within a collective operation: in torch's call, or in a wait()."""
    if not where:
        return False
    return any(path.endswith(COLLECTIVES) for path, _function, _line in where[:2]) or ".wait(" in linecache.getline(
        where[0][0], where[0][2]
    )


def is_waiting(where: list[tuple[str, str, int]]) -> bool:
    """Tell whether a thread at these places that uses no processor waits for other ranks."""
    return (
        is_in_mpi(where)
        or is_in_collective(where)
        or any("torch/distributed/" in path or function == BACKWARD for path, function, _line in where[:4])
    )


# --- heartbeats ---

# Those of ConnectionError and TimeoutError are not among them.
UNREACHABLE = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN)


def is_unreachable(error: BaseException) -> bool:
    """Tell whether an error says that the supervisor cannot be reached, and not that this process lacks something."""
    return isinstance(error, (ConnectionError, TimeoutError, socket.timeout)) or (
        isinstance(error, OSError) and error.errno in UNREACHABLE
    )


class Heartbeat:
    """Tells the supervisor every two seconds how this rank is, from a thread that never holds up the script.

    One connection is kept for all messages: it needs no new descriptor when the script has used up its own, and 800
    ranks do not make the supervisor accept 400 connections a second. The first line is the token, each further one a
    message (module_utils/_jobs/heartbeats.py reads them).
    """

    SECONDS = 2.0
    # The share of one processor that a rank, or what it started, uses at least when it is at work.
    BUSY = 0.05
    # The share of the time in which a thread of theirs could have run, and others had the processor.
    DELAYED = 0.5
    # Bytes a second that it reads and writes at least when it is at that.
    MOVED = 1 << 19
    # Seconds without a connection after which this rank was given up: its host was cut off, or the supervisor is gone.
    PATIENCE = 60.0
    # Seconds without progress after which it is told where the script is.
    STACK = 4.0

    def __init__(self) -> None:
        self.supervisor = ""
        self.target = ("", 0)
        self.token = ""
        self.main: int | None = None
        self.domain: set[int] = set()
        self.connection: socket.socket | None = None
        self.inode = 0
        self.sending = threading.Lock()
        # Whether the supervisor was ever reached, and since when it cannot be.
        self.reached = False
        self.cut_off: float | None = None
        # When the script last made progress, and whether it has ended.
        self.active = time.monotonic()
        self.ended = False
        self.ending = threading.Event()
        self.stepped = False
        # Steps made outside of any group where one was to form.
        self.alone = 0
        self.waiting = False
        # Whether a backward pass has computed all gradients, and only waits until they are reduced.
        self.reducing = False
        self.ended_in_mpi = 0
        self.used: Usage | None = None
        # What `delays` returned at the last look, when there was no other progress.
        self.delayed: dict[int, float] | None = None
        self.looked = time.monotonic()
        self.where: list[tuple[str, str, int]] = []
        # Seconds of the rank and all that it has started, as far as that could be seen.
        self.cpu_seconds = 0.0
        self.gradient: dict[str, Any] | None = None
        # What returns the times of the steps, in a job that is measured.
        self.measured: Any = None
        # How many rows a rank of a prediction has, as roles/infer/files/inference/run_prediction.py reports them.
        self.rows: dict[str, Any] | None = None
        # What rank 0 wrote since the last message, for a supervisor on another host.
        self.files: dict[str, Any] = {}

    def note(self) -> None:
        """Note that the script has made progress."""
        self.active = time.monotonic()

    def step(self) -> None:
        """Note that the script makes an optimizer's step."""
        self.note()
        if ME["size"] == 1 or group() is not None or not is_watched("group"):
            self.stepped = True
        else:
            self.alone += 1

    def reduces(self) -> None:
        """Note that the backward pass has computed all gradients."""
        self.reducing = True

    def attempt(self) -> str:
        """Return what is the same for all ranks of this start of the job, and for no other start."""
        import hashlib

        return hashlib.sha256(f"{self.supervisor} {MASTER}".encode()).hexdigest()[:16]

    def start(self, supervisor: str) -> None:
        """Begin, in a thread of its own, where a supervisor listens (ADDRESS:PORT:TOKEN)."""
        self.supervisor = supervisor
        address, _colon, rest = supervisor.partition(":")
        port, _colon, self.token = rest.partition(":")
        if port:
            self.target = (address, int(port))
            self.main = threading.main_thread().ident
            self.domain = os.sched_getaffinity(0)
            os.register_at_fork(after_in_child=self.forget)
            self.thread = threading.Thread(target=self.run, name="amx-cluster-heartbeat", daemon=True)
            self.thread.start()
            atexit.register(self.end)
            leave = os._exit

            def leave_with(status: int) -> None:
                if status == 0:
                    with contextlib.suppress(Exception):
                        self.end()
                leave(status)

            os._exit = leave_with  # type: ignore[assignment]

    def forget(self) -> None:
        """Be of no use in a forked child, and hold nothing of the rank's."""
        self.sending = threading.Lock()
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def run(self) -> None:
        """Send for as long as this process lives. What cannot be sent is not sent: the supervisor sees that."""
        while not self.ended:
            try:
                self.look()
            except Exception:  # what cannot be seen, for too many open files perhaps, is not judged
                self.used = None
                self.note()
            self.send()
            if self.cut_off is not None and self.reached and time.monotonic() - self.cut_off > self.PATIENCE:
                stream = sys.__stderr__ or sys.stderr
                with contextlib.suppress(Exception):
                    stream.write(f"the job's supervisor has not answered for {self.PATIENCE:.0f} s: this rank ends\n")
                os._exit(70)
            self.ending.wait(self.SECONDS)

    def look(self) -> None:
        """Look at what the rank uses, and where its script is: docs/watching.md has the table of what follows."""
        frame = sys._current_frames().get(self.main or 0)
        where = places(frame)
        del frame  # it holds all that the script has
        same, self.where = where == self.where, where
        self.waiting = is_waiting(where)
        now = time.monotonic()
        elapsed, self.looked = now - self.looked, now
        used = Usage(self.domain)
        before, self.used = self.used, used
        if before is None:
            self.cpu_seconds = max(self.cpu_seconds, used.own + used.others)
            self.note()
            return
        # Of an orphan, which no one counts any more, the sum is less than it was.
        own, others = used.own - before.own, max(0.0, used.others - before.others)
        self.cpu_seconds += own + others
        # Where polling in the backend mpi is just now says nothing; whether anything has ended does.
        spins = is_in_mpi(where) or (same and (is_in_collective(where) or self.reducing))
        ended, self.ended_in_mpi = self.ended_in_mpi, ended_in_mpi()
        if (
            self.ended_in_mpi != ended
            or others > self.BUSY * elapsed
            or used.moved - before.moved > self.MOVED * elapsed
            or (own > self.BUSY * elapsed and not spins)
        ):
            self.delayed = None
            self.note()
        elif self.is_delayed(spins, elapsed):
            self.note()

    def is_delayed(self, spins: bool, elapsed: float) -> bool:
        """Tell whether a thread could have run since the last look, `elapsed` seconds ago, and had no processor.

        Only asked where nothing else tells of progress: it takes reading a file for each thread of all processes.
        """
        own = os.getpid()
        seen = delays(own, own)  # also while it spins: it may not the next time, when its delay is that of two looks
        for pid in family(own):
            seen.update(delays(pid))
        before, self.delayed = self.delayed, seen
        compared = {thread: delay for thread, delay in seen.items() if thread != own or not spins}
        return before is not None and longest(before, compared) > self.DELAYED * elapsed

    def end(self) -> None:
        """Tell that the script has ended: what is silent from now on is not stopped.

        The thread is not left to the interpreter's end, which needs a free descriptor to stop it.
        """
        if speaks():
            self.ended = True
            self.ending.set()
            self.thread.join(self.SECONDS)
            self.send()

    def send(self) -> None:
        """Send one message. Whatever goes wrong: the script must not suffer from being watched."""
        try:
            with self.sending:
                files = dict(self.files)
                self.deliver(json.dumps({**self.message(), "files": files}).encode() + b"\n")
                self.reached, self.cut_off = True, None
                for name, content in files.items():
                    if self.files.get(name) is content:  # else there is a newer one
                        del self.files[name]
        except Exception as error:
            if not is_unreachable(error):
                self.cut_off = None
            elif self.cut_off is None:
                self.cut_off = time.monotonic()

    def deliver(self, message: bytes) -> None:
        """Send bytes on the connection, or on a new one where that fails. Raises OSError."""
        if self.connection is not None and self.is_ours(self.connection):
            try:
                self.connection.sendall(message)
            except OSError:
                self.connection.close()
                self.connection = None
            else:
                return
        new = socket.create_connection(self.target, timeout=5)
        try:
            # Sent and not acknowledged for so long, it is an error: the other host is gone.
            new.setsockopt(socket.IPPROTO_TCP, getattr(socket, "TCP_USER_TIMEOUT", 18), 10_000)
            new.sendall(f"{self.token}\n".encode() + message)
            self.inode = os.fstat(new.fileno()).st_ino
        except BaseException:
            new.close()
            raise
        self.connection = new

    def is_ours(self, connection: socket.socket) -> bool:
        """Tell whether the connection is what it was: a script may close all descriptors, and get its number anew."""
        with contextlib.suppress(OSError):
            if os.fstat(connection.fileno()).st_ino == self.inode:
                return True
        connection.detach()
        self.connection = None
        return False

    def message(self) -> dict[str, Any]:
        """Return what is sent: use of the host, progress, and when there is none, where the script is.

        idle: seconds since the last progress. waiting: whether the script waits for other ranks, if it is idle.
        """
        counters = f"/sys/class/net/{ME['interface']}/statistics"
        idle = time.monotonic() - self.active
        told: dict[str, Any] = {
            "rank": ME["rank"],
            "host": ME["host"],
            "pid": os.getpid(),
            "time": time.time(),
            "cpu_seconds": self.cpu_seconds,
            "rss_bytes": read_number("/proc/self/status", "VmRSS") * 1024,
            "network_bytes": sum(read_counter(f"{counters}/{name}_bytes") for name in ("rx", "tx")),
            "oom_kills": read_number("/proc/vmstat", "oom_kill"),
            "idle": idle,
            "stepped": self.stepped,
            "waiting": self.waiting,
            "alone": self.alone,
            "gradient": self.gradient,
            "ended": self.ended,
        }
        with contextlib.suppress(OSError):
            part = newest_part()
            if part:
                told["part"] = part
        if self.rows is not None:
            told["rows"] = self.rows
        if self.measured is not None:
            with contextlib.suppress(Exception):
                told["measured"] = self.measured()
        if idle > self.STACK:
            frame = sys._current_frames().get(self.main or 0)
            told["stack"] = "".join(traceback.format_stack(frame)[-8:])[-4000:] if frame else ""
        return told


HEARTBEAT = Heartbeat()


# --- how a rank fails ---


def watch_arguments(argparse: Any) -> None:
    """Have a parser that refuses the script's arguments say so in one piece, without the usage of all of them.

    A script of the Trainer's has some 200 arguments, and every rank would print them.
    """
    original = argparse.ArgumentParser.error

    def error(self: Any, message: str) -> None:
        if not speaks():
            original(self, message)
        known = [word for action in self._actions for word in action.option_strings]
        meant = []
        for word in message.replace(":", " ").split():
            near = (
                difflib.get_close_matches(word, known, n=1, cutoff=0.8)
                if word.startswith("--") and word not in known
                else []
            )
            meant += [f" (did you mean {near[0]}?)"] if near else []
        print_failure(f"{self.prog}: error: {message}{''.join(meant)}\n")
        self.exit(2)

    argparse.ArgumentParser.error = error


def tell_failure(kind: Any, error: BaseException, trace: Any) -> None:
    """Print what ends this rank in one piece, so that other ranks' words do not stand in between."""
    if speaks():
        print_failure("".join(traceback.format_exception(kind, error, trace)))
    else:
        sys.__excepthook__(kind, error, trace)


def print_failure(text: str) -> None:
    """Print lines that tell why this rank ends."""
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    # Not sys.stderr: torch's own hook around this one puts "[rank1]: " before every line of it.
    stream = sys.__stderr__ or sys.stderr
    stream.write(f"--- rank {ME['rank']} on {ME['host']} failed ---\n{text}--- end of rank {ME['rank']} ---\n")
    stream.flush()


# --- the start ---

WATCHED = {
    "accelerate.optimizer": watch_accelerate,
    "argparse": watch_arguments,
    "torch.distributed.distributed_c10d": watch_group,
    "torch.nn.parallel.distributed": watch_ddp,
    "torch.optim.optimizer": watch_steps,
    "transformers.trainer": watch_trainer,
}
BINDINGS = COMPRESSION = ""
MASTER = ""


class Loader(importlib.abc.Loader):
    """Load a module as its own loader does, and then watch it."""

    def __init__(self, inner: Any, watch: Any) -> None:
        self.inner, self.watch = inner, watch

    def create_module(self, spec: Any) -> Any:
        return self.inner.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self.inner.exec_module(module)
        if speaks():
            self.watch(module)


class Finder(importlib.abc.MetaPathFinder):
    """Find the watched modules where Python would, and give them our loader."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in WATCHED:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = Loader(spec.loader, WATCHED[name])
        return spec


def measure() -> None:
    """Have the rank's steps timed, if its job is to be measured."""
    if not ME.get("measure"):
        return
    with contextlib.suppress(Exception):
        timers = importlib.import_module("_amx_cluster_timers")
        for name, watch in timers.start(ME["measure"], GRADIENTS).items():
            WATCHED[name] = both(WATCHED.get(name), watch)
        HEARTBEAT.measured = timers.TIMERS.summary


def both(first: Any, second: Any) -> Any:
    """Return a function of a module that calls both, the second one without consequences if it fails."""

    def watch(module: Any) -> None:
        if first is not None:
            first(module)
        with contextlib.suppress(Exception):
            second(module)

    return watch


def keep_over_exec(private: dict[str, str]) -> None:
    """Have a script that starts itself anew in this process (os.exec*) be the rank again."""
    execve = os.execve

    def again(path: Any, arguments: Any, environ: Any) -> Any:
        if not speaks():
            return execve(path, arguments, environ)
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, os.sched_getaffinity(0))  # undoes what OpenMP has bound, and nothing else
        return execve(path, arguments, {**environ, **private})

    # Whatever else of os.exec* there is calls one of these.
    vars(os).update(execve=again, execv=lambda path, arguments: again(path, arguments, os.environ))


def start(rank: dict[str, Any], supervisor: str) -> None:
    """Observe this process, which is a rank.

    rank: what rank.py's observed() returned. supervisor: ADDRESS:PORT:TOKEN, or nothing where none listens.
    """
    global BINDINGS, COMPRESSION, MASTER
    ME.update(rank)
    BINDINGS = os.environ.get("AMX_CLUSTER_BINDINGS", "")
    COMPRESSION = os.environ.get("AMX_CLUSTER_GRADIENT_COMPRESSION", "")
    MASTER = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
    keep_over_exec({"AMX_CLUSTER_RANK": json.dumps(rank), "AMX_CLUSTER_BEAT": supervisor})
    # Whole lines: with several ranks in one log, pieces of lines would mix.
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(line_buffering=True)
    sys.excepthook = tell_failure
    if BINDINGS not in ("", MPI):
        WATCHED["torch.autograd"] = watch_backward
    measure()
    sys.meta_path.insert(0, Finder())
    HEARTBEAT.start(supervisor)
