"""Usage of the host by a rank and all that it has started, from /proc (proc(5))."""

from __future__ import annotations

import contextlib
import os
import resource
import time

from amx_cluster.observer.rank import read

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
    processes, left = [], [pid]
    while left:
        parent = left.pop()
        with contextlib.suppress(*VANISHED):
            # Each thread has the children that it started.
            for thread in os.listdir(f"/proc/{parent}/task"):
                with contextlib.suppress(*VANISHED):
                    left += map(int, read(f"/proc/{parent}/task/{thread}/children").split())
        processes.append(parent)
    return processes[1:]


def family_by_parents(pid: int) -> list[int]:
    """Return what `family` does, from all processes' parents."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(*VANISHED):
            children.setdefault(int(stat(f"/proc/{name}/stat")[1]), []).append(int(name))
    processes, left = [], [pid]
    while left:
        new = children.get(left.pop(), [])
        processes += new
        left += new
    return processes


def moved_bytes(pid: int) -> int:
    """Return how many bytes a process has read and written, from files and connections, as far as the kernel counts."""
    with contextlib.suppress(*VANISHED):
        fields = dict(line.split(": ") for line in read(f"/proc/{pid}/io").splitlines())
        return sum(int(fields[name]) for name in ("rchar", "wchar", "read_bytes"))
    return 0


def communication_seconds(domain: set[int], polling: set[int]) -> float:
    """Return the processor time of this process's threads that communicate: no work of the rank's.

    They are pinned elsewhere than the rank, as oneCCL's workers, or poll in the backend mpi. They do so
    indefinitely, also while there is nothing to be done.
    """
    used = 0
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
    by_thread = {}
    with contextlib.suppress(*VANISHED):
        for name in os.listdir(f"/proc/{pid}/task") if thread is None else [str(thread)]:
            with contextlib.suppress(*VANISHED, IndexError):
                by_thread[int(name)] = int(read(f"/proc/{pid}/task/{name}/schedstat").split()[1]) / 1e9
    return by_thread


class Usage:
    """Usage of the rank since it began: own (seconds, of the rank's process), others (those of all that it has
    started), moved (bytes read and written by all of them, also those of files that they have in their memory)."""

    def __init__(self, domain: set[int], polling: set[int]) -> None:
        """Look. domain: the CPUs of the rank. polling: its threads in the backend mpi."""
        times = os.times()
        self.own = time.process_time() - communication_seconds(domain, polling)
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
