# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of jobs and networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs import profiles
from ansible_collections.amx.cluster.plugins.module_utils._jobs.cost import Price, host_seconds, titled
from ansible_collections.amx.cluster.plugins.module_utils._jobs.wire import OPERATIONS
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.sources import (
    WORDS,
    Source,
    entries,
    figure_or_name,
    mapping,
    number,
    short_cpu,
    text,
)
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.tables import (
    RESULTS,
    SPEED,
    THREADS,
    Column,
    Table,
    named,
    read_row,
)
from ansible_collections.amx.cluster.plugins.module_utils._text import count

# Metrics that say how a script ran, not what a model learnt.
_NOT_LEARNT = ("runtime", "samples", "steps_per_second", "preparation_time", "total_flos")


def throughput(source: Source) -> float | None:
    """Return the samples per second of a job's training, over all ranks; of its measured steps where there are any.

    What the Trainer reports counts the samples of all steps, also those before the checkpoint that it resumed from.
    """
    of_steps = number(mapping(source.content.get("measured")).get("samples_per_second"))
    if of_steps is not None:
        return of_steps
    speed = number(mapping(source.content.get("metrics")).get("train_samples_per_second"))
    steps, resumed = number(source.content.get("steps")), number(source.content.get("resumed_step"))
    return speed * (steps - resumed) / steps if speed is not None and steps and resumed else speed


def overview(sources: Sequence[Source], price: Price | None) -> Table:
    """Return a row for each result."""
    columns = (
        *named("results", "kind", "state", "model", "stack", "backend", "precision"),
        Column("cpu", "CPU"),
        Column("isa", "instruction set"),
        *named("hosts", "ranks", form="int"),
        Column("samples_per_step", "global batch", "int"),
        SPEED,
        Column("training_seconds", "training", "seconds", "metrics.train_runtime"),
        Column("seconds", "in all", "seconds"),
        Column("cost", titled("cost (estimate)", price), "figure"),
        *named("started", "ended", "directory"),
    )
    rows = []
    for source in sources:
        row = read_row(
            columns,
            source.content,
            results=source.label,
            kind=WORDS[source.kind],
            model=source.model,
            cpu=short_cpu(source.cpu),
            isa=source.isa,
            samples_per_second=throughput(source),
            directory=str(source.path),
        )
        row.update({name: row[name].replace("T", " ") for name in ("started", "ended")})
        attempts = [mapping(attempt) for attempt in source.content.get("attempts") or []]
        row["cost"] = price.of(1, host_seconds(attempts, row["hosts"], row["seconds"])) if price else None
        if source.kind != "job":
            row.update(dict.fromkeys(("samples_per_second", "training_seconds", "seconds", "cost")))
        rows.append(row)
    return Table("overview", "Results in this report", columns, rows)


def losses(jobs: Sequence[Source]) -> Table:
    """Return the losses of jobs, and of the runs of sweeps, by step."""
    rows = [{"results": job.label, **point} for job in jobs for point in job.losses]
    columns = (
        RESULTS,
        Column("step", "step", "int"),
        *named("epoch", "loss", form="figure"),
        Column("eval_loss", "evaluation loss", "figure"),
    )
    bad = sum("not_finite" in row for row in rows)
    note = f"{count(bad, 'loss', 'losses')} {'is' if bad == 1 else 'are'} not finite (nan, inf)." if bad else ""
    return Table("losses", "Loss by step", columns, rows, note)


def metrics(jobs: Sequence[Source]) -> Table:
    """Return what the models learnt: a row for each job and metric, before training and after."""
    rows = []
    for job in jobs:
        values = mapping(job.content.get("metrics"))
        for key in sorted(values):
            name = key.removeprefix("eval_")
            value = figure_or_name(values[key])
            learnt = (key.startswith("eval_") and not name.startswith("before_")) or key == "train_loss"
            if value is None or not learnt or any(word in name for word in _NOT_LEARNT):
                continue
            rows.append(
                {
                    "results": job.label,
                    "metric": "training loss, mean" if key == "train_loss" else name,
                    "before": figure_or_name(values.get(f"eval_before_{name}")),
                    "after": value,
                }
            )
    columns = (*named("results", "metric"), *named("before", "after", form="figure"))
    return Table("metrics", "Evaluation of the trained models", columns, rows)


