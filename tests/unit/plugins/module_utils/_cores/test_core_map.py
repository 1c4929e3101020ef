from __future__ import annotations

import xml.etree.ElementTree as ET

from ansible_collections.amx.cluster.plugins.module_utils._cores.allocation import Allocation, Request, allocate
from ansible_collections.amx.cluster.plugins.module_utils._cores.core_map import CoreMap
from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import build, parse_cpus
from support.machines import Machine, machine

SVG = "{http://www.w3.org/2000/svg}"


def plan_for(made: Machine, request: Request, allowed: str | None = None) -> Allocation:
    return allocate(build(made.cpus(), parse_cpus(allowed) if allowed else None), request)


def test_text_of_one_socket() -> None:
    assert CoreMap.of(plan_for(machine(1, 32, 2), Request(2, "ccl", 1, 6))).text() == (
        "socket 0  node 0  ssssssc0 00000000 000c1111 11111111\n"
        "one character is one core: 0-1 compute for that rank, c communication, s system"
    )


def test_text_of_interleaved_nodes_with_a_cpuset_and_offline_cpus() -> None:
    made = machine(2, 4, 1, numbering="interleaved", node_ids=(0, 10)).without([7])
    assert CoreMap.of(plan_for(made, Request(1), allowed="0-1,3-6")).text() == (
        "socket 0  node 0   0-00\n"
        "socket 1  node 10  000\n"
        "one character is one core: 0 computes for rank 0, - not for this job\n"
        "offline: CPUs 7"
    )


def test_text_of_left_over_cores_and_more_ranks_than_letters() -> None:
    lines = CoreMap.of(plan_for(machine(1, 77), Request(38))).text().splitlines()
    assert lines[0] == (
        "socket 0  node 0  s0011223 34455667 78899AAB BCCDDEEF FGGHHIIJ JKKLLMMN NOOPPQQR RSSTTUUV VWWXXYYZ Z0011"
    )
    assert lines[1] == (
        "one character is one core: 0-Z compute for the rank of that number (A is 10), from rank 36 again from 0, "
        "s system"
    )
    assert "r system, left over" in CoreMap.of(plan_for(machine(1, 7), Request(4))).text()


def test_svg_is_a_document_with_a_cell_for_each_core() -> None:
    plan = plan_for(machine(2, 12, 2), Request(2, "ccl"))
    root = ET.fromstring(CoreMap.of(plan).svg("node1, node2 & node3"))
    assert root.tag == f"{SVG}svg"
    titles = [title.text for title in root.iter(f"{SVG}title")]
    assert titles.pop(0) == "node1, node2 & node3"
    assert titles[:3] == [
        "core 0, CPUs 0,24: system",
        "core 1, CPUs 1,25: communication, rank 0",
        "core 2, CPUs 2,26: compute, rank 0",
    ]
    assert len(titles) == 24
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert texts[0] == "node1, node2 & node3"
    assert "socket 1, NUMA node 1" in texts
    right = max(float(cell.get("x", 0)) + float(cell.get("width", 0)) for cell in root.iter(f"{SVG}rect"))
    assert right <= float(root.get("width", 0))
