"""Jobs by the objects that an API server has: their states, pods, and what may be removed."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import jobs, jobs_text, kinds
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.objects import (
    BY_USER,
    JOB_LABEL,
    MANAGED_BY,
    MANAGER,
    READS,
    ROLE_LABEL,
)
from hypothesis import given
from hypothesis import strategies as st

NOW = datetime(2026, 11, 22, 12, 3, 20, tzinfo=timezone.utc)
OURS = {MANAGED_BY: MANAGER}


def thing(kind: str, name: str, job: str = "smoke", **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "labels": {**OURS, JOB_LABEL: job}, "creationTimestamp": "2026-11-22T12:00:00Z"}
    metadata |= more.pop("metadata", {})
    return {"kind": kind, "apiVersion": kinds.OF_JOBS.get(kind, "v1"), "metadata": metadata, **more}


def config(job: str = "smoke", **annotations: str) -> dict[str, Any]:
    names = {key: f"amx.cluster/{key}" for key in annotations}
    data = {
        "kubernetes.json": json.dumps({"kind": "PyTorchJob", "pods": 2, "ranks": 2}),
        "job.json": json.dumps({"job": {"name": job}, "settings": {"start": "abc", "user": "anna", "since": ""}}),
    }
    return thing("ConfigMap", job, job, data=data, metadata={"annotations": {names[k]: annotations[k] for k in names}})


def pod(number: int, state: dict[str, Any] | None = None, made: str = "2026-11-22T12:00:01Z", **status: Any) -> Any:
    labels = {**OURS, JOB_LABEL: "smoke", ROLE_LABEL: "train", "training.kubeflow.org/replica-index": str(number)}
    states = [{"name": "pytorch", "restartCount": 0, "state": state}] if state else []
    return {
        "kind": "Pod",
        "metadata": {
            "name": f"smoke-worker-{number}",
            "uid": f"{number}-{made}",
            "labels": labels,
            "creationTimestamp": made,
        },
        "spec": {"nodeName": "node0" if state else None, "containers": [{"name": "pytorch", "image": "amx:1"}]},
        "status": {"phase": "Running" if state else "Pending", "containerStatuses": states, **status},
    }


def ended(code: int, message: dict[str, Any] | None = None, reason: str = "Error") -> dict[str, Any]:
    said = {"message": json.dumps(message)} if message else {}
    return {"terminated": {"exitCode": code, "reason": reason, "finishedAt": "2026-11-22T12:02:00Z", **said}}


RUNNING: dict[str, Any] = {"running": {"startedAt": "2026-11-22T12:00:03Z"}}
TRAINING = thing("PyTorchJob", "smoke")
UNSCHEDULABLE: dict[str, Any] = {
    "conditions": [
        {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available: 1 Insufficient cpu."}
    ]
}


def found(*pods: Any, training: Any = TRAINING, **annotations: str) -> jobs.JobInPods:
    (one,) = jobs.group([config(**annotations), *([training] if training else []), *pods], "training")
    return one


def concluded(kind: str, message: str = "") -> dict[str, Any]:
    return {**TRAINING, "status": {"conditions": [{"type": kind, "status": "True", "message": message}]}}


def test_objects_of_others_are_no_jobs() -> None:
    foreign = thing("ConfigMap", "theirs", metadata={"labels": {JOB_LABEL: "theirs"}})
    unlabelled = {"kind": "Job", "metadata": {"name": "x"}}
    assert jobs.group([foreign, unlabelled], "training") == []


def test_a_job_has_the_newest_pod_of_each_number_and_neither_readers_nor_what_prepares() -> None:
    old, new, other = pod(1, made="2026-11-22T11:00:00Z"), pod(1), pod(0)
    reader, prepares = pod(0), pod(0)
    reader["metadata"]["labels"][ROLE_LABEL] = READS
    prepares["metadata"]["labels"][ROLE_LABEL] = "prepare"
    preparing = thing("Job", "smoke-prepare")
    (one,) = jobs.group([config(), TRAINING, preparing, old, new, other, reader, prepares], "training")
    assert one.pods == (other, new)
    assert (one.prepares, one.prepare, one.training) == ((prepares,), preparing, TRAINING)
    assert (one.kind, one.start, one.directory, one.recorded(BY_USER)) == (
        "PyTorchJob",
        "abc",
        "jobs/smoke-abc",
        "anna",
    )
    with pytest.raises(ValueError, match="has no pod 7: it has 0, 1"):
        one.pod(7)


def test_an_annotation_wins_over_the_config_map() -> None:
    assert found(start="new").directory == "jobs/smoke-new"


@pytest.mark.parametrize(
    ("one", "state", "reason"),
    [
        (found(), "pending", "its pods have not been started yet"),
        (
            found(pod(0, **UNSCHEDULABLE)),
            "pending",
            "pod smoke-worker-0 waits for a node: 0/1 nodes are available: 1 Insufficient cpu: wait for the end",
        ),
        (found(pod(0, RUNNING), pod(1, ended(1))), "running", ""),
        (
            found(pod(0, ended(137, reason="OOMKilled"))),
            "running",
            "pod smoke-worker-0 on node node0 ran out of memory (OOMKilled",
        ),
        (found(pod(0, RUNNING), training=concluded("Succeeded")), "succeeded", ""),
        (found(training=concluded("Failed", "backoff limit")), "failed", "backoff limit"),
        (
            found(pod(0, ended(0)), pod(1, ended(137, reason="OOMKilled")), training=concluded("Failed", "limit")),
            "failed",
            "pod smoke-worker-1 on node node0 ran out of memory",
        ),
        (
            found(
                pod(0, ended(1, {"state": "failed", "reason": "loss is nan"})), training=concluded("Failed", "limit")
            ),
            "failed",
            "loss is nan",
        ),
        # A pod that is stopped in an orderly way ends without an error.
        (
            found(pod(0, ended(0, {"state": "stopped", "reason": ""})), training=concluded("Succeeded")),
            "stopped",
            "",
        ),
        (found(training=None), "lost", "its PyTorchJob is no longer in namespace training"),
        (found(training=None, state="stopped", reason="on request"), "stopped", "on request"),
        (
            found(pod(0, reason="Evicted", message="low on memory", phase="Failed")),
            "pending",
            "pod smoke-worker-0 was evicted: low on memory",
        ),
    ],
)
def test_state(one: jobs.JobInPods, state: str, reason: str) -> None:
    status = jobs.status(one)
    assert status["state"] == state
    assert reason in status["reason"] if reason else status["reason"] == ""
    assert (status["job"], status["hosts"], status["ranks"]) == ("smoke", 2, 4)


def test_what_the_supervisor_says_wins() -> None:
    live = {"status": {"state": "failed", "reason": "rank 1 died", "ranks": 3}, "directory": "jobs/smoke-9"}
    entry = jobs.entry(replace(found(pod(0, RUNNING)), reported=live))
    assert (entry["status"]["state"], entry["status"]["ranks"], entry["path"]) == ("failed", 3, "jobs/smoke-9")
    assert entry["kubernetes"]["pods"][0] == {
        "pod": "smoke-worker-0",
        "number": 0,
        "node": "node0",
        "phase": "Running",
        "restarts": 0,
        "reason": "",
    }


def test_a_job_whose_data_is_prepared_is_not_lost() -> None:
    preparing = thing("Job", "smoke-prepare")
    (one,) = jobs.group([config(), preparing], "training")
    assert jobs.status(one)["state"] == "pending"
    broken = {**preparing, "status": {"conditions": [{"type": "Failed", "status": "True", "message": "limit"}]}}
    (one,) = jobs.group([config(), broken], "training")
    assert jobs.status(one)["reason"] == "its data could not be prepared: limit"


@pytest.mark.parametrize("text", ["2026-11-22T12:00:00Z", "2026-11-22T12:00:00", "2026-11-22T12:00:00+00:00"])
def test_times_have_their_zone(text: str) -> None:
    assert jobs.time_of(text) == "2026-11-22T12:00:00+00:00"
    assert jobs.time_of("") == ""


def test_ranks_in_either_form() -> None:
    listed = [{"rank": 1, "host": "b"}, {"rank": 0, "host": "a"}]
    mapped = {"10": {"host": "b"}, "9": {"host": "a"}}
    assert [one["rank"] for one in jobs.ranks_of(listed)] == [0, 1]
    assert [one["rank"] for one in jobs.ranks_of(mapped)] == [9, 10]
    assert jobs.ranks_of(None) == []


KINDS = [*kinds.OF_JOBS, "PersistentVolumeClaim", "Namespace", "Deployment"]


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.sampled_from(KINDS), st.sampled_from(["smoke", "other"]), st.booleans(), st.booleans()),
        max_size=12,
    )
)
def test_only_labelled_objects_of_the_job_are_ever_removed(made: list[tuple[str, str, bool, bool]]) -> None:
    objects, allowed = [], []
    for place, (kind, job, labelled, owned) in enumerate(made):
        one = thing(kind, f"n{place}", job, metadata={"ownerReferences": [{"kind": "Job"}]} if owned else {})
        if not labelled:
            del one["metadata"]["labels"][MANAGED_BY]
        objects.append(one)
        if labelled and not owned and job == "smoke" and kind in kinds.OF_JOBS:
            allowed.append((kind, f"n{place}"))
    removed = [(one["kind"], one["metadata"]["name"]) for one in jobs.removable(objects, "smoke")]
    assert sorted(removed) == sorted(allowed)
    # What trains goes first, and the ConfigMap, by which a job is found, last.
    places = [list(kinds.OF_JOBS).index(kind) for kind, _name in removed]
    assert places == sorted(places)


def test_a_missing_job_is_told_with_those_that_are_there() -> None:
    text = jobs.is_missing("nope", "training", [found(pod(0, RUNNING))])
    assert "no job nope was started" in text
    assert "Jobs in the namespace: smoke (running)." in text
    assert "The namespace has no job." in jobs.is_missing("nope", "training", [])


def test_one_job_in_full() -> None:
    live = {
        "status": {"state": "running", "reason": "", "started": "2026-11-22T12:00:00+00:00", "notes": ["a rank died"]},
        "ranks": [{"rank": 0, "host": "smoke-worker-0", "step": 4, "cpu_seconds": 61.0, "rss_bytes": 2**29}],
    }
    seen = found(pod(0, RUNNING), pod(1, **UNSCHEDULABLE))
    assert jobs_text.details(jobs.entry(replace(seen, reported=live)), NOW).splitlines() == [
        "job smoke: running",
        "PyTorchJob smoke in namespace training, started by anna",
        "started 2026-11-22T12:00:00+00:00, 3 min 20 s",
        "on the volume: jobs/smoke-abc",
        "note: a rank died",
        "pod             node   state    restarts  reason",
        "smoke-worker-0  node0  Running  0",
        "smoke-worker-1  none   Pending  0         0/1 nodes are available: 1 Insufficient cpu.",
        "rank  pod             step  CPU time   memory",
        "0     smoke-worker-0  4     1 min 1 s  0.50 GiB",
    ]


def test_directories_of_a_volume() -> None:
    entries = [{"name": "smoke", "start": "a", "state": "failed", "started": "1", "ended": "2", "bytes": 2**20}]
    assert jobs_text.volume_table(entries).splitlines()[1] == "jobs/smoke-a   failed  1        2      1.0 MiB"
    assert jobs_text.volume_table([]) == "The volume has no directory of it."


SINCE, EARLIER = "2026-11-22T22:00:00+00:00", "2026-11-21T22:00:00+00:00"


@pytest.mark.parametrize(
    ("annotations", "status", "expected"),
    [
        # The first pod was replaced after the end: it began later than the job has ended.
        ({"amx.cluster/since": SINCE}, {"state": "succeeded", "since": SINCE, "started": SINCE}, True),
        ({"amx.cluster/since": SINCE}, {"state": "succeeded", "since": EARLIER, "started": EARLIER}, False),
        # The previous run was lost, and this one has not written anything yet.
        ({"amx.cluster/since": SINCE}, {"state": "running", "since": EARLIER, "started": EARLIER}, False),
        # Files that were applied have no time.
        ({}, {"state": "running", "since": "", "started": EARLIER}, True),
        ({}, {"state": "failed", "since": "", "started": EARLIER}, False),
        ({}, {"state": "failed", "since": "", "started": "2026-11-22T23:00:01+00:00"}, True),
        ({"amx.cluster/since": SINCE}, None, False),
    ],
)
def test_a_status_is_of_this_run(annotations: dict[str, str], status: Any, expected: bool) -> None:
    trains = {"kind": "Job", "metadata": {"name": "demo", "annotations": annotations}}
    job = jobs.JobInPods("demo", "team", training=trains)
    assert jobs.is_of({"status": status}, job, "2026-11-22T23:00:00Z") is expected
