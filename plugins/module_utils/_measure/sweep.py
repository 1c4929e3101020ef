# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A sweep from its first run to its last: what is left to do, what came of each run, and what all of them say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._cores.core_map import SYSTEM_LETTERS
from ansible_collections.amx.cluster.plugins.module_utils._documents import Document
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import compared
from ansible_collections.amx.cluster.plugins.module_utils._measure import bottleneck, repeated
from ansible_collections.amx.cluster.plugins.module_utils._measure import runs as run_records
from ansible_collections.amx.cluster.plugins.module_utils._measure.repeated import Spread
from ansible_collections.amx.cluster.plugins.module_utils._measure.sweep_request import (
    ONE_PROCESS,
    WEAK,
    Request,
    Run,
    runs,
    sanity,
)

VERSION = 2
FILE = "sweep.json"
# What the request of a sweep is continued with; counts and repeats may grow.
COMPARED = ("steps", "warmup_steps", "scaling", "constant_global_batch")
# What every run of a sweep has in common; seen in the first run, and compared when the sweep is continued.
ENVIRONMENT = ("stack", "precision", "backend")


@dataclass(frozen=True)
class Count(Document):
    """Summary of the runs on one number of hosts. failed: of `repeats` runs. split: shares of a step's time."""

    hosts: int
    ranks: int | None
    repeats: int
    failed: int
    samples_per_second: Spread | None
    epoch_seconds: Spread | None
    global_batch: int | None
    speedup: Spread | None = None
    efficiency: Spread | None = None
    speedup_over_one_process: Spread | None = None
    split: dict[str, float] | None = None


@dataclass(frozen=True)
class Sweep(Document):
    """The content of sweep.json. docs/scaling.md says what each field is.

    sanity: the short run that comes first, None where the script decides its length. layout: ranks_per_node,
    communication_cores and system_cores of a host of the first plan. one_process: the baseline. request: what must be
    the same to be continued.
    """

    version: int
    job: str
    model: str | None
    stack: str | None
    precision: str | None
    backend: str | None
    launcher: str
    cpu: str | None
    scaling: str
    constant_global_batch: bool
    steps: int
    warmup_steps: int
    repeats: int
    samples_per_epoch: int | None
    state: str
    started: str
    ended: str | None
    sanity: Run | None
    layout: dict[str, int] | None = None
    runs: list[Run] = field(default_factory=list)
    counts: list[Count] = field(default_factory=list)
    one_process: Count | None = None
    limits: dict[str, Any] | None = None
    notes: list[str] = field(default_factory=list)
    request: dict[str, Any] = field(default_factory=dict)


def new(job: Job, usable: Sequence[str], request: Request, contents: Mapping[str, str], now: str) -> Sweep:
    """Return a sweep of which no run has been made. contents: {name: digest} of the files of the job."""
    settings = request.to_json()
    return Sweep(
        version=VERSION,
        job=job.name,
        model=None,
        stack=None,
        precision=None,
        backend=None,
        launcher=job.launcher,
        cpu=None,
        **{name: settings[name] for name in (*COMPARED, "repeats")},
        samples_per_epoch=None,
        state="incomplete",
        started=now,
        ended=None,
        sanity=sanity(job, usable, request),
        runs=runs(job, usable, request),
        request={
            "job": compared(job, "hosts"),
            "contents": dict(contents),
            "hosts": list(usable[: request.counts[-1]]),
            **{name: settings[name] for name in COMPARED},
        },
    )


def continued(earlier: Sweep, wanted: Sweep) -> Sweep:
    """Return the sweep `wanted` with the runs of an earlier one that have ended: the same, or fewer or more counts."""
    made = {run.job: run for run in earlier.runs if run.state != "pending"}
    names = ("model", *ENVIRONMENT, "cpu", "started", "layout", "samples_per_epoch")
    kept = {name: getattr(earlier, name) for name in names}
    sweep = replace(wanted, **kept, runs=[made.get(run.job, run) for run in wanted.runs])
    return summarised(_without_needless(sweep))


def interrupted(sweep: Sweep) -> list[str]:
    """Return the jobs that a sweep has started without recording their end: they may be running still."""
    return [run.job for run in [sweep.sanity, *sweep.runs] if run and run.state == "pending" and run.started]


def left(sweep: Sweep) -> list[Run]:
    """Return the runs that are to be made, in their order, without the sanity run."""
    return [run for run in sweep.runs if run.state == "pending"]


def following(sweep: Sweep) -> Run | None:
    """Return the next run; None where none is left. The sanity run is made first, each time a sweep goes on."""
    pending = left(sweep)
    if pending and sweep.sanity and sweep.sanity.state == "pending":
        return sweep.sanity
    return pending[0] if pending else None


def slowest_link(network: Mapping[str, Any], hosts: Sequence[str]) -> float | None:
    """Return the nominal speed of the hosts' slowest link in Mbit/s; None where it is not known of all.

    network: network.json, as playbooks/network.yml writes it.
    """
    known = {host["host"]: host.get("link_mbit") for host in network.get("hosts", [])}
    speeds = [known[host] for host in hosts if known.get(host)]
    return float(min(speeds)) if hosts and len(speeds) == len(hosts) else None


