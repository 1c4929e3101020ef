# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of Slurm, where the inventory has cluster_slurm: asked on the login host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.check import (
    FAILURE,
    WARNING,
    Cluster,
    Found,
    check,
)
from ansible_collections.amx.cluster.plugins.module_utils._hosts.slurm import over_limit, settings_of_slurm
from ansible_collections.amx.cluster.plugins.module_utils._text import names


def config(cluster: Cluster) -> dict[str, str]:
    """Return the settings of Slurm; empty where the inventory has no cluster_slurm, or Slurm did not answer."""
    seen = cluster.infos.get(cluster.head, {}).get("slurm") if cluster.wanted.slurm is not None else None
    return dict((seen or {}).get("config") or {})


def partition(cluster: Cluster) -> Mapping[str, str] | None:
    """Return the partition that jobs use by default; None where there is none of that name."""
    rows = cluster.infos[cluster.head]["slurm"]["partitions"]
    named = (cluster.wanted.slurm or {}).get("partition")
    usual = (row for row in rows.values() if row.get("Default") == "YES")
    return rows.get(named) if named else next(usual, None)


def tested(cluster: Cluster) -> Iterator[tuple[str, str]]:
    """Yield each node on which a step was tried, and what came of it: roles/preflight/tasks/slurm.yml writes that."""
    step = cluster.results.get(cluster.head, {}).get("nodes") or {}
    for line in str(step.get("stdout", "")).splitlines():
        node, _space, state = line.partition(" ")
        yield node, state


@check(
    FAILURE,
    cause="No job can be submitted",
    advice="Name a login host of Slurm as the head, or remove cluster_slurm from the inventory",
    gather=settings_of_slurm,
    of_slurm=True,
)
def slurm(cluster: Cluster) -> Iterator[Found]:
    if cluster.wanted.slurm is None or cluster.head not in cluster.infos:
        return
    seen = cluster.infos[cluster.head]["slurm"]
    if seen is None:
        yield Found(cluster.head, "it has no scontrol in its PATH")
    elif seen.get("error"):
        yield Found(cluster.head, f"Slurm does not answer: {seen['error']}", "Wait for Slurm's controller")


@check(
    WARNING,
    cause="A job on a part of a node uses CPUs of other jobs, as its plan has all CPUs of the node",
    advice="Leave cpus out of cluster_slurm, so that jobs get whole nodes, or ask for TaskPlugin=task/affinity",
)
def slurm_cpus(cluster: Cluster) -> Iterator[Found]:
    settings = config(cluster)
    plugins = settings.get("TaskPlugin", "")
    confined = "affinity" in plugins or ("cgroup" in plugins and settings.get("ConstrainCores") == "yes")
    if settings and not confined:
        yield Found(cluster.head, f"Slurm does not confine jobs to their CPUs: TaskPlugin is {plugins}")


@check(
    WARNING,
    cause="Ranks can be ended, or end those of others, by memory that was not requested",
    advice="Request memory with extra in cluster_slurm, such as --mem=64G",
)
def slurm_memory(cluster: Cluster) -> Iterator[Found]:
    settings = config(cluster)
    requested = any(option.startswith("--mem") for option in (cluster.wanted.slurm or {}).get("extra", []))
    if "MEMORY" not in settings.get("SelectTypeParameters", "").upper() or requested:
        return
    defaults = [settings.get(name, "UNLIMITED") for name in ("DefMemPerCPU", "DefMemPerNode")]
    used = partition(cluster) or {}
    defaults += [used.get(name, "UNLIMITED") for name in ("DefMemPerCPU", "DefMemPerNode")]
    if set(defaults) == {"UNLIMITED"}:
        yield Found(cluster.head, "a job without --mem gets all memory of its nodes: other jobs wait (no DefMemPerCPU)")
    elif "OverMemoryKill" in settings.get("JobAcctGatherParams", "") or settings.get("ConstrainRAMSpace") == "yes":
        size = next(value for value in defaults if value != "UNLIMITED")
        yield Found(cluster.head, f"a job without --mem gets {size} MB (DefMemPerCPU or DefMemPerNode), and no more")


@check(
    FAILURE,
    cause="Jobs are refused, or wait indefinitely",
    advice="Correct cluster_slurm of the inventory; sinfo lists the partitions",
)
def slurm_partition(cluster: Cluster) -> Iterator[Found]:
    if not config(cluster):
        return
    wanted, used = cluster.wanted.slurm or {}, partition(cluster)
    if used is None:
        there = ", ".join(cluster.infos[cluster.head]["slurm"]["partitions"]) or "none"
        name = wanted.get("partition")
        text = f"there is no partition {name}" if name else "no partition is the default, and partition is not set"
        yield Found(cluster.head, f"{text}; Slurm has {there}")
        return
    if used.get("State", "UP") != "UP":
        yield Found(cluster.head, f"partition {used['PartitionName']} is {used['State']}")
    limit = over_limit(used, wanted.get("time", ""))
    if limit:
        yield Found(
            cluster.head, f"time {wanted['time']} is over the limit of partition {used['PartitionName']}, {limit}"
        )


@check(
    FAILURE,
    cause="Jobs fail at their start, on some nodes",
    advice="Set cluster_prefix to a directory that the login host and all nodes of the partition share",
    full=True,
)
def slurm_directory(cluster: Cluster) -> Iterator[Found]:
    for node, state in tested(cluster):
        if state == "missing":
            prefix = cluster.infos[cluster.head]["prefix"]
            yield Found(cluster.head, f"node {node} does not have {prefix}/env, or cannot write to {prefix}")


@check(
    WARNING,
    cause="Whether nodes have the directory of the cluster is not known; jobs may be refused",
    advice="Correct cluster_slurm of the inventory, or ask who runs Slurm",
    full=True,
)
def slurm_nodes(cluster: Cluster) -> Iterator[Found]:
    failed: dict[str, list[str]] = {}
    for node, state in tested(cluster):
        word, _space, sentence = state.partition(" ")
        if word == "failed":
            failed.setdefault(sentence, []).append(node)
    for sentence, nodes in failed.items():
        command = "sinfo fails" if nodes == ["sinfo"] else f"srun fails on {names(nodes)}"
        yield Found(cluster.head, f"{command}: {sentence or 'it gave no reason'}")
