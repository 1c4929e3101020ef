"""Files of a volume that are fetched in parts over connections that break, and the pod that reads them."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import jobs, settings, volume
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.api import Api
from hypothesis import given
from hypothesis import strategies as st
from support.api_server import TEAM, Server, Store
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
        volume.fetch(self.part, len(self.content), digest, to, self.said.append, pause=0)


@pytest.mark.slow
@given(st.binary(max_size=64), st.lists(st.sampled_from(["", "cut", "lost"]), max_size=3))
def test_what_is_fetched_is_what_was_packed(tmp_path_factory: Any, content: bytes, faults: list[str]) -> None:
    to = tmp_path_factory.mktemp("fetched") / "smoke.tar"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(volume, "CHUNK", 7)
        Volume(content, faults).fetch(to)
    assert to.read_bytes() == content


def test_a_connection_that_never_holds_is_reported(tmp_path: Path) -> None:
    file = Volume(b"content", ["lost"] * volume.TRIES)
    with pytest.raises(ValueError, match="tried 4 times, from byte 0 on: the connection to pod smoke-reader was lost"):
        file.fetch(tmp_path / "smoke.tar")
    assert len(file.said) == volume.TRIES - 1


def test_a_wrong_sum_is_fetched_once_more(tmp_path: Path) -> None:
    file = Volume(b"content", ["wrong"])
    file.fetch(tmp_path / "smoke.tar")
    assert (tmp_path / "smoke.tar").read_bytes() == b"content"
    assert file.said == ["  the sum of what was fetched is not that of the volume: it is fetched again"]
    with pytest.raises(ValueError, match="the SHA-256 of what was fetched twice is"):
        Volume(b"content", ["wrong", "wrong"]).fetch(tmp_path / "smoke.tar")


def test_the_newest_directory_of_a_job() -> None:
    listed: list[dict[str, Any]] = [
        {"name": "smoke", "start": "z", "started": "2026-01-01"},
        {"name": "smoke", "start": "a", "started": "2026-01-02"},
        {"name": "other", "start": "b", "started": None},
    ]
    assert volume.newest(listed, "smoke") == "a"
    with pytest.raises(ValueError, match="no directory of job nope; it has those of other, smoke"):
        volume.newest(listed, "nope")


@pytest.mark.parametrize("job", ["", "smoke"])
def test_the_reader_is_a_small_pod_that_any_node_can_run(job: str) -> None:
    chosen = settings.read({**GIVEN, "pvc": "shared", "image_pull_secret": "registry"})
    name = volume.new_name(job)
    assert re.fullmatch(f"{job or 'amx-cluster'}-reader-[0-9a-f]{{8}}", name)
    assert name != volume.new_name(job), "two users share a pod, which the first that ends removes"
    made = volume.pod(chosen, name, job)
    judge(made)
    assert made["metadata"]["name"] == name
    own_name = {"name": "AMX_CLUSTER_POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    assert own_name in made["spec"]["containers"][0]["env"]
    assert made["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "0"
    assert "nodeSelector" not in made["spec"]
    assert made["spec"]["activeDeadlineSeconds"] == 3600
    assert {"name": "storage", "persistentVolumeClaim": {"claimName": "shared"}} in made["spec"]["volumes"]


PODS = f"{TEAM}/pods"


@pytest.fixture
def api(server: Server, store: Store, tmp_path: Path) -> Api:
    """A cluster with the claim, in which a pod that is created runs at once."""

    def answer(request: dict[str, Any]) -> Any:
        if request["method"] == "POST" and request["path"] == PODS:
            running = [{"name": "reader", "state": {"running": {}}}]
            request["body"]["status"] = {"phase": "Running", "containerStatuses": running}
        return store.answer(request)

    store.keep(f"{TEAM}/persistentvolumeclaims/amx-cluster", {"metadata": {"name": "amx-cluster"}})
    server.others = answer
    return Api.connect(server.kubeconfig(tmp_path), namespace="team")


@pytest.mark.slow
def test_a_reader_lives_as_long_as_it_is_used(api: Api, store: Store) -> None:
    """And those that interrupted plays have left go: never one that runs."""
    chosen = settings.read({**GIVEN, "namespace": "team"})
    for name, phase in (("left", "Failed"), ("of-somebody", "Running")):
        store.keep(f"{PODS}/{name}", {**volume.pod(chosen, name), "status": {"phase": phase}})
    store.keep(f"{PODS}/demo-0", {"metadata": {"name": "demo-0"}, "status": {"phase": "Failed"}})
    before = {path.rpartition("/")[2] for path in store.there if path.startswith(PODS)}
    with (
        pytest.raises(ValueError, match="cannot be read"),
        volume.reader(api, chosen, lambda _text: None, "smoke") as reader,
    ):
        during = {path.rpartition("/")[2] for path in store.there if path.startswith(PODS)}
        assert during == before - {"left"} | {reader.pod["metadata"]["name"]}
        raise ValueError("cannot be read")
    assert {path.rpartition("/")[2] for path in store.there if path.startswith(PODS)} == before - {"left"}


def test_a_reader_without_a_volume(api: Api, store: Store) -> None:
    store.there.clear()
    with (
        pytest.raises(ValueError, match="namespace team has no PersistentVolumeClaim amx-cluster: there is no volume"),
        volume.reader(api, settings.read({**GIVEN, "namespace": "team"}), lambda _text: None),
    ):
        pass


def test_only_readers_that_have_ended_are_removed_for_others() -> None:
    made = {**volume.pod(settings.read(GIVEN), "smoke-reader-1", "smoke"), "status": {"phase": "Running"}}
    failed = {**volume.pod(settings.read(GIVEN), "smoke-reader-2", "smoke"), "status": {"phase": "Failed"}}
    assert [one["metadata"]["name"] for one in jobs.removable([made, failed], "smoke")] == ["smoke-reader-2"]
    labels = {term.partition("=")[0]: term.partition("=")[2] for term in volume.SELECTOR.split(",")}
    assert labels.items() <= made["metadata"]["labels"].items()
