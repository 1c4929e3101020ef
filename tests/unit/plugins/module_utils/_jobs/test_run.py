from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.known import LAUNCHERS
from ansible_collections.amx.cluster.plugins.module_utils._jobs.requests import (
    choose_hosts,
    cores,
    cores_of,
    inventory_optimize,
)
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run, members
from ansible_collections.amx.cluster.plugins.module_utils._stacks.catalogue import BACKENDS
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


@pytest.mark.parametrize("stack", BACKENDS)
def test_every_stack_and_launcher_has_gloo(stack: str) -> None:
    for launcher in LAUNCHERS:
        assert run(backend="gloo", launcher=launcher).backend(stack) == "gloo"
        settings = replace(run().settings, backend="gloo")
        assert Run(run(launcher=launcher).job, settings).backend(stack) == "gloo"


NATIVE = {"name": "native", "packages": {"torch": "2.13.0+cpu"}}


@pytest.mark.parametrize(
    ("inventory", "own", "parts"),
    [
        ("none", None, []),
        (["dropout"], None, ["dropout"]),
        ("none", "auto", ["dropout", "attention", "optimizer", "loss", "padding"]),
        ("auto", "none", []),
    ],
)
def test_a_job_that_leaves_optimize_open_takes_the_inventorys(inventory: Any, own: Any, parts: list[str]) -> None:
    made = run({"optimize": inventory}, optimize=own)
    assert Run.from_json(json.loads(json.dumps(made.to_json()))).optimized(NATIVE) == parts


@pytest.mark.parametrize("value", ["all", "dropout", [], ["dropout", "masks"], True, None])
def test_an_inventorys_optimize_that_is_wrong(value: Any) -> None:
    error = (
        f"cluster_optimize: {value!r} is neither auto, none nor a list of dropout, attention, optimizer, loss, padding"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
        inventory_optimize(value)


CORES = {"ranks_per_node": "auto", "comm_cores": "auto", "reserved_cores": "auto", "threads_per_core": 1}


def test_a_job_that_leaves_its_cores_open_takes_the_inventorys() -> None:
    job = run().job
    assert cores_of(job, {}) == CORES
    assert cores_of(job, {"ranks_per_node": 4, "threads_per_core": 2}) == {
        **CORES,
        "ranks_per_node": 4,
        "threads_per_core": 2,
    }
    settings = replace(run().settings, cores={"ranks_per_node": 4})
    read = Run.from_json(json.loads(json.dumps(Run(job, settings).to_json())))
    assert cores(read, 3)["ranks_per_node"] == 4


@pytest.mark.parametrize("field", [{"ranks_per_node": 1}, {"reserved_cores": 0}, {"threads_per_core": 2}])
def test_a_job_that_sets_some_of_its_cores_takes_none_of_the_inventorys(field: dict[str, Any]) -> None:
    assert cores_of(replace(run().job, **field), {"comm_cores": 3, "ranks_per_node": 9}) == {**CORES, **field}


CORE_FIELDS = "ranks_per_node, comm_cores, reserved_cores, threads_per_core"


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ("four", "cluster_cores: 'four' is not a mapping such as {ranks_per_node: 2}"),
        ({"ranks": 4}, f"cluster_cores: ranks is not one of {CORE_FIELDS}"),
        (
            {"comm_cores": -1, "ranks": 2},
            "cluster_cores: comm_cores: -1 is not a whole number of at least 0\n"
            f"cluster_cores: ranks is not one of {CORE_FIELDS}",
        ),
    ],
)
def test_cores_of_an_inventory_that_are_wrong(given: Any, error: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
        cores_of(run().job, given)