def epochs(jobs: Sequence[Source], published: Mapping[str, Any]) -> Table:
    """Return the time of an epoch, and of all that a job is to make, beside what was published for the same job.

    A job that made less than an epoch has them extrapolated from the samples/s of its steps, which is training alone.
    published: as reference.load has it.
    """
    rows: list[dict[str, Any]] = []
    for job in jobs:
        training = mapping(job.content.get("training"))
        samples, speed = number(training.get("samples")), throughput(job)
        made, planned = number(job.content.get("epoch")), number(training.get("epochs"))
        if not samples or not speed:
            continue
        seconds = samples / speed
        about = {key: job.content.get(key) for key in ("hosts", "ranks", "precision")}
        own = {"results": job.label, "job": job.job, "machine": short_cpu(job.cpu), "samples": samples}
        whole = seconds * planned if planned else None
        rows.append({**about, **own, "epoch_seconds": seconds, "job_seconds": whole, "extrapolated": (made or 0) < 1})
    for name in dict.fromkeys(row["job"] for row in rows):
        for row in published["rows"]:
            if row["job"] == name:
                about = {key: row[key] for key in ("job", "hosts", "precision")}
                title = published["sources"][row["source"]]["title"]
                own = {"results": "published", "ranks": row["processes"], "machine": row["instance"]}
                own["note"] = f"{title}. {row['note']}"
                rows.append({**about, **own, f"{row['what']}_seconds": row["seconds"], "extrapolated": None})
    # The page has the job of several only, and says in its first lines how many samples an epoch has.
    if len({row["job"] for row in rows}) == 1:
        rows = [{**row, "job": None} for row in rows]
    columns = (
        *named("results", "job", "machine"),
        *named("hosts", "ranks", form="int"),
        *named("precision"),
        Column("epoch_seconds", "an epoch", "seconds"),
        Column("job_seconds", "all epochs", "seconds"),
        *named("extrapolated", "note"),
    )
    return Table("epochs", "Time of an epoch", columns, rows)


def utilization(jobs: Sequence[Source]) -> Table:
    """Return what the ranks of each host used, by seconds since the job's start."""
    rows: list[dict[str, Any]] = []
    keys = ("busy_cpus", "memory_bytes", "network_bytes_per_second")
    for job in jobs:
        hosts = mapping(mapping(job.files.get("utilization.json")).get("hosts"))
        for host, given in hosts.items():
            about = {"results": job.label, "host": text(host), "cpus": number(mapping(given).get("cpus"))}
            series = {key: values for key, values in mapping(given).items() if isinstance(values, list)}
            rows += [
                {**about, "seconds": at, **{key: _at(series.get(key, ()), place) for key in keys}}
                for place, at in enumerate(series.get("time", ()))
                if number(at) is not None
            ]
    columns = (
        *named("results", "host"),
        Column("seconds", "since the start", "seconds"),
        Column("busy_cpus", "CPUs busy", "figure"),
        Column("cpus", "of CPUs", "int"),
        Column("memory_bytes", "memory", "gib"),
        Column("network_bytes_per_second", "network", "mb"),
    )
    return Table("utilization", "Utilisation of the hosts", columns, rows)


def _at(values: Sequence[Any], place: int) -> float | None:
    return number(values[place]) if place < len(values) else None


def operations(jobs: Sequence[Source]) -> Table:
    """Return the share of each kind of operation in a profiled step by host, and what AMX would leave of it at most."""
    rows: list[dict[str, Any]] = []
    for job in jobs:
        profile = mapping(mapping(job.content.get("measured")).get("profile"))
        for host in entries(profile.get("hosts")):
            kinds = {kind: number(mapping(host.get("kinds")).get(kind)) or 0.0 for kind in OPERATIONS}
            if sum(kinds.values()) <= 0:
                continue
            name, faster = text(host.get("host")), profiles.as_on_amx({**host, "kinds": kinds})
            for where, shares in ((name, kinds), ("as on AMX (at most)", faster)):
                if shares:
                    about = {"results": job.label, "host": name, "where": where, "step_seconds": sum(shares.values())}
                    rows.append({**about, **profiles.shares(shares)})
    columns = (
        *named("results", "host", "where"),
        Column("step_seconds", "step", "milliseconds"),
        *named(*OPERATIONS, form="percent"),
    )
    note = (
        f"As on AMX: matrix products {profiles.PEAK:.0f} times as fast, the ratio of peaks, which is seldom reached; "
        "all else, attention too, as it is."
    )
    on_amx = any(row["where"] != row["host"] for row in rows)
    return Table("operations", "Kinds of operations in a step", columns, rows, note if on_amx else "")


def attempts(jobs: Sequence[Source]) -> Table:
    """Return the attempts of jobs: each start, from where, and why it ended. Seconds count from the first start."""
    rows = []
    for job in jobs:
        given = entries(job.content.get("attempts")) or entries(mapping(job.files.get("status.json")).get("attempts"))
        first = _time(job.content.get("started")) or (_time(given[0].get("started")) if given else None)
        for place, attempt in enumerate(given, 1):
            began, ended = _time(attempt.get("started")), _time(attempt.get("ended"))
            rows.append(
                {
                    "results": job.label,
                    "attempt": place,
                    "from": text(attempt.get("from")),
                    "began_seconds": began - first if began is not None and first is not None else None,
                    "ended_seconds": ended - first if ended is not None and first is not None else None,
                    "returncode": number(attempt.get("returncode")),
                    "reason": text(attempt.get("reason")),
                }
            )
    columns = (
        RESULTS,
        Column("attempt", "attempt", "int"),
        Column("from", "from"),
        Column("began_seconds", "began after", "seconds"),
        Column("ended_seconds", "ended after", "seconds"),
        Column("returncode", "exit code", "int"),
        Column("reason", "reason"),
    )
    return Table("attempts", "Attempts", columns, rows)


