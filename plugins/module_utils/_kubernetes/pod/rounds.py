# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages of pods on the volume about a round: one start of all ranks by torchrun, which numbers them anew.

In the job's directory on the volume, pods/ROUND/NUMBER.json has what a pod runs in that round, NUMBER.failed.json the
rank of it that failed first. File names are of one round: a network file system shows new names at once. `.beat` has
the address at which the first pod receives heartbeats, with the token; no other user can read it.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._io import read_json, write_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import faults
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.launcher import Killed

ENDPOINT = ".beat"
PODS = "pods"
OWN = "round.json"  # in the pod's own job directory
# Tells a pod from another one that has taken its place, also under the same name.
INCARNATION = "AMX_CLUSTER_INCARNATION"
CONNECT = 5  # seconds in which the first pod must accept a connection
# Tracebacks of a pod that are kept with a failure, and characters of each.
MOST, TRACEBACK = 8, 4000
# What torchrun logs when the first rank of its pod has failed (torch 2.13, torch/distributed/elastic/multiprocessing).
FAILED = re.compile(r"failed \(exitcode: (-?\d+)\) local_rank: (\d+) \(pid: \d+\)")


def endpoint(kept: Path) -> str:
    """Return the address at which the first pod receives heartbeats, as AMX_CLUSTER_BEAT has it; empty without one."""
    try:
        return (kept / ENDPOINT).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def connect(text: str) -> socket.socket:
    """Return a connection that has shown the token. Raises OSError, ValueError for an endpoint that is none."""
    address, port, token = text.rsplit(":", 2)
    connection = socket.create_connection((address, int(port)), timeout=CONNECT)
    connection.sendall(f"{token}\n".encode())
    return connection


def unreachable(text: str) -> str:
    """Return why this pod's heartbeats do not reach the first pod; an empty string where they do."""
    try:
        connect(text).close()
    except (OSError, ValueError) as error:
        where = ":".join(text.rsplit(":", 2)[:-1]) or "an address that is not on the volume"
        reason = getattr(error, "strerror", "") or str(error)
        return f"this pod's heartbeats do not reach the first pod at {where} ({reason})"
    return ""


def tell(text: str, pod: str, **fields: Any) -> None:
    """Send the supervisor a message of a pod, not of one of its ranks. What cannot be sent is not sent."""
    message = {"rank": -1, "host": pod, "idle": 0, "files": {}, "oom_kills": 0, **fields}
    with contextlib.suppress(OSError, ValueError), connect(text) as connection:
        connection.sendall(json.dumps(message).encode() + b"\n")


def announce(
    kept: Path, here: Path, plan: Mapping[str, Any], environ: Mapping[str, str], heartbeats: str
) -> dict[str, Any]:
    """Write what this pod runs in the round that torchrun has begun, here and on the volume. Returns it.

    plan: as pod_start.complete returns it. heartbeats: why they do not reach the first pod.
    """
    entry = {
        "version": 1,
        # Every round has a store of its own, at a port that was free.
        "round": re.sub(r"[^\w.]+", "-", f"{environ['MASTER_ADDR']}-{environ['MASTER_PORT']}"),
        "number": int(environ["AMX_CLUSTER_INDEX"]),
        "pod": plan["hosts"][0]["host"],
        "node": environ.get("AMX_CLUSTER_NODE", ""),
        "incarnation": environ.get(INCARNATION, ""),
        "pods": int(environ.get("GROUP_WORLD_SIZE", 1)),
        "heartbeats": heartbeats,
        "host": plan["hosts"][0],
    }
    directory = kept / PODS / str(entry["round"])
    directory.mkdir(parents=True, exist_ok=True)
    write_json(directory / f"{entry['number']}.json", entry)
    write_json(here / OWN, entry)
    return entry


def fail(kept: Path, here: Path, exitcode: int, local: int, log: str, out_of_memory: bool) -> None:
    """Write on the volume which rank of this pod failed first in its round, and what ranks have printed about it."""
    entry = read_json(here / OWN)
    if entry is None:
        return
    ranks = entry["host"]["ranks"]
    # Each of them complete, also where the rank was killed as it printed: other pods' follow.
    traces = "".join(
        f"--- rank {rank} on {host} failed ---\n{text[-TRACEBACK:].rstrip()}\n--- end of rank {rank} ---\n"
        for rank, host, text in faults.tracebacks(log)[:MOST]
    )
    record = {
        "version": 1,
        "pod": entry["pod"],
        "rank": ranks[local]["rank"] if local < len(ranks) else -1,
        "exitcode": exitcode,
        "out_of_memory": out_of_memory,
        "log": traces,
    }
    with contextlib.suppress(OSError):
        write_json(kept / PODS / entry["round"] / f"{entry['number']}.failed.json", record)


