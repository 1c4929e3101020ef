# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands of the runtime about jobs, for a person on the head and for Ansible: JSON in, JSON out."""

from __future__ import annotations

import importlib
import inspect
import io
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._documents import Document
from ansible_collections.amx.cluster.plugins.module_utils._io import read_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory, session

Request = TypeVar("Request", bound=Document)

TEXT = "--text"
# What a person calls: the exit code is 1 where it cannot be done, and of `wait`, where the job did not succeed.
OF_PERSON = ("status", "log", "results", "wait", "stop")
INTERRUPTED = 130  # exit code after Ctrl-C, as that of shells
# Exit code of a command of machines that has other words or another standard input than it takes.
MISUSED = 2
WORDS = {
    "start": "DIRECTORY supervise",
    "submit": "DIRECTORY",
    "answer": "DIRECTORY",
    "place": "HOST",
    "restore": "DIRECTORY START",
}
HOST, JOB_HOST = "host_info", "job_host_info"
# What answers each question of the control node.
ANSWERS = {HOST: "host_facts", JOB_HOST: "host_answer", "jobs_info": "in_use", "job_info": "directory"}


class MisusedError(ValueError):
    """A command of machines has other words or another standard input than it takes."""


def jobs() -> Path:
    """Return the directory of the job directories, of the cluster_prefix in which this runtime is installed."""
    return Path(sys.argv[0]).resolve().parents[1] / "jobs"


def job_directory(words: Sequence[str]) -> Path:
    """Return the directory of the job that a command names, by that or by its name. Raises ValueError."""
    unknown = [word for word in words if word.startswith("-") and word != TEXT]
    if unknown:
        raise ValueError(f"{unknown[0]} is no option of this command, which has {TEXT} alone")
    named = [word for word in words if not word.startswith("-")]
    if len(named) != 1:
        raise ValueError("name one job: the command status lists them")
    path = jobs() / named[0]
    if not (path / "status.json").exists():
        raise ValueError(f"no job {path.name} was started from this host: the command status lists all jobs")
    return path


def start(words: Sequence[str]) -> dict[str, Any]:
    """Start the job that the standard input describes, as start_request.Start has it.

    words: its directory, and directory.SUPERVISE[0], by which also previous versions know the process of the
    supervisor, a fork of this one.
    """
    session.stay([sys.executable, "-S", str(Path(sys.argv[0]).resolve()), "start", *words])
    umask = os.umask(0o077)
    os.umask(umask)
    from ansible_collections.amx.cluster.plugins.module_utils._jobs import start_request, starting

    request = read_request(start_request.Start)
    if str(request.path) != words[0]:
        raise MisusedError(f"start {request.path} is the command for this job, instead of start {words[0]}")
    return starting.start(request, umask)


def submit(words: Sequence[str]) -> dict[str, Any]:
    """Submit to Slurm the job in the standard input, as start_request.Start has it. words: its directory."""
    umask = os.umask(0o077)
    from ansible_collections.amx.cluster.plugins.module_utils._jobs import start_request
    from ansible_collections.amx.cluster.plugins.module_utils._jobs.slurm import submitting

    request = read_request(start_request.Start)
    if str(request.path) != words[0] or not request.planning:
        raise MisusedError(f"submit {request.path} is the command for this job, instead of submit {words[0]}")
    return submitting.submit(request.placement(), request.run, umask)


def answer(words: Sequence[str]) -> dict[str, Any]:
    """Write what the plan of a job in Slurm needs of this node. words: the job directory."""
    from ansible_collections.amx.cluster.plugins.module_utils._jobs.slurm import allocation

    return allocation.answer(words)


def place(words: Sequence[str]) -> dict[str, Any]:
    """Write the job directory that the standard input describes, as placing.Placement has it. words: this host."""
    from ansible_collections.amx.cluster.plugins.module_utils._jobs import placing

    return placing.place(read_request(placing.Placement), words[0])


def restore(words: Sequence[str]) -> dict[str, Any]:
    """Put back what a start has replaced that never began. words: the job directory, and that start."""
    return {"changed": directory.restore(Path(words[0]), words[1])}


def ask(_words: Sequence[str]) -> dict[str, Any]:
    """Return what modules return, {name: result}, with their options in the standard input, {name: options}.

    Raises what the first of them raises. A further one that fails is left out: it is asked for once more by itself.
    """
    try:
        questions = dict(json.load(sys.stdin))
    except (TypeError, ValueError) as error:
        raise MisusedError(f"the standard input: {error}") from None
    results: dict[str, Any] = {}
    for name, options in questions.items():
        if name not in ANSWERS:
            raise MisusedError(f"{name} is none of {', '.join(ANSWERS)}")
        question = importlib.import_module(f"{__package__}.{ANSWERS[name]}").answer
        try:
            bound = inspect.signature(question).bind(**options)
        except TypeError as error:
            raise MisusedError(f"the options of {name} in the standard input: {error}") from None
        try:
            results[name] = question(*bound.args, **bound.kwargs)
        except (OSError, ValueError):
            if not results:
                raise
    return results


