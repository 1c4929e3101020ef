# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of one run of a job, read from what every job leaves: results.json, the plan and progress.json."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

# The metric of transformers' Trainer in output/all_results.json.
THROUGHPUT = "train_samples_per_second"

WARMUP_INCLUDED = "samples/s are the script's own figure, which counts the warm-up steps, too"


def succeeded(state: str, reason: str, message: str) -> tuple[str, str]:
    """Return the state and the reason of a run in which a part failed: `message` is why, empty where nothing did."""
    if state == "succeeded" and not message:
        return "succeeded", ""
    return "failed", reason or "\n".join(message.strip().splitlines()[:4]) or "it ended without a reason"


def record(tried: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a run came to: the fields of a run in sweep.json that are not known before it.

    tried: {state, reason, plan, progress, outcome} as the entry point trial of the role job returns it; outcome is the
    content of results.json, empty where the run did not come so far. A run that succeeded without a throughput has
    failed as a measurement; the reason says what to do.
    """
    plan, outcome = tried.get("plan") or {}, tried.get("outcome") or {}
    state, reason = succeeded(str(tried.get("state")), str(outcome.get("reason") or ""), str(tried.get("reason") or ""))
    measured = outcome.get("measured") or None
    speed = samples_per_second(outcome)
    if state == "succeeded" and speed is None:
        state, reason = "failed", without_throughput(str(outcome.get("output") or "output"))
    hosts = plan.get("hosts") or []
    ranks = [len(host["ranks"]) for host in hosts]
    threads = sorted({host["threads_per_rank"] for host in hosts})
    succeeded_now = state == "succeeded"
    return {
        "state": state,
        "reason": reason,
        "ranks": sum(ranks) or None,
        "ranks_per_node": max(ranks, default=None),
        "threads_per_rank": threads[-1] if threads else None,
        "started": outcome.get("started"),
        "seconds": outcome.get("seconds"),
        "samples_per_second": speed if succeeded_now else None,
        "step_seconds": measured["step_seconds"] if measured and succeeded_now else None,
        "global_batch": global_batch(tried),
        "measured": measured if succeeded_now else None,
    }


def samples_per_second(outcome: Mapping[str, Any]) -> float | None:
    """Return the samples per second of a run, over all ranks; None where its results have no such figure.

    What was measured comes first: it leaves the warm-up steps out.
    """
    measured = outcome.get("measured") or {}
    for value in (measured.get("samples_per_second"), (outcome.get("metrics") or {}).get(THROUGHPUT)):
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value > 0:
            return float(value)
    return None


def includes_warmup(outcome: Mapping[str, Any]) -> bool:
    """Return whether the samples per second of a run are those of its script, which count the warm-up steps, too."""
    measured = outcome.get("measured") or {}
    return not measured.get("samples_per_second") and samples_per_second(outcome) is not None


def without_throughput(output: str) -> str:
    """Return what a job must do so that its speed is known. output: the directory of what its script writes."""
    return (
        f"its results have no throughput: train with transformers' Trainer (kind: trainer) and write its metrics to "
        f"{output}/all_results.json, or have the script write {THROUGHPUT} there"
    )


def global_batch(tried: Mapping[str, Any]) -> int | None:
    """Return the samples of a step over all ranks; None where the script does not tell."""
    samples = (tried.get("progress") or {}).get("samples_per_step")
    if not samples:
        samples = ((tried.get("outcome") or {}).get("measured") or {}).get("samples_per_step")
    return int(samples) if samples else None


def samples_per_epoch(progress: Mapping[str, Any]) -> int | None:
    """Return the samples of an epoch, in whole steps, as transformers' Trainer counts; None where it does not tell.

    progress: the last progress.json of a run. The last step of an epoch counts in full, so that the figure is up to one
    global batch too large.
    """
    epoch, step, samples = (progress.get(name) for name in ("epoch", "step", "samples_per_step"))
    if not epoch or not step or not samples:
        return None
    return round(step / epoch) * int(samples)


def differences(
    earlier: Mapping[str, Any], wanted: Mapping[str, Any], version: int, playbook: str, more_hosts: bool = False
) -> list[str]:
    """Return what keeps earlier runs of a job from being continued as others, a line for each.

    Both have `version` and `request`: {job: its fields, contents: {name: digest} of its files, hosts, and what else
    must be the same}. version: of what this code writes. playbook: what wrote it. more_hosts: whether there may be more
    or fewer hosts than before, in the same order.
    """
    if earlier.get("version") != version or not isinstance(earlier.get("request"), Mapping):
        return [f"it was not written by this version of {playbook}"]
    before, after = earlier["request"], wanted["request"]
    problems = []
    for name in sorted({*before["job"], *after["job"]}):
        own, other = before["job"].get(name), after["job"].get(name)
        if own != other:
            problems.append(f"the job's {name} differs: {_short(own)}, now {_short(other)}")
    for name in sorted({*before["contents"], *after["contents"]}):
        if before["contents"].get(name) != after["contents"].get(name):
            problems.append(f"the content of {name} differs")
    if "hosts" in after:
        own, other = before["hosts"], after["hosts"]
        common = min(len(own), len(other)) if more_hosts else None
        if own[:common] != other[:common]:
            problems.append(f"the hosts differ: {', '.join(own)}, now {', '.join(other)}")
    others = [name for name in after if name not in ("job", "contents", "hosts") and before.get(name) != after[name]]
    return problems + [f"{name} differs: {before.get(name)}, now {after[name]}" for name in others]


def _short(value: object, most: int = 60) -> str:
    text = str(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."