def _time(value: Any) -> float | None:
    """Return an ISO time as seconds since the Unix epoch; None when it is none."""
    try:
        return datetime.fromisoformat(text(value).replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def hosts(jobs: Sequence[Source]) -> Table:
    """Return a row for each host of the jobs' plans, with its core map, a letter for each core."""
    columns = (
        *named("results", "host", "address", "interface"),
        Column("isa", "instruction set"),
        Column("amx", "AMX"),
        Column("ranks", "ranks", "int"),
        THREADS,
        Column("cores", "core map, by socket and NUMA node"),
    )
    rows = []
    for job in jobs:
        for host in entries(mapping(job.files.get("plan.json")).get("hosts")):
            maps = entries(mapping(host.get("map")).get("rows"))
            row = read_row(columns, host, results=job.label, ranks=len(entries(host.get("ranks"))) or None)
            row.update(
                amx=row["amx"].replace("_", " "), cores=" | ".join(text(core_map.get("letters")) for core_map in maps)
            )
            rows.append(row)
    return Table("hosts", "Hosts", columns, rows)


def versions(jobs: Sequence[Source]) -> Table:
    """Return the versions of what the jobs ran with, where results.yml has brought them."""
    rows = []
    for job in jobs:
        stack = mapping(job.files.get("stack.json"))
        packages = mapping(stack.get("packages"))
        python = {"Python": stack["interpreter"]} if stack.get("interpreter") else {}
        rows += [
            {"results": job.label, "stack": text(stack.get("name")), "package": name, "version": text(version)}
            for name, version in {**python, **packages}.items()
        ]
    return Table("versions", "Versions", named("results", "stack", "package", "version"), rows)


def environment(jobs: Sequence[Source]) -> Table:
    """Return the environment variables of the ranks: those of all hosts once, others by host."""
    rows = []
    for job in jobs:
        of_hosts = {
            text(host.get("host")): mapping(host.get("env"))
            for host in entries(mapping(job.files.get("plan.json")).get("hosts"))
        }
        names = sorted({name for env in of_hosts.values() for name in env})
        for name in names:
            values: dict[str, list[str]] = {}
            for host, env in of_hosts.items():
                if name in env:
                    values.setdefault(text(env[name]), []).append(host)
            for value, where in values.items():
                on = "all" if len(where) == len(of_hosts) else ", ".join(where)
                rows.append({"results": job.label, "hosts": on, "variable": name, "value": value})
    return Table("environment", "Environment of the ranks", named("results", "variable", "value", "hosts"), rows)


def pairs(networks: Sequence[Source]) -> Table:
    """Return latency and bandwidth of every pair of hosts."""
    columns = (
        *named("results", "from", "to"),
        Column("latency_us", "latency, µs", "figure"),
        Column("bandwidth_mbyte_s", "bandwidth, MB/s", "figure"),
        *named("state", "reason"),
    )
    rows = []
    for network in networks:
        for pair in entries(network.content.get("pairs")):
            ends = pair.get("hosts")
            if isinstance(ends, list) and len(ends) == 2:
                own = {"from": text(ends[0]), "to": text(ends[1])}
                rows.append(read_row(columns, pair, results=network.label, **own))
    return Table("network_pairs", "Pairs of hosts", columns, rows)


def collectives(networks: Sequence[Source]) -> Table:
    """Return the time of each collective by size, tool and backend."""
    columns = (
        *named("results", "tool", "backend", "operation"),
        Column("bytes", "size", "bytes"),
        Column("ranks", "ranks", "int"),
        Column("microseconds", "median, µs", "figure"),
        Column("low", "lowest, µs", "figure"),
        Column("high", "highest, µs", "figure"),
    )
    rows = [
        read_row(columns, entry, results=network.label)
        for network in networks
        for entry in entries(network.content.get("collectives"))
    ]
    return Table("collectives", "Collectives", columns, rows)


def findings(networks: Sequence[Source]) -> Table:
    """Return what the network measurements flagged."""
    rows = [
        {"results": network.label, "kind": text(entry.get("kind")).replace("_", " "), "text": text(entry.get("text"))}
        for network in networks
        for entry in entries(network.content.get("findings"))
    ]
    columns = (*named("results", "kind"), Column("text", "finding"))
    return Table("network_findings", "Findings in the network", columns, rows)


def reference(published: Mapping[str, Any]) -> Table:
    """Return the published results, as reference.load has them."""
    sources = published["sources"]
    rows = [
        {**row, "title": sources[row["source"]]["title"], "file": sources[row["source"]]["file"]}
        for row in published["rows"]
    ]
    columns = (
        Column("series", "series"),
        Column("hosts", "hosts", "int"),
        Column("processes", "ranks", "int"),
        *named("model", "precision", "instance"),
        Column("what", "time of"),
        Column("seconds", "time", "seconds"),
        Column("speedup", "speed-up", "ratio"),
        Column("as_written", "as written"),
        Column("note", "note"),
        Column("title", "source"),
        Column("file", "file"),
    )
    return Table("reference", "Published results", columns, rows)
