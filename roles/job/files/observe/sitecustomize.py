"""See from within a rank, without a change to its script, how the job goes.

rank.py puts this folder first on PYTHONPATH, so that Python imports this module before the script.
- Where the stack has oneCCL, its bindings are imported before the script's first call of
  torch.distributed.init_process_group, so that no script has to name them. After that call each rank tells the others
  where it is, and rank 0 writes world.json. A script that trains although it is in no group is ended at its first
  optimizer step: it would train a model of its own.
- While transformers' Trainer trains, rank 0 writes progress.json. A checkpoint that was written to its end is marked.
- Every rank tells the job's supervisor every two seconds that it lives, what it uses, and when it made its last step.
- What ends a rank is printed in one piece, with its rank and host; also that its arguments are wrong.
"""

from __future__ import annotations

import atexit
import contextlib
import difflib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import socket
import sys
import threading
import time
import traceback
from typing import Any

JOB = os.environ.get("AMX_CLUSTER_JOB", "")
ALONE = """
This rank would train a model of its own: {size} ranks were started and the script has formed no group with them.
With transformers and accelerate 1.13 or newer a job on CPUs becomes distributed only with --use_cpu and
--ddp_backend; another script must call torch.distributed.init_process_group before its first step."""


def write(name: str, content: Any) -> None:
    """Put a JSON file into the job directory, whole or not at all."""
    path = os.path.join(JOB, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    part = f"{path}.{os.getpid()}"
    with open(part, "w", encoding="utf-8") as stream:
        json.dump(content, stream, indent=1)
    os.replace(part, path)
    BEAT.files[name] = content


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
        "rank": int(os.environ["RANK"]),
        "host": os.environ["AMX_CLUSTER_HOST"],
        "pid": os.getpid(),
        "cpus": sorted(os.sched_getaffinity(0)),
        "threads": torch.get_num_threads(),
        "libraries": libraries(),
    }


def watch_group(c10d: Any) -> None:
    """Have torch.distributed's init_process_group write world.json when the first group is there."""
    original = c10d.init_process_group

    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        first = not c10d.is_initialized()
        if first and os.environ.get("AMX_CLUSTER_BINDINGS"):
            importlib.import_module(os.environ["AMX_CLUSTER_BINDINGS"])  # which registers the backend ccl
        if first and os.environ.get("RANK") == "0":
            write("ranks/entered.json", {"pid": os.getpid()})
        result = original(*args, **kwargs)
        if first:
            ranks: list[Any] = [None] * c10d.get_world_size()
            c10d.all_gather_object(ranks, myself())
            if c10d.get_rank() == 0:
                write("world.json", {"size": len(ranks), "backend": c10d.get_backend(), "ranks": ranks})
        return result

    c10d.init_process_group = init_process_group


def watch_steps(optimizer: Any) -> None:
    """End this process at its first optimizer step when it should be in a group and is in none."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    register = getattr(optimizer, "register_optimizer_step_pre_hook", None)  # torch 2.0 and newer
    if register is None:
        return
    checked = size == 1

    def before_step(stepping: Any, *_arguments: Any) -> None:
        nonlocal checked
        if not checked:
            from torch import distributed

            if not distributed.is_initialized():
                raise RuntimeError(ALONE.format(size=size))
            checked = True
            BEAT.gradient = gradient_of(stepping)
        BEAT.step()

    register(before_step)


def gradient_of(optimizer: Any) -> list[float] | None:
    """Return [sum, norm] of the gradients that an optimizer is about to apply; None where they are not plain tensors.

    Ranks that train one model apply the same gradient. The norm alone would not tell: clipping makes it the same.
    """
    total = square = 0.0
    with contextlib.suppress(Exception):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    gradient = parameter.grad.detach().double()
                    total += gradient.sum().item()
                    square += gradient.square().sum().item()
        return [total, square**0.5]
    return None


def watch_trainer(trainer: Any) -> None:
    """Have transformers' Trainer report its steps to progress.json, at most once a second, on rank 0."""
    from transformers import TrainerCallback

    class Progress(TrainerCallback):
        """Keeps progress.json: {step, max_steps, epoch, samples_per_step, began, first_step, time, metrics}."""

        def __init__(self) -> None:
            self.metrics: dict[str, float] = {}
            self.began = self.wrote = 0.0
            self.first_step = 0

        def on_train_begin(self, args: Any, state: Any, control: Any, **_others: Any) -> None:
            self.began = time.time()
            self.first_step = state.global_step
            self.report(args, state)

        def on_prediction_step(self, args: Any, state: Any, control: Any, **_others: Any) -> None:
            BEAT.step()

        def on_save(self, args: Any, state: Any, control: Any, **_others: Any) -> None:
            BEAT.step()
            folder = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
            if os.environ.get("RANK") == "0" and os.path.isdir(folder):
                mark_complete(folder)

        def on_step_end(self, args: Any, state: Any, control: Any, **_others: Any) -> None:
            if time.time() - self.wrote >= 1:
                self.report(args, state)

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_others: Any) -> None:
            self.metrics.update({key: value for key, value in (logs or {}).items() if isinstance(value, (int, float))})
            self.report(args, state)

        def report(self, args: Any, state: Any) -> None:
            if os.environ.get("RANK") != "0" or not state.max_steps:
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


