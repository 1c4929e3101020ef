"""Begin to observe a rank, and watch the modules that its script imports."""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import json
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import amx_cluster.observer
from amx_cluster.observer import backward, saving, sharding, trainer
from amx_cluster.observer.activity import Activity
from amx_cluster.observer.gradients import Gradients
from amx_cluster.observer.group import Group
from amx_cluster.observer.heartbeat import Heartbeat
from amx_cluster.observer.notices import Notices
from amx_cluster.observer.rank import Rank
from ansible_collections.amx.cluster.plugins.module_utils._jobs import wire


class Reductions(backward.Watcher):
    """Tells a backward pass that computes from one that waits, where Python's stack does not.

    oneCCL waits in C++, where it uses a processor.
    """

    def __init__(self, rank: Rank, activity: Activity) -> None:
        self.rank, self.activity = rank, activity

    def is_here(self) -> bool:
        return self.rank.speaks() and threading.get_ident() == self.activity.main

    def waits(self, models: list[Any]) -> None:
        self.activity.reducing = True

    def ends(self) -> None:
        self.activity.reducing = False


class Observer:
    """All that observes the process of a rank."""

    def __init__(self, observed: dict[str, Any], supervisor: str) -> None:
        """Read the environment. observed, supervisor: as `start` gets them."""
        self.observed, self.supervisor = observed, supervisor
        self.rank = Rank(observed, supervisor)
        self.activity = Activity(self.rank)
        self.notices = Notices(self.rank)
        self.heartbeat = Heartbeat(self.rank, self.activity, self.notices)
        self.failures = self.heartbeat.failures
        self.group = Group(self.rank, self.activity)
        self.gradients = Gradients(self.rank, self.heartbeat)

    def start(self) -> None:
        """Observe this process."""
        self.keep_over_exec()
        # Whole lines: with several ranks in one log, pieces of lines would mix.
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(line_buffering=True)
        sys.excepthook = self.failures.excepthook
        self.failures.watch_stderr()
        sys.meta_path.insert(0, Finder(self.rank, self.watched()))
        self.heartbeat.start(self.supervisor)

    def watched(self) -> dict[str, Callable[[Any], None]]:
        """Return which module is to be watched with which function."""
        watched: dict[str, Callable[[Any], None]] = {
            "accelerate.optimizer": self.group.watch_accelerate,
            "argparse": self.failures.watch_arguments,
            "torch.distributed.distributed_c10d": self.group.watch,
            "torch.nn.parallel.distributed": self.gradients.watch_ddp,
            "torch.optim.optimizer": self.gradients.watch_steps,
            "torch.serialization": saving.load_to_numbered_cpus,
            "transformers.training_args": trainer.train_on_cpus,
            "transformers.trainer": lambda module: trainer.watch(module, self.group, self.gradients, self.notices),
        }
        if self.rank.optimize:
            watched.update(importlib.import_module("amx_cluster.optimize").watched(self.rank.optimize))
        if self.rank.sharding:
            watched["accelerate.state"] = sharding.watch_accelerate
            watched["accelerate.utils.fsdp_utils"] = sharding.watch_preparation
        if self.rank.bindings not in ("", wire.MPI):
            reductions = Reductions(self.rank, self.activity)
            watched["torch.autograd"] = lambda module: backward.watch(module, reductions, self.gradients.reducing)
        if self.rank.measure:
            with contextlib.suppress(Exception):
                timing = importlib.import_module("amx_cluster.observer.timing")
                timed = timing.Timing(self.rank.measure, self.gradients)
                for name, watch in timed.watched().items():
                    watched[name] = in_order(watched.get(name), watch)
                self.heartbeat.measured = timed.summary
        return watched

    def keep_over_exec(self) -> None:
        """Keep a script that starts itself anew in this process (os.exec*) the rank."""
        execve = os.execve
        private = {wire.RANK: json.dumps(self.observed), wire.SUPERVISOR: self.supervisor}

        def again(path: Any, arguments: Any, environ: Any) -> Any:
            if not self.rank.speaks():
                return execve(path, arguments, environ)
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, os.sched_getaffinity(0))  # undoes what OpenMP has bound, and nothing else
            return execve(path, arguments, {**environ, **private})

        # Whatever else of os.exec* there is calls one of these.
        vars(os).update(execve=again, execv=lambda path, arguments: again(path, arguments, os.environ))


def in_order(first: Callable[[Any], None] | None, second: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return a function of a module that calls both, the second one without consequences if it fails."""

    def watch(module: Any) -> None:
        if first is not None:
            first(module)
        with contextlib.suppress(Exception):
            second(module)

    return watch


class Loader(importlib.abc.Loader):
    """Load a module as its own loader does, and then watch it."""

    def __init__(self, inner: Any, rank: Rank, watch: Callable[[Any], None]) -> None:
        self.inner, self.rank, self.watch = inner, rank, watch

    def create_module(self, spec: Any) -> Any:
        return self.inner.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self.inner.exec_module(module)
        if self.rank.speaks():
            self.watch(module)


class Finder(importlib.abc.MetaPathFinder):
    """Find the watched modules where Python would, and give them our loader."""

    def __init__(self, rank: Rank, watched: dict[str, Callable[[Any], None]]) -> None:
        self.rank, self.watched = rank, watched

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in self.watched:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = Loader(spec.loader, self.rank, self.watched[name])
        return spec


def start(observed: dict[str, Any], supervisor: str) -> None:
    """Observe this process, which is a rank.

    observed: what rank.py's observed() returned. supervisor: ADDRESS:PORT:TOKEN, or nothing where none listens.
    """
    amx_cluster.observer.observer = Observer(observed, supervisor)
    amx_cluster.observer.observer.start()
