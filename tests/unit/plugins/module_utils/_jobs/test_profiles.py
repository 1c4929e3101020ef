from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import measured, profiles
from ansible_collections.amx.cluster.plugins.module_utils._jobs.wire import OPERATIONS

MEASURE = {"warmup_steps": 5, "split": True, "profile": 4}
OPERATION = {"name": "aten::mm", "kind": "products", "seconds": 0.5, "calls": 12.0}


def beat(host: str, products: float = 0.6, dropout: float = 0.3, **more: Any) -> dict[str, Any]:
    """The last heartbeat of a rank whose steps take a second."""
    kinds = {**dict.fromkeys(OPERATIONS, 0.0), "products": products, "dropout": dropout}
    kinds["other"] = 1 - products - dropout
    profile = {"steps": 4, "seconds": 1.0, "kinds": kinds, "operations": [OPERATION], **more}
    return {"host": host, "measured": {"made": 20, "profile": profile}}


def test_hosts_are_merged() -> None:
    beats = {2: beat("node1", seconds=3.0), 0: beat("node0"), 1: {"host": "node0", "measured": {"made": 20}}}
    found = profiles.merge(beats, {"node0": "amx", "node1": "avx512"})
    assert found is not None
    assert (found["steps"], found["seconds_of_a_step"]) == (4, 2.0)
    assert [(host["host"], host["rank"], host["isa"]) for host in found["hosts"]] == [
        ("node0", 0, "amx"),
        ("node1", 2, "avx512"),
    ]
    assert found["hosts"][0]["kinds"]["products"] == 0.6
    assert found["hosts"][0]["operations"] == [OPERATION]


@pytest.mark.parametrize(
    "more",
    [
        *({"kinds": kinds} for kinds in (None, [1], {"products": "much"}, {"products": float("nan")}, {"other": -1.0})),
        *({"seconds": seconds} for seconds in (None, 0, "1", True)),
        *({"steps": steps} for steps in (None, 0, -1)),
    ],
)
def test_what_is_malformed_is_left_out(more: dict[str, Any]) -> None:
    assert profiles.merge({0: beat("node0", **more)}, {}) is None
    found = profiles.merge({0: beat("node0", **more), 1: beat("node1")}, {})
    assert found is not None
    assert [host["host"] for host in found["hosts"]] == ["node1"]


@pytest.mark.parametrize("told", [None, 5, {}, {"profile": None}, {"profile": []}, {"profile": {"note": "x"}}])
def test_ranks_without_a_profile(told: Any) -> None:
    assert profiles.merge({0: {"host": "node0", "measured": told}, 1: {"host": "node0"}}, {}) is None


def test_malformed_operations_are_left_out() -> None:
    broken = [None, {}, {**OPERATION, "seconds": "1"}, {**OPERATION, "name": 3}, OPERATION]
    found = profiles.merge({0: beat("node0", operations=broken), 1: beat("node1", operations=None)}, {})
    assert found is not None
    assert [host["operations"] for host in found["hosts"]] == [[OPERATION], []]


def test_notes() -> None:
    few = {0: {"host": "node0", "measured": {"made": 7}}}
    assert profiles.note(few, None) == profiles.note(few, {**MEASURE, "profile": None}) == ""
    assert profiles.note(few, MEASURE) == (
        "nothing was profiled: 7 step(s) of an optimizer were seen, and 9 are needed (measure: {warmup_steps: 5, "
        "profile: 4})"
    )
    assert profiles.note({0: beat("node0")}, MEASURE) == ""
    failed = {"host": "node1", "measured": {"profile": {"note": "MemoryError: no room"}}}
    said = profiles.note({0: beat("node0"), 1: failed}, MEASURE)
    assert said == "steps were not profiled on node1: MemoryError: no room"


def test_results_have_it_where_it_was_requested() -> None:
    seconds = {"median": 1.0, "low": 1.0, "high": 1.0, "mean": 1.0, "count": 2}
    beats = {0: beat("node0")}
    beats[0]["measured"].update(steps=2, step_seconds=seconds)
    found = measured.merge(beats, MEASURE, "gloo", None, {"node0": "avx512"})
    assert found is not None
    assert found["profile"] == profiles.merge(beats, {"node0": "avx512"})
    without = measured.merge(beats, {"warmup_steps": 5, "split": True}, "gloo", None)
    assert without is not None
    assert "profile" not in without
    few = {0: {"host": "node0", "measured": {"made": 7}}}
    assert "the first 10 are left out (measure: {warmup_steps: ..., profile: ...})" in measured.note(few, MEASURE)


def shown(*beats: dict[str, Any], isa: str = "avx512") -> list[str]:
    found = profiles.merge(dict(enumerate(beats)), {beat["host"]: isa for beat in beats})
    assert found is not None
    return profiles.text(found).splitlines()


def test_a_table_of_one_host() -> None:
    assert shown(beat("node0", products=0.8, dropout=0.1)) == [
        "where the time goes: mean of 4 step(s), 1 s each while they were profiled",
        "kind of operation  node0   as on AMX (at most)",
        "products           80.0 %  20.0 %",
        "dropout            10.0 %  40.0 %",
        "other              10.0 %  40.0 %",
        "as on AMX: products of node0 at most 16 times as fast (ratio of peaks, bf16), attention as it is; a step at "
        "most 4.00 times as fast",
    ]


@pytest.mark.parametrize("isa", ["amx", "avx2", "none", ""])
def test_without_a_ratio_that_is_known(isa: str) -> None:
    lines = shown(beat("node0"), isa=isa)
    assert not any("AMX" in line for line in lines)
    assert lines[2] == "products           60.0 %"


def test_hosts_that_differ_have_a_column_each() -> None:
    lines = shown(beat("node0"), beat("node1", products=0.5), isa="amx")
    assert lines[1:3] == ["kind of operation  node0   node1", "products           60.0 %  50.0 %"]


def test_of_hosts_that_are_alike_the_first_is_shown() -> None:
    lines = shown(beat("node0"), beat("node1", products=0.61), isa="amx")
    assert lines[1:3] == ["kind of operation  node0", "products           60.0 %"]
    assert lines[-1] == "node0 only: the shares of all 2 hosts are within 2 points"
