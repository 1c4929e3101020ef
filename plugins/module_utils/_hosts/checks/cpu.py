# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks for equal CPUs, and of the instruction sets that training can use on them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ansible_collections.amx.cluster.plugins.module_utils._cores import topology
from ansible_collections.amx.cluster.plugins.module_utils._hosts.amx import ISAS
from ansible_collections.amx.cluster.plugins.module_utils._hosts.amx_text import ABSENT, USABLE, explained
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.check import (
    FAILURE,
    WARNING,
    Cluster,
    Found,
    check,
    differences,
)


@check(
    WARNING,
    cause="Every step waits for the slowest rank",
    advice="Use hosts with the same CPU for one job, or give slower hosts less work",
)
def cpu_model(cluster: Cluster) -> Iterator[Found]:
    yield from differences({host: info["cpu_model"] for host, info in cluster.infos.items()}, "the CPU")


@check(
    WARNING,
    cause="One host without AMX or bf16 slows down all others, and precision auto becomes fp32",
    advice="Leave this host out of jobs; where a better set is expected of it, docs/amx.md has the reasons",
)
def isa(cluster: Cluster) -> Iterator[Found]:
    yield from differences({host: info["isa"] for host, info in cluster.infos.items()}, "the best instruction set")


@check(
    WARNING,
    cause="Jobs use only as many cores as the quota allows",
    advice="Raise or remove the quota: CPUQuota of a systemd unit or slice, --cpus of a container, the CPU limit of a "
    "pod",
    gather=lambda _prefix: {"cpu_quota": topology.cpu_quota(Path("/"))},
)
def cpu_quota(cluster: Cluster) -> Iterator[Found]:
    for host, info in cluster.infos.items():
        if info["cpu_quota"] is not None and info["cpu_quota"] < info["cpus"]:
            yield Found(host, f"its cgroup may use the time of {info['cpu_quota']:g} CPUs of {info['cpus']}")


@check(
    FAILURE,
    cause="The host does not meet preflight_require",
    advice="Use hosts that have it, or lower preflight_require",
)
def amx(cluster: Cluster) -> Iterator[Found]:
    isas = list(ISAS)
    enough = isas[: isas.index("avx512") + 1]
    for host, info in cluster.infos.items():
        judged = info["amx"]
        if cluster.wanted.require == "amx" and judged["reason"] not in USABLE:
            yield Found(host, explained(judged), judged["advice"])
        if cluster.wanted.require == "avx512" and info["isa"] not in enough:
            name = info["cpu_model"] or "the CPU"
            yield Found(host, f"{name} has no AVX-512 that torch uses: its best instruction set is {info['isa']}")


@check(
    WARNING,
    cause="The CPU has AMX but programs cannot use it",
    advice="See the reason that is shown, and docs/amx.md",
)
def amx_unused(cluster: Cluster) -> Iterator[Found]:
    for host, info in cluster.infos.items():
        judged = info["amx"]
        # Where AMX is required the check amx reports the same as a failure.
        if cluster.wanted.require != "amx" and judged["reason"] not in USABLE + ABSENT:
            yield Found(host, explained(judged), judged["advice"])
