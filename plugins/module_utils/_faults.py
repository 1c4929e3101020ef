# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a job ended: read from its log, from what its ranks told while they lived, and from which hosts answer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _progress

# Hydra's report of a rank that ended by a signal.
KILLED = re.compile(
    r"RANK\s+(?P<rank>\d+)\s+PID\s+\d+\s+RUNNING AT\s+(?P<host>\S+).*?KILLED BY SIGNAL:\s*(?P<signal>\d+)", re.DOTALL
)
# What ranks say when another one has gone: never the cause.
CONSEQUENCES = re.compile(
    r"Connection (closed|reset)|closed by peer|Broken pipe|Connection refused|Timed out waiting|recvValue failed|"
    r"Rank \d+ is not connected|DistNetworkError|NCCL|Gloo connectFullMesh failed",
    re.IGNORECASE,
)
# Frames in which a rank waits for others.
WAITING = ("torch/distributed/", "_engine_run_backward", "threading.py", "all_reduce", "barrier", "synchronize")


def tracebacks(log: str) -> list[tuple[int, str, str]]:
    """Return each rank's traceback in a log, in their order: (rank, host, text)."""
    found = []
    for match in _progress.FAILURE.finditer(log):
        text = log[match.end() + 1 :].split(f"--- end of rank {match[1]} ---")[0]
        found.append((int(match[1]), match[2], text.strip()))
    return found


def last_words(trace: str) -> str:
    """Return the message of a traceback: its last line that begins at the margin, and what follows it."""
    lines = trace.splitlines()
    starts = [place for place, line in enumerate(lines) if line and not line[0].isspace()]
    return " ".join(" ".join(lines[starts[-1] :]).split())[:500] if starts else ""


def cause(log: str, code: int, gone: Mapping[str, str], out_of_memory: Sequence[str]) -> str:
    """Say why mpirun ended with `code`.

    log: what this attempt printed. gone: {host: why} of hosts that do not answer any more. out_of_memory: hosts whose
    kernel has ended a process for want of memory since the attempt began. A host that is gone explains what the other
    ranks say, and a rank that was killed does, too; among tracebacks, those that tell of lost connections are passed
    over where there is another.
    """
    if gone:
        return "; ".join(f"{host} does not answer any more ({why})" for host, why in gone.items())
    traces = tracebacks(log)
    own = [trace for trace in traces if not CONSEQUENCES.search(last_words(trace[2]))]
    if own:
        rank, host, text = own[0]
        return f"rank {rank} on {host} failed: {last_words(text)}"
    if out_of_memory:
        return (
            f"the kernel of {', '.join(out_of_memory)} ended a rank for want of memory: use a smaller batch, shorter "
            "sequences, fewer ranks per node, or gradient checkpointing"
        )
    killed = KILLED.search(log)
    if killed:
        return f"rank {killed['rank']} on {killed['host']} was ended by signal {killed['signal']} from outside"
    if traces:
        rank, host, text = traces[0]
        return f"rank {rank} on {host} failed: {last_words(text)}"
    if code < 0:
        return f"mpirun was ended by signal {-code} from outside"
    return f"mpirun ended with exit code {code}; the log tells why"


def is_waiting(stack: str) -> bool:
    """Tell whether a rank whose main thread has this stack (as traceback.format_stack gives it) waits for others."""
    frames = [line for line in stack.splitlines() if line.lstrip().startswith("File ")]
    return any(word in frame for frame in frames[-4:] for word in WAITING)


def stall(beats: Mapping[int, Mapping[str, Any]], patience: float) -> str:
    """Say which rank holds up the others; an empty string while any of them makes progress.

    beats: the last message of each rank: {rank: {host, idle (seconds since its last step, None before the first),
    stack}}.
    """
    idle = [float("-inf") if beat.get("idle") is None else float(beat["idle"]) for beat in beats.values()]
    if not idle or min(idle) < patience:
        return ""
    guilty = {rank: beat for rank, beat in beats.items() if not is_waiting(beat.get("stack", ""))} or dict(beats)
    told = [f"no rank has made a step for {min(idle):.0f} s"]
    for rank, beat in sorted(guilty.items())[:3]:
        told.append(
            f"rank {rank} on {beat['host']} is here, and the others wait for it:\n{beat.get('stack', '').rstrip()}"
        )
    return "\n".join(told)
