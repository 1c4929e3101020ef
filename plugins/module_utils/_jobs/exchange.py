# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A short exchange of messages between every pair of hosts, over the fabric and with the variables of a job.

One rank on each host (runtime/amx_cluster/exchange_ranks.py) exchanges messages with every other one, in the rounds of
a tournament: no host waits for two. What one finds is a line that begins with LINE; all of them are evaluated here.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._hosts import login_shell
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Plan
from ansible_collections.amx.cluster.plugins.module_utils._text import count

LINE = "amx.cluster exchange: "
SCRIPT, LOG = "exchange.sh", "exchange.log"
# Seconds that mpirun may take until its ranks have started, and that a pair may take.
START, PAIR = 120, 5
UNSAID = "unsaid"
REMEDY = f"{LOG} in the job directory has what MPI printed; cluster_fabric: tcp does without the fabric"


@dataclass(frozen=True)
class Pair:
    """Two hosts, and how their exchange went. microseconds: how long each waited for a small message of the other, None
    where it failed. error: why. tested: whether they met; not where one of them was still waiting for another one."""

    first: str
    second: str
    microseconds: float | None
    error: str = ""
    tested: bool = True


@dataclass(frozen=True)
class Outcome:
    """Outcome of the exchange. reason: why the job cannot run, empty when it can. note: what to note of it."""

    reason: str = ""
    note: str = ""


def rounds(players: int) -> list[list[tuple[int, int]]]:
    """Return a round-robin tournament: in each round, the pairs that meet, the lower number first.

    Everyone meets everyone else once. n players take n - 1 rounds; an odd number of them takes n, in each of which
    another one pauses (the circle method: one stays, the others move on by one place).
    """
    if players < 2:
        return []
    circle = [*range(players), *([-1] if players % 2 else [])]
    rounds = []
    for _round in range(len(circle) - 1):
        half = len(circle) // 2
        pairs = zip(circle[:half], reversed(circle[half:]))
        rounds.append(sorted((min(pair), max(pair)) for pair in pairs if -1 not in pair))
        circle = [circle[0], circle[-1], *circle[1:-1]]
    return rounds


def script(plan: Plan, python: str) -> str:
    """Return exchange.sh, which starts the exchange of a plan's hosts in the job directory."""
    hosts = len(plan.hosts)
    command = f"mpirun -f hostfile -n {hosts} -ppn 1 \\\n  {shlex.quote(python)} {shlex.quote(plan.runtime)} exchange"
    return TEXT.format(job=plan.job, hosts=hosts, ignore=login_shell.IGNORE, command=command)


def evaluate(text: str, hosts: Sequence[str], otherwise: str) -> list[Pair]:
    """Return how each pair of hosts got on. text: what the ranks printed. otherwise: why a pair said nothing."""
    reports: dict[tuple[int, int], Pair] = {}
    for line in _lines(text):
        if "pair" not in line:
            continue
        first, second = line["pair"]
        names = hosts[first], hosts[second]
        known = reports.get((first, second))
        if "waits" in line:
            waits, other = (hosts[rank] for rank in line["waits"])
            reports[first, second] = Pair(*names, None, f"{waits} waits for {other}", tested=False)
        # One of both may see an error that the other one does not see.
        elif not known or (known.tested and not known.error):
            reports[first, second] = Pair(*names, line["microseconds"], line["error"])
    return [
        reports.get((first, second), Pair(hosts[first], hosts[second], None, otherwise))
        for first, second in sorted(pair for pairs in rounds(len(hosts)) for pair in pairs)
    ]


def conclude(fabric: str, text: str, hosts: Sequence[str], otherwise: str) -> Outcome:
    """Return what follows from the exchange. fabric: its name. The other arguments are those of evaluate."""
    missing = next((line["missing"] for line in _lines(text) if "missing" in line), "")
    if missing:
        return Outcome(note=f"the fabric {fabric} was not tested between the hosts: {missing}")
    if not any("pair" in line for line in _lines(text)):
        return Outcome(f"no pair of hosts could exchange messages over the fabric {fabric}: {otherwise}. {REMEDY}")
    pairs = evaluate(text, hosts, otherwise)
    broken = [pair for pair in pairs if pair.error and pair.tested]
    if broken:
        left = sum(not pair.tested for pair in pairs)
        lines = "; ".join(f"{pair.first} and {pair.second}: {pair.error}" for pair in broken[:5])
        rest = f"; and {count(len(broken) - 5, 'further pair')}" if len(broken) > 5 else ""
        rest += f" ({count(left, 'pair')} not tested, because a host still waited for another one)" if left else ""
        return Outcome(
            f"{len(broken)} of {len(pairs)} pairs of hosts could not exchange messages over the fabric {fabric}: "
            f"{lines}{rest}. {REMEDY}"
        )
    times = sorted((pair.microseconds or 0.0, f"{pair.first} and {pair.second}") for pair in pairs)
    middle = median(taken for taken, _names in times)
    slowest, names = times[-1]
    return Outcome(
        note=f"every pair of hosts exchanged messages over the fabric {fabric}: {middle:.1f} µs each way, at most "
        f"{slowest:.1f} µs ({names})"
    )


def run(directory: Path, plan: Mapping[str, Any], stopped: Callable[[], bool], start: float = START) -> Outcome:
    """Run the exchange in a job directory, and return how it went; at once where its job has none.

    stopped: whether the job is to be ended. start: seconds until the ranks must have started. Raises OSError.
    """
    if not (directory / SCRIPT).exists():
        return Outcome()
    hosts = [host["host"] for host in plan["hosts"]]
    end = time.monotonic() + start + PAIR * len(rounds(len(hosts)))
    log = directory / LOG
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["bash", SCRIPT],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        while process.poll() is None and time.monotonic() < end and not stopped():
            if all(pair.error != UNSAID for pair in evaluate(_read(log), hosts, UNSAID)):
                # Those that found an error do not leave MPI by themselves; the other one of a pair may see one, too.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(2)
                break
            time.sleep(0.1)
        over = process.poll() is None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if stopped():
        return Outcome()
    text = _read(log)
    ended = "the exchange did not end" if over else f"mpirun ended with exit code {process.returncode}"
    last = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(LINE)][-1:]
    return conclude(plan["fabric"]["name"], text, hosts, ": ".join([ended, *last]))


def _read(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")


def _lines(text: str) -> list[dict[str, Any]]:
    lines = []
    for line in text.splitlines():
        if line.startswith(LINE):
            with contextlib.suppress(ValueError):  # it is being written
                lines.append(json.loads(line[len(LINE) :]))
    return lines


TEXT = """\
#!/usr/bin/env bash
# Exchange messages between every pair of the {hosts} hosts of job {job}, over its fabric. Written by amx.cluster from
# plan.json.
set -euo pipefail
cd "$(dirname "${{BASH_SOURCE[0]}}")"

{ignore}
set -a
source ./env
set +a

exec {command}
"""
