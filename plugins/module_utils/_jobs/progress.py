# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person wants to see of a running job, and of one that failed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._text import duration

# What a rank's observer prints around its traceback (roles/job/files/observe/sitecustomize.py).
FAILURE = re.compile(
    r"^--- rank (\d+) on (\S+) failed ---\n(.*?)(?:^--- end of rank \1 ---$|\Z)", re.MULTILINE | re.DOTALL
)
METRICS = {"loss": "loss", "eval_loss": "evaluation loss", "eval_accuracy": "evaluation accuracy"}


def describe(progress: Mapping[str, Any]) -> str:
    """Say in one line how far a job is.

    progress: progress.json, as a rank's observer writes it: step, max_steps, epoch, samples_per_step (over all ranks),
    began and time (seconds since the Unix epoch), first_step (that it began after, where it goes on from a checkpoint),
    metrics ({name: latest value}); or what of_rows returns.
    """
    step, last = progress["step"], progress["max_steps"]
    unit = progress.get("unit", "step")
    parts = [f"{unit} {step}/{last}"]
    if progress.get("epoch") is not None:
        parts.append(f"epoch {progress['epoch']:.2f}")
    parts += [f"{words} {progress['metrics'][key]:.4g}" for key, words in METRICS.items() if key in progress["metrics"]]
    elapsed = progress["time"] - progress["began"]
    made = step - progress.get("first_step", 0)
    if made > 0 and elapsed > 0:
        parts.append(f"{made * progress['samples_per_step'] / elapsed:.1f} {'rows' if unit == 'row' else 'samples'}/s")
        if step < last:
            parts.append(f"{duration((last - step) * elapsed / made)} left")
    return "  ".join(parts)


def of_rows(ranks: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return how far a prediction is, in the form of progress.json; empty for a job that predicts no rows.

    ranks: ranks.json. A rank's `rows` are {rows (that it has), of (all of its own), first (that were there when it
    began), began, time}; rows count once they are predicted, and those of a rank that has not told anything do not.
    """
    told = [rank["rows"] for rank in ranks.values() if rank.get("rows")]
    if not told:
        return {}
    return {
        "unit": "row",
        "step": sum(one["rows"] for one in told),
        "max_steps": sum(one["of"] for one in told),
        "first_step": sum(one["first"] for one in told),
        "began": min(one["began"] for one in told),
        "time": max(one["time"] for one in told),
        "samples_per_step": 1,
        "epoch": None,
        "metrics": {},
    }


def first_failure(log: str, lines: int = 12) -> str:
    """Return the part of a log that tells why the job failed.

    That is the traceback of the first rank that failed, headed by its rank and host; where none printed one, the last
    `lines` lines.
    """
    found = FAILURE.search(log)
    if found is None:
        return "\n".join([line for line in log.splitlines() if line.strip()][-lines:])
    return f"rank {found[1]} on {found[2]}:\n{found[3].rstrip()}"


def describe_hosts(
    before: Mapping[str, Mapping[str, Any]], after: Mapping[str, Mapping[str, Any]], most: int = 4
) -> str:
    """Say in one line what each host did between two looks; an empty string where there are not two of any rank.

    before, after: ranks.json, {rank: {host, time, cpu_seconds, rss_bytes, network_bytes, ...}}. With more than `most`
    hosts, those whose ranks computed least are named: they hold up the others.
    """
    hosts: dict[str, dict[str, float]] = {}
    for rank, now in after.items():
        then = before.get(rank)
        if then is None or now["time"] <= then["time"] or now["host"] != then["host"]:
            continue
        seconds = now["time"] - then["time"]
        host = hosts.setdefault(now["host"], {"cpu": 0.0, "memory": 0.0, "network": 0.0})
        host["cpu"] += (now["cpu_seconds"] - then["cpu_seconds"]) / seconds
        host["memory"] += now["rss_bytes"] / 2**30
        # Ranks of one host count the same interface.
        host["network"] = max(host["network"], (now["network_bytes"] - then["network_bytes"]) / seconds / 1e6)
    named = sorted(hosts.items(), key=lambda item: item[1]["cpu"])[:most] if len(hosts) > most else hosts.items()
    said = [
        f"{name} {use['cpu']:.1f} CPUs {use['memory']:.1f} GiB {use['network']:.1f} MB/s" for name, use in sorted(named)
    ]
    return ("least busy: " if len(hosts) > most else "") + "; ".join(said)
