"""What a run has cost, as its results have it."""

from __future__ import annotations

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import cost, results


def test_of_a_run() -> None:
    found = cost.of_run("2.30 USD", 4, 450.0)
    assert found == {"amount": 1.15, "currency": "USD", "host_price_per_hour": "2.30 USD"}
    assert cost.of_run("", 4, 450.0) is None


def test_a_price_that_is_none() -> None:
    with pytest.raises(ValueError, match=r"^cluster_host_price_per_hour: 'dear' is not a price such as "):
        cost.Price.read("dear", "cluster_host_price_per_hour")


@pytest.mark.parametrize(("given", "rows"), [(cost.of_run("2 EUR", 2, 900), [("cost", "1.00 EUR")]), (None, [])])
def test_in_the_table_of_a_run(given: object, rows: list[tuple[str, str]]) -> None:
    ended = {"state": "succeeded", "reason": "", "hosts": 2, "ranks": 2, "threads_per_rank": [1], "precision": "fp32"}
    shown = results.rows({**ended, "seconds": 900.0, "metrics": {}, "output": "output", "cost": given})
    assert [row for row in shown if row[0] == "cost"] == rows
