# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Estimate of a job's time: a few steps are measured on one host, and the exchange with others is computed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._documents import Document
from ansible_collections.amx.cluster.plugins.module_utils._jobs import batches
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._jobs.memory_forecast import FULL, OPTIMIZER
from ansible_collections.amx.cluster.plugins.module_utils._jobs.wire import PARTS
from ansible_collections.amx.cluster.plugins.module_utils._measure import runs, step_model
from ansible_collections.amx.cluster.plugins.module_utils._measure.prediction import interpolated
from ansible_collections.amx.cluster.plugins.module_utils._measure.sweep_request import Run, default_counts
from ansible_collections.amx.cluster.plugins.module_utils._text import columns, count, duration, names, wrapped

VERSION = 1
FILE = "estimate.json"
OPTIONS: dict[str, Any] = {"estimate": True, "steps": 5, "warmup_steps": 5}
"""What a user can set, with the defaults. steps: measured ones, after the warm-up."""

SPARSE = 0.5
"""Share of an embedding up to which backend mpi sends only the rows that a batch has touched (docs/collectives.md)."""


@dataclass(frozen=True)
class Row(Document):
    """Estimate for a number of hosts. seconds: of a step, an epoch and the job; None where it is not known.

    exchange_seconds: of them in a step, those that exchanging gradients with other hosts adds.
    """

    hosts: int
    ranks: int
    global_batch: int
    step_seconds: float
    exchange_seconds: float
    steps_per_epoch: int | None
    epoch_seconds: float | None
    steps: int | None
    job_seconds: float | None


@dataclass(frozen=True)
class Network(Document):
    """The network that was computed with. source: all_reduce, pairs (both of network.json), link (nominal) or unknown.

    mbit: of a host, None where all_reduce was measured. text: says it.
    """

    source: str
    text: str
    mbit: float | None = None
    measured: str | None = None


@dataclass(frozen=True)
class Estimate(Document):
    """The content of estimate.json, which `amx plan JOB --estimate --json` prints, too.

    run: the measured one. links: {host: nominal Mbit/s}. training: what the job's first rank found of its model and
    dataset, such as the bytes of its gradients. bytes_per_step: those that a rank exchanges; None where they are not
    known. network: what was computed with. rows: by number of hosts. notes: what could not be computed, and why.
    """

    version: int
    job: str
    hosts: int
    steps: int
    warmup_steps: int
    started: str
    run: Run
    links: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    bytes_per_step: int | None = None
    network: Network | None = None
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def bytes_factor(job: Job, precision: str) -> float:
    """Return how many times the bytes of its gradients a step's all_reduce stands for (docs/sharding.md, the table).

    All_reduce sends a byte twice, and gathering parameters or reducing gradients to parts once.
    """
    if job.sharding in (FULL, OPTIMIZER):
        gathered = (2 if job.sharding == FULL else 1) * (0.5 if precision == "bf16" else 1.0)
        return (gathered + 1) / 2
    return 0.5 if job.gradient_compression == "bf16" else 1.0


def network_of(network: Mapping[str, Any], links: Mapping[str, Any], hosts: Sequence[str], run: Run) -> Network:
    """Return which figures of the network there are for these hosts, the best ones first.

    network: network.json. links: {host: nominal Mbit/s}. run: the measured one, whose backend counts.
    """
    backend, per_host = (run.environment or {}).get("backend"), run.ranks_per_node or 1
    measured = [host["host"] for host in network.get("hosts", []) if host["host"] in hosts]
    day = str(network.get("ended") or network.get("started") or "")[:10]
    if len(measured) > 1:
        where = f"playbooks/network.yml between {names(measured)} on {day}"
        rows = _all_reduces(network, backend)
        if rows and rows[0]["ranks"] == per_host * len(network["hosts"]):
            return Network("all_reduce", f"all_reduce with {backend} as measured by {where}", measured=day)
        speeds = [
            pair["bandwidth_mbyte_s"]
            for pair in network.get("pairs", [])
            if pair.get("bandwidth_mbyte_s") and set(pair["hosts"]) <= set(hosts)
        ]
        if speeds:
            mbit = 8.0 * min(speeds)
            return Network("pairs", f"{_gigabits(mbit)} as measured by {where}", mbit, day)
    known = [float(links[host]) for host in hosts if links.get(host)]
    if known:
        text = f"{_gigabits(min(known))}, the nominal speed of the slowest link, which was not measured"
        return Network("link", text, min(known))
    return Network("unknown", "its speed is not known")


def _all_reduces(network: Mapping[str, Any], backend: str | None) -> list[Mapping[str, Any]]:
    wanted = ("torch", backend, "all_reduce")
    return [
        row
        for row in network.get("collectives", [])
        if (row["tool"], row["backend"], row["operation"]) == wanted and row.get("microseconds")
    ]