def started(sweep: Sweep, name: str, now: str) -> Sweep:
    """Return the sweep in which the run of this name has been started."""
    return _with(sweep, name, {"started": now, "state": "pending", "reason": ""})


def recorded(sweep: Sweep, tried: Mapping[str, Any], now: str) -> tuple[Sweep, str]:
    """Return the sweep with what came of a run, and why it must stop; an empty string where it goes on.

    tried: what the entry point trial of the role job returns. A sweep stops when its first run fails, and when a run of
    a continued one has another stack, precision or backend on all hosts than those before.
    """
    name, plan = tried["job"], tried.get("plan") or {}
    first = bool(sweep.sanity and sweep.sanity.job == name) or len(left(sweep)) == len(sweep.runs)
    record = run_records.record(tried)
    stop = ""
    if first and record["state"] == "failed":
        stop = f"The sanity run {name} failed, nothing else was started: {record['reason']}"
    elif first and sweep.stack:
        before = {key: getattr(sweep, key) for key in ENVIRONMENT}
        changed = [f"{key} {own}, now {plan[key]}" for key, own in before.items() if plan.get(key) not in (None, own)]
        if changed:
            stop = (
                f"The sweep was begun with another environment ({'; '.join(changed)}), and results of both cannot be "
                "mixed: add -e again=true to start it anew; what there is is moved aside."
            )
    if stop:  # the run is made again when the sweep is continued
        return _with(sweep, name, {"state": "pending", "reason": record["reason"], "started": None}), stop
    succeeded = record["state"] == "succeeded"
    samples = run_records.samples_per_epoch(tried.get("progress") or {}) if succeeded else None
    values = {**record, "started": record["started"] or now}
    if succeeded:
        outcome = tried.get("outcome") or {}
        values["warmup_included"] = run_records.includes_warmup(outcome)
        values["environment"] = {key: plan.get(key) for key in ENVIRONMENT}
        known: dict[str, Any] = {key: getattr(sweep, key) or plan.get(key) for key in ENVIRONMENT}
        sweep = replace(sweep, **known, model=sweep.model or outcome.get("model"), layout=sweep.layout or _layout(plan))
    per_epoch = min(filter(None, (samples, sweep.samples_per_epoch)), default=None)
    sweep = replace(_with(sweep, name, values), samples_per_epoch=per_epoch, ended=now)
    return summarised(_without_needless(sweep)), ""


def _layout(plan: Mapping[str, Any]) -> dict[str, int] | None:
    if not plan.get("hosts"):
        return None
    host = plan["hosts"][0]
    ranks = host["ranks"]
    cores = sum(len(rank.get("comm_cpus") or []) for rank in ranks)
    letters = "".join(row["letters"] for row in host.get("map", {}).get("rows", []))
    system = sum(letters.count(letter) for letter in SYSTEM_LETTERS)
    return {"ranks_per_node": len(ranks), "communication_cores": cores, "system_cores": system}


def _with(sweep: Sweep, name: str, values: Mapping[str, Any]) -> Sweep:
    """Return the sweep with other values in the run of this name."""

    def changed(run: Run) -> Run:
        return replace(run, **values) if run.job == name else run

    return replace(sweep, sanity=sweep.sanity and changed(sweep.sanity), runs=[changed(run) for run in sweep.runs])


def one_process_is_one_host(sweep: Sweep) -> bool:
    """Return whether the job on one host is one process on all its cores already, so that it need not be run twice."""
    on_one = any(run.hosts == 1 and not run.baseline for run in sweep.runs)
    return on_one and sweep.layout == {"ranks_per_node": 1, "communication_cores": 0, "system_cores": 0}


def _without_needless(sweep: Sweep) -> Sweep:
    if not one_process_is_one_host(sweep):
        return sweep
    return replace(sweep, runs=[run for run in sweep.runs if not run.baseline or run.state != "pending"])


def summarised(sweep: Sweep, link_mbit: float | None = None) -> Sweep:
    """Return the sweep with all that follows from its runs: counts, one_process, limits, notes, state, times of epochs.

    link_mbit: the nominal speed of the network, in Mbit/s, where it is known.
    """
    samples, weak = sweep.samples_per_epoch or 0, sweep.scaling == WEAK

    def timed(run: Run) -> Run:
        epoch, speed = samples * (run.hosts if weak else 1), run.samples_per_second
        return replace(run, epoch_seconds=epoch / speed if epoch and speed else None)

    sweep = replace(sweep, runs=[timed(run) for run in sweep.runs], state="incomplete" if left(sweep) else "complete")
    groups: dict[int, list[Run]] = {}
    for run in sweep.runs:
        if not run.baseline and run.state != "pending":
            groups.setdefault(run.hosts, []).append(run)
    counts = [_count(groups[count]) for count in sorted(groups)]
    alone = [run for run in sweep.runs if run.baseline == ONE_PROCESS and run.state != "pending"]
    one_process = _count(alone) if alone else None
    if not one_process and one_process_is_one_host(sweep):
        one_process = next((entry for entry in counts if entry.hosts == 1), None)
    base = next((entry for entry in counts if entry.samples_per_second), None)
    compared = [_compared(entry, base, one_process) for entry in counts]
    if one_process:
        one_process = _compared(one_process, None, one_process) if alone else compared[counts.index(one_process)]
    sweep = replace(sweep, counts=compared, one_process=one_process, limits=_limits(groups, compared, link_mbit))
    return replace(sweep, notes=_notes(sweep, base))


