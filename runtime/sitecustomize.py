"""Imported by every Python of a job when it starts: rank.py puts this directory first on PYTHONPATH.

Only the process that became the rank is observed (amx_cluster/observer/). Whatever it starts - workers of a
DataLoader or of joblib, compilers, tools - runs as it would without the cluster, on all CPUs of the rank
(amx_cluster/cpus.py), and learns no secret of the rank.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import importlib.util
import os
import sys


def start_observer() -> None:
    """Observe this process if it is the one that rank.py became."""
    received = os.environ.pop("AMX_CLUSTER_RANK", None)
    supervisor = os.environ.pop("AMX_CLUSTER_BEAT", "")
    rank = {}
    if received is not None:
        import json

        rank = json.loads(received)
    is_rank = rank.get("pid") == os.getpid()
    with contextlib.suppress(OSError, ValueError):  # it goes on with the CPUs that it has
        importlib.import_module("amx_cluster.cpus").take(is_rank)
    if is_rank:
        importlib.import_module("amx_cluster.observer.observer").start(rank, supervisor)


def next_sitecustomize() -> None:
    """Run the sitecustomize that this one stands before, if there is one."""
    here = os.path.dirname(os.path.abspath(__file__))
    others = [directory for directory in sys.path if os.path.abspath(directory or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


try:
    start_observer()
finally:
    next_sitecustomize()
