# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The processes of jobs on one host, also those that a dead job left behind, whoever their parent is now."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._io import is_same, read_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory, host_queue, wire
from ansible_collections.amx.cluster.plugins.module_utils._ownership import user_name

PROC = Path("/proc")
# The variable with its job's directory that ranks have, and what they start.
OF_JOB = "AMX_CLUSTER_JOB"
# Major page faults a second of a process that is at work.
READS = 8
# The programs of each launcher on hosts, by its name in a job file; the last one starts ranks, on every host.
PROGRAMS = {
    "mpirun": ("mpiexec.hydra", "hydra_bstrap_proxy", "hydra_pmi_proxy"),
    "torchrun": ("torchrun",),
    "kubernetes": (),
    "slurm": ("mpiexec.hydra", "hydra_bstrap_proxy", "hydra_pmi_proxy"),
    "instances": (),
}
LAUNCHER_NAMES = frozenset(name for programs in PROGRAMS.values() for name in programs)
STARTERS = frozenset(name for programs in PROGRAMS.values() for name in programs[-1:])


def find(path: Path | None = None, proc: Path = PROC) -> list[dict[str, Any]]:
    """Return this host's processes of the job in `path`, or of all jobs, ordered by pid.

    Those are ranks and what they started, which have the job's directory in their environment, and the launcher's
    processes, which work in it. Each is {pid, kind ("rank" or "launcher"), job (its directory), rank (of a launcher
    -1), threads, cpus (the CPUs it may use, as the kernel lists them), rss_bytes, cpu_seconds, page_reads (major page
    faults, for which the kernel has read from a disk), ports (TCP ports on which it listens), command}. Processes of
    other users cannot be seen and are left out, and so is the one that asks.
    """
    tick = os.sysconf("SC_CLK_TCK")
    page = os.sysconf("SC_PAGE_SIZE")
    matches = []
    for entry in proc.iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            kind, job, rank = _of_a_job(entry, words)
            if not job or (path is not None and not is_same(Path(job), path)):
                continue
            # The command's name stands in parentheses and may hold spaces and parentheses itself.
            stat = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if stat[0] == "Z":
                continue
            status = (entry / "status").read_text(encoding="utf-8", errors="replace")
            allowed = next(line for line in status.splitlines() if line.startswith("Cpus_allowed_list:"))
        except (OSError, StopIteration):
            continue  # it has ended meanwhile, or it is not ours to see
        matches.append(
            {
                "pid": int(entry.name),
                "kind": kind,
                "job": job,
                "rank": rank,
                "threads": int(stat[17]),
                "cpus": allowed.split(":")[1].strip(),
                "rss_bytes": int(stat[21]) * page,
                "cpu_seconds": (int(stat[11]) + int(stat[12])) / tick,
                "page_reads": int(stat[9]),
                "ports": listening_ports(entry),
                "command": b" ".join(words).decode("utf-8", errors="replace").strip(),
            }
        )
    return sorted(matches, key=lambda process: process["pid"])


def find_in(jobs: Path, proc: Path = PROC) -> list[dict[str, Any]]:
    """Return what `find` does of the jobs whose directories lie in `jobs`."""
    matches = [process for process in find(proc=proc) if is_same(Path(process["job"]).parent, jobs)]
    return [{**process, "job": str(jobs.resolve() / Path(process["job"]).name)} for process in matches]


def _of_a_job(entry: Path, words: list[bytes]) -> tuple[str, str, int]:
    """Return (kind, job, rank) of the process of a /proc/PID directory; the job is empty when it is of none."""
    if not words[0]:
        return "", "", -1  # a thread of the kernel, or a process that waits to be buried
    if _called(words, LAUNCHER_NAMES):
        return "launcher", str(entry.joinpath("cwd").readlink()), -1
    environ = dict(word.split(b"=", 1) for word in (entry / "environ").read_bytes().split(b"\0") if b"=" in word)
    try:
        rank = int(environ.get(b"RANK", b"-1"))
    except ValueError:
        rank = -1  # its own word, not rank.py's
    return "rank", os.fsdecode(environ.get(OF_JOB.encode(), b"")), rank


def _called(words: list[bytes], names: frozenset[str]) -> frozenset[str]:
    """Return which of the names a command line's program has; a script's stands behind its interpreter's."""
    return names & {os.path.basename(os.fsdecode(word)) for word in words[:2]}  # noqa: PTH119 they need not be paths


