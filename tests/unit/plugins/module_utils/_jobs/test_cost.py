"""What a run has cost, as its results have it."""

from __future__ import annotations

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import cost, results


def attempt(hosts: int, hours: float) -> dict[str, object]:
    return {"hosts": [f"node{number}" for number in range(hosts)], "seconds": 3600 * hours}


def test_of_a_run() -> None:
    found = cost.of_run("2.30 USD", [attempt(4, 1 / 8)])
    assert found == {"amount": 1.15, "currency": "USD", "host_price_per_hour": "2.30 USD"}
    assert cost.of_run("", [attempt(4, 1)]) is None


@pytest.mark.parametrize(
    ("attempts", "amount"),
    [
        pytest.param([attempt(8, 10), attempt(2, 1)], 140.22, id="hosts are lost"),
        pytest.param([attempt(2, 10), attempt(8, 1)], 47.88, id="hosts come back"),
        pytest.param([], 5.13, id="no attempt"),
        pytest.param([{"from": "the beginning"}], 5.13, id="attempts without hosts and times"),
    ],
)
def test_each_attempt_is_paid_with_its_own_hosts(attempts: list[dict[str, object]], amount: float) -> None:
    found = cost.of_run("1.71 USD", attempts, 3, 3600)
    assert found
    assert found["amount"] == pytest.approx(amount)


def test_a_price_that_is_none() -> None:
    with pytest.raises(ValueError, match=r"^cluster_host_price_per_hour: 'dear' is not a price such as "):
        cost.Price.read("dear", "cluster_host_price_per_hour")


@pytest.mark.parametrize(
    ("given", "rows"), [(cost.of_run("2 EUR", [attempt(2, 1 / 4)]), [("cost (estimate)", "1.00 EUR")]), (None, [])]
)
def test_in_the_table_of_a_run(given: object, rows: list[tuple[str, str]]) -> None:
    ended = {"state": "succeeded", "reason": "", "hosts": 2, "ranks": 2, "threads_per_rank": [1], "precision": "fp32"}
    shown = results.rows({**ended, "seconds": 900.0, "metrics": {}, "output": "output", "cost": given})
    assert [row for row in shown if row[0].startswith("cost")] == rows
