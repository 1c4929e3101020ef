from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._hosts import doctor, machine
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks import kernel
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.check import Cluster
from support.machine_settings import captured
from support.sound_cluster import FULL, found_on_node1, results

INTEL, AMD, MAX = "Intel(R) Xeon(R) Platinum 8480+", "AMD EPYC 7451", "Intel (R) Xeon (R) CPU Max 9480"
GIB = 2**30
POWER = {
    "cpufreq/scaling_driver": "intel_pstate",
    "cpufreq/scaling_governor": "powersave",
    "cpufreq/energy_performance_preference": "balance_performance",
}
IDLE = {
    **{"cpuidle/state0/name": "POLL", "cpuidle/state0/latency": "0", "cpuidle/state0/disable": "0"},
    **{"cpuidle/state1/name": "C1E", "cpuidle/state1/latency": "14", "cpuidle/state1/disable": "0"},
    **{"cpuidle/state2/name": "C6", "cpuidle/state2/latency": "290", "cpuidle/state2/disable": "0"},
}


@pytest.mark.parametrize(
    ("nodes", "model", "numa", "special"),
    [
        ([(0, 128), (1, 128)], INTEL, "2 sockets, 1 node each (SNC off)", "-"),
        ([(0, 128), (0, 128)], INTEL, "1 socket, 2 nodes (SNC2)", "-"),
        ([(0, 32)] * 4 + [(1, 32)] * 4, AMD, "2 sockets, 4 nodes each (NPS4)", "-"),
        ([(0, 32), (0, 32), (1, 64)], INTEL, "2 sockets, 1 or 2 nodes each", "-"),
        (
            [(0, 64), (None, 16), (1, 64), (None, 16)],
            MAX,
            "2 sockets, 1 node each (SNC off)",
            "HBM, flat (nodes 1,3, 32.0 GiB)",
        ),
        (
            [(0, 64), (1, 64), (None, 512)],
            INTEL,
            "2 sockets, 1 node each (SNC off)",
            "without CPUs (node 2, 512.0 GiB)",
        ),
        ([(0, 63), (1, 63)], MAX, "2 sockets, 1 node each (SNC off)", "HBM only"),
        ([(0, 63), (1, 66)], MAX, "2 sockets, 1 node each (SNC off)", "HBM not shown (cache, or kept for DAX)"),
    ],
)
def test_nodes_and_memory(
    tmp_path: Path, nodes: list[tuple[int | None, int]], model: str, numa: str, special: str
) -> None:
    shown = machine.described(machine.read(captured(tmp_path, nodes)), model)
    assert (shown.nodes, shown.special_memory) == (numa, special)


@pytest.mark.parametrize(("model", "text"), [(MAX, "HBM as cache (128.0 GiB)"), (INTEL, "behind a cache (128.0 GiB)")])
def test_a_memory_side_cache(tmp_path: Path, model: str, text: str) -> None:
    root = captured(tmp_path, [(0, 512), (1, 512)])
    for node in (0, 1):
        file = root / f"sys/devices/system/node/node{node}/memory_side_cache/index1/size"
        file.parent.mkdir(parents=True)
        file.write_text(f"{64 * GIB}\n")
    assert machine.described(machine.read(root), model).special_memory == text


def test_a_node_of_several_sockets(tmp_path: Path) -> None:
    root = captured(tmp_path, [(0, 8), (1, 8)])
    (root / "sys/devices/system/node/node0/cpumap").write_text("3\n")
    shutil.rmtree(root / "sys/devices/system/node/node1")
    assert machine.described(machine.read(root), INTEL).nodes == "2 sockets, 1 node"


def test_settings_of_a_server(tmp_path: Path) -> None:
    root = captured(tmp_path, [(0, 64), (1, 64)], {**POWER, **IDLE}, balancing="1", huge="always [madvise] never")
    seen = machine.described(machine.read(root), INTEL)
    assert dataclasses.astuple(seen)[2:] == (
        "on (1)",
        "madvise",
        "powersave (intel_pstate, EPP balance_performance)",
        "C6, 290 us (intel_idle)",
    )
    (root / "sys/devices/system/cpu/cpu0/cpuidle/state2/disable").write_text("1\n")
    (root / "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor").write_text("performance\n")
    seen = machine.described(machine.read(root), INTEL)
    assert seen.idle == "C1E, 14 us (intel_idle)"
    text = "performance on 1 CPU, powersave on 1 CPU (intel_pstate, EPP balance_performance)"
    assert seen.governor == text
    assert found_on_node1(kernel.cpu_governor, {"machine_settings": machine.read(root)}) == [
        f"the CPU governor is {text}"
    ]


def shown(root: Path) -> str:
    reported = results()
    reported["node1"]["info"]["host"]["machine_settings"] = machine.read(root)
    return doctor.machines_table(doctor.machines_of(Cluster(reported, FULL)))


def test_nothing_is_shown_of_virtual_machines_without_a_choice(tmp_path: Path) -> None:
    """One node, no frequencies, no deep idle states: also with huge pages and NUMA balancing in some way."""
    shallow = {"cpuidle/state0/name": "haltpoll", "cpuidle/state0/latency": "1", "cpuidle/state0/disable": "0"}
    assert shown(captured(tmp_path, [(0, 16)], shallow, balancing="1", huge="always [madvise] never")) == ""


def test_hosts_that_are_alike_share_a_row(tmp_path: Path) -> None:
    lines = shown(captured(tmp_path, [(0, 64), (1, 64)])).splitlines()
    assert [line.split("  ")[0] for line in lines] == ["host", "----", "node0, node2", "node1"]
    assert "2 sockets, 1 node each (SNC off)" in lines[3]
