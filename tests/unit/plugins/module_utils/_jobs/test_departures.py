from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import departures
from ansible_collections.amx.cluster.plugins.module_utils._jobs.departures import Departures

NOON = 1795694400.0  # 2026-11-26T12:00:00Z


def beat(rank: int, host: str = "node0", **fields: Any) -> dict[str, Any]:
    return {"rank": rank, "host": host, "time": NOON, **fields}


def notice(time: str = "2026-11-26T12:01:30Z") -> dict[str, str]:
    return {"action": "terminate", "time": time, "instance": "i-1"}


def test_nobody_leaves() -> None:
    found = Departures(2)
    found.take(beat(0), 0.0)
    assert not found.are_due(1e9)
    assert (found.at, found.problems) == ({}, {})


def test_ends_when_all_ranks_have_saved_one_step() -> None:
    found = Departures(2)
    found.take(beat(1, "node1", leaves=notice()), 10.0)
    assert found.at == {"node1": "12:01:30 UTC"}
    assert found.instances == {"node1": "i-1"}
    assert not found.are_due(10.0)
    found.take(beat(1, "node1", leaves=notice(), saved=7), 12.0)
    assert not found.are_due(12.0)
    found.take(beat(0, saved=7), 13.0)
    assert found.are_due(13.0)
    assert found.reason() == "node1 leaves at 12:01:30 UTC; all ranks have saved checkpoint-7"


def test_ends_before_the_host_is_gone() -> None:
    found = Departures(2)
    found.take(beat(1, "node1", leaves=notice()), 10.0)
    found.take(beat(1, "node1", leaves=notice()), 50.0)  # the same one
    assert not found.are_due(10.0 + 90.0 - departures.LAST)
    assert found.are_due(10.1 + 90.0 - departures.LAST)
    assert found.reason() == "node1 leaves at 12:01:30 UTC; no checkpoint was saved in time"


def test_the_first_of_two_hosts_decides() -> None:
    found = Departures(3)
    found.take(beat(2, "node2", leaves=notice("2026-11-26T12:02:00Z")), 0.0)
    found.take(beat(1, "node1", leaves=notice("2026-11-26T12:00:30Z")), 0.0)
    assert found.are_due(11.0)
    assert departures.hosts_leaving(found.at) == "node2 leaves at 12:02:00 UTC, node1 leaves at 12:00:30 UTC"


@pytest.mark.parametrize(
    ("written", "sent", "left", "when"),
    [
        ("2026-11-26T12:00:30Z", NOON, 30.0, "12:00:30 UTC"),
        ("2026-11-26T11:59:00Z", NOON, 0.0, "11:59:00 UTC"),
        ("2026-11-26T15:00:00Z", NOON, departures.NOTICE, "15:00:00 UTC"),  # a clock that is wrong
        ("soon", NOON, departures.NOTICE, "soon"),
        ("2026-11-26T12:00:30Z", None, departures.NOTICE, "2026-11-26T12:00:30Z"),
    ],
)
def test_time_left(written: str, sent: Any, left: float, when: str) -> None:
    assert departures.read(written, sent) == (left, when)


def test_whether_a_job_goes_on() -> None:
    at = {"node2": "12:00:30 UTC"}
    assert departures.cannot_go_on(at, ["node0", "node1"], 2, "node0", replace=False) == ""
    assert departures.cannot_go_on(at, ["node0", "node1"], 3, "node0", replace=False) == (
        "node2 leaves at 12:00:30 UTC and the job needs 3 host(s): replace it and continue the job with "
        "playbooks/cloud_train.yml, or let it go on with fewer (min_hosts)"
    )
    assert departures.cannot_go_on(at, ["node0", "node1"], 2, "node0", replace=True) == (
        "node2 leaves at 12:00:30 UTC: replace it and continue the job with playbooks/cloud_train.yml (replace: true)"
    )
    assert "where the job's supervisor and results are" in departures.cannot_go_on(
        {"node0": "12:00:30 UTC"}, ["node1"], 1, "node0", replace=False
    )
