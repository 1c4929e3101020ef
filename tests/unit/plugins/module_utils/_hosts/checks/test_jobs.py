from __future__ import annotations

from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks import jobs
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.check import Cluster, Found
from support.sound_cluster import FULL, findings, results, silent

JOB = "/opt/amx-cluster/jobs/demo"
RANK = {"pid": 71, "kind": "rank", "job": JOB, "ports": [29500, 40001]}


def test_ranks_of_a_dead_job() -> None:
    reported = results()
    reported["node2"]["info"]["host"]["processes"] = [RANK, {**RANK, "pid": 72, "ports": []}]
    assert list(jobs.orphaned_processes.find(Cluster(reported, FULL))) == [
        Found(
            "node2",
            f"2 orphaned processes of the job in {JOB}, which is not running: 71 72 (listening on port 29500, 40001)",
            "End them on this host: kill 71 72",
        )
    ]
    # The same ranks, while their job runs.
    reported["node0"]["info"]["host"]["running_jobs"] = [JOB]
    assert findings(jobs.orphaned_processes, reported) == []


def test_a_process_that_listens_nowhere() -> None:
    reported = results(1)
    reported["node0"]["info"]["host"]["processes"] = [{**RANK, "ports": []}]
    text = f"1 orphaned process of the job in {JOB}, which is not running: 71"
    assert findings(jobs.orphaned_processes, reported) == [("node0", text)]


def test_whether_a_job_runs_is_known_on_the_head_alone() -> None:
    reported = {**results(), "node0": silent(facts={"unreachable": True})}
    reported["node2"]["info"]["host"]["processes"] = [RANK]
    assert findings(jobs.orphaned_processes, reported) == []
