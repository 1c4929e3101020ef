"""A model that is sharded over two hosts with disks of their own goes on from a checkpoint with all of its shards.

Real ranks, FSDP, torch.distributed.checkpoint, observer and supervisor; what stands in for the hosts is in
tests/support/separate_hosts.py.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import checkpoints, directory
from support.at_length import only_at_length
from support.checkout import ROOT
from support.separate_hosts import Hosts, needs_mounts

SCRIPT = ROOT / "tests/integration/zoo/distributed_checkpoint.py"
OWN = {"OWN_SHARDS": "1"}


both_ways = pytest.mark.parametrize(
    "env",
    [
        pytest.param({}, id="torch.distributed.checkpoint"),
        pytest.param(
            OWN,
            id="a file of each rank",
            marks=only_at_length("which shards make a checkpoint is in test_checkpoints.py"),
        ),
    ],
)


pytestmark = needs_mounts


@pytest.fixture
def hosts(tmp_path: Path, environment: Path) -> Hosts:
    return Hosts(tmp_path, environment)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, environment: Path) -> float:
    """The sum of the weights that a run without a fault ends with."""
    made = Hosts(tmp_path_factory.mktemp("undisturbed"), environment)
    made.start(SCRIPT)
    status, log = made.ended()
    assert status["state"] == "succeeded", f"{status['reason']}\n{log}"
    assert sorted(path.name for path in made.places["node0"].glob("output/checkpoint-8/*.distcp")) == ["__0_0.distcp"]
    assert sorted(path.name for path in made.places["node1"].glob("output/checkpoint-8/*.distcp")) == ["__1_0.distcp"]
    weights: float = made.result()["weights"]
    return weights


@both_ways
def test_a_rank_that_is_killed_while_it_writes_its_shard(hosts: Hosts, undisturbed: float, env: dict[str, str]) -> None:
    hosts.start(SCRIPT, restarts=1, env={**env, "FAULT": "6"})
    status, log = hosts.ended()
    assert (status["state"], hosts.result().get("resumed_from")) == ("succeeded", 4), f"{status}\n{log}"
    assert hosts.result()["weights"] == pytest.approx(undisturbed, rel=1e-9)
    if env:
        assert any(
            "checkpoint-6 is not used: node1 did not finish writing its shard-1.pt" in note for note in status["notes"]
        )


def test_a_run_that_goes_on_in_new_directories_gets_every_shard(hosts: Hosts, undisturbed: float) -> None:
    """As after train.yml -e job_resume=true: each host links what it has, and the other's part is brought to it."""
    hosts.start(SCRIPT, env={"FAULT": "6"})
    assert hosts.ended()[0]["state"] == "failed"
    for place in hosts.places.values():
        resume(place)
    hosts.start(SCRIPT)
    status, log = hosts.ended()
    assert (status["state"], hosts.result().get("resumed_from")) == ("succeeded", 4), f"{status}\n{log}"
    assert hosts.result()["weights"] == pytest.approx(undisturbed, rel=1e-9)
    for place in hosts.places.values():
        assert len(list(place.glob("output/checkpoint-4/*.distcp"))) == 2


@both_ways
def test_half_of_a_model_is_not_gone_on_with(hosts: Hosts, env: dict[str, str]) -> None:
    """A host is lost, with its shards, and the job may go on with fewer."""
    hosts.start(SCRIPT, restarts=1, min_hosts=1, env={**env, "FAULT": "6", "LOSES": str(hosts.base / "down.node1")})
    status, log = hosts.ended()
    assert status["state"] == "failed", log
    assert "is on node1" in status["reason"], status
    assert "bring node1 back" in status["reason"]
    assert [attempt["from"] for attempt in status["attempts"]] == ["the beginning"]


def test_shards_of_another_run_are_none_of_this_one(hosts: Hosts) -> None:
    hosts.start(SCRIPT, env={"FAULT": "6"})
    assert hosts.ended()[0]["state"] == "failed"
    for host, place in hosts.places.items():
        resume(place, start="another" if host == "node1" else "")
    hosts.start(SCRIPT)
    status, log = hosts.ended()
    assert status["state"] == "failed", log
    assert "__1_0.distcp is on no host" in status["reason"], status


def test_a_start_that_is_refused_loses_no_shards(hosts: Hosts, undisturbed: float) -> None:
    """Without the host that has one of them, and then with it: it has not seen the start in between."""
    hosts.start(SCRIPT, env={"FAULT": "6"})
    assert hosts.ended()[0]["state"] == "failed"
    away = hosts.places.pop("node1")
    resume(hosts.folder)
    hosts.start(SCRIPT, start="the second")
    status, log = hosts.ended()
    assert "bring node1 back" in status["reason"], f"{status}\n{log}"
    hosts.places["node1"] = away
    for place in hosts.places.values():
        resume(place)
    hosts.start(SCRIPT, start="the third")
    status, log = hosts.ended()
    assert (status["state"], hosts.result().get("resumed_from")) == ("succeeded", 4), f"{status}\n{log}"
    assert hosts.result()["weights"] == pytest.approx(undisturbed, rel=1e-9)


def resume(place: Path, start: str = "") -> None:
    """Have the job in a directory run again, from what its last run has left there."""
    earlier = place.with_name("earlier")
    shutil.rmtree(earlier, ignore_errors=True)
    place.rename(earlier)
    directory.create(place, {}, {}, checkpoints.directories(earlier / "output"))
    if start:
        (place / directory.RESUMED).write_text(f'{{"start": "{start}", "starts": ["{start}"]}}')
