from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._hosts import slurm as settings
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks import catalogue, slurm
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.check import Check, Cluster
from support.sound_cluster import FULL, results

# As `scontrol show config` and `scontrol show partition --oneliner` of Slurm 22.05.8 print them, in parts.
CONFIG = """\
Configuration data as of 2026-11-28T03:00:30
DefMemPerCPU            = 1000
EnforcePartLimits       = ALL
JobAcctGatherParams     = (null)
MpiDefault              = none
SelectTypeParameters    = CR_CORE_MEMORY
SLURM_VERSION           = 22.05.8
TaskPlugin              = task/affinity
TaskPluginParam         = (null type)

Cgroup Support Configuration:
AllowedRAMSpace         = 100.0%
ConstrainCores          = no
ConstrainRAMSpace       = no

Slurmctld(primary) at login is UP
"""
PARTITIONS = (
    "PartitionName=main Default=YES DefaultTime=NONE MaxNodes=UNLIMITED MaxTime=UNLIMITED State=UP "
    "DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED\n"
    "PartitionName=short Default=NO DefaultTime=NONE MaxNodes=UNLIMITED MaxTime=00:05:00 State=UP "
    "DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED\n"
)


def findings(check: Check, wanted: Any = None, seen: Any = "", nodes: str = "", **changed: str) -> list[str]:
    """Return what a check finds on a login host. changed: settings of Slurm."""
    reported = results(1)
    config = {**settings.parse_config(CONFIG), **changed}
    answer = {"config": config, "partitions": settings.parse_partitions(PARTITIONS)}
    reported["node0"]["info"]["host"]["slurm"] = answer if seen == "" else seen
    reported["node0"]["nodes"] = {"stdout": nodes}
    requested = dataclasses.replace(FULL, slurm={} if wanted is None else wanted)
    return [found.text for found in check.find(Cluster(reported, requested))]


def test_a_sound_slurm() -> None:
    checks = [check for check in vars(slurm).values() if isinstance(check, Check) and check is not slurm.slurm_memory]
    assert len(checks) == 5
    assert [text for check in checks for text in findings(check, {"partition": "short", "time": "5"})] == []


def test_hosts_with_slurm_that_is_not_used() -> None:
    reported = results(1)
    reported["node0"]["info"]["host"]["slurm"] = {"error": "Unable to contact slurm controller"}
    checks = (slurm.slurm, slurm.slurm_cpus, slurm.slurm_memory, slurm.slurm_partition)
    assert [found for check in checks for found in check.find(Cluster(reported, FULL))] == []


def test_slurm_that_does_not_answer() -> None:
    assert findings(slurm.slurm, seen=None) == ["it has no scontrol in its PATH"]
    error = "slurm_load_ctl_conf error: Unable to contact slurm controller (connect failure)"
    assert findings(slurm.slurm, seen={"error": error}) == [f"Slurm does not answer: {error}"]
    assert findings(slurm.slurm_partition, seen={"error": error}) == []


@pytest.mark.parametrize(
    ("plugins", "constrains", "found"),
    [
        ("task/none", "no", True),
        ("task/none", "yes", True),
        ("task/cgroup", "no", True),
        ("task/cgroup", "yes", False),
        ("task/cgroup,task/affinity", "no", False),
    ],
)
def test_cpus(plugins: str, constrains: str, found: bool) -> None:
    text = f"Slurm does not confine jobs to their CPUs: TaskPlugin is {plugins}"
    assert findings(slurm.slurm_cpus, TaskPlugin=plugins, ConstrainCores=constrains) == [text] * found


def test_memory() -> None:
    assert findings(slurm.slurm_memory) == []
    assert findings(slurm.slurm_memory, ConstrainRAMSpace="yes") == [
        "a job without --mem gets 1000 MB (DefMemPerCPU or DefMemPerNode), and no more"
    ]
    assert findings(slurm.slurm_memory, JobAcctGatherParams="OverMemoryKill") != []
    assert findings(slurm.slurm_memory, DefMemPerCPU="UNLIMITED") == [
        "a job without --mem gets all memory of its nodes: other jobs wait (no DefMemPerCPU)"
    ]
    assert findings(slurm.slurm_memory, {"extra": ["--mem=64G"]}, DefMemPerCPU="UNLIMITED") == []
    assert findings(slurm.slurm_memory, DefMemPerCPU="UNLIMITED", SelectTypeParameters="CR_CORE") == []


def test_partitions_and_their_limits() -> None:
    assert findings(slurm.slurm_partition, {"partition": "cpu"}) == ["there is no partition cpu; Slurm has main, short"]
    assert findings(slurm.slurm_partition, {"partition": "short", "time": "1:00:00"}) == [
        "time 1:00:00 is over the limit of partition short, 00:05:00"
    ]
    assert findings(slurm.slurm_partition, {"time": "1:00:00"}) == []


def test_nodes_without_the_shared_directory() -> None:
    assert findings(slurm.slurm_directory, nodes="s0 ok\ns1 missing\n") == [
        "node s1 does not have /opt/amx-cluster/env, or cannot write to /opt/amx-cluster"
    ]


def test_nodes_that_cannot_be_tested() -> None:
    """Slurm's own sentence, once."""
    sentence = "srun: error: Unable to allocate resources: Invalid account or account/partition combination specified"
    assert findings(slurm.slurm_nodes, nodes=f"s0 ok\ns1 failed {sentence}\ns2 failed {sentence}\n") == [
        f"srun fails on s1, s2: {sentence}"
    ]
    assert findings(slurm.slurm_nodes, nodes="sinfo failed slurm_load_node: Unable to contact slurm controller\n") == [
        "sinfo fails: slurm_load_node: Unable to contact slurm controller"
    ]


def test_slurm_is_asked_only_where_the_inventory_has_it(tmp_path: Path) -> None:
    assert "slurm" not in catalogue.gather(tmp_path)
    assert "slurm" in catalogue.gather(tmp_path, slurm=True)


def test_settings_that_scontrol_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert settings.settings_of_slurm(tmp_path) == {"slurm": None}
    scontrol = tmp_path / "scontrol"
    shows = f"printf '%s' '{CONFIG}' || printf '%s' '{PARTITIONS}'"
    scontrol.write_text(f'#!/bin/sh\n[ "$2" = config ] && {shows}\n')
    scontrol.chmod(0o755)
    seen = settings.settings_of_slurm(tmp_path)["slurm"]
    assert seen["config"]["TaskPlugin"] == "task/affinity" and seen["config"]["ConstrainCores"] == "no"
    assert list(seen["partitions"]) == ["main", "short"]
    scontrol.write_text("#!/bin/sh\necho 'slurm_load_ctl_conf error: Unable to contact slurm controller' >&2; exit 1\n")
    assert "Unable to contact" in settings.settings_of_slurm(tmp_path)["slurm"]["error"]
