# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts about AMX on the hosts of a cluster: a line where all is well, and the cause and remedy where it is not.

A judgement is what amx.judge returns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ansible_collections.amx.cluster.plugins.module_utils._hosts import amx
from ansible_collections.amx.cluster.plugins.module_utils._text import names, wrapped

# The reasons with which AMX is used or may be, and those with which no advice brings it back.
USABLE, ABSENT = ("usable", "not_asked"), ("no_amx", "not_x86_64")


class Group(NamedTuple):
    """Hosts with the same answer. lost: whether their CPU has AMX and programs cannot use it."""

    hosts: list[str]
    judged: Mapping[str, Any]
    lost: bool


def groups(judgements: Mapping[str, Mapping[str, Any]]) -> list[Group]:
    """Return the hosts with the same answer together, those first that lost AMX. judgements: {host: judgement}."""
    grouped: list[Group] = []
    for host, judged in judgements.items():
        same = next((group for group in grouped if group.judged == judged), None)
        if same is None:
            grouped.append(Group([host], judged, judged["reason"] not in USABLE + ABSENT))
        else:
            same.hosts.append(host)
    return sorted(grouped, key=lambda group: not group.lost)


def lines(group: Group, width: int = 110) -> list[str]:
    """Return what is shown of hosts with the same answer, folded at `width` columns."""
    hosts, judged, lost = group
    cpu, release = judged["cpu"]["model"] or "the CPU", judged["kernel"]["release"]
    if judged["reason"] == "usable":
        return [f"AMX can be used on {names(hosts)} ({cpu}, kernel {release})"]
    if judged["reason"] == "not_asked":
        return [f"AMX is shown by {names(hosts)} ({cpu}, kernel {release}): the kernel {judged['kernel']['answer']}"]
    if not lost:
        text = f"{names(hosts)}: {judged['found']}; kernel {release}. {runs_as(judged)}."
        return wrapped("", text + (f" {judged['advice']}." if _may_be_hidden(judged) else ""), width)
    model = f"{cpu} ({judged['cpu']['generation']})" if judged["cpu"]["generation"] else cpu
    return [
        *wrapped(
            "WARNING: ",
            f"AMX cannot be used on {names(hosts)}, though the CPU has it. {runs_as(judged)}, slower.",
            width,
        ),
        *wrapped("  CPU: ", f"{model}, which has AMX", width),
        *wrapped("  kernel: ", rule(judged), width),
        *wrapped("  found: ", judged["found"], width),
        *wrapped("  what to do: ", judged["advice"], width),
    ]


def rule(judged: Mapping[str, Any]) -> str:
    """Return the kernel, the rule of thumb, and what the kernel really answered, without a full stop."""
    kernel = judged["kernel"]
    meets = "meets" if kernel["meets_rule"] else "does not meet"
    return f"{kernel['release']}, which {meets} the rule for AMX ({amx.RULE}); it {kernel['answer']}"


def explained(judged: Mapping[str, Any]) -> str:
    """Return why AMX cannot be used, for a table or a message: what was found, and the rule where it matters."""
    if judged["reason"] in ABSENT:
        return str(judged["found"])
    return f"{judged['found']} (kernel {rule(judged)})"


def runs_as(judged: Mapping[str, Any]) -> str:
    """Return what training uses there instead of AMX, as a sentence without a full stop."""
    if judged["isa"] in amx.BF16_ISAS:
        return f"Training runs there in bf16 as {judged['isa']}"
    return f"Training runs there in fp32 (best instruction set: {judged['isa']})"


def _may_be_hidden(judged: Mapping[str, Any]) -> bool:
    return bool(judged["cpu"]["virtual"]) and judged["cpu"]["vendor"] == "GenuineIntel"
