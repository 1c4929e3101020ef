"""A host is taken back while a job trains: the ranks save, and the job goes on without it, or says what to do.

Real ranks, transformers' Trainer, observer and supervisor. What stands in for the hosts is in
tests/support/separate_hosts.py, for their metadata service in tests/support/metadata.py.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._io import read_json
from support.checkout import ROOT
from support.metadata import Metadata
from support.separate_hosts import LOCALHOST, Hosts, needs_mounts

SCRIPT = ROOT / "tests/integration/zoo/trains.py"
ARGS = {"output_dir": "output", "max_steps": 60, "per_device_train_batch_size": 4, "save_strategy": "no"}

pytestmark = needs_mounts


class Cluster(Hosts):
    """Two hosts, each with a metadata service."""

    def __init__(self, base: Path, environment: Path) -> None:
        super().__init__(base, environment)
        head = Metadata()
        self.services = {"node0": head, "node1": Metadata(LOCALHOST, head.port)}

    def train(self, **job: Any) -> None:
        url = f"http://localhost:{self.services['node0'].port}"
        # The service is asked every 5 s: on a fast machine all steps would have ended before.
        pace = {"env": {"STEP_SECONDS": "0.2"}}
        self.start(SCRIPT, notices=url, kind="trainer", args=ARGS, **{**pace, **job})

    def come_to(self, step: int) -> None:
        self.until(lambda: (read_json(self.folder / "progress.json") or {}).get("step", 0) >= step)

    def until(self, what: Callable[[], Any]) -> None:
        end = time.monotonic() + 300
        while not what():
            assert time.monotonic() < end, self.ended()
            time.sleep(0.1)


@pytest.fixture
def cluster(tmp_path: Path, environment: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path, environment)
    yield made
    for service in made.services.values():
        service.close()


def saved(text: str) -> int:
    """The step of the checkpoint that a reason names."""
    found = re.search(r"all ranks have saved checkpoint-(\d+)", text)
    assert found, text
    return int(found[1])


def test_the_job_goes_on_without_the_host_from_the_step_of_its_notice(cluster: Cluster) -> None:
    cluster.train(min_hosts=1)
    cluster.come_to(3)
    cluster.services["node1"].take_back()
    status, log = cluster.ended()
    assert status["state"] == "succeeded", f"{status}\n{log}"
    first, second = status["attempts"]
    step = saved(first["reason"])
    assert re.match(r"node1 leaves at \d\d:\d\d:\d\d UTC; ", first["reason"])
    assert second["from"] == f"checkpoint-{step}"
    assert cluster.result() == {"steps": 60, "from": f"output/checkpoint-{step}", "world": 1}
    # Each rank has saved its part after this step and no other one.
    assert status["left"] == {"node1": {"at": first["reason"][16:28], "instance": "i-0123456789abcdef0"}}
    assert [path.name for path in cluster.places["node1"].glob("output/checkpoint-*")] == [f"checkpoint-{step}"]
    assert (cluster.places["node1"] / f"output/checkpoint-{step}/rng_state_1.pth").exists()
    assert any(note.startswith("node1 leaves at ") for note in status["notes"])


def test_without_min_hosts_the_job_ends_with_its_checkpoint(cluster: Cluster) -> None:
    cluster.train(restarts=3)
    cluster.come_to(3)
    cluster.services["node1"].take_back()
    status, log = cluster.ended()
    assert status["state"] == "failed", f"{status}\n{log}"
    step = saved(status["attempts"][0]["reason"])
    assert re.fullmatch(
        r"node1 leaves at [\d:]+ UTC and the job needs 2 host\(s\): .* playbooks/cloud_train.yml, .*\(min_hosts\)",
        status["reason"],
    )
    assert (cluster.folder / f"output/checkpoint-{step}/complete.json").exists()


def test_the_head_leaves(cluster: Cluster) -> None:
    """Its checkpoint is brought to a host that stays, also where the job could go on without another one."""
    cluster.train(min_hosts=1)
    cluster.come_to(3)
    cluster.services["node0"].take_back()
    status, log = cluster.ended()
    step = saved(status["attempts"][0]["reason"])
    assert status["state"] == "failed", f"{status}\n{log}"
    assert "where the job's supervisor and results are: replace it" in status["reason"]
    assert status["reason"].endswith(f". checkpoint-{step} is on node1, too")
    there = cluster.places["node1"] / f"output/checkpoint-{step}"
    assert (there / "model.safetensors").exists()
    assert (there / "complete.json").exists()


def test_a_step_that_does_not_end_in_time(cluster: Cluster) -> None:
    """The job goes on from what there is, and the host is not waited for."""
    cluster.train(min_hosts=1, env={"STEP_SECONDS": "30"})
    cluster.until(lambda: any(service.requests for service in cluster.services.values()))
    cluster.services["node1"].take_back(seconds=25)
    cluster.until(lambda: len((read_json(cluster.folder / "status.json") or {})["attempts"]) == 2)
    status = read_json(cluster.folder / "status.json") or {}
    assert status["attempts"][0]["reason"].endswith("UTC; no checkpoint was saved in time"), status
    assert status["attempts"][1]["from"] == "the beginning"
    os.kill(status["pid"], 15)
    assert cluster.ended()[0]["state"] == "lost"


def test_a_service_that_does_not_answer_is_told(cluster: Cluster) -> None:
    cluster.services["node1"].status = 500
    cluster.train(env={"STEP_SECONDS": "0.3"})
    status, log = cluster.ended()
    assert status["state"] == "succeeded", f"{status}\n{log}"
    (note,) = status["notes"]
    assert re.fullmatch(
        r"node1 cannot tell whether it is taken back: http://localhost:\d+: /latest/api/token answers 500", note
    )


def test_a_token_that_is_not_valid_any_more(cluster: Cluster) -> None:
    cluster.train(min_hosts=1)
    service = cluster.services["node1"]
    cluster.until(lambda: service.requests.get("GET /latest/meta-data/spot/instance-action"))
    service.token = "token-1"
    service.take_back()
    status, log = cluster.ended()
    assert saved(status["attempts"][0]["reason"]), f"{status}\n{log}"
    assert service.requests["PUT /latest/api/token"] == 2