def foreign(jobs: Path, proc: Path = PROC) -> list[dict[str, Any]]:
    """Return this host's launchers that start ranks here and are of no job in `jobs`: other users', or other prefixes'.

    Each is {pid, user, command (its name), directory (where it works; empty where that cannot be seen)}, ordered by
    pid. What runs in a container of its own is left out.
    """
    matches = []
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if not (names := _called(words, STARTERS)):
                continue
            status = (entry / "status").read_text(encoding="utf-8", errors="replace")
            # With more than one number it is in a PID namespace below this one.
            pids = next((line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")), [])
            if len(pids) > 1:
                continue
            owner = entry.stat().st_uid
        except OSError:
            continue  # it has ended meanwhile
        try:
            place = str((entry / "cwd").readlink())
        except OSError:
            place = ""
        if place and is_same(Path(place).parent, jobs):
            continue
        matches.append({"pid": int(entry.name), "user": user_name(owner), "command": min(names), "directory": place})
    return sorted(matches, key=lambda process: process["pid"])


def left_by(pid: int, known: Collection[int], proc: Path = PROC) -> list[int]:
    """Return the children of a process but those that are known, and all that these have started."""
    children: dict[int, list[int]] = {}
    for entry in proc.glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            stat = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            children.setdefault(int(stat[1]), []).append(int(entry.name))
    left = [child for child in children.get(pid, []) if child not in known]
    for process in left:  # which becomes longer meanwhile
        left += children.get(process, [])
    return left


def is_tracker(pid: int, proc: Path = PROC) -> bool:
    """Return whether a process is the tracker of resources of multiprocessing, which shares no memory itself."""
    with contextlib.suppress(OSError):
        return b"multiprocessing.resource_tracker" in (proc / str(pid) / "cmdline").read_bytes()
    return False


def listening_ports(entry: Path) -> list[int]:
    """Return the TCP ports, sorted, on which the process of a /proc/PID directory listens."""
    sockets, ports = set(), set()
    try:
        for descriptor in entry.joinpath("fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
                target = str(descriptor.readlink())
                if target.startswith("socket:["):
                    sockets.add(target[8:-1])
        for table in ("tcp", "tcp6"):
            for line in entry.joinpath("net", table).read_text(encoding="ascii").splitlines()[1:]:
                _slot, local, _remote, state, *_rest = fields = line.split()
                if state == "0A" and fields[9] in sockets:
                    ports.add(int(local.rpartition(":")[2], 16))
    except OSError:
        return []
    return sorted(ports)


def running_jobs(jobs: Path, running: list[dict[str, Any]]) -> list[str]:
    """Return the directories of the jobs in `jobs` that run now and were started on this host.

    running: what `find_in` returns. A job runs when its supervisor does, or when launch.sh, started manually, has its
    launcher here.
    """
    jobs = jobs.resolve()
    started_manually = {process["job"] for process in running if process["kind"] == "launcher"}
    try:
        paths = [path for path in jobs.iterdir() if (path / "status.json").is_file()]
    except OSError:
        paths = []
    return sorted({str(path) for path in paths if directory.running(path)} | started_manually)


def usage(job_directory: Path | None, seconds: float) -> list[dict[str, Any]]:
    """Return what `find` does, over the next `seconds`: "cpu" is the CPUs that each process kept busy (1.0: one), and
    "page_reads" those of that time."""
    before = {process["pid"]: process for process in find(job_directory)}
    began = time.monotonic()
    time.sleep(seconds)
    now = find(job_directory)
    elapsed = time.monotonic() - began
    return [
        {
            **process,
            "cpu": round((process["cpu_seconds"] - then["cpu_seconds"]) / elapsed, 2),
            "page_reads": process["page_reads"] - then["page_reads"],
        }
        for process in now
        if (then := before.get(process["pid"]))
    ]


def runnable(pid: int, proc: Path = PROC) -> set[str]:
    """Return the threads of a process that have a processor at this moment, or wait for one."""
    readings = set()
    for entry in (proc / str(pid) / "task").glob("*/stat"):
        with contextlib.suppress(OSError):
            if entry.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0] == "R":
                readings.add(entry.parent.name)
    return readings


def usage_of_ranks(job_directory: Path, seconds: float) -> dict[int, float]:
    """Return {rank: CPUs} that this host's ranks of the job in `job` keep busy over the next `seconds`.

    A process with a thread that could run at each of three looks counts as one CPU, also when others have the
    processor: it is not stopped. (At one of them that may be a thread of a rank that hangs: its heartbeat, or MPI's
    watchdog, which looks every second.) So does one for which the kernel reads its program from a disk.
    """
    used: dict[int, float] = {}
    before = {process["pid"]: runnable(process["pid"]) for process in find(job_directory)}
    time.sleep(0.3 * seconds)
    before = {pid: threads & runnable(pid) for pid, threads in before.items()}
    for process in usage(job_directory, 0.7 * seconds):
        starved = not runnable(process["pid"]).isdisjoint(before.get(process["pid"], set()))
        busy = max(process["cpu"], float(starved or process["page_reads"] > READS * seconds))
        used[process["rank"]] = used.get(process["rank"], 0.0) + busy
    return used


def ended_ranks(job_directory: Path, attempt: str, proc: Path = PROC) -> dict[int, int]:
    """Return {rank: exit code, or the negative number of a signal} of the ranks of a job whose scripts have ended here.

    attempt: as wire.attempt returns it. They are those that rank.py has started on this host. One whose process is gone
    without rank.py having seen its end was killed with rank.py: only SIGKILL does that.
    """
    here = wire.machine()
    codes = {}
    for path in (job_directory / "ranks").glob("*.json"):
        record = read_json(path) or {}
        if not path.stem.isdigit() or record.get("attempt") != attempt or record.get("machine") != here:
            continue
        if record["code"] is not None:
            codes[int(path.stem)] = record["code"]
        elif not _is_there(proc / str(record["pid"]), record["began"]):
            codes[int(path.stem)] = -signal.SIGKILL
    return codes


def _is_there(entry: Path, began: str) -> bool:
    """Return whether the process of a /proc/PID directory that began then, in ticks since the boot, has not ended."""
    try:
        fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] not in "ZX" and fields[19] == began


def end(
    job_directory: Path, grace: float, find_now: Callable[[Path], list[dict[str, Any]]] = find
) -> list[dict[str, Any]]:
    """End this host's processes of the job: ask them (SIGTERM), and after `grace` seconds end them (SIGKILL).

    Returns those that there were. Raises TimeoutError naming those that are left 5 seconds after SIGKILL.
    """
    ended = {process["pid"]: process for process in find_now(job_directory)}
    for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, 5.0)):
        deadline = time.monotonic() + patience
        left = find_now(job_directory)
        ended.update({process["pid"]: process for process in left})
        for process in left:
            try:
                os.kill(process["pid"], number)
            except ProcessLookupError:
                continue
        while left and time.monotonic() < deadline:
            time.sleep(0.1)
            left = find_now(job_directory)
        if not left:
            return sorted(ended.values(), key=lambda process: process["pid"])
    raise TimeoutError(f"processes {', '.join(str(process['pid']) for process in left)} of {job_directory} do not end")


