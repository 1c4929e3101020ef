from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._hosts import machine
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks import kernel
from support.machine_settings import captured
from support.sound_cluster import found_on_node1


@pytest.mark.parametrize(
    ("governor", "found"),
    [("powersave", True), ("schedutil", True), ("ondemand", True), ("performance", False), ("userspace", False)],
)
def test_governors(tmp_path: Path, governor: str, found: bool) -> None:
    root = captured(tmp_path, [(0, 64)], {"cpufreq/scaling_governor": governor})
    seen = {"machine_settings": machine.read(root)}
    assert found_on_node1(kernel.cpu_governor, seen) == [f"the CPU governor is {governor}"] * found


@pytest.mark.parametrize(
    ("nodes", "value", "texts"),
    [
        (2, "1", ["kernel.numa_balancing is 1, with 2 NUMA nodes"]),
        (2, "2", ["kernel.numa_balancing is 2, with 2 NUMA nodes"]),
        (2, "0", []),
        (2, "", []),
        (1, "1", []),
    ],
)
def test_numa_balancing(tmp_path: Path, nodes: int, value: str, texts: list[str]) -> None:
    seen = {"machine_settings": machine.read(captured(tmp_path, [(0, 64)] * nodes, balancing=value))}
    assert found_on_node1(kernel.numa_balancing, seen) == texts


@pytest.mark.parametrize(
    ("nodes", "value", "texts"),
    [
        ([(0, 64), (1, 64)], "0", ["vm.zone_reclaim_mode is 0, with 2 NUMA nodes that have CPUs"]),
        ([(0, 64), (1, 64)], "1", []),
        ([(0, 64), (1, 64)], "", []),
        ([(0, 64), (None, 64)], "0", []),
    ],
)
def test_zone_reclaim(tmp_path: Path, nodes: list[tuple[int | None, int]], value: str, texts: list[str]) -> None:
    root = captured(tmp_path, nodes)
    if value:
        (root / "proc/sys/vm").mkdir(parents=True)
        (root / "proc/sys/vm/zone_reclaim_mode").write_text(f"{value}\n")
    assert found_on_node1(kernel.zone_reclaim, {"machine_settings": machine.read(root)}) == texts
