from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._cores import memory
from ansible_collections.amx.cluster.plugins.module_utils._cores.memory import Memory, Node
from support.runs import host, plan

TWO = ((True, (10, 21), 0), (True, (21, 10), 0))
# Two packages in flat mode, and what a kernel shows of memory on CXL.
XEON_MAX = (
    (True, (10, 21, 13, 23), 0),
    (True, (21, 10, 23, 13), 0),
    (False, (13, 23, 10, 33), 0),
    (False, (23, 13, 33, 10), 0),
)
CXL = ((True, (10, 21, 14), 0), (True, (21, 10, 24), 0), (False, (14, 24, 10), 0))
REFUSED = "set_mempolicy is refused: Operation not permitted"


def tree(root: Path, nodes: Any, allowed: str = "", empty: tuple[int, ...] = ()) -> Path:
    files = {"online": f"0-{len(nodes) - 1}"}
    for number, (cpus, far, speed) in enumerate(nodes):
        files[f"node{number}/meminfo"] = f"Node {number} MemTotal:  {0 if number in empty else 1 << 20} kB"
        files[f"node{number}/distance"] = " ".join(map(str, far))
        files[f"node{number}/cpulist"] = str(number) if cpus else ""
        if speed:
            files[f"node{number}/access0/initiators/read_bandwidth"] = str(speed)
    written = {f"sys/devices/system/node/{name}": text for name, text in files.items()}
    if allowed:
        written["proc/self/status"] = f"Mems_allowed_list:\t{allowed}"
    for name, text in written.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")
    return root


@pytest.mark.parametrize(
    ("nodes", "wanted", "own", "shown"),
    [
        (TWO[:1], "local", [0], "-"),
        (TWO[:1], "interleave", [0], "-"),
        (TWO, "local", [1], "prefers 1"),
        (TWO, "local", [0, 1], "prefers 0-1"),
        (TWO, "local", [], "-"),
        (TWO, "any", [1], "-"),
        (TWO, "interleave", [1], "interleaves 0-1"),
        (XEON_MAX, "local", [1], "prefers 1"),
        (XEON_MAX, "hbm", [1], "prefers 3"),
        (XEON_MAX, "hbm", [0, 1], "prefers 2-3"),
        (XEON_MAX, "interleave", [0], "interleaves 0-1"),
    ],
)
def test_policies(tmp_path: Path, nodes: Any, wanted: str, own: list[int], shown: str) -> None:
    seen = memory.read(tree(tmp_path, nodes))
    policy, reason = Memory.from_json(json.loads(json.dumps(seen.to_json()))).policy(wanted, own)
    assert (memory.describe(policy), reason) == (shown, "")


@pytest.mark.parametrize(
    ("nodes", "hbm"),
    [
        (TWO, []),
        (XEON_MAX, [2, 3]),
        (CXL, []),
        # Bandwidths decide where there are any: here of fast memory that is far, and of slow memory that is near.
        (((True, (10, 20), 200_000), (False, (20, 10), 400_000)), [1]),
        (((True, (10, 13), 200_000), (False, (13, 10), 30_000)), []),
    ],
)
def test_hbm(tmp_path: Path, nodes: Any, hbm: list[int]) -> None:
    assert [node.number for node in memory.read(tree(tmp_path, nodes)).hbm()] == hbm


def test_nodes_without_memory_and_those_that_a_cgroup_forbids_are_left_out(tmp_path: Path) -> None:
    assert [node.number for node in memory.read(tree(tmp_path, XEON_MAX, "1-3", empty=(2,))).nodes] == [1, 3]


@pytest.mark.parametrize("missing", [Memory((Node(0, True), Node(1, True)), many=False), None])
def test_without_the_system_call_only_the_default_is_planned(missing: Memory | None) -> None:
    seen = missing or Memory((Node(0, True), Node(1, True)), REFUSED)
    policy, reason = seen.policy("local", [0, 1])
    assert policy == {} and reason.startswith("memory is left to the kernel, because ")
    assert seen.policy("any", [0, 1]) == ({}, "")
    if not missing:
        with pytest.raises(ValueError, match=r"^memory: interleave cannot be set, because set_mempolicy is refused"):
            seen.policy("interleave", [0])


