from __future__ import annotations

from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs.status import details, document, overview

PROGRESS = {
    "step": 4,
    "max_steps": 8,
    "epoch": None,
    "samples_per_step": 16,
    "began": 0.0,
    "time": 2.0,
    "metrics": {"loss": 0.5},
}


def job(name: str, state: str, reason: str = "", **more: Any) -> dict[str, Any]:
    status = {"job": name, "state": state, "reason": reason, "started": "2026-01-01T00:00:00+00:00", **more}
    return {"path": f"/jobs/{name}", "status": {"hosts": 2, "ranks": 4, **status}, "progress": {}}


def test_overview() -> None:
    assert overview([]) == "No job was started on this cluster."
    running = {**job("demo", "running"), "progress": PROGRESS}
    assert overview([running, job("older", "failed", "it broke")]) == (
        "job    state    started                    hosts  ranks  how far\n"
        "demo   running  2026-01-01T00:00:00+00:00  2      4      step 4/8  loss 0.5  32.0 samples/s  2 s left\n"
        "older  failed   2026-01-01T00:00:00+00:00  2      4      it broke"
    )


def test_details() -> None:
    rank = {"job": "/jobs/demo", "rank": 1, "pid": 42, "cpu": 3.456, "cpus": "0-3", "threads": 9, "rss_bytes": 2**29}
    other = {**rank, "job": "/jobs/other"}
    unmeasured = {key: value for key, value in rank.items() if key != "cpu"}
    running = {**job("demo", "running"), "progress": PROGRESS}
    assert details(running, {"node0": [other, rank], "node1": [unmeasured]}) == (
        "job demo: running\n"
        "started 2026-01-01T00:00:00+00:00\n"
        "step 4/8  loss 0.5  32.0 samples/s  2 s left\n"
        "host   rank  pid  CPUs busy  of CPUs  threads  memory\n"
        "node0  1     42   3.46       0-3      9        0.50 GiB\n"
        "node1  1     42   0.00       0-3      9        0.50 GiB"
    )
    assert details(job("demo", "failed", "it broke", ended="2026-01-02"), {"node0": [other]}) == (
        "job demo: failed, it broke\nstarted 2026-01-01T00:00:00+00:00, ended 2026-01-02\n"
        "No rank of the job is running."
    )
    assert details(job("demo", "lost", "it is gone", advice="start it anew"), {}) == (
        "job demo: lost, it is gone\nstarted 2026-01-01T00:00:00+00:00\nstart it anew\nNo rank of the job is running."
    )


def test_document() -> None:
    ranks = {"node0": [{"job": "/jobs/demo", "rank": 0}], "node1": [{"job": "/jobs/other", "rank": 0}]}
    running = job("demo", "running")
    assert document([running], ranks) == {
        "jobs": [{"name": "demo", **running, "ranks": [{"host": "node0", "job": "/jobs/demo", "rank": 0}]}]
    }
