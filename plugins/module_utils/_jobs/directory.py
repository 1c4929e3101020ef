# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The job directory: all that belongs to one run of a job, in one directory of a host."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import glob
import json
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from itertools import count
from pathlib import Path
from typing import IO, Any

from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._data import project
from ansible_collections.amx.cluster.plugins.module_utils._io import is_same, read_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import checkpoints, curves, on_end, progress, secret_env
from ansible_collections.amx.cluster.plugins.module_utils._jobs.inference_requests import PREDICTION, SERVER, chunks
from ansible_collections.amx.cluster.plugins.module_utils._jobs.slurm import queue
from ansible_collections.amx.cluster.plugins.module_utils._jobs.wire import COMPLETE, PROGRESS

# What every status has from the first moment.
ALWAYS = {"job", "state", "started"}
PIECE = 1 << 16  # bytes of a log that are read at once
# Asks a supervisor to stop its job. SIGTERM comes from elsewhere: a host that shuts down sends it to all.
STOP = signal.SIGUSR1
# By which word of its command line a supervisor is known. The second is that of jobs whose directories have programs of
# their own: such a job may still run when the collection is updated.
SUPERVISE = ("supervise", "supervise.py")
# With the job's name; actions replace the playbook by the command that runs it.
NO_JOB = "no job {} was started on this cluster: playbooks/status.yml lists all jobs"
# Seconds within which the supervisor of a job is started after its directory was created, and for each of its hosts.
STARTING, STARTING_HOST = 30, 2
# The word by which a supervisor knows that the job's data are prepared.
PREPARED = "prepared"
# Seconds after which a job that was to be started has ranks, or never will.
STARTED = 86400
# Which earlier run's checkpoints a job goes on from: its directory, start and hosts, its ranks and batch.
RESUMED = "resumed.json"
# What the head knows of the parts of checkpoints on other hosts: {host: {checkpoint: [files]}}.
PARTS = "parts.json"
# In the directory of the job that verifies plans, on the head: the plan that its ranks were found to follow.
VERIFIED = "verified.json"
# What a job directory is by its mark. That of a derived job is made anew by the next one of its name. The mark also has
# the names of what the directory was created with: other files in it are of the script.
JOB, DERIVED = "job", "derived job"
# Files of a job directory that a run writes besides those that its directory was created with, and its results.
OF_A_RUN = re.compile(
    r"(lock\..*|supervisor\.lock|supervise\.log|(status|progress|world|ranks|resumed|parts|secrets|observed|verified)\.json"
    r"|curves\.jsonl|on_end\.(json|log)|leaves\.json|alive|\.stop|ranks|__pycache__|host|\.amx-cluster\.json)"
)
PLACES = _ownership.Places("jobs", ("jobs",))


