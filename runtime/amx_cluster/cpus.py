"""All CPUs of a rank for the processes that it starts, of which some would have one.

OpenMP binds the main thread of a rank to a single CPU, and the kernel gives a process the CPUs of the thread that
started it: all workers of a DataLoader, by spawn or forkserver, would share that CPU with the rank's main thread. (In a
forked process Intel's OpenMP undoes this itself.) A process that is on a CPU of its own choice stays there.
"""

from __future__ import annotations

import functools
import os
from os import sched_getaffinity  # the kernel's, whatever `tell_all` puts in its place
from typing import Any

# PID:CPU,CPU,...: the process in which this was set, the rank or the last Python below it, and all CPUs of the rank.
VARIABLE = "AMX_CLUSTER_CPUS"


def take(is_rank: bool) -> None:
    """Run this process on all CPUs of the rank, unless it has others than those that it inherits from OpenMP."""
    launcher, _colon, listed = os.environ.get(VARIABLE, "").partition(":")
    own = sched_getaffinity(0)
    if is_rank:
        domain = own
        tell_all(domain)
    elif listed:
        domain = {int(cpu) for cpu in listed.split(",")}
        if sched_getaffinity(int(launcher)) == own and binds(int(launcher), own, domain):
            os.sched_setaffinity(0, domain)
    else:
        return
    os.environ[VARIABLE] = f"{os.getpid()}:{','.join(map(str, sorted(domain)))}"


def binds(pid: int, cpus: set[int], domain: set[int]) -> bool:
    """Return whether OpenMP has bound the main thread of a process to `cpus`: it has bound others, to one CPU each."""
    if len(cpus) != 1 or not cpus < domain:
        return False
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            affinity = sched_getaffinity(int(thread))
        except OSError:
            continue  # it has ended
        if len(affinity) == 1 and affinity != cpus and affinity < domain:
            return True
    return False


def tell_all(domain: set[int]) -> None:
    """Replace os.sched_getaffinity: it returns the CPUs of this process, where OpenMP has bound the thread that asks.

    A DataLoader, joblib, and since Python 3.13 every pool, take that for the number of processes that it can start.
    """
    me = os.getpid()

    @functools.wraps(sched_getaffinity)
    def of_process(pid: Any, /) -> set[int]:
        affinity = sched_getaffinity(pid)
        if pid in (0, me) and os.getpid() == me and binds(me, affinity, domain):
            return set(domain)
        return affinity

    os.sched_getaffinity = of_process