def entries(kept: Path, name: str, pods: int) -> dict[int, dict[str, Any]]:
    """Return what is known of a round, {number of a pod: its entry}. pods: how many the job has at most."""
    return _of_pods(kept / PODS / name, "{}.json", pods)


def failures(kept: Path, name: str, pods: int) -> list[dict[str, Any]]:
    """Return the failures that pods have written in a round, in the order of their numbers."""
    return list(_of_pods(kept / PODS / name, "{}.failed.json", pods).values())


def _of_pods(directory: Path, form: str, pods: int) -> dict[int, dict[str, Any]]:
    records = ((number, read_json(directory / form.format(number))) for number in range(pods))
    return {number: record for number, record in records if record}


def refuse(kept: Path, number: int, pod: str, reason: str) -> None:
    """Write on the volume why a pod cannot run its ranks; an empty reason removes what it has written."""
    path = kept / PODS / f"{number}.refused.json"
    if not reason:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"version": 1, "pod": pod, "reason": reason})


def refusals(kept: Path, pods: int) -> list[str]:
    """Return why pods cannot run their ranks, a line for each."""
    return [
        f"pod {refusal['pod']}: {refusal['reason']}"
        for refusal in _of_pods(kept / PODS, "{}.refused.json", pods).values()
    ]


def join(own: Mapping[str, Any], known: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the plan of a round with all pods that are known.

    own: the plan of one of them, in which the ranks of all others are one entry without a name. What is left of it are
    the ranks of pods that are not known.
    """
    hosts = sorted((entry["host"] for entry in known.values()), key=lambda host: host["first_rank"])
    there = {rank["rank"] for host in hosts for rank in host["ranks"]}
    rest = [{"rank": number, "env": {}} for number in range(own["world_size"]) if number not in there]
    nameless = {**own["hosts"][0], "host": "", "address": "", "env": {}, "ranks": rest, "warnings": []}
    return {**own, "hosts": [*hosts, *([nameless] if rest else [])]}


def lost(before: Mapping[int, Mapping[str, Any]], now: Mapping[int, Mapping[str, Any]]) -> dict[str, str]:
    """Return {name of a pod: why} of the pods of a round that are not in the next one."""
    reasons = {}
    for number, entry in before.items():
        if number not in now:
            reasons[entry["pod"]] = "the job goes on without it"
        elif now[number]["incarnation"] != entry["incarnation"]:
            reasons[entry["pod"]] = "it was lost, and another one has taken its place"
    return reasons


def cause(
    failed: Sequence[Mapping[str, Any]],
    gone: Mapping[str, str],
    ended: Sequence[int],
    code: int,
    failures: Sequence[faults.Failure] = (),
) -> str:
    """Return why a round has ended: which rank in which pod failed first.

    failed: what `failures` returns. gone: what `lost` returns. ended: ranks in the order in which their heartbeats
    ended. code: of torchrun in the first pod. failures: what ranks have reported to the supervisor.
    """
    order = {rank: place for place, rank in enumerate(ended)}
    killed = sorted(
        (entry for entry in failed if entry["exitcode"] < 0), key=lambda entry: order.get(entry["rank"], len(order))
    )
    first = Killed(killed[0]["rank"], killed[0]["pod"], -killed[0]["exitcode"]) if killed else None
    memory = [entry["pod"] for entry in failed if entry["out_of_memory"]]
    log = "\n".join(entry["log"] for entry in failed)
    if failed and not gone and not first and not memory and not faults.tracebacks(log):
        earliest = min(failed, key=lambda entry: order.get(entry["rank"], len(order)))
        reported = [failure for failure in failures if failure.rank == earliest["rank"]]
        return (reported or [faults.Failure(earliest["rank"], earliest["pod"], code=earliest["exitcode"])])[
            0
        ].describe()
    return faults.cause(log, code, gone, memory, "torchrun", first)


def is_decided(failed: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether one of these failures explains the others: they do not only tell of lost connections."""
    traces = [trace for entry in failed for trace in faults.tracebacks(entry["log"])]
    own = [trace for trace in traces if not faults.CONSEQUENCES.search(faults.last_words(trace[2]))]
    return bool(own) or any(entry["exitcode"] < 0 for entry in failed)


def clear(kept: Path) -> None:
    """Remove what pods have told each other: the job has ended."""
    shutil.rmtree(kept / PODS, ignore_errors=True)
    (kept / ENDPOINT).unlink(missing_ok=True)
