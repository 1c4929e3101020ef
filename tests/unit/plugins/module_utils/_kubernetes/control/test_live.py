"""Files of a volume that are fetched in parts over connections that break, and the pod that reads them."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import jobs, live, reader, settings
from hypothesis import given
from hypothesis import strategies as st
from support.kubernetes_jobs import GIVEN, judge


class Volume:
    """A file, of which some requests fail: "cut" returns a byte too few, "lost" raises, "wrong" changes a byte."""

    def __init__(self, content: bytes, faults: list[str]) -> None:
        self.content, self.faults, self.said = content, faults, list[str]()

    def part(self, first: int, count: int) -> bytes:
        fault = self.faults.pop(0) if self.faults else ""
        found = self.content[first : first + count]
        if fault == "lost":
            raise ValueError("the connection to pod smoke-reader was lost")
        if fault == "cut":
            return found[:-1]
        return bytes([found[0] ^ 1]) + found[1:] if fault == "wrong" else found

    def fetch(self, to: Path) -> None:
        digest = hashlib.sha256(self.content).hexdigest()
        live.fetch(self.part, len(self.content), digest, to, self.said.append, pause=0)


@given(st.binary(max_size=64), st.lists(st.sampled_from(["", "cut", "lost"]), max_size=3))
def test_what_is_fetched_is_what_was_packed(tmp_path_factory: Any, content: bytes, faults: list[str]) -> None:
    to = tmp_path_factory.mktemp("fetched") / "smoke.tar"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live, "CHUNK", 7)
        Volume(content, faults).fetch(to)
    assert to.read_bytes() == content


def test_a_connection_that_never_holds_is_reported(tmp_path: Path) -> None:
    volume = Volume(b"content", ["lost"] * live.TRIES)
    with pytest.raises(ValueError, match="tried 4 times, from byte 0 on: the connection to pod smoke-reader was lost"):
        volume.fetch(tmp_path / "smoke.tar")
    assert len(volume.said) == live.TRIES - 1


def test_a_wrong_sum_is_fetched_once_more(tmp_path: Path) -> None:
    volume = Volume(b"content", ["wrong"])
    volume.fetch(tmp_path / "smoke.tar")
    assert (tmp_path / "smoke.tar").read_bytes() == b"content"
    assert volume.said == ["  the sum of what was fetched is not that of the volume: it is fetched again"]
    with pytest.raises(ValueError, match="the SHA-256 of what was fetched twice is"):
        Volume(b"content", ["wrong", "wrong"]).fetch(tmp_path / "smoke.tar")


def test_the_newest_directory_of_a_job() -> None:
    listed: list[dict[str, Any]] = [
        {"name": "smoke", "start": "z", "started": "2026-01-01"},
        {"name": "smoke", "start": "a", "started": "2026-01-02"},
        {"name": "other", "start": "b", "started": None},
    ]
    assert live.newest(listed, "smoke") == "a"
    with pytest.raises(ValueError, match="no directory of job nope; it has those of other, smoke"):
        live.newest(listed, "nope")


@pytest.mark.parametrize("job", ["", "smoke"])
def test_the_reader_is_a_small_pod_that_any_node_can_run(job: str) -> None:
    chosen = settings.read({**GIVEN, "pvc": "shared", "image_pull_secret": "registry"})
    name = reader.new_name(job)
    assert re.fullmatch(f"{job or 'amx-cluster'}-reader-[0-9a-f]{{8}}", name)
    assert name != reader.new_name(job), "two users share a pod, which the first that ends removes"
    made = reader.pod(chosen, name, job)
    judge(made)
    assert made["metadata"]["name"] == name
    assert {"name": "AMX_CLUSTER_POD", "value": name} in made["spec"]["containers"][0]["env"]
    assert made["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "0"
    assert "nodeSelector" not in made["spec"]
    assert made["spec"]["activeDeadlineSeconds"] == 3600
    assert {"name": "storage", "persistentVolumeClaim": {"claimName": "shared"}} in made["spec"]["volumes"]


def test_only_readers_that_have_ended_are_removed_for_others() -> None:
    made = {**reader.pod(settings.read(GIVEN), "smoke-reader-1", "smoke"), "status": {"phase": "Running"}}
    failed = {**reader.pod(settings.read(GIVEN), "smoke-reader-2", "smoke"), "status": {"phase": "Failed"}}
    trains = {"kind": "Pod", "metadata": {"name": "smoke-0"}, "status": {"phase": "Failed"}}
    assert reader.ended([made, failed, trains]) == ["smoke-reader-2"]
    assert [one["name"] for one in jobs.removable([made, failed], "smoke")] == ["smoke-reader-2"]
    labels = {term.partition("=")[0]: term.partition("=")[2] for term in reader.SELECTOR.split(",")}
    assert labels.items() <= made["metadata"]["labels"].items()
