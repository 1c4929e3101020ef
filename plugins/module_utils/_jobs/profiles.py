# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Time of a job's steps by kind of operation: merge what ranks have profiled, and show it.

docs/where_the_time_goes.md says what each kind is.

"As on AMX" is what the kinds would be if matrix products were faster by the ratio of peaks, and all else took as long
as it does. The peaks are those of a core and cycle: 1024 operations in bf16 with AMX, 64 in fp32 without, by "Leverage
Intel Advanced Matrix Extensions" in PyTorch's tutorials (https://pytorch.org/tutorials/recipes/amx.html), which
cites Intel. That is a bound for cores with two units of AVX-512 whose products are near their own peak, no forecast:
products seldom come near the peak of AMX.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs.wire import OPERATIONS
from ansible_collections.amx.cluster.plugins.module_utils._text import columns

PRODUCTS = "products"
PEAK = 1024 / 64
"""How many times as many operations a core has with AMX in bf16 as with AVX-512 in fp32, at most."""
SLOWER = ("avx512_bf16", "avx512_vnni", "avx512")
"""The instruction sets that PEAK compares with. Where bf16 is multiplied without AMX (avx512_bf16), it may be less."""
SAME = 0.02
"""Hosts whose shares differ by at most this have one column."""


def merge(beats: Mapping[int, Mapping[str, Any]], isas: Mapping[str, str]) -> dict[str, Any] | None:
    """Return {steps, seconds_of_a_step, hosts: [{host, rank, isa, kinds, operations}]}; None without any profile.

    beats: {rank: its last heartbeat}. isas: {host: its best instruction set}. Times are in seconds of a step, that of
    all hosts their mean. A rank whose profile lacks something, or is malformed, is left out.
    """
    hosts, steps, seconds = [], [], []
    for rank, beat in sorted(beats.items()):
        profile = _profile(beat)
        kinds = profile.get("kinds")
        if not isinstance(kinds, Mapping) or not all(_is_time(profile.get(name)) for name in ("steps", "seconds")):
            continue
        by_kind = {kind: kinds.get(kind, 0.0) for kind in OPERATIONS}
        if not all(map(_is_time, by_kind.values())) or not profile["seconds"] or not profile["steps"]:
            continue
        host = str(beat.get("host", ""))
        operations = [operation for operation in _list(profile.get("operations")) if _is_operation(operation)]
        hosts.append(
            {"host": host, "rank": rank, "isa": isas.get(host, ""), "kinds": by_kind, "operations": operations}
        )
        steps.append(profile["steps"])
        seconds.append(profile["seconds"])
    return {"steps": min(steps), "seconds_of_a_step": fmean(seconds), "hosts": hosts} if hosts else None


def note(beats: Mapping[int, Mapping[str, Any]], measure: Mapping[str, Any] | None) -> str:
    """Return why a job that was to be profiled was not, or not on some hosts; an empty string where all is well."""
    steps = (measure or {}).get("profile")
    if not measure or not steps:
        return ""
    failed = {str(beat.get("host", "")): note for beat in beats.values() if (note := _profile(beat).get("note"))}
    if failed:
        return f"steps were not profiled on {', '.join(failed)}: {next(iter(failed.values()))}"
    if merge(beats, {}) is not None:
        return ""
    made = max((figures.get("made", 0) for beat in beats.values() if (figures := _measured(beat))), default=0)
    needed = max(1, measure["warmup_steps"]) + steps
    return (
        f"nothing was profiled: {made} step(s) of an optimizer were seen, and {needed} are needed (measure: "
        f"{{warmup_steps: {measure['warmup_steps']}, profile: {steps}}})"
    )


def shares(kinds: Mapping[str, float]) -> dict[str, float]:
    """Return the share of each kind in a step."""
    step = sum(kinds.values())
    return {kind: kinds.get(kind, 0.0) / step if step else 0.0 for kind in OPERATIONS}


def as_on_amx(host: Mapping[str, Any]) -> dict[str, float] | None:
    """Return the kinds of a host's step with products as fast as the ratio of peaks would have them.

    Attention is left as it is: which part of it are products is not known. None where the host has AMX already, or what
    its peak is is not known.
    """
    if host.get("isa") not in SLOWER:
        return None
    return {kind: spent / PEAK if kind == PRODUCTS else spent for kind, spent in host["kinds"].items()}


def text(profile: Mapping[str, Any]) -> str:
    """Return the table of a job's profile for a person: the share of each kind, by host."""
    hosts: Sequence[Mapping[str, Any]] = profile["hosts"]
    split = [shares(host["kinds"]) for host in hosts]
    alike = len(hosts) > 1 and all(
        max(each[kind] for each in split) - min(each[kind] for each in split) <= SAME for kind in OPERATIONS
    )
    shown = list(zip(hosts, split))[: 1 if alike else None]
    faster = as_on_amx(hosts[0])
    heads = [host["host"] for host, _split in shown] + (["as on AMX (at most)"] if faster else [])
    rows = [["kind of operation", *heads]]
    bound = shares(faster) if faster else {}
    for kind in sorted(OPERATIONS, key=lambda kind: -split[0][kind]):
        cells = [each[kind] for _host, each in shown] + ([bound[kind]] if faster else [])
        if any(share >= 0.0005 for share in cells):
            rows.append([kind, *(f"{share * 100:.1f} %" for share in cells)])
    lines = [
        f"where the time goes: mean of {profile['steps']} step(s), {profile['seconds_of_a_step']:.4g} s each while "
        "they were profiled",
        *columns(rows),
    ]
    if alike:
        lines.append(
            f"{hosts[0]['host']} only: the shares of all {len(hosts)} hosts are within {SAME * 100:.0f} points"
        )
    if faster:
        gain = sum(hosts[0]["kinds"].values()) / sum(faster.values())
        lines.append(
            f"as on AMX: products of {hosts[0]['host']} at most {PEAK:.0f} times as fast (ratio of peaks, bf16), "
            f"attention as it is; a step at most {gain:.2f} times as fast"
        )
    return "\n".join(lines)


def _measured(beat: Mapping[str, Any]) -> Mapping[str, Any]:
    measured = beat.get("measured")
    return measured if isinstance(measured, Mapping) else {}


def _profile(beat: Mapping[str, Any]) -> Mapping[str, Any]:
    profile = _measured(beat).get("profile")
    return profile if isinstance(profile, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_time(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, (int, float)) and math.isfinite(value) and value > -1e-3


def _is_operation(operation: Any) -> bool:
    return (
        isinstance(operation, Mapping)
        and all(isinstance(operation.get(name), str) for name in ("name", "kind"))
        and all(_is_time(operation.get(name)) for name in ("seconds", "calls"))
    )
