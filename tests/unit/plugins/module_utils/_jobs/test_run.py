from __future__ import annotations

import json
import re
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run, choose_hosts, members
from support.runs import run

USABLE = ["node0", "node1", "node2"]


@pytest.mark.parametrize(
    ("hosts", "chosen", "taking_part"),
    [
        (None, USABLE, USABLE),
        (2, ["node0", "node1"], ["node0", "node1"]),
        (["node2", "node1"], ["node2", "node1"], ["node0", "node2", "node1"]),
    ],
)
def test_hosts(hosts: Any, chosen: list[str], taking_part: list[str]) -> None:
    made = run(hosts=hosts)
    assert choose_hosts(made.job, USABLE) == chosen
    assert members(made.settings, chosen) == taking_part


@pytest.mark.parametrize(
    ("hosts", "error"),
    [
        (
            4,
            "Job demo requests 4 hosts and the inventory has 3 (node0, node1, node2): set hosts in /somewhere/demo.yml "
            "to at most that, or add workers.",
        ),
        (
            ["node1", "node7"],
            "Job demo names node7, which the inventory's cluster does not have (node0, node1, node2): correct hosts in "
            "/somewhere/demo.yml.",
        ),
    ],
)
def test_hosts_that_are_not_there(hosts: Any, error: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
        choose_hosts(run(hosts=hosts).job, USABLE)


def test_a_run_survives_the_way_through_json() -> None:
    made = run({"head_address": "10.0.0.1", "user": "ann"}, args={"seed": 1})
    assert Run.from_json(json.loads(json.dumps(made.to_json()))) == made
