from __future__ import annotations

import errno
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._hosts import amx_text
from ansible_collections.amx.cluster.plugins.module_utils._hosts.amx import judge, probe
from support.sound_cluster import CAPTURED, GRANTED
from support.sound_cluster import amx as judged

UNKNOWN = {**GRANTED, "supported": 0, "granted": 0, "supported_errno": errno.EINVAL, "request_errno": errno.EINVAL}


def old_kernel(release: str = "5.15.0-94-generic", answer: dict[str, int] | None = UNKNOWN) -> dict[str, Any]:
    """Sapphire Rapids whose kernel does not know AMX."""
    return judge("x86_64", release, probe(str(CAPTURED / "sapphire_rapids_5.10"))["cpuinfo"], answer)


def shown(**judgements: dict[str, Any]) -> list[str]:
    """The lines of all groups, joined where they were wrapped."""
    return [
        " ".join(line.split())
        for group in amx_text.groups(judgements)
        for line in "\n".join(amx_text.lines(group)).replace("\n    ", " ").splitlines()
    ]


def test_an_old_kernel_on_sapphire_rapids() -> None:
    old = old_kernel()
    assert shown(node0=old, node1=judged("sapphire_rapids"), node2=old) == [
        "WARNING: AMX cannot be used on node0, node2, though the CPU has it. Training runs there in bf16 as "
        "avx512_bf16, slower.",
        "CPU: Intel(R) Xeon(R) Platinum 8480+ (Sapphire Rapids), which has AMX",
        "kernel: 5.15.0-94-generic, which does not meet the rule for AMX (5.16 or newer, or 5.15 with AMX added by its "
        f"vendor); it {old['kernel']['answer']}",
        f"found: {old['found']}",
        f"what to do: {old['advice']}",
        "AMX can be used on node1 (Intel(R) Xeon(R) Platinum 8480+, kernel 6.1.0-18-amd64)",
    ]


def test_a_new_kernel_that_refuses_meets_the_rule() -> None:
    seen = probe(str(CAPTURED / "sapphire_rapids"))
    refused = judge(
        seen["machine"], seen["release"], seen["cpuinfo"], {**GRANTED, "request_errno": errno.EPERM, "granted": 0}
    )
    kernel = shown(node0=refused)[2]
    assert kernel == (
        "kernel: 6.1.0-18-amd64, which meets the rule for AMX (5.16 or newer, or 5.15 with AMX added by its vendor); "
        "it refuses AMX (Operation not permitted)"
    )


@pytest.mark.parametrize(
    ("machine", "line"),
    [
        (
            "ice_lake",
            "node0: {found}; kernel 6.1.0-18-amd64. Training runs there in fp32 (best instruction set: avx512_vnni).",
        ),
        ("zen5", "node0: {found}; kernel 6.8.0-45-generic. Training runs there in bf16 as avx512_bf16."),
        (
            "generic_guest",
            "node0: {found}; kernel 6.1.0-18-amd64. Training runs there in fp32 (best instruction set: avx512_vnni). "
            "{advice}.",
        ),
    ],
)
def test_a_cpu_without_amx_takes_one_line(machine: str, line: str) -> None:
    seen = judged(machine)
    assert shown(node0=seen) == [line.format(**seen)]


def test_a_captured_machine_was_not_asked() -> None:
    seen = judge(**probe(str(CAPTURED / "sapphire_rapids")))
    assert shown(node0=seen) == [
        "AMX is shown by node0 (Intel(R) Xeon(R) Platinum 8480+, kernel 6.1.0-18-amd64): the kernel was not asked"
    ]
    lost = shown(node0=old_kernel(answer=None))
    assert lost[2].endswith("it was not asked")


def test_many_hosts_are_folded() -> None:
    lines = shown(**{f"node{number}": old_kernel() for number in range(100)})
    assert lines[0].startswith("WARNING: AMX cannot be used on node0, node1, node2, node3, node4 and 95 more, though")
    assert len(lines) == 5


def test_no_line_is_too_long() -> None:
    (group,) = amx_text.groups({f"a-host-with-a-long-name-{number}": old_kernel() for number in range(9)})
    assert max(map(len, amx_text.lines(group))) <= 110
    assert max(map(len, amx_text.lines(group, 79))) <= 79
    assert amx_text.lines(group, 0), "a terminal that says it has no columns"
    assert group.lost