def _gigabits(mbit: float) -> str:
    return f"{mbit / 1000:.3g} Gbit/s"


def estimated(
    estimate: Estimate, job: Job, tried: Mapping[str, Any], network: Mapping[str, Any], hosts: Sequence[str], most: int
) -> Estimate:
    """Return the estimate with all that follows from its run, which has succeeded.

    tried: what the entry point trial of the role job returns. network: network.json, empty without one. hosts: those of
    the plan. most: how many hosts the job could have.
    """
    progress, plan = tried.get("progress") or {}, tried.get("plan") or {}
    record = runs.record(tried)
    run = replace(estimate.run, **record, environment={"backend": plan.get("backend"), "precision": plan["precision"]})
    training = progress.get("training") or {}
    size = training.get("gradient_bytes")
    used = network_of(network, estimate.links, hosts, run)
    estimate = replace(estimate, run=run, training=training, network=used, bytes_per_step=size)
    counts = sorted({*default_counts(max(most, len(hosts))), len(hosts)})
    counts = [number for number in counts if not batches.refusal(job.global_batch, [run.ranks or 1] * number)]
    notes = [*filter(None, [batches.refusal(job.global_batch, [run.ranks or 1] * len(hosts))])]
    if job.global_batch:
        notes.append("With global_batch, a rank of more hosts is taken to compute in proportion to its samples.")
    if len(counts) > 1 and (size is None or used.source == "unknown"):
        counts = [1]
        missing = "the number of parameters" if size is None else "the speed of the network"
        ask = "" if size is None else f": playbooks/network.yml -e job={job.file} measures it"
        notes.append(f"Nothing is computed for more hosts: {missing} is not known{ask}.")
    elif len(counts) > 1 and used.source == "link":
        notes.append(f"playbooks/network.yml -e job={job.file} measures the network, which makes this more accurate.")
    comm = any(rank.get("comm_cpus") for host in plan["hosts"] for rank in host["ranks"])
    rows = []
    for number in counts:
        step = record["step_seconds"]["mean"]
        if number > 1:
            factor = bytes_factor(job, plan["precision"])
            step = max(step * _share(job, run, number), _step(estimate, job, network, number, factor, comm))
        rows.append(_row(estimate, job, number, step))
    if rows[0].steps_per_epoch is None:
        notes.append("How long an epoch takes is not known: the dataset has no length.")
    if job.prepare:
        notes.append("What `prepare` made for these steps is not kept: the start of the job makes it again.")
    return replace(estimate, rows=rows, notes=notes)


def _share(job: Job, run: Run, hosts: int) -> float:
    """Return the samples of a rank's step on so many hosts, divided by those on one."""
    ranks = run.ranks or 1
    return batches.of_job(job, ranks * hosts).size / batches.of_job(job, ranks).size / hosts


def _step(
    estimate: Estimate, job: Job, network: Mapping[str, Any], hosts: int, factor: float, has_comm_core: bool
) -> float:
    """Return the seconds of a step on several hosts."""
    measured, backend = estimate.run.measured or {}, (estimate.run.environment or {}).get("backend")
    split = {
        part: statistics.fmean(rank[part] for rank in measured["ranks"])
        for part in PARTS
        if all(rank.get(part) is not None for rank in measured["ranks"])
    }
    share = _share(job, estimate.run, hosts)
    compute = split.get("compute", measured["step_seconds"]["mean"]) * share
    # Gradients are exchanged in the last of the batches that a step accumulates.
    last = compute / batches.of_job(job, (estimate.run.ranks or 1) * hosts).accumulation
    parts = step_model.buckets(_weights(estimate.training, hosts, backend))
    moving = [_moving(estimate, network, part.size, hosts, factor) for part in parts]
    step = step_model.step_seconds(last, [part.work for part in parts], moving, 0.0, has_comm_core)
    return compute - last + step + split.get("input", 0.0) * share + split.get("other", 0.0)


