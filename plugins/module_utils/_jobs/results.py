# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Table of the results of a job that has ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._data import project
from ansible_collections.amx.cluster.plugins.module_utils._jobs import attempts, cost, profiles


def rows(results: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return results.json as (name, value) pairs for a person; what the script did not report is left out."""
    metrics = results["metrics"]
    threads = sorted(set(results["threads_per_rank"]))
    # What the Trainer measures begins at the checkpoint it went on from, but counts the samples of all steps.
    since, share = "", 1.0
    resumed, steps = results.get("resumed_step", 0), results.get("steps", 0)
    if resumed and steps:
        since, share = f", since step {resumed}", (steps - resumed) / steps
    speed = metrics.get("train_samples_per_second")
    rows: list[tuple[str, str | None]] = [
        ("state", results["state"] + (f": {results['reason']}" if results["reason"] else "")),
        ("project", project.describe(results["project"]) if results.get("project") else None),
        *((f"restart {number}", line.partition(" at ")[2]) for number, line in enumerate(_restarts(results), 1)),
        ("hosts", str(results["hosts"])),
        ("ranks", str(results["ranks"])),
        ("global batch", _number(results.get("samples_per_step"), "d")),
        ("threads per rank", ", ".join(map(str, threads))),
        ("precision", results["precision"] + _instructions(results)),
        ("padding", results.get("padding")),
        ("waiting", results.get("waiting")),
        (f"seconds, training{since}", _number(metrics.get("train_runtime"), ".1f")),
        ("seconds, in all", _number(results["seconds"], ".1f")),
        ("cost (estimate)", cost.shown(results.get("cost")) or None),
        (
            f"samples/s, training{since}",
            _number(speed * share if isinstance(speed, (int, float)) else None, ".1f"),
        ),
    ]
    if "eval_loss" not in metrics:
        rows.append(("loss, training", _number(metrics.get("train_loss"), ".3f")))
    names = (key[len("eval_") :] for key in metrics if key.startswith("eval_"))
    for name in sorted(names):
        if not name.startswith(("before_", "runtime", "samples", "steps_", "model_")):
            before, after = (_number(metrics.get(f"{prefix}_{name}"), ".3f") for prefix in ("eval_before", "eval"))
            rows.append((f"{name}, before and after", f"{before} -> {after}") if before else (name, after))
    rows.append(("artefacts", results["output"]))
    return [(name, value) for name, value in rows if value is not None]


def _restarts(results: Mapping[str, Any]) -> list[str]:
    return attempts.restarts(results.get("attempts", []))


def _instructions(results: Mapping[str, Any]) -> str:
    """Return the instruction sets with which bf16 was multiplied, in brackets."""
    isas = results.get("isas", [])
    return f" ({', '.join(isas)})" if isas and results["precision"] == "bf16" else ""


def table(results: Mapping[str, Any]) -> str:
    """Return the rows as a text table, framed by lines, and what its steps were profiled as below it."""
    cells = [("job", results["job"]), *rows(results)]
    left = max(len(name) for name, _value in cells)
    right = max(len(value) for _name, value in cells)
    rule = "-" * min(left + right + 3, 72)  # on one line of any terminal, however long a path is
    profile = (results.get("measured") or {}).get("profile")
    rest = [profiles.text(profile), rule] if profile else []
    return "\n".join([rule, *(f"{name:<{left}}   {value}" for name, value in cells), rule, *rest])


def _number(value: Any, form: str) -> str | None:
    return format(value, form) if isinstance(value, (int, float)) else None
