# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Summaries of the files that instances of an inference benchmark left on a host, and of several hosts'.

An instance writes output/inference/CELL-RANK.json in the job directory (docs/inference_engines.md). It may have many
latencies; what leaves the host is a sample of those of all its instances (latencies.merged).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._io import read_json
from ansible_collections.amx.cluster.plugins.module_utils._measure import latencies
from ansible_collections.amx.cluster.plugins.module_utils._measure.inference_document import Cell

DIRECTORY = "output/inference"
MEASURED, REFUSED, FAILED, SKIPPED = "measured", "refused", "failed", "skipped"
# The worse of several instances' states comes first: a cell is measured only where all instances measured it.
STATES = (FAILED, REFUSED, SKIPPED, MEASURED)
_MS = 1e-3  # milliseconds of a microsecond


def of_host(job_directory: Path, start: str = "") -> dict[str, dict[str, Any]]:
    """Return {cell: summary} of the instances' files in a job directory, those of this host.

    A summary has what `all_hosts` puts together. start: as Settings has it; the files of another start are none.
    """
    if start and ((read_json(job_directory / "job.json") or {}).get("settings") or {}).get("start") != start:
        return {}
    cells: dict[str, list[dict[str, Any]]] = {}
    for path in sorted((job_directory / DIRECTORY).glob("*-*.json")):
        document = read_json(path)
        if document and document.get("version") == 1 and isinstance(document.get("cell"), str):
            cells.setdefault(document["cell"], []).append(document)
    return {
        cell: _summary(sorted(instances, key=lambda instance: instance["rank"])) for cell, instances in cells.items()
    }


def _summary(instances: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    state, reason = _state(instances)
    good = [instance for instance in instances if instance["state"] == MEASURED]
    return {
        "instances": len(instances),
        "state": state,
        "reason": reason,
        "throughput": latencies.together([_throughput(instance) for instance in good]),
        "latencies_us": latencies.merged([_closed_loop(instance) for instance in good]),
        **_taken_over(instances, good),
        "isa": _first(good, "isa"),
        "generation": _generation(good),
        "open_loop": _open_loop(good),
    }


def _state(parts: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    worst = min(parts, key=lambda part: STATES.index(part["state"]))
    return worst["state"], worst["reason"]


def _throughput(instance: Mapping[str, Any]) -> dict[str, float | None]:
    throughput = instance.get("throughput")
    if throughput:
        return dict(throughput)
    seconds = instance["seconds"]
    return {"value": instance["samples"] / seconds if seconds else 0.0, "low": None, "high": None}


def _sample(values: Sequence[float], count: int) -> dict[str, Any]:
    return {"values": list(values), "count": count}


def _closed_loop(instance: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sample of a closed loop: the share of its time that was not the driver's is the sum of latencies."""
    sample = _sample(instance["latencies_us"], instance["count"])
    if instance.get("overhead") is None:
        return sample
    return {**sample, "total": instance["seconds"] * 1e6 * (1 - instance["overhead"])}


def _most(parts: Sequence[Mapping[str, Any]], name: str) -> float | None:
    return max((part[name] for part in parts if part.get(name) is not None), default=None)


def _first(parts: Sequence[Mapping[str, Any]], name: str) -> Any:
    return next((part[name] for part in parts if part.get(name)), None)


def _taken_over(parts: Sequence[Mapping[str, Any]], good: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what is the most of instances or hosts, or the same for all. good: those that have measured the cell."""
    return {
        **{name: _most(parts, name) for name in ("first_call_seconds", "peak_memory_bytes", "overhead")},
        "emulated": any(part.get("emulated") for part in parts),
        **{name: _first(good, name) for name in ("int8_route", "agreement")},
        "new_weights": _first(good, "new_weights") or [],
    }


def _generation(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    generations = [part["generation"] for part in parts if part.get("generation")]
    if not generations:
        return None
    return {
        name: latencies.merged([_sample(generation[name], len(generation[name])) for generation in generations])
        for name in ("prefill_us", "per_token_us")
    }


def _open_loop(parts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    rates = [entry["rate"] for entry in parts[0].get("open_loop") or []] if parts else []
    loops = []
    for place, rate in enumerate(rates):
        each = [part["open_loop"][place] for part in parts if len(part.get("open_loop") or []) > place]
        loops.append(
            {
                "rate": rate,
                "latencies_us": latencies.merged([_sample(loop["latencies_us"], loop["count"]) for loop in each]),
                "per_second": sum(loop["count"] / loop["seconds"] for loop in each if loop["seconds"]),
                "offered": sum(loop.get("offered", loop["count"]) for loop in each),
            }
        )
    return loops


def all_hosts(cell: Cell, hosts: Mapping[str, Mapping[str, Any]], expected: int) -> dict[str, Any]:
    """Return what a cell came to over all hosts: its fields in inference.json that are not known before it.

    hosts: {name: summary}. expected: the number of instances; where some left no
    result, the cell has failed.
    """
    parts = list(hosts.values())
    there = sum(part["instances"] for part in parts)
    state, reason = FAILED, "no instance left a result"
    if parts:
        state, reason = _state(parts)
        if there < expected and state != FAILED:
            state, reason = FAILED, f"{expected - there} of {expected} instances left no result"
        elif state != MEASURED and len(parts) > 1:
            names = [name for name, part in hosts.items() if part["state"] == state]
            reason = f"{reason} (on {', '.join(names)})" if len(names) < len(parts) else reason
    if state != MEASURED:
        return {**NOTHING, "state": state, "reason": reason, "peak_memory_bytes": _most(parts, "peak_memory_bytes")}
    batch = cell.batch_size
    return {
        "state": state,
        "reason": "",
        "throughput": latencies.together([part["throughput"] for part in parts]),
        "latency_ms": latencies.summary(latencies.merged([part["latencies_us"] for part in parts]), _MS),
        **_taken_over(parts, parts),
        "isa": ", ".join(sorted({part["isa"] for part in parts if part["isa"]})) or None,
        "generation": _generated(cell, parts),
        "open_loop": [
            {
                "rate": entry["rate"],
                "latency_ms": latencies.summary(
                    latencies.merged([part["open_loop"][place]["latencies_us"] for part in parts]), _MS
                ),
                "throughput": batch * sum(part["open_loop"][place]["per_second"] for part in parts),
                "offered": sum(part["open_loop"][place]["offered"] for part in parts),
            }
            for place, entry in enumerate(parts[0]["open_loop"])
            if all(len(part["open_loop"]) > place for part in parts)
        ],
    }


# What a cell has before it is measured.
NOTHING: dict[str, Any] = {
    **dict.fromkeys(
        ("throughput", "latency_ms", "first_call_seconds", "peak_memory_bytes", "overhead", "isa", "int8_route")
    ),
    "emulated": False,
    "agreement": None,
    "new_weights": [],
    "generation": None,
    "open_loop": [],
}


def _generated(cell: Cell, parts: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    generations = [part["generation"] for part in parts if part["generation"]]
    if not generations:
        return None
    prefill, token = (
        latencies.merged([generation[name] for generation in generations]) for name in ("prefill_us", "per_token_us")
    )
    speed = latencies.together([part["throughput"] for part in parts])
    return {
        "prefill_ms": latencies.summary(prefill, _MS),
        "per_token_ms": latencies.summary(token, _MS),
        "tokens_per_second": (speed["value"] or 0.0) * (cell.new_tokens or 1) if speed else None,
    }
