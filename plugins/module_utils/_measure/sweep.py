# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A sweep from its first run to its last: what is left to do, what came of each run, and what all of them say."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._measure import bottleneck, repeated
from ansible_collections.amx.cluster.plugins.module_utils._measure import runs as run_records
from ansible_collections.amx.cluster.plugins.module_utils._measure.sweep_request import (
    ONE_PROCESS,
    WEAK,
    Request,
    runs,
    sanity,
)

VERSION = 2
FILE = "sweep.json"
# Fields of a job that change neither what a run computes nor where.
NOT_COMPARED = ("file", "description", "expect", "hosts", "secrets", "restarts", "min_hosts", "wait", "measure")
# What the request of a sweep is continued with; counts and repeats may grow.
COMPARED = ("steps", "warmup_steps", "scaling", "constant_global_batch")
# What every run of a sweep has in common; seen in the first run, and compared when the sweep is continued.
ENVIRONMENT = ("stack", "precision", "backend")


def new(job: Job, usable: Sequence[str], request: Request, contents: Mapping[str, str], now: str) -> dict[str, Any]:
    """Return a sweep of which no run has been made. contents: {name: digest} of the files of the job."""
    return {
        "version": VERSION,
        "job": job.name,
        **dict.fromkeys(("model", *ENVIRONMENT)),
        "launcher": job.launcher,
        "cpu": None,
        "scaling": request.scaling,
        "constant_global_batch": request.constant_global_batch,
        "steps": request.steps,
        "warmup_steps": request.warmup_steps,
        "repeats": request.repeats,
        "samples_per_epoch": None,
        "state": "incomplete",
        "started": now,
        "ended": None,
        "sanity": sanity(job, usable, request),
        "layout": None,
        "runs": runs(job, usable, request),
        "counts": [],
        "one_process": None,
        "limits": None,
        "notes": [],
        "request": {
            "job": {name: value for name, value in job.to_json().items() if name not in NOT_COMPARED},
            "contents": dict(contents),
            "hosts": list(usable[: request.counts[-1]]),
            **{name: request.to_json()[name] for name in COMPARED},
        },
    }


