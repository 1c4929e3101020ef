# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Exchange between a job's ranks and its supervisor: variables, files, heartbeats.

Every rank imports it before its script: it imports nothing of the collection, and nothing that takes long.
"""

from __future__ import annotations

import os
from typing import Any, TypedDict

# Variables of a rank: what rank.py's observed() returns, as JSON; where the supervisor listens, ADDRESS:PORT:TOKEN; the
# module that registers the job's backend; how gradients are compressed; what the Trainer shards; which parts of a step
# are optimized, separated by commas. The first two are gone when the script begins.
RANK, SUPERVISOR = "AMX_CLUSTER_RANK", "AMX_CLUSTER_BEAT"
BINDINGS, COMPRESSION = "AMX_CLUSTER_BINDINGS", "AMX_CLUSTER_GRADIENT_COMPRESSION"
SHARDING, OPTIMIZE = "AMX_CLUSTER_SHARDING", "AMX_CLUSTER_OPTIMIZE"
# The exit code of a rank whose supervisor cannot be reached any more.
CUT_OFF = 70
# Seconds that the launcher has to end its ranks after SIGTERM.
GRACE = 10
# The module that registers the backend mpi.
MPI = "amx_cluster_mpi"

# What rank 0 writes into the job directory: the group that has formed, how far the Trainer is, that it waits for the
# group. A heartbeat has those that are new, for a supervisor on another host.
WORLD, PROGRESS, ENTERED = "world.json", "progress.json", "ranks/entered.json"
WRITTEN_BY_RANK_0 = (WORLD, PROGRESS, ENTERED)

# The mark of a checkpoint where rank 0 has written, and that of a part of it on another host: {file: bytes}. A rank's
# mark, that it has saved its part, is there until they all have theirs.
COMPLETE, PART, SAVED = "complete.json", "part.json", ".saved."

# The parts of a measured step's time, and its percentiles.
PARTS = ("compute", "communication", "input", "other")
SHARES = {"low": 0.1, "median": 0.5, "high": 0.9}
# The kinds of operations of a profiled step.
OPERATIONS = (
    *("products", "attention", "dropout", "elementwise", "casts", "optimizer", "collectives", "input", "other"),
)
# Entries of curves in one message, and that a rank keeps for a supervisor that does not answer.
LOGGED, LOGGED_KEPT = 1000, 100_000


def attempt(endpoint: str) -> str:
    """Return what stands for one start of a job. endpoint: where its supervisor listens."""
    import hashlib

    return hashlib.sha256(endpoint.encode()).hexdigest()[:16]


def machine() -> str:
    """Return what no other host, or container, has: hosts may share a job's directory."""
    from pathlib import Path

    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    return f"{boot.strip()} {os.uname().nodename}"


class Heartbeat(TypedDict, total=False):
    """A message of a rank, a line of JSON. Before the first one a connection sends the token, as a line."""

    rank: int
    host: str
    pid: int
    time: float
    # Seconds of processor time of the rank and all that it has started.
    cpu_seconds: float
    rss_bytes: int
    # Bytes received and sent by the interface of the cluster network.
    network_bytes: int
    # Processes that the kernel has ended because it was out of memory; -1 where it does not tell.
    oom_kills: int
    # Seconds since the last progress, and whether the script waits for other ranks if it is idle.
    idle: float
    waiting: bool
    # Whether the rank has made a step in its group, and how many it has made outside of any where one was to form.
    stepped: bool
    alone: int
    # {step, parameters (how many have one), sum, norm} of the gradient by which ranks are compared.
    gradient: dict[str, Any] | None
    ended: bool
    # Optimizer's steps since the script began, of the first optimizer that made one.
    steps: int
    # What ends the script, as it is printed, and the last line that it has printed on stderr from Python.
    failed: str
    said: str
    # Of rank.py: how the script has ended, its exit code or the negative number of a signal; what was left of it.
    exit: int
    left: str
    # {checkpoint: files} of the newest part on this host.
    part: dict[str, list[str]]
    # {action, time (ISO 8601, UTC), instance} of the notice that the host is taken back; why there may be one that is
    # not seen; the step of the checkpoint that this rank has saved because of one.
    leaves: dict[str, str]
    unnoticed: str
    saved: int
    # {rows, of, first, began, time} of a prediction.
    rows: dict[str, Any]
    # The sums of a job that is measured. `profile` in it, of the first rank of a host, is what profiling.py has found:
    # {steps, seconds, kinds: {kind: seconds}, operations: [{name, kind, seconds, calls}]} of a step, or {note}.
    measured: dict[str, Any]
    # Python's stack, where there is no progress.
    stack: str
    # {name: content} of WRITTEN_BY_RANK_0.
    files: dict[str, Any]
    # What the Trainer of rank 0 has logged since the last message, at most LOGGED entries as curves.py has them.
    logged: list[dict[str, Any]]


# What a message has at least: others, and those that lack something, are discarded.
REQUIRED: dict[str, Any] = {"rank": int, "host": str, "idle": (int, float), "files": dict, "oom_kills": int}
