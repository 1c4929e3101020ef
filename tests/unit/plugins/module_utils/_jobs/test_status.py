from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import cost
from ansible_collections.amx.cluster.plugins.module_utils._jobs.status import details, entries, overview, servers
from ansible_collections.amx.cluster.plugins.module_utils._screen import Screen, cells

PROGRESS = {
    "step": 4,
    "max_steps": 8,
    "epoch": None,
    "samples_per_step": 16,
    "began": 0.0,
    "time": 2.0,
    "metrics": {"loss": 0.5},
}
NOW = datetime(2026, 1, 1, 1, 2, 3, tzinfo=timezone.utc)


def job(name: str, state: str, reason: str = "", **more: Any) -> dict[str, Any]:
    status = {"job": name, "state": state, "reason": reason, "started": "2026-01-01T00:00:00+00:00", **more}
    return {
        "name": name,
        "path": f"/jobs/{name}",
        "status": {"hosts": 2, "ranks": 4, **status},
        "progress": {},
        "ranks": [],
    }


def test_overview() -> None:
    assert overview([]) == "No job was started on this cluster."
    running = {**job("demo", "running"), "progress": PROGRESS}
    running["user"] = "train"
    older = job("older", "failed", "it broke", ended="2026-01-01T00:00:42+00:00")
    assert overview([running, older, job("gone", "lost", "the head")], now=NOW) == (
        "job    state    owner  started           elapsed    left  hosts  ranks  progress\n"
        "demo   running  train  2026-01-01 00:00  1 h 2 min  2 s   2      4      "
        "step 4/8  loss 0.5  32.0 samples/s  2 s left\n"
        "older  failed   -      2026-01-01 00:00  42 s       -     2      4      it broke\n"
        "gone   lost     -      2026-01-01 00:00  -          -     2      4      the head"
    )


def test_the_newest_comes_first_and_columns_without_content_are_left_out() -> None:
    old = job("old", "succeeded", ended="2026-01-01T00:00:42+00:00")
    new = job("new", "failed", "it broke", started="2026-01-02T00:00:00+00:00", ended="2026-01-02T00:00:01+00:00")
    assert overview([old, new], now=NOW).splitlines() == [
        "job  state      started           elapsed  hosts  ranks  progress",
        "new  failed     2026-01-02 00:00  1 s      2      4      it broke",
        "old  succeeded  2026-01-01 00:00  42 s     2      4",
    ]


def test_what_runs_have_cost_is_a_column_where_one_is_known() -> None:
    paid = job("paid", "succeeded", ended="2026-01-01T01:00:00+00:00", cost=cost.of_run("2.30 USD", [], 2, 3600))
    head, first, second = overview([paid, job("free", "lost", "the head")], now=NOW).splitlines()
    assert head.split()[-3:] == ["cost", "(estimate)", "progress"]
    assert [first[head.index("cost") :].strip(), second[head.index("cost") :].split()] == [
        "4.60 USD",
        ["-", "the", "head"],
    ]
    assert "cost" not in overview([paid], Screen(40), NOW).splitlines()[0]


def test_a_narrow_screen_keeps_what_matters_most() -> None:
    running = {**job("demo.20261123T022839Z", "running"), "progress": PROGRESS, "user": "train"}
    titles = {columns: overview([running], Screen(columns), NOW).splitlines()[0].split() for columns in (80, 60, 40)}
    assert titles[80] == ["job", "state", "owner", "elapsed", "left", "hosts", "ranks"]
    assert titles[60] == ["job", "state", "elapsed", "left", "hosts"]
    assert titles[40] == ["job", "state"]


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 160])
def test_the_overview_fits_the_screen(columns: int) -> None:
    reason = "rank 3 on node1 ended with exit code 137: out of memory"
    jobs = [{**job("demo", "running"), "progress": PROGRESS, "user": "train"}, job("older", "failed", reason)]
    lines = overview(jobs, Screen(columns), NOW).splitlines()
    assert max(map(cells, lines)) <= columns
    assert (
        reason.split() == [word for word in " ".join(lines).split() if word in reason.split()][-len(reason.split()) :]
    )