def continued(earlier: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sweep `wanted` with the runs of an earlier one that have ended: the same, or fewer or more counts."""
    made = {run["job"]: run for run in earlier["runs"] if run["state"] != "pending"}
    kept = {name: earlier[name] for name in ("model", *ENVIRONMENT, "cpu", "started", "layout", "samples_per_epoch")}
    sweep = {**copy.deepcopy(dict(wanted)), **kept}
    sweep["runs"] = [made.get(run["job"], run) for run in sweep["runs"]]
    return summarised(_without_needless(sweep))


def interrupted(earlier: Mapping[str, Any]) -> list[str]:
    """Return the jobs that a sweep has started without recording their end: they may be running still."""
    each = [earlier.get("sanity"), *earlier.get("runs", [])]
    return [run["job"] for run in each if run and run["state"] == "pending" and run["started"]]


def left(sweep: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the runs that are to be made, in their order, without the sanity run."""
    return [run for run in sweep["runs"] if run["state"] == "pending"]


def following(sweep: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the next run; None where none is left. The sanity run is made first, each time a sweep goes on."""
    pending, first = left(sweep), sweep["sanity"]
    if pending and first and first["state"] == "pending":
        return dict(first)
    return pending[0] if pending else None


def slowest_link(network: Mapping[str, Any], hosts: Sequence[str]) -> float | None:
    """Return the nominal speed of the hosts' slowest link in Mbit/s; None where it is not known of all.

    network: network.json, as playbooks/network.yml writes it.
    """
    known = {host["host"]: host.get("link_mbit") for host in network.get("hosts", [])}
    speeds = [known[host] for host in hosts if known.get(host)]
    return float(min(speeds)) if hosts and len(speeds) == len(hosts) else None


def started(sweep: Mapping[str, Any], name: str, now: str) -> dict[str, Any]:
    """Return the sweep in which the run of this name has been started."""
    return _with(sweep, name, {"started": now, "state": "pending", "reason": ""})


def recorded(sweep: Mapping[str, Any], tried: Mapping[str, Any], now: str) -> tuple[dict[str, Any], str]:
    """Return the sweep with what came of a run, and why it must stop; an empty string where it goes on.

    tried: what the entry point trial of the role job returns. A sweep stops when its first run fails, and when a run of
    a continued one has another stack, precision or backend on all hosts than those before.
    """
    name, plan = tried["job"], tried.get("plan") or {}
    first = bool(sweep["sanity"] and sweep["sanity"]["job"] == name) or not any(
        run["state"] != "pending" for run in sweep["runs"]
    )
    found = run_records.record(tried)
    stop = ""
    if first and found["state"] == "failed":
        stop = f"The sanity run {name} failed, nothing else was started: {found['reason']}"
    elif first and sweep["stack"]:
        changed = [
            f"{key} {sweep[key]}, now {plan[key]}" for key in ENVIRONMENT if plan.get(key) not in (None, sweep[key])
        ]
        if changed:
            stop = (
                f"The sweep was begun with another environment ({'; '.join(changed)}), and results of both cannot be "
                "mixed: add -e again=true to start it anew; what there is is moved aside."
            )
    if stop:  # the run is made again when the sweep is continued
        return _with(sweep, name, {"state": "pending", "reason": found["reason"], "started": None}), stop
    progress = tried.get("progress") or {}
    samples = run_records.samples_per_epoch(progress) if found["state"] == "succeeded" else None
    result = _with(sweep, name, {**found, "started": found["started"] or now})
    result["samples_per_epoch"] = min(filter(None, (samples, sweep["samples_per_epoch"])), default=None)
    if found["state"] == "succeeded":
        result["model"] = result["model"] or (tried.get("outcome") or {}).get("model")
        for key in ENVIRONMENT:
            if result[key] is None:
                result[key] = plan.get(key)
        if not result["layout"] and plan.get("hosts"):
            host = plan["hosts"][0]
            result["layout"] = {
                "ranks_per_node": len(host["ranks"]),
                "communication_cores": sum(len(rank.get("comm_cpus") or []) for rank in host["ranks"]),
            }
        for each in result["runs"]:
            if each["job"] == name:
                each["warmup_included"] = run_records.includes_warmup(tried.get("outcome") or {})
                each["environment"] = {key: plan.get(key) for key in ENVIRONMENT}
    result = summarised(_without_needless(result))
    result["ended"] = now
    return result, ""


def _with(sweep: Mapping[str, Any], name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sweep with other values in the run of this name."""
    result = copy.deepcopy(dict(sweep))
    for run in [result["sanity"], *result["runs"]]:
        if run and run["job"] == name:
            run.update(values)
    return result


def one_process_is_one_host(sweep: Mapping[str, Any]) -> bool:
    """Tell whether the job on one host is one process on all its cores already, so that it need not be run twice."""
    layout = sweep["layout"] or {}
    on_one = any(run["hosts"] == 1 and not run["baseline"] for run in sweep["runs"])
    return on_one and layout.get("ranks_per_node") == 1 and layout.get("communication_cores") == 0


def _without_needless(sweep: dict[str, Any]) -> dict[str, Any]:
    if not one_process_is_one_host(sweep):
        return sweep
    return {**sweep, "runs": [run for run in sweep["runs"] if not run["baseline"] or run["state"] != "pending"]}


def summarised(sweep: Mapping[str, Any], link_mbit: float | None = None) -> dict[str, Any]:
    """Return the sweep with all that follows from its runs: counts, one_process, limits, notes, state, times of epochs.

    link_mbit: the nominal speed of the network, in Mbit/s, where it is known.
    """
    result = copy.deepcopy(dict(sweep))
    samples = result["samples_per_epoch"]
    for run in result["runs"]:
        epoch = samples and samples * (run["hosts"] if result["scaling"] == WEAK else 1)
        speed = run["samples_per_second"]
        run["epoch_seconds"] = epoch / speed if epoch and speed else None
    result["state"] = "incomplete" if left(result) else "complete"
    groups: dict[int, list[dict[str, Any]]] = {}
    for run in result["runs"]:
        if not run["baseline"] and run["state"] != "pending":
            groups.setdefault(run["hosts"], []).append(run)
    counts = [_count(groups[count]) for count in sorted(groups)]
    alone = [run for run in result["runs"] if run["baseline"] == ONE_PROCESS and run["state"] != "pending"]
    one = _count(alone) if alone else None
    if not one and one_process_is_one_host(result):
        one = next((entry for entry in counts if entry["hosts"] == 1), None)
    base = next((entry for entry in counts if entry["samples_per_second"]), None)
    for entry in counts:
        _compare(entry, base, one)
    if alone and one:
        _compare(one, None, one)
    result.update(counts=counts, one_process=one)
    result["limits"] = _limits(groups, counts, link_mbit)
    result["notes"] = _notes(result, base)
    return result


def _count(group: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the runs on one number of hosts say together."""
    good = [run for run in group if run["state"] == "succeeded"]
    return {
        "hosts": group[0]["hosts"],
        "ranks": next((run["ranks"] for run in [*good, *group] if run["ranks"]), None),
        "repeats": len(group),
        "failed": len(group) - len(good),
        "samples_per_second": repeated.spread([run["samples_per_second"] for run in good]),
        "epoch_seconds": repeated.spread([run["epoch_seconds"] for run in good if run["epoch_seconds"]]),
        "global_batch": next((run["global_batch"] for run in good if run["global_batch"]), None),
        "speedup": None,
        "efficiency": None,
        "speedup_over_one_process": None,
        "split": bottleneck.mean_shares(good),
    }


def _compare(entry: dict[str, Any], base: Mapping[str, Any] | None, one: Mapping[str, Any] | None) -> None:
    """Fill in what an entry is beside the job on the fewest hosts, and beside one process."""
    if base:
        least = base["hosts"]
        # The fewest hosts count as perfect: with 1 they are.
        entry["speedup"] = repeated.scaled(_beside(entry, base), least)
        entry["efficiency"] = repeated.scaled(entry["speedup"], 1 / entry["hosts"])
    if one:
        entry["speedup_over_one_process"] = _beside(entry, one)


def _beside(entry: Mapping[str, Any], other: Mapping[str, Any]) -> repeated.Spread | None:
    """Return how many times as fast an entry is as another one; a baseline is 1 beside itself, without a spread."""
    if entry is other:
        return {"median": 1.0, "low": 1.0, "high": 1.0} if entry["samples_per_second"] else None
    return repeated.ratio(entry["samples_per_second"], other["samples_per_second"])


def _limits(
    groups: Mapping[int, Sequence[Mapping[str, Any]]], counts: Sequence[Mapping[str, Any]], link_mbit: float | None
) -> dict[str, Any] | None:
    """Return what holds back the runs on the most hosts, above all the one nearest to the median of its count."""
    for entry in reversed(counts):
        speed = entry["samples_per_second"]
        if speed is None or entry["hosts"] == 1:
            continue
        good = [run for run in groups[entry["hosts"]] if run["state"] == "succeeded"]
        middle = speed["median"]
        good.sort(key=lambda each: abs(each["samples_per_second"] - middle))
        efficiency = entry["efficiency"]
        measured = [run["measured"] for run in good if run["measured"]]
        return bottleneck.limits(measured, efficiency and efficiency["median"], link_mbit)
    return None


def _notes(sweep: Mapping[str, Any], base: Mapping[str, Any] | None) -> list[str]:
    """Say what must be known to read the figures."""
    notes = []
    if sweep["limits"] and sweep["limits"]["undecided"]:
        notes.append(sweep["limits"]["undecided"])
    good = [run for run in sweep["runs"] if run["state"] == "succeeded"]
    batches = [(entry["hosts"], entry["global_batch"]) for entry in sweep["counts"] if entry["global_batch"]]
    if batches and len({size for _hosts, size in batches}) > 1:
        grows = ", ".join(f"{size} on {hosts}" for hosts, size in batches)
        notes.append(
            f"The batch of a rank is fixed, so that the global batch grows with the hosts ({grows}): an epoch has "
            "fewer, larger steps, which can change what the model learns. constant_global_batch: true compares equal "
            "steps."
        )
    if sweep["scaling"] == WEAK:
        notes.append("Weak scaling: the dataset grows with the hosts, and so does the epoch whose time is given.")
    if any(run["epoch_seconds"] for run in good):
        notes.append(
            f"The time of an epoch is extrapolated from {sweep['steps']} steps, without evaluation and saving."
        )
    if any(run.get("warmup_included") for run in good):
        notes.append(f"{run_records.WARMUP_INCLUDED[0].upper()}{run_records.WARMUP_INCLUDED[1:]}.")
    if base and base["hosts"] > 1:
        notes.append(
            f"No run on one host succeeded: the speed-up on {base['hosts']} hosts is set to {base['hosts']}, as if "
            "they scaled perfectly."
        )
    if sweep["one_process"] and one_process_is_one_host(sweep):
        notes.append("The job on one host is one process on all its cores: both baselines are the same.")
    environments = {tuple((run.get("environment") or {}).items()) for run in good}
    if len(environments) > 1:
        seen = sorted({", ".join(str(value) for _key, value in each) for each in environments})
        notes.append(f"Runs differ in more than their hosts: {'; '.join(seen)}.")
    if not sweep["sanity"]:
        notes.append("The script decides how many steps a run makes: kind of the job is not trainer.")
    return notes