def mark_complete(folder: str) -> None:
    """Write into a checkpoint which files it has and how large they are: without that it is not resumed from."""
    sizes = {}
    for place, _folders, names in os.walk(folder):
        # Of a checkpoint that is written over, the last mark is still there.
        for name in set(names) - {"complete.json", ".complete.json"}:
            path = os.path.join(place, name)
            sizes[os.path.relpath(path, folder)] = os.path.getsize(path)
    part = os.path.join(folder, ".complete.json")
    with open(part, "w", encoding="utf-8") as stream:
        json.dump(sizes, stream)
    os.replace(part, os.path.join(folder, "complete.json"))


def cpu_seconds() -> float:
    """Return what this process and its children have used of processors, as far as the kernel tells of those."""
    times = os.times()
    used = times.user + times.system + times.children_user + times.children_system
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as stream:
            children = stream.read().split()
        for child in children:
            with open(f"/proc/{child}/stat", encoding="utf-8", errors="replace") as stream:
                fields = stream.read().rpartition(")")[2].split()
            used += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return used


def read_number(path: str, name: str) -> int:
    """Return the number behind `name` in a file of the kernel's; -1 where there is none."""
    try:
        with open(path, encoding="utf-8") as stream:
            for line in stream:
                words = line.replace(":", " ").split()
                if words and words[0] == name:
                    return int(words[1])
    except (OSError, ValueError, IndexError):
        pass
    return -1