def test_states_have_colours_where_the_screen_has() -> None:
    shown = overview([job("demo", "running"), job("older", "failed", "it broke")], Screen(colours=True), NOW)
    assert "\x1b[32mrunning\x1b[0m" in shown
    assert "\x1b[31mfailed\x1b[0m" in shown
    assert "\x1b[31mfailed\x1b[0m, it broke" in details(job("older", "failed", "it broke"), Screen(colours=True))


def test_details() -> None:
    rank = {"host": "node0", "rank": 1, "pid": 42, "cpu": 3.456, "cpus": "0-3", "threads": 9, "rss_bytes": 2**29}
    unmeasured = {key: value for key, value in rank.items() if key != "cpu"}
    running = {**job("demo", "running"), "progress": PROGRESS, "ranks": [rank, {**unmeasured, "host": "node1"}]}
    running["user"] = "train"
    now = NOW - timedelta(hours=1)
    assert details(running, now=now) == (
        "job demo: running\n"
        "started 2026-01-01T00:00:00+00:00 by train, running for 2 min 3 s\n"
        "step 4/8  loss 0.5  32.0 samples/s  2 s left\n"
        "host   rank  pid  CPUs busy  of CPUs  threads  memory\n"
        "node0  1     42   3.46       0-3      9        0.50 GiB\n"
        "node1  1     42   0.00       0-3      9        0.50 GiB"
    )
    assert details(job("demo", "failed", "it broke", ended="2026-01-01T00:01:00+00:00")) == (
        "job demo: failed, it broke\nstarted 2026-01-01T00:00:00+00:00, ended "
        "2026-01-01T00:01:00+00:00, ran 1 min 0 s\n"
        "No rank of the job is running."
    )
    assert details(job("demo", "lost", "it is gone", advice="start it anew")) == (
        "job demo: lost, it is gone\nstarted 2026-01-01T00:00:00+00:00\nstart it anew\nNo rank of the job is running."
    )


def test_a_rank_is_with_its_job() -> None:
    ranks = {"node0": [{"job": "/jobs/demo", "rank": 0}], "node1": [{"job": "/jobs/other", "rank": 0}]}
    seen = {key: job("demo", "running")[key] for key in ("path", "status", "progress")}
    assert entries([seen], ranks) == [
        {"name": "demo", **seen, "ranks": [{"host": "node0", "job": "/jobs/demo", "rank": 0}]}
    ]


def server(start: str = "1", state: str = "running", **more: Any) -> dict[str, Any]:
    instances = [
        {"instance": 0, "state": "ready", "error": ""},
        {"instance": 1, "state": "ended", "error": "ended by signal 9"},
    ]
    status = {"job": "m-serve", "state": state, "start": start, "reason": "", "instances": instances, **more}
    return {"path": "/jobs/m-serve", "status": status}


def test_hosts_of_a_served_model() -> None:
    entry = job("m-serve", "running", start="1", servers=["node0", "node1", "node2", "node3", "node4"])
    gathered: dict[str, dict[str, Any]] = {
        "node0": {"jobs": [server()]},
        "node1": {"jobs": [server(state="lost", reason="its server ended")]},
        "node2": {"jobs": []},
        "node3": {"jobs": [server(start="0")]},
        "node4": {"processes": None},
    }
    starting = [{"instance": number, "state": "starting", "error": error} for number, error in ((0, ""), (1, "ended"))]
    again = servers(entry, {**gathered, "node0": {"jobs": [server(instances=starting)]}})["node0"]
    assert again["problem"] == "instance 0 is starting; instance 1 ended and is starting"
    hosts = servers(entry, gathered)
    assert hosts == {
        "node0": {"instances": 2, "answering": 1, "problem": "instance 1 ended by signal 9"},
        "node1": {"instances": 2, "answering": 0, "problem": "lost its server ended"},
        "node2": {"instances": 0, "answering": 0, "problem": "no server"},
        "node3": {"instances": 2, "answering": 1, "problem": "it serves another version: serve the model again"},
        "node4": {"instances": 0, "answering": 0, "problem": "the host did not answer"},
    }
    entry["status"]["servers"] = hosts
    assert "2 of 6 instances on 5 hosts answer" in details(entry, now=NOW)