def read_request(form: type[Request]) -> Request:
    """Return the document in the standard input. Raises MisusedError."""
    try:
        return form.from_json(json.load(sys.stdin))
    except ValueError as error:
        raise MisusedError(f"the standard input: {error}") from None


def status(words: Sequence[str]) -> dict[str, Any] | str:
    """Return the status of all jobs that were started from this host, or of the one that is named."""
    from ansible_collections.amx.cluster.plugins.module_utils._jobs import in_use
    from ansible_collections.amx.cluster.plugins.module_utils._jobs import status as texts

    seen = in_use.answer(str(jobs()), host=os.uname().nodename)
    entries = texts.entries(seen["jobs"], {os.uname().nodename: seen["processes"]})
    if set(words) - {TEXT}:
        path = job_directory(words)
        named = [entry for entry in entries if entry["path"] == str(path.resolve())]
        if not named:
            raise ValueError(
                f"the status of {path} cannot be shown: it is not in {jobs()}, or {path}/status.json damaged"
            )
        return of_head(texts.details(named[0])) if TEXT in words else named[0]
    return texts.overview(entries) if TEXT in words else {"jobs": entries}


def log(words: Sequence[str]) -> dict[str, Any] | str:
    """Return the log of a job."""
    path = job_directory(words) / "log"
    text = directory.whole_log(path) if path.exists() else ""
    return text.rstrip("\n") if TEXT in words else {"log": text}


def results(words: Sequence[str]) -> dict[str, Any] | str:
    """Return the results of a job that has ended."""
    from ansible_collections.amx.cluster.plugins.module_utils._jobs import results as texts

    path = job_directory(words)
    outcome: dict[str, Any] = directory.look(path, limit=0)["outcome"]
    if not outcome:
        raise ValueError(f"job {path.name} has no results yet: the command wait {path.name} returns them")
    return texts.table(outcome) if TEXT in words else outcome


def wait(words: Sequence[str]) -> dict[str, Any] | str:
    """Wait for the end of a job, and return its results, or its status where it has none."""
    path = job_directory(words)
    seen = directory.answer(str(path), log_offset=1 << 42, wait=float("inf"))
    return results(words) if seen["outcome"] else status(words)


def stop(words: Sequence[str]) -> dict[str, Any] | str:
    """Stop a job on all of its hosts if its supervisor runs, else what is left on this one."""
    from ansible_collections.amx.cluster.plugins.module_utils._jobs import ending

    path = job_directory(words)
    ended = ending.end(str(path), host=os.uname().nodename)
    done = "was stopped" if ended["was_running"] else "was not running"
    return (
        f"job {path.name} {done}; orphaned processes ended: {', '.join(ended['lines']) or 'none'}"
        if (TEXT in words)
        else ended
    )


def of_head(text: str) -> str:
    """Return a text in which each playbook is the command here that does the same, or one of the control node."""
    from ansible_collections.amx.cluster.plugins.module_utils._hosts.inventory import PLAYBOOK

    def command(match: re.Match[str]) -> str:
        name = Path(match[1]).stem.replace("logs", "log")
        if name in OF_PERSON:
            return f"the command {name}{' ' if match[2] else ''}"
        return f"on the control node, {match[0]}"

    return re.sub(rf"{PLAYBOOK.pattern}( -e \w+=(?=\S))?", command, text)


COMMANDS: dict[str, Callable[[Sequence[str]], dict[str, Any] | str]] = {
    command.__name__: command
    for command in (start, submit, answer, place, restore, ask, status, log, results, wait, stop)
}


def main(words: Sequence[str]) -> None:
    """Run a command and print what it returns, as JSON; {failed, msg} where it cannot be done.

    With TEXT it prints text for a person, and the error where it cannot be done. Exit codes: see OF_PERSON and MISUSED.
    """
    code = 0
    if words[0] in OF_PERSON and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # what this terminal cannot show
    try:
        if len(words) - 1 < len(WORDS.get(words[0], "").split()):
            raise MisusedError(f"the command is {words[0]} {WORDS[words[0]]}")
        answer = COMMANDS[words[0]](words[1:])
        if words[0] == "wait":
            ended = read_json(job_directory(words[1:]) / "status.json") or {}
            code = int(ended.get("state") != "succeeded")
    except (OSError, ValueError) as error:
        message = _ownership.denied(error) or str(error)
        message = of_head(message) if words[0] in OF_PERSON else message
        if TEXT in words:
            raise SystemExit(message) from None
        answer = {"failed": True, "msg": message}
        code = MISUSED if isinstance(error, MisusedError) else int(words[0] in OF_PERSON)
    except KeyboardInterrupt:
        if words[0] not in OF_PERSON:
            raise
        raise SystemExit(INTERRUPTED) from None
    try:
        sys.stdout.write(f"{answer if isinstance(answer, str) else json.dumps(answer)}\n")
        sys.stdout.flush()
    except BrokenPipeError:  # who reads it, such as `head`, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if code:
        raise SystemExit(code)