def _count(group: Sequence[Run]) -> Count:
    """Return what the runs on one number of hosts say together."""
    good = [run for run in group if run.state == "succeeded"]
    return Count(
        hosts=group[0].hosts,
        ranks=next((run.ranks for run in [*good, *group] if run.ranks), None),
        repeats=len(group),
        failed=len(group) - len(good),
        samples_per_second=repeated.spread([run.samples_per_second for run in good if run.samples_per_second]),
        epoch_seconds=repeated.spread([run.epoch_seconds for run in good if run.epoch_seconds]),
        global_batch=next((run.global_batch for run in good if run.global_batch), None),
        split=bottleneck.mean_shares([run.measured for run in good if run.measured]),
    )


def _compared(entry: Count, base: Count | None, alone: Count | None) -> Count:
    """Return an entry beside the job on the fewest hosts, and beside one process."""
    if base:
        # The fewest hosts count as perfect: with 1 they are.
        speedup = repeated.scaled(_beside(entry, base), base.hosts)
        entry, own = replace(entry, speedup=speedup, efficiency=repeated.scaled(speedup, 1 / entry.hosts)), entry
    else:
        own = entry
    return replace(entry, speedup_over_one_process=_beside(own, alone)) if alone else entry


def _beside(entry: Count, other: Count) -> Spread | None:
    """Return how many times as fast an entry is as another one; a baseline is 1 beside itself, without a spread."""
    if entry is other:
        return {"median": 1.0, "low": 1.0, "high": 1.0} if entry.samples_per_second else None
    return repeated.ratio(entry.samples_per_second, other.samples_per_second)


def _limits(
    groups: Mapping[int, Sequence[Run]], counts: Sequence[Count], link_mbit: float | None
) -> dict[str, Any] | None:
    """Return what holds back the runs on the most hosts, above all the one nearest to the median of its count."""
    for entry in reversed(counts):
        speed, efficiency = entry.samples_per_second, entry.efficiency
        if speed is None or entry.hosts == 1:
            continue
        middle = speed["median"]
        good = [run for run in groups[entry.hosts] if run.state == "succeeded"]
        good.sort(key=lambda run: abs((run.samples_per_second or 0.0) - middle))
        measured = [run.measured for run in good if run.measured]
        return bottleneck.limits(measured, efficiency["median"] if efficiency else None, link_mbit)
    return None


def _notes(sweep: Sweep, base: Count | None) -> list[str]:
    """Return notes that are needed to read the figures."""
    notes = []
    if sweep.limits and sweep.limits["undecided"]:
        notes.append(sweep.limits["undecided"])
    good = [run for run in sweep.runs if run.state == "succeeded"]
    batches = [(entry.hosts, entry.global_batch) for entry in sweep.counts if entry.global_batch]
    if batches and len({size for _hosts, size in batches}) > 1:
        grows = ", ".join(f"{size} on {hosts}" for hosts, size in batches)
        notes.append(
            f"The global batch is not quite the same on all numbers of hosts: {grows}."
            if sweep.constant_global_batch
            else f"The batch of a rank is fixed, so that the global batch grows with the hosts ({grows}): an epoch has "
            "fewer, larger steps, which can change what the model learns. constant_global_batch: true compares equal "
            "steps."
        )
    if sweep.scaling == WEAK:
        notes.append("Weak scaling: the dataset grows with the hosts, and so does the epoch whose time is given.")
    if any(run.epoch_seconds for run in good):
        notes.append(f"The time of an epoch is extrapolated from {sweep.steps} steps, without evaluation and saving.")
    if any(run.warmup_included for run in good):
        notes.append(f"{run_records.WARMUP_INCLUDED[0].upper()}{run_records.WARMUP_INCLUDED[1:]}.")
    if base and base.hosts > 1:
        notes.append(
            f"No run on one host succeeded: the speed-up on {base.hosts} hosts is set to {base.hosts}, as if "
            "they scaled perfectly."
        )
    if sweep.one_process and one_process_is_one_host(sweep):
        notes.append("The job on one host is one process on all its cores: both baselines are the same.")
    environments = {tuple((run.environment or {}).items()) for run in good}
    if len(environments) > 1:
        seen = sorted({", ".join(str(value) for _key, value in each) for each in environments})
        notes.append(f"Runs differ in more than their hosts: {'; '.join(seen)}.")
    if not sweep.sanity:
        notes.append("The script decides how many steps a run makes: kind of the job is not trainer.")
    return notes
