# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A tuning as text for a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs import batches
from ansible_collections.amx.cluster.plugins.module_utils._measure.repeated import FASTER
from ansible_collections.amx.cluster.plugins.module_utils._measure.tuning import Trial, Tuning
from ansible_collections.amx.cluster.plugins.module_utils._text import columns, count, wrapped

# The settings, with the headings of their columns.
NAMES = {
    "ranks_per_node": "ranks/node",
    "comm_cores": "comm",
    "reserved_cores": "reserved",
    "threads_per_core": "threads/core",
    "backend": "backend",
    "optimize": "optimize",
    "env": "env",
}

WRITE = {
    "job": "To write this to the job file, add -e write=true; to the inventory, -e write_to=inventory.",
    "inventory": "To write this, add -e write=true.",
}


def table(tuning: Tuning, path: str, wrote: str = "", to: str = "job") -> str:
    """Return the trials of a tuning, what came of it and the diff.

    wrote: the files, if the diff was applied to them. to: `inventory` if its variables are to hold the winner.
    """
    lines = [
        f"Job {tuning.job}: {tuning.used_minutes:.1f} of {tuning.budget_minutes:g} min used",
        "",
    ]
    names = [name for name in NAMES if any(name in trial.settings for trial in tuning.trials)]
    header = ["round", *(NAMES[name] for name in names), "steps", "samples/s", ""]
    batch = [trial for trial in tuning.trials if batches.PER_DEVICE in trial.settings]
    plain = [trial for trial in tuning.trials if trial not in batch]
    if plain:
        lines += [*columns([header, *(_row(trial, names) for trial in plain)]), ""]
    else:
        lines += ["No trial has ended.", ""]
    if batch:
        rows = [
            [f"{trial.settings[batches.PER_DEVICE]} samples for each rank", *_row(trial, [])[1:]] for trial in batch
        ]
        lines += ["Other batch sizes, which change what the job learns:", *columns(rows), ""]
    lines += wrapped("", verdict(tuning))
    for note in tuning.notes:
        lines += wrapped("- ", note)
    for trial in tuning.trials:
        if trial.state == "failed":
            lines += wrapped(f"- {trial.job} failed: ", " ".join(trial.reason.split())[:400])
    if tuning.diff:
        lines += ["", tuning.diff.rstrip(), ""]
        if to == "inventory":
            lines += wrapped("", "Jobs that do not set these take the variables of the inventory, too.")
        lines.append(f"Written to {wrote}." if wrote else WRITE[to])
    elif to == "inventory" and tuning.verdict == "faster":
        lines += ["", "The inventory has these settings already."]
    return "\n".join([*lines, f"All figures: {path}"])


def planned(tuning: Tuning) -> str:
    """Return what a tuning would try, for check mode."""
    default, *others = tuning.candidates
    lines = wrapped(
        "Would be tried: ",
        f"the job's own settings, {settings(default)}, and as many of {count(len(others), 'other')} as "
        f"{tuning.budget_minutes:g} min allow, of which {tuning.used_minutes:.1f} are used:",
    )
    return "\n".join([*lines, *(f"  {settings(each)}" for each in others)])


def verdict(tuning: Tuning) -> str:
    """Return the outcome of a tuning in one sentence."""
    gain = tuning.gain
    level = f"at a level of {1 - FASTER:.0%}"
    if tuning.verdict == "faster":
        pairs = len((tuning.final or {})["winner"])
        return (
            f"Faster {level}: {settings(tuning.winner or {})} reaches {gain:.2f} x the samples/s of the job as it is "
            f"(at least {tuning.gain_low:.2f} x), over {pairs} pairs of runs."
        )
    if tuning.verdict == "no difference":
        if not gain:
            return "No difference: no other settings are faster than those of the job as it is."
        return (
            f"No difference {level}: the best other settings reached {gain:.2f} x the samples/s of the job as it is "
            f"({tuning.gain_low:.2f} to {tuning.gain_high:.2f})."
        )
    return "Unfinished: the same command continues, with a larger budget where this one is used up."


def settings(chosen: Mapping[str, Any]) -> str:
    """Return settings as they stand in a job file."""
    return ", ".join(f"{name}: {_shown(chosen[name])}" for name in NAMES if name in chosen)


def line(trial: Trial) -> str:
    """Return the outcome of a trial in one line."""
    if trial.state != "succeeded":
        return f"{trial.job} failed: {' '.join(trial.reason.split())[:300]}"
    return f"{trial.job} ({settings(trial.settings)}): {trial.samples_per_second:.1f} samples/s"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={each}" for name, each in value.items())
    return f"[{', '.join(value)}]" if isinstance(value, list) else str(value)


def _row(trial: Trial, names: Sequence[str]) -> list[str]:
    speed = trial.samples_per_second
    number = "final" if trial.final else str(trial.round)
    return [
        number,
        *(_shown(trial.settings.get(name, "")) for name in names),
        str(trial.steps),
        f"{speed:.1f}" if speed else trial.state,
        "default" if trial.default else "",
    ]