class Beat:
    """Tells the supervisor every two seconds how this rank is, from a thread that never holds up the script."""

    SECONDS = 2.0
    # The share of one processor that a rank uses when it is at work.
    BUSY = 0.1
    # Seconds without an ear after which this rank was given up: its host was cut off, or the supervisor is gone.
    PATIENCE = 60.0

    def __init__(self) -> None:
        self.heard = 0.0
        # When the script got on: at its last step, and before the first when it was last at work.
        self.active = time.monotonic()
        self.stepped = False
        self.used = 0.0
        # Of the first step, see gradient_of.
        self.gradient: list[float] | None = None
        # What rank 0 wrote since the last message, for a supervisor on another host.
        self.files: dict[str, Any] = {}

    def step(self) -> None:
        """Note that the script has got on."""
        self.active = time.monotonic()
        self.stepped = True

    def start(self) -> None:
        """Begin, in a thread of its own, where a supervisor listens."""
        address, _colon, rest = os.environ.get("AMX_CLUSTER_BEAT", "").partition(":")
        port, _colon, self.token = rest.partition(":")
        if port:
            self.target = (address, int(port))
            self.main = threading.main_thread().ident
            threading.Thread(target=self.run, name="amx-cluster-beat", daemon=True).start()
            atexit.register(self.send)

    def run(self) -> None:
        """Send for as long as this process lives. What cannot be sent is not sent: the supervisor sees that."""
        while True:
            self.notice_work()
            self.send()
            if self.heard and time.monotonic() - self.heard > self.PATIENCE:
                stream = sys.__stderr__ or sys.stderr
                with contextlib.suppress(OSError):
                    stream.write(f"the job's supervisor has not answered for {self.PATIENCE:.0f} s: this rank ends\n")
                os._exit(70)
            time.sleep(self.SECONDS)

    def notice_work(self) -> None:
        """Before the first step - data are read, a model is made - a rank that uses a processor gets on."""
        used = cpu_seconds()
        if not self.stepped and used - self.used > self.BUSY * self.SECONDS:
            self.active = time.monotonic()
        self.used = used

    def send(self) -> None:
        """Send one message. Whatever goes wrong: the script must not suffer from being watched."""
        with contextlib.suppress(Exception):
            files = dict(self.files)
            with socket.create_connection(self.target, timeout=5) as connection:
                connection.sendall(json.dumps({**self.message(), "files": files}).encode())
            self.heard = time.monotonic()
            for name, content in files.items():
                if self.files.get(name) is content:  # else there is a newer one
                    del self.files[name]

    def message(self) -> dict[str, Any]:
        """Return what is told: CPU seconds, memory, network bytes, and when it stands still, where."""
        times = os.times()
        idle = time.monotonic() - self.active
        counters = f"/sys/class/net/{os.environ.get('GLOO_SOCKET_IFNAME', 'lo')}/statistics"
        told: dict[str, Any] = {
            "token": self.token,
            "rank": int(os.environ["RANK"]),
            "host": os.environ["AMX_CLUSTER_HOST"],
            "pid": os.getpid(),
            "time": time.time(),
            "cpu_seconds": times.user + times.system,
            "rss_bytes": read_number("/proc/self/status", "VmRSS") * 1024,
            "network_bytes": sum(self.counter(f"{counters}/{name}_bytes") for name in ("rx", "tx")),
            "oom_kills": read_number("/proc/vmstat", "oom_kill"),
            "idle": idle,
            "stepped": self.stepped,
            "gradient": self.gradient,
        }
        if idle > 10:
            frame = sys._current_frames().get(self.main or 0)
            told["stack"] = "".join(traceback.format_stack(frame)[-8:])[-4000:] if frame else ""
        return told

    @staticmethod
    def counter(path: str) -> int:
        try:
            with open(path, encoding="ascii") as stream:
                return int(stream.read())
        except (OSError, ValueError):
            return 0


BEAT = Beat()


def watch_arguments(argparse: Any) -> None:
    """Have a parser that refuses the script's arguments say so in one piece, without the usage of all of them.

    A script of the Trainer's has some 200 arguments, and every rank would print them.
    """

    def error(self: Any, message: str) -> None:
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
    print_failure("".join(traceback.format_exception(kind, error, trace)))


def print_failure(text: str) -> None:
    """Print lines that tell why this rank ends."""
    sys.stdout.flush()
    # Not sys.stderr: torch's own hook around this one puts "[rank1]: " before every line of it.
    stream = sys.__stderr__ or sys.stderr
    rank, host = os.environ.get("RANK"), os.environ.get("AMX_CLUSTER_HOST")
    stream.write(f"--- rank {rank} on {host} failed ---\n{text}--- end of rank {rank} ---\n")
    stream.flush()


WATCHED = {
    "argparse": watch_arguments,
    "torch.distributed.distributed_c10d": watch_group,
    "torch.optim.optimizer": watch_steps,
    "transformers.trainer": watch_trainer,
}


class Loader(importlib.abc.Loader):
    """Load a module as its own loader does, and then watch it."""

    def __init__(self, inner: Any, watch: Any) -> None:
        self.inner, self.watch = inner, watch

    def create_module(self, spec: Any) -> Any:
        return self.inner.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self.inner.exec_module(module)
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


def next_sitecustomize() -> None:
    """Run the sitecustomize that this one stands before, if there is one."""
    here = os.path.dirname(os.path.abspath(__file__))
    others = [folder for folder in sys.path if os.path.abspath(folder or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if JOB and "RANK" in os.environ:
    # Whole lines: with several ranks in one log, pieces of lines would mix.
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    sys.excepthook = tell_failure
    sys.meta_path.insert(0, Finder())
    BEAT.start()
next_sitecustomize()