def is_alive(pid: int, directory: Path, proc: Path = Path("/proc")) -> bool:
    """Return whether process `pid` is the supervisor of a job; a reused number is another process."""
    try:
        words = (proc / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    paths = [Path(os.fsdecode(word)) for word in words]
    if not any(path.name in SUPERVISE for path in paths):
        return False
    return any(is_same(path, directory) for path in paths if path.is_absolute())


def settings_of(directory: Path) -> dict[str, Any]:
    """Return the settings with which the job in `directory` was started, see run.Settings; empty for none."""
    settings: dict[str, Any] = (read_json(directory / "job.json") or {}).get("settings", {})
    return settings


def running(directory: Path, proc: Path = Path("/proc")) -> dict[str, Any] | None:
    """Return the status of the job in `directory` when it is running now, else None."""
    status = read_json(directory / "status.json")
    if status and status.get("state") == "running" and is_supervised(directory, status, proc):
        return status
    return None


def is_supervised(directory: Path, status: Mapping[str, Any], proc: Path = Path("/proc")) -> bool:
    """Return whether the supervisor of a job whose status says running is there, or Slurm is to start it."""
    if queue.id_of(status):
        return queue.is_active(directory, status)
    return is_alive(int(status["pid"]), directory, proc)


def begin(directory: Path, ours: bool, host: str, start: str = "") -> IO[bytes]:
    """Begin the one run that a job directory is for: return its supervisor's lock, which ends with the process.

    ours: whether ranks of the job run on this host, which the supervisor locks then, too. start: the start that created
    the directory; any, where it is empty. Raises ValueError when the run has begun already, or the directory was
    replaced by that of another start.
    """
    with creating(directory):
        lock = (directory / (f"lock.{host}.supervisor" if ours else "supervisor.lock")).open("wb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"the job in {directory} is running already: follow it with playbooks/logs.yml") from None
        settings = settings_of(directory)
        if start and settings.get("start") != start:
            raise ValueError(f"{directory} was replaced by another start of this job")
        if (directory / "status.json").exists():
            raise ValueError(f"the job in {directory} has run already: playbooks/train.yml starts it anew")
        return lock


def shares_hosts(directory: Path) -> bool:
    """Return whether other jobs may have the hosts of the job in a directory: they have other cores of these."""
    launcher = (read_json(directory / "plan.json") or {}).get("launcher", {})
    return bool(launcher.get("shares_hosts"))


def creating(directory: Path) -> contextlib.AbstractContextManager[None]:
    """Keep others from creating, replacing or starting the job directory `directory` meanwhile. Raises OSError."""
    return locked(directory.with_name(f".{directory.name}.lock"))


@contextlib.contextmanager
def locked(path: Path, others: int = 0) -> Iterator[None]:
    """Hold a lock, for which others wait. Raises OSError.

    others: permission bits of other users. Without them these cannot open it: whoever can read a file can lock it
    (flock(2)), and would keep every job out.
    """
    _ownership.write_file(path)
    with path.open("rb+") as lock:
        share(lock.fileno(), path.parent, others)
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def share(descriptor: int, directory: Path, others: int) -> None:
    """Give a file of this user's these permission bits for others, and the group of its directory with them."""
    status = os.fstat(descriptor)
    if status.st_uid == os.geteuid():
        with contextlib.suppress(PermissionError):  # of a group that this user is not in
            os.fchown(descriptor, -1, directory.stat().st_gid if others else status.st_gid)
        os.fchmod(descriptor, 0o600 | others)


@contextlib.contextmanager
def replacing(
    directory: Path, head: str = "", start: str = "", undone: str = "", served: bool = False
) -> Iterator[str]:
    """Keep everybody else from creating, replacing or starting the job directory `directory` meanwhile.

    Yields which start was found that never began, whose previous run was put back; empty for none. head: this host's
    name where it is the job's head. start: what tells the start that is about to replace it from others; empty where
    another one's directory may be replaced at any time. undone: what this has yielded on the head, which alone knows
    that. served: whether the server that runs in it takes the new one. Raises ValueError when its supervisor runs, or
    another start has created it and is about to start it. Raises OSError.
    """
    _ownership.make(directory.parent, _ownership.CONTAINER)
    with creating(directory):
        if not served and any(
            map(is_locked, [*directory.glob("lock.*.supervisor"), *directory.glob("supervisor.lock")])
        ):
            raise ValueError(
                f"the job in {directory} was started a moment ago: wait for its end, or give this job another name"
            )
        other = settings_of(directory)
        if start and other.get("head") == head and other.get("start") != start:
            left = starting(directory)
            if left:
                raise ValueError(
                    f"{other.get('user') or 'somebody'} is starting the job {directory.name} since "
                    f"{other.get('since')}: wait for its end, or give this job another name; if that start was "
                    f"interrupted, start it in {left:.0f} s"
                )
            undone = other.get("start", "") if _put_back(directory) else ""
        elif (other.get("head") == head and is_derived(directory)) or (undone and other.get("start") == undone):
            _put_back(directory)
        _remove_unplaced(directory)
        yield undone


def starting(directory: Path) -> float:
    """Return the seconds that the supervisor of a job whose directory was created has left to be started, else 0.

    Each of the job's hosts gets its directory meanwhile. A process that works in the directory is one of the start,
    however long it takes.
    """
    with contextlib.suppress(OSError):
        if not _has_status(directory):
            hosts = (read_json(directory / "plan.json") or {}).get("hosts") or []
            most = STARTING + STARTING_HOST * len(hosts)
            left = most - (time.time() - (directory / "job.json").stat().st_mtime)
            return left if 0 < left <= most else float(most if _is_worked_in(directory) else 0)
    return 0.0


def _is_worked_in(directory: Path, proc: Path = Path("/proc")) -> bool:
    """Return whether a process has its working directory here or below, as far as this user may see."""
    place = directory.resolve()
    for entry in proc.glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            works_in = entry.readlink()
            if entry.parent.name != str(os.getpid()) and (works_in == place or place in works_in.parents):
                return True
    return False


def restore(directory: Path, start: str) -> bool:
    """Put back what the start `start` of a job, which never began to run, has moved aside; return whether it did.

    What it has created instead is removed. Raises OSError.
    """
    with creating(directory):
        settings = settings_of(directory)
        return settings.get("start") == start and _put_back(directory, always=True)


def _put_back(directory: Path, always: bool = False) -> bool:
    """Restore the run that was replaced by one that never began. always: remove this one where none was replaced."""
    if _ownership.read(directory).get("what") not in (JOB, DERIVED) or _has_begun(directory):
        return False
    aside = replaced_by(directory)
    if aside:
        _exchange(directory, aside)
        return _ownership.remove(aside)
    return always and _ownership.remove(directory)


def replaced_by(directory: Path) -> Path | None:
    """Return where the run is that was moved aside for the one in a job directory, by its mark; None for none."""
    aside = directory.parent / str(_ownership.read(directory).get("replaced", ""))
    return aside if is_previous(aside) and os.path.lexists(aside) else None


def _has_begun(directory: Path) -> bool:
    """Return whether the run that a job directory is for has begun, as far as this host knows."""
    return _has_status(directory) or any(map(is_locked, directory.glob("lock.*")))


def _has_status(directory: Path) -> bool:
    """Return whether a job directory has a status of its own.

    That of a server's new version links to the status of the earlier one, which serves until this one does.
    """
    return (directory / "status.json").exists() and not (directory / "status.json").is_symlink()


def _remove_unplaced(directory: Path) -> None:
    """Remove what starts that were killed had made to replace `directory`: each lies where the previous run was to go,
    by its mark."""
    form = re.compile(rf"{re.escape(directory.name)}\.\d{{8}}T\d{{6}}Z(\.\d+)?")
    with contextlib.suppress(OSError):  # the next start tries again
        for path in directory.parent.iterdir():
            unplaced = form.fullmatch(path.name) and _ownership.read(path).get("replaced") == path.name
            if unplaced and not _has_begun(path) and not has_results(path):
                _ownership.remove(path)


def _exchange(first: Path, other: Path) -> None:
    """Exchange two directories, or links, of one file system at once: each path names one of them at any moment.

    A kernel or file system that cannot do that (renameat2(2)) gets them renamed one after the other. Raises OSError.
    """
    try:
        failed = ctypes.CDLL(None, use_errno=True).renameat2(-100, os.fsencode(first), -100, os.fsencode(other), 2)
        number = ctypes.get_errno() if failed else 0
    except AttributeError:  # of a C library without it
        number = errno.ENOSYS
    if number in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        between = first.with_name(f".{first.name}.between")
        other.rename(between)
        try:
            first.rename(other)
        except OSError:
            between.rename(other)
            raise
        between.rename(first)
    elif number:
        raise OSError(number, os.strerror(number), str(first))


def set_aside(directory: Path) -> Path | None:
    """Return where the earlier run in `directory` is to be moved, so that nothing is lost; None when there is none.

    The name is the directory's with the time at which that run was made, and a number where that name is taken.
    """
    if not os.path.lexists(directory):
        return None
    plan = directory / "plan.json"
    made = (plan if plan.exists() else directory).lstat().st_mtime
    stamp = datetime.fromtimestamp(made, timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    names = (f"{directory.name}.{stamp}" + (f".{number}" if number else "") for number in count())
    return next(path for path in map(directory.with_name, names) if not os.path.lexists(path))


def is_previous(directory: Path) -> bool:
    """Return whether a directory is that of a run that was moved aside, by its name."""
    return bool(re.fullmatch(r".+\.\d{8}T\d{6}Z(\.\d+)?", directory.name))


def is_last_model(previous: Path) -> bool:
    """Return whether a previous run is the last one of its name that is known to have ended with results.

    Then it stays until a later run has succeeded, as the model of that name.
    """
    name = re.sub(r"\.\d{8}T\d{6}Z(\.\d+)?$", "", previous.name)
    if _is_done(previous.with_name(name)):
        return False
    runs = [path for path in previous.parent.glob(f"{glob.escape(name)}.*") if is_previous(path) and has_results(path)]
    runs = [path for path in runs if path.name.startswith(f"{name}.2")]
    return previous == max(runs, key=lambda path: (_is_done(path), len(path.name), path.name), default=None)


def _is_done(run: Path) -> bool:
    """Return whether a run has succeeded; on hosts beside its head, which do not know that, whether it has results."""
    status = read_json(run / "status.json")
    return status.get("state") == "succeeded" if status else has_results(run)


def last_done(directory: Path) -> str:
    """Return the directory of the last previous run of the job in `directory` that has succeeded, or nothing."""
    runs = [path for path in directory.parent.glob(f"{glob.escape(directory.name)}.2*") if is_previous(path)]
    runs = [path for path in runs if "." not in path.name[len(directory.name) + 1 :].partition("Z")[0]]
    done = [path for path in runs if has_results(path) and _is_done(path)]
    return str(max(done, key=lambda path: (len(path.name), path.name))) if done else ""


def is_head(directory: Path) -> bool:
    """Return whether a job directory is that of its head, from which the job is started."""
    settings = settings_of(directory)
    with contextlib.suppress(OSError):
        return bool(settings.get("head") == (directory / "host").read_text(encoding="utf-8").strip())
    return False


def is_derived(directory: Path) -> bool:
    """Return whether a directory is that of a derived job by its mark."""
    return _ownership.read(directory).get("what") == DERIVED


def has_results(job_directory: Path) -> bool:
    """Return whether a directory is that of a job and has a log or results, or any file that a script has written."""
    mark = _ownership.read(job_directory)
    if mark.get("what") != JOB:
        return False
    if (job_directory / "results.json").exists() or (job_directory / "log").exists():
        return True
    known = set(mark.get("names", []))
    for path in job_directory.iterdir():
        if path.is_symlink() or path.name in known or OF_A_RUN.fullmatch(path.name):
            continue
        if path.is_file() or any(inside.is_file() for inside in path.rglob("*")):
            return True
    return False


@contextlib.contextmanager
def privately() -> Iterator[None]:
    """Create files and directories, in this context, that no other user can read."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def create(
    directory: Path,
    files: Mapping[str, str],
    links: Mapping[str, str],
    resumed: Sequence[Path] = (),
    secrets: Mapping[str, str] | None = None,
    tree: tuple[Mapping[str, Any], Path] | None = None,
    kind: str = JOB,
    aside: Path | None = None,
) -> None:
    """Make `directory` with these files and symbolic links, all of it or nothing.

    No other user can read it. files: {path in the directory: content}; a file ending in .sh, or starting with #!,
    becomes executable. links: {path in the directory: target}. resumed: checkpoints of an earlier run, of which this
    one goes on from one; their files are linked, not copied, and RESUMED has what made them. secrets: {variable:
    value}, for secret_env.FILE. tree: the job's project, as project.Project.to_json returns it, and the store that has
    its contents. kind: JOB or DERIVED, for its mark. aside: where what is at `directory` goes, at once, when all of the
    new directory is there; without it nothing may be. Raises OSError, and ValueError when something that is not the
    collection's is in its way.
    """
    part = directory.with_name(f".{directory.name}.part")
    _ownership.remove(part)
    replaced = {"replaced": aside.name} if aside else {}
    try:
        with privately():
            _ownership.claim(part, kind)
            _fill(part, files, links, resumed, aside)
            if tree:
                _add_project(part, *tree)
            if secrets:
                (part / secret_env.FILE).write_text(json.dumps(dict(secrets)) + "\n", encoding="utf-8")
            names = sorted(path.name for path in part.iterdir() if path.name not in project.WRITTEN)
            _ownership.mark(part, kind, names=names, **replaced)
        if aside:
            part.rename(aside)
            try:
                _exchange(aside, directory)
            except OSError:
                aside.rename(part)
                raise
        else:
            part.replace(directory)
    except BaseException:  # also Ctrl-C
        with contextlib.suppress(OSError):
            if not _ownership.remove(part):
                part.rmdir()  # which is empty: there was no room for its mark
        raise


def _fill(
    part: Path, files: Mapping[str, str], links: Mapping[str, str], resumed: Sequence[Path], aside: Path | None
) -> None:
    for name, text in files.items():
        path = part / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o700 if name.endswith(".sh") or text.startswith("#!") else 0o600)
    for checkpoint in resumed:
        shutil.copytree(checkpoint, part / "output" / checkpoint.name, copy_function=os.link)
    if resumed:
        directory = resumed[0].parents[1]
        earlier, plan = read_json(directory / "status.json") or {}, read_json(directory / "plan.json") or {}
        before = read_json(directory / RESUMED) or {}
        start = settings_of(directory).get("start", "")
        made_by = {
            "start": start,
            "hosts": [host["host"] for host in plan.get("hosts", [])],
            **{key: earlier.get(key) for key in ("ranks", "accumulation", "per_device")},
        }
        if before and not earlier.get("attempts"):  # its ranks have never started: what it has is of the run before it
            made_by = {key: before.get(key) for key in made_by}
        made_by.update(directory=str(aside or directory), starts=[start, *before.get("starts", [])])
        (part / RESUMED).write_text(json.dumps(made_by) + "\n", encoding="utf-8")
        for name in (PARTS, curves.CURVES):
            if (directory / name).exists():
                shutil.copy(directory / name, part / name)
    for name, target in links.items():
        path = part / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)


def _add_project(part: Path, description: Mapping[str, Any], store: Path) -> None:
    """Make the tree of a project, whose scripts find there what those without a project find beside them."""
    tree = part / project.DIRECTORY
    tree.mkdir(exist_ok=True)
    project.make(description, store, tree)
    for name in description["shared"]:
        if name in project.WRITTEN:
            (part / name).mkdir(exist_ok=True)
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(os.path.relpath(part / name, path.parent))


def close(directory: Path) -> None:
    """Take from the directory of an ended run its secrets, and other users' access to it. Raises OSError."""
    remove_secrets(directory)
    directory.chmod(0o700)


def remove_secrets(directory: Path) -> bool:
    """Remove the secrets of a run that has ended on this host; return whether there were any. Raises OSError."""
    path = directory / secret_env.FILE
    there = path.exists()
    path.unlink(missing_ok=True)
    return there


def previous(directory: Path) -> dict[str, Any]:
    """Return {state: how the last run in a job directory ended, checkpoint: whether a complete one is on this host}.

    Where a start never began, this is of the run that it has replaced, which the next start puts back.
    """
    if is_head(directory) and not _has_begun(directory):
        directory = replaced_by(directory) or directory
    return {
        "state": (read_json(directory / "status.json") or {}).get("state", ""),
        "checkpoint": any(directory.glob(f"output/checkpoint-*/{COMPLETE}")),
    }


def ended_with_secrets(jobs: Path, host: str) -> list[str]:
    """Return the files with secrets below `jobs` of which no job on this host seems to have a use any more.

    Such a file stays where a host did not answer at the end of its job, or the job's head was lost. host: as for
    is_in_use. A job that is being started has its file on hosts that run none of its ranks yet: remove_ended_secrets
    asks what its head knows.
    """
    files = []
    for path in jobs.glob(f"*/{secret_env.FILE}"):
        settings = settings_of(path.parent)
        if settings.get("shared_directory") and settings.get("head") != host:
            continue  # one file for all hosts, and only the job's head knows whether it runs
        over = (path.parent / "status.json").exists()
        if running(path.parent) or is_in_use(path.parent, host) or any(map(is_locked, path.parent.glob("*.lock"))):
            continue
        with contextlib.suppress(FileNotFoundError):  # it was removed meanwhile
            if over or time.time() - path.stat().st_mtime > STARTED:
                files.append(str(path))
    return sorted(files)


def remove_ended_secrets(jobs: Path, host: str, known: Sequence[Mapping[str, Any]], check: bool = False) -> list[str]:
    """Remove the secrets on this host of runs that have ended; return the files.

    known: the jobs of the head, as `jobs` returns them there. A run is distinguished from the next one of its
    name by its start, while nobody can replace it. check: only return them. Raises OSError.
    """
    running_now = {job["start"] for job in known if job["status"]["state"] == "running"}
    ended = {job["start"] for job in known if host in job["status"].get("secrets_left", [])} - running_now - {""}
    removed = []
    for path in sorted(jobs.glob(f"*/{secret_env.FILE}")):
        with creating(path.parent):
            start = settings_of(path.parent).get("start", "")
            over = str(path) in ended_with_secrets(jobs, host) and start not in running_now
            idle = not running(path.parent) and not is_in_use(path.parent, host)
            if path.exists() and (over or (start in ended and idle)):
                removed.append(str(path))
                if not check:
                    path.unlink()
    return removed


def answer(path: str, log_offset: int = 0, wait: float = 0) -> dict[str, Any]:
    """Return how the job in a directory stands, as `look` does, once it has ended or after `wait` seconds.

    Where there is much of its log to read, it is returned at once.
    """
    directory, end = Path(path), time.monotonic() + wait
    while running(directory) and time.monotonic() < end:
        if (directory / "log").exists() and (directory / "log").stat().st_size - log_offset > PIECE // 4:
            break
        time.sleep(0.1)
    return look(directory, log_offset)


def look(directory: Path, log_offset: int = 0, limit: int = PIECE) -> dict[str, Any]:
    """Read how the job in `directory` stands.

    Returns {status, progress, ranks, outcome, log, log_offset}: the log from the byte log_offset on, whole lines, at
    most `limit` bytes, and the byte up to which it goes; below 0, that many bytes at its end. A job whose status says
    running while its supervisor is gone has the state "lost". Where a job that did not succeed can go on, status has
    the key "advice"; once its on_end is over, "on_end", what came of it. Raises ValueError when there is no job in the
    directory.
    """
    status = read_json(directory / "status.json")
    if status is None:
        raise ValueError(f"{NO_JOB.format(directory.name)} ({directory} has no status.json)")
    if status["state"] == "running" and queue.id_of(status):
        status = queue.look(directory, status)
    elif status["state"] == "running" and not is_alive(int(status["pid"]), directory):
        # It may have ended between the two looks.
        status = read_json(directory / "status.json") or status
        if status["state"] == "running":
            status.update(state="lost", reason=_lost(directory, status))
    done = read_json(directory / on_end.OUTCOME)
    if done:
        status[on_end.FIELD] = done
    how_to_go_on = advice(directory, status)
    if how_to_go_on:
        status["advice"] = how_to_go_on
    log = b""
    if (directory / "log").is_file():  # and no named pipe, for which whoever opens it waits
        with (directory / "log").open("rb") as stream:
            if log_offset < 0:
                limit, log_offset = -log_offset, max(0, (directory / "log").stat().st_size + log_offset)
            with contextlib.suppress(OSError):  # there is nothing after that offset
                log_offset = os.lseek(stream.fileno(), log_offset, os.SEEK_DATA)
            stream.seek(log_offset)
            log = stream.read(limit)
    if status["state"] == "running" or len(log) == limit:
        whole = log[: log.rfind(b"\n") + 1]
        # A line that is longer than what is read at once has to be returned in pieces.
        log = whole or (log if len(log) == limit else b"")
    ranks = read_json(directory / "ranks.json") or {}
    return {
        "status": status,
        "progress": read_json(directory / PROGRESS) or progress.of_ranks(ranks),
        "ranks": ranks,
        "outcome": read_json(directory / "results.json") or {},
        "log": log.replace(b"\0", b"").decode("utf-8", errors="replace"),
        "log_offset": log_offset + len(log),
    }


def _lost(directory: Path, status: Mapping[str, Any], proc: Path = Path("/proc")) -> str:
    """Return what is known of a job whose supervisor has ended without writing its outcome."""
    gone = f"its supervisor (process {status['pid']}) ended without a word"
    booted = re.search(r"^btime (\d+)$", (proc / "stat").read_text(encoding="ascii"), re.MULTILINE)
    started = datetime.fromisoformat(status["started"]).timestamp() if status.get("started") else 0.0
    if booted and started and int(booted[1]) > started:
        at = datetime.fromtimestamp(int(booted[1]), timezone.utc)
        return f"its supervisor ended with its host, which was restarted at {at:%Y-%m-%d %H:%M:%S} UTC"
    if has_ranks(directory, status, proc):
        return f"{gone}; its ranks still run, and end within two minutes"
    return f"{gone}; none of its ranks runs on this host"


def has_ranks(directory: Path, status: Mapping[str, Any], proc: Path = Path("/proc")) -> bool:
    """Return whether ranks of the job in `directory`, or the process that runs its launch.sh, are on this host."""
    launched = is_alive(int(status.get("launch_pid") or 0), directory, proc)
    return launched or any(is_locked(path) for path in directory.glob("lock.*"))


def shorten_log(log: Path, most: int, first: int, last: int) -> bool:
    """Free what lies in the middle of a log that takes more than `most` bytes of the disk; return whether it did.

    first, last: bytes that are kept at its beginning and at its end. Offsets in the log stay as they are (fallocate(2),
    FALLOC_FL_PUNCH_HOLE), also for who writes to it. A file system that cannot do that keeps the log as it is.
    """
    status = log.stat()
    if status.st_blocks * 512 <= most:
        return False
    hole = ["--offset", str(first), "--length", str(status.st_size - first - last)]
    try:
        ran = subprocess.run(["fallocate", "--punch-hole", *hole, str(log)], capture_output=True, check=False)
    except OSError:
        return False
    return ran.returncode == 0


def whole_log(log: Path) -> str:
    """Return a log without what shorten_log has freed of it, which would be read as zeros. Raises OSError."""
    data, end = [], 0
    with log.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        while end < size:
            try:
                begin = os.lseek(stream.fileno(), end, os.SEEK_DATA)
            except OSError:  # there is nothing after that offset
                break
            end = os.lseek(stream.fileno(), begin, os.SEEK_HOLE)
            stream.seek(begin)
            data.append(stream.read(end - begin))
    return b"".join(data).replace(b"\0", b"").decode("utf-8", errors="replace")


def advice(directory: Path, status: Mapping[str, Any]) -> str:
    """Return how to go on with the job in `directory` that ended early; an empty string where nothing helps.

    A job that was moved aside has been started again since.
    """
    if status["state"] in ("running", "succeeded") or status.get("job") != directory.name:
        return ""
    if status["state"] == "lost" and has_ranks(directory, status):
        return f"playbooks/stop.yml -e job={directory.name} ends its ranks now; then the job can be started again"
    checkpoint = checkpoints.last_marked(directory / "output")
    run = read_json(directory / "job.json") or {"job": {}}
    job, given = run["job"], run.get("settings", {}).get("given", "")
    # What refused it refuses it again.
    first = "once its reason is mended, " if status["state"] == "failed" else ""
    if job.get("script") == str(PREDICTION):
        goes_on = "goes on with the rows that are predicted"
        does = goes_on if chunks(directory) else "predicts the rows"
        return f"{first}the same command of playbooks/predict.yml {does}"
    if job.get("script") == str(SERVER):
        if re.search(r"\bport \d+", status["reason"]):
            return "free the port, or serve on another: the same command of playbooks/serve.yml with -e serve_port=PORT"
        return f"{first}the same command of playbooks/serve.yml serves the model again"
    file = job.get("file", f"{directory.name}.yml")
    start = f"playbooks/train.yml -e job={shlex.quote(file)}"
    if checkpoint:
        words = " ".join(filter(None, [f"ansible-playbook {start} -e job_resume=true", given]))
        return f"{words} resumes it from its {checkpoint.name}"
    if status["state"] == "lost":
        words = " ".join(filter(None, [f"ansible-playbook {start}", given]))
        return f"it left no complete checkpoint: {words} starts it anew"
    return ""


def jobs(directory: Path) -> list[dict[str, Any]]:
    """Return the jobs in a directory that were started here, newest first: {path, user, start, status, progress}.

    One whose status is damaged is left out.
    """
    entries = []
    paths = list(directory.glob("*/status.json"))
    replaced = {status.resolve() for status in paths if status.is_symlink()}  # shown by the name of the new version
    for status in paths:
        if not status.is_symlink() and status.resolve() in replaced:
            continue
        try:
            job, settings = look(status.parent, limit=0), settings_of(status.parent)
        except (AttributeError, KeyError, OSError, OverflowError, TypeError, ValueError):
            continue  # it was moved meanwhile, or is damaged
        if not job["status"].keys() >= ALWAYS:
            continue
        if not isinstance(job["status"]["started"], str) or not isinstance(settings, dict):
            continue
        about = {
            "path": str(status.parent.resolve()),
            "user": settings.get("user", ""),
            "start": settings.get("start", ""),
        }
        entries.append({**about, "status": job["status"], "progress": job["progress"]})
    return sorted(entries, key=lambda job: job["status"]["started"], reverse=True)


def locked_by(directory: Path, host: str) -> list[dict[str, Any]]:
    """Return which jobs have locked this host: each {job (its name), user, since}.

    directory: the directory of the job directories. host: this host's name in the inventory. Each rank, and the
    supervisor, keeps a lock (flock(2)) on a file lock.HOST.* in the job's directory as long as it lives, so that none
    remains when they have ended, however they ended.
    """
    locks = []
    for job in sorted({path.parent for path in directory.glob("*/lock.*")}):
        if is_in_use(job, host):
            settings = settings_of(job)
            locks.append({"job": job.name, "user": settings.get("user", ""), "since": settings.get("since", "")})
    return locks


def is_in_use(directory: Path, host: str) -> bool:
    """Return whether a rank of the job in `directory`, or its supervisor on one of the hosts, runs on this host.

    host: this host's name in the inventory. Where hosts share the directory, the others' locks are there, too.
    """
    shared = settings_of(directory).get("shared_directory", False)
    return any(is_locked(path) for path in directory.glob("lock.*") if not shared or path.stem == f"lock.{host}")


def is_locked(path: Path) -> bool:
    """Return whether a process holds the lock on `path`.

    Asks for a shared lock, so that two who ask are not in each other's way.
    """
    if stat.S_ISFIFO(path.stat().st_mode):  # of another user: whoever opens it waits
        return False
    with path.open("rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