def test_in_a_plan() -> None:
    def answer(**seen: Any) -> dict[str, Any]:
        made = host("node0", 2, memory={**Memory((Node(0, True), Node(1, True))).to_json(), **seen})
        for number, rank in enumerate(made["allocation"]["ranks"]):
            rank["numa_nodes"] = [number]
        return made

    made = plan(answer())["hosts"][0]
    assert [rank["memory"] for rank in made["ranks"]] == [{"policy": "preferred", "nodes": [n]} for n in (0, 1)]
    made = plan(answer(refused=REFUSED))["hosts"][0]
    assert [rank["memory"] for rank in made["ranks"]] == [{}, {}]
    assert made["warnings"] == [f"memory is left to the kernel, because {REFUSED}"]
    with pytest.raises(ValueError, match=r"^node0: memory: hbm needs NUMA nodes of HBM, and this host has none"):
        plan(answer(), memory="hbm")


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="system calls have other numbers elsewhere")
def test_the_kernel_answers_and_its_policy_is_the_default_afterwards() -> None:
    refused, _many = memory.probe([0])
    assert not refused or refused.startswith("set_mempolicy is refused: ")
    assert " prefer" not in Path("/proc/self/numa_maps").read_text()


NUMA_MAPS = """\
55d0c0a00000 prefer:0 file=/usr/bin/python3.11 mapped=120 N0=20 N1=100 kernelpagesize_kB=4
55d0c0f00000 prefer:0 file=/usr/bin/python3.11 anon=7 dirty=7 N1=7 kernelpagesize_kB=4
55d0c2a00000 prefer:0 heap anon=100 dirty=100 N0=90 N10=10 kernelpagesize_kB=4
7f0000000000 prefer:0 huge anon=2 dirty=2 N0=2 kernelpagesize_kB=2048
7f1000000000 prefer:0
7ffc00000000 prefer:0 stack anon=3 dirty=3 N0=3 kernelpagesize_kB=4
"""


def test_memory_of_a_process_by_node() -> None:
    assert memory.by_node(NUMA_MAPS) == {0: 93 * 4096 + 2 * 2**21, 10: 10 * 4096}
    assert memory.by_node("") == {}


def test_huge_pages_of_a_process() -> None:
    assert memory.huge_pages("Rss: 12 kB\nAnonHugePages:      4096 kB\nShmemPmdMapped: 0 kB\n") == 4096 * 1024
    assert memory.huge_pages("") == 0


def test_total_is_the_smallest_limit(tmp_path: Path) -> None:
    assert memory.total(tmp_path) == 0
    write = {
        "proc/meminfo": "MemTotal:       1000 kB\nMemFree: 10 kB\n",
        "proc/self/cgroup": "4:memory:/outside/box\n2:cpu:/other\n0::/a/b\n",
    }
    limits = {
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        "sys/fs/cgroup/a/b/memory.max": "max\n",
        "sys/fs/cgroup/a/memory.max": "500000\n",
        "sys/fs/cgroup/memory/outside/memory.limit_in_bytes": "400000\n",
    }
    for name, text in write.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = [memory.total(tmp_path)]
    for name, text in limits.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
        found.append(memory.total(tmp_path))
    assert found == [1024000, 1024000, 1024000, 500000, 400000]


def test_total_leaves_out_what_processes_do_not_get(tmp_path: Path) -> None:
    """Pages reserved for hugetlbfs, and nodes that a cpuset forbids."""
    files = {
        "proc/meminfo": "MemTotal:       1000 kB\nHugePages_Total: 1\nHugetlb:          300 kB\n",
        "sys/devices/system/node/online": "0,2\n\0",
        "sys/devices/system/node/node0/meminfo": "Node 0 MemTotal:    400 kB\n",
        "sys/devices/system/node/node2/meminfo": "Node 2 MemTotal:    600 kB\n",
        "proc/self/status": "Mems_allowed_list:\t0-3\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert memory.total(tmp_path) == 700 * 1024
    (tmp_path / "proc/self/status").write_text("Mems_allowed_list:\t0\n")
    assert memory.total(tmp_path) == 400 * 1024
