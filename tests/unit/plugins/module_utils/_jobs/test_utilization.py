from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import utilization
from hypothesis import given
from hypothesis import strategies as st
from support import runs


def made(*hosts: str, ranks: int = 1) -> utilization.Utilization:
    return utilization.Utilization(runs.plan(*(runs.host(name, ranks) for name in hosts or ("node0",))))


def beat(cpu: float, network: int = 0, rank: int = 0, host: str = "node0", pid: int = 9) -> dict[str, Any]:
    return {
        "rank": rank,
        "host": host,
        "pid": pid,
        "cpu_seconds": cpu,
        "rss_bytes": 1000,
        "network_bytes": network,
    }


def points(use: utilization.Utilization, host: str = "node0") -> dict[str, Any]:
    found: dict[str, Any] = use.to_json()["hosts"][host]
    return found


def test_two_ranks_of_a_host() -> None:
    use = made(ranks=2)
    for second in range(2, 12, 2):
        for rank in (0, 1):
            use.take(beat(1.5 * second, 1_000_000 * second, rank), float(second) - 0.01)
    found = points(use)
    assert (use.to_json()["version"], use.to_json()["interval"], found["cpus"]) == (1, 2, 4)
    assert found["time"] == [0, 2, 4, 6, 8]
    assert found["busy_cpus"][1:] == pytest.approx([3.0] * 4, rel=0.02)
    assert found["memory_bytes"] == [1000, 2000, 2000, 2000, 2000] or found["memory_bytes"] == [2000] * 5
    assert found["network_bytes_per_second"][1:] == pytest.approx([1_000_000] * 4, rel=0.02)


def test_a_heartbeat_that_came_late_is_spread_over_the_time_that_it_tells_of() -> None:
    use = made()
    use.take(beat(0.0), 2.0)
    use.take(beat(12.0), 14.0)
    assert points(use)["busy_cpus"] == pytest.approx([0.0, *[1.0] * 6, 0.0])


def test_another_attempt_counts_anew() -> None:
    use = made()
    use.take(beat(100.0, 5_000), 10.0)
    use.take(beat(1.0, 10, pid=77), 40.0)  # the host has started anew, too
    found = points(use)
    assert sum(found["busy_cpus"]) * 2 == pytest.approx(101.0)
    assert min(found["busy_cpus"]) == 0
    assert sum(found["network_bytes_per_second"]) == 0


def test_heartbeats_that_tell_nothing_of_a_known_host_are_no_points() -> None:
    use = made()
    use.take({"rank": 0, "host": "node0", "idle": 0}, 3.0)
    use.take(beat(1.0, host="elsewhere"), 3.0)
    assert points(use)["time"] == []


@pytest.mark.slow
@given(st.lists(st.tuples(st.floats(0.01, 500), st.floats(0, 100)), min_size=1, max_size=60))
def test_nothing_is_lost_and_the_points_are_bounded(steps: list[tuple[float, float]]) -> None:
    use = made("node0", "node1")
    at = cpu = 0.0
    for passed, used in steps:
        at, cpu = at + passed, cpu + used
        use.take(beat(cpu), at)
    hosts = use.hosts
    assert sum(hosts["node0"].cpu_seconds) == pytest.approx(cpu)
    assert len(points(use)["time"]) == int(at // use.interval) + 1 <= utilization.POINTS
    assert points(use, "node1")["time"] == []