def locked(jobs: Path, host: str, job: str) -> dict[str, Any]:
    """Return what of this host is in use, {locked_by: as directory.locked_by returns it, locks: a line for each other
    job and for each launcher that is not of this cluster's jobs, queued: as `queued` returns it}.

    jobs: the directory of the job directories. host: this host's name in the inventory. job: the one that starts.
    """
    locks = directory.locked_by(jobs, host)
    return {
        "locked_by": locks,
        "locks": [*locked_lines(host, locks, job), *foreign_lines(host, foreign(jobs))],
        "queued": queued(jobs, job),
    }


def queued(jobs: Path, job: str) -> dict[str, list[str]]:
    """Return {host: a line for each other job that was started from this host and has it, or waits for it}.

    While a job is prepared, or between two attempts, none of its processes is on its hosts.
    """
    lines: dict[str, list[str]] = {}
    for entry in host_queue.read(jobs):
        for host in entry.hosts if entry.job != job else ():
            lines.setdefault(host, []).append(entry.line([host]))
    return lines


def foreign_lines(host: str, launchers: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each launcher that is not of this cluster's jobs. launchers: as `foreign` returns them."""
    return [
        f"{host} is used by {process['command']} (process {process['pid']}) of user {process['user']}"
        + (f" in {process['directory']}" if process["directory"] else "")
        for process in launchers
    ]


def locked_lines(host: str, locks: Sequence[Mapping[str, Any]], job: str) -> list[str]:
    """Return a line for each job but `job` that has locked a host. locks: as directory.locked_by returns them."""
    return [
        f"{host} is locked by job {lock['job']} of {lock['user']} since {lock['since']}"
        for lock in locks
        if lock["job"] != job
    ]