def _weights(training: Mapping[str, Any], hosts: int, backend: str | None) -> list[step_model.Weight]:
    """Return what is exchanged in the order of the backward pass: layers of equal pieces, and embeddings at its end."""
    embedding, touched = training.get("embedding_bytes") or 0, training.get("touched")
    layers = training["gradient_bytes"] - embedding
    if backend == "mpi" and touched is not None:
        reached = 1 - (1 - touched) ** hosts
        embedding = round(embedding * reached) if reached <= SPARSE else embedding
    chunks = math.ceil(layers / step_model.PIECE)
    weights = [step_model.Weight(layers // chunks, 1 / chunks)] * chunks if chunks else []
    return [*weights, step_model.Weight(embedding, 0.0 if chunks else 1.0)] if embedding else weights


def _moving(estimate: Estimate, network: Mapping[str, Any], size: int, hosts: int, factor: float) -> step_model.Moving:
    """Return what exchanging a bucket takes. factor: bytes_factor."""
    used, backend = estimate.network, (estimate.run.environment or {}).get("backend")
    per_byte = step_model.PER_BYTE["gloo" if backend == "gloo" else "mpi"]
    if used is not None and used.mbit:
        link = step_model.Link(used.mbit * 1e6 / 8)
        # Gradients that travel as bf16 are converted, which costs the processor as much.
        sent, cost = round(size * factor), per_byte / min(1.0, factor)
        return step_model.all_reduce(sent, hosts, estimate.run.ranks_per_node or 1, link, cost, backend != "gloo")
    points = [(int(row["bytes"]), row["microseconds"] / 1e6) for row in _all_reduces(network, backend)]
    # A host sends 2 (n - 1) / n times the bytes, whatever the algorithm.
    before = len(network["hosts"])
    seconds = interpolated(points, size * factor) * (1 - 1 / hosts) / (1 - 1 / before)
    return step_model.Moving(seconds, min(seconds, size * per_byte * max(1.0, factor)))


def _row(estimate: Estimate, job: Job, hosts: int, step: float) -> Row:
    run, training = estimate.run, estimate.training
    share = _share(job, run, hosts)
    batch = round((run.global_batch or 0) * hosts * share)
    per_epoch = math.ceil(training["samples"] / batch) if training.get("samples") and batch else None
    limit, epochs = job.args.get("max_steps"), training.get("epochs")
    steps = limit if isinstance(limit, int) and limit > 0 else None
    if steps is None and per_epoch and epochs:
        steps = math.ceil(per_epoch * epochs)
    alone = (run.step_seconds or {})["mean"] * share
    return Row(
        hosts=hosts,
        ranks=(run.ranks or 1) * hosts,
        global_batch=batch,
        step_seconds=step,
        exchange_seconds=step - alone,
        steps_per_epoch=per_epoch,
        epoch_seconds=per_epoch * step if per_epoch else None,
        steps=steps,
        job_seconds=steps * step if steps else None,
    )


def text(estimate: Estimate, path: str) -> str:
    """Return the estimate for a person. path: of estimate.json."""
    run = estimate.run
    if not estimate.rows:
        return f"Job {estimate.job} has no estimate: {run.reason or 'its steps were not measured'}"
    own = next((row for row in estimate.rows if row.hosts == estimate.hosts), estimate.rows[0])
    basis = "computed from" if own.hosts > 1 else "from"
    where = f"{basis} {estimate.steps} measured steps on {run.names[0]} ({_time(estimate.rows[0].step_seconds)} each)"
    takes = [f"an epoch takes about {_time(own.epoch_seconds)}"] if own.epoch_seconds else []
    if own.job_seconds:
        takes.append(f"the job ({_length(estimate, own)}) about {_time(own.job_seconds)}")
    head = f"Job {estimate.job} on {count(own.hosts, 'host')}: "
    lines = wrapped(head, f"{', '.join(takes) or f'a step takes about {_time(own.step_seconds)}'}, {where}.")
    rows = [["hosts", "ranks", "global batch", "step", "of it exchange", "steps per epoch", "epoch", "job", ""]]
    rows += [
        [
            str(row.hosts),
            str(row.ranks),
            str(row.global_batch),
            _time(row.step_seconds),
            f"{row.exchange_seconds / row.step_seconds:.0%}",
            str(row.steps_per_epoch or "-"),
            _time(row.epoch_seconds),
            _time(row.job_seconds),
            "measured step" if row.hosts == 1 else "computed",
        ]
        for row in estimate.rows
    ]
    lines += ["", *columns(rows), ""]
    if estimate.network and len(estimate.rows) > 1:
        trained = estimate.training.get("parameters") or 0
        size = (estimate.bytes_per_step or 0) / 1e6
        lines += wrapped("Network: ", f"{estimate.network.text}.")
        lines += wrapped("Exchanged: ", f"gradients of {trained / 1e6:.3g} million trained parameters, {size:.3g} MB.")
    lines += [line for note in estimate.notes for line in wrapped("- ", note)]
    lines += wrapped("- ", "Not in it: the start, preparing data, evaluations, checkpoints, and hosts that are slower.")
    return "\n".join([*lines, "", f"All figures: {path}"])


def _length(estimate: Estimate, row: Row) -> str:
    epochs = estimate.training.get("epochs")
    whole = row.steps_per_epoch and epochs and row.steps == math.ceil(row.steps_per_epoch * epochs)
    return f"{epochs:g} epoch{'' if epochs == 1 else 's'}" if whole else f"{row.steps} steps"


def _time(seconds: float | None) -> str:
    """Return a duration; a short one with its digits."""
    if seconds is None:
        return "-"
    return f"{seconds:.3g} s" if seconds < 10 else duration(seconds)
