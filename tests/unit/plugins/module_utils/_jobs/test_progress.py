from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import progress

AT_40: dict[str, Any] = {
    "step": 40,
    "max_steps": 100,
    "epoch": 0.4261,
    "samples_per_step": 32,
    "began": 1000.0,
    "time": 1020.0,
    "metrics": {"loss": 0.61234, "eval_accuracy": 0.75, "grad_norm": 3.0},
}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "step 40/100  epoch 0.43  loss 0.6123  evaluation accuracy 0.75  64.0 samples/s  30 s left"),
        ({"step": 0, "time": 1000.0, "epoch": 0, "metrics": {}}, "step 0/100  epoch 0.00"),
        ({"step": 100, "epoch": None, "metrics": {}}, "step 100/100  160.0 samples/s"),
        ({"step": 1, "epoch": None, "metrics": {}}, "step 1/100  1.6 samples/s  33 min 0 s left"),
        # It goes on from a checkpoint: 10 steps took it 20 s.
        ({"first_step": 30, "epoch": None, "metrics": {}}, "step 40/100  16.0 samples/s  2 min 0 s left"),
        ({"first_step": 40, "epoch": None, "metrics": {}}, "step 40/100"),
    ],
)
def test_describe(changes: dict[str, Any], text: str) -> None:
    assert progress.describe({**AT_40, **changes}) == text


def test_rows_of_all_ranks() -> None:
    told = {"of": 100, "first": 20, "began": 1000.0, "time": 1010.0}
    ranks: dict[str, dict[str, Any]] = {
        "0": {"host": "node0", "rows": {**told, "rows": 60}},
        "1": {"host": "node1", "rows": {**told, "rows": 80, "began": 1002.0, "time": 1020.0}},
        "2": {"host": "node1"},
    }
    assert progress.describe(progress.of_rows(ranks)) == "row 140/200  5.0 rows/s  12 s left"
    assert progress.of_rows({"0": {"host": "node0"}}) == {}


LOG = """\
step 1
--- rank 3 on node1 failed ---
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    fail()
RuntimeError:
This rank would train a model of its own:
2 ranks were started
--- end of rank 3 ---
--- rank 0 on node0 failed ---
Traceback (most recent call last):
ConnectionError: peer closed
--- end of rank 0 ---
BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
"""
FIRST = """\
rank 3 on node1:
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    fail()
RuntimeError:
This rank would train a model of its own:
2 ranks were started"""


def test_the_first_failure_is_told_whole() -> None:
    assert progress.first_failure(LOG) == FIRST


def test_a_failure_that_was_cut_off() -> None:
    assert progress.first_failure(LOG[: LOG.index("2 ranks")]) == FIRST[: FIRST.index("\n2 ranks")]


def test_without_a_traceback_the_last_lines() -> None:
    log = "".join(f"line {number}\n\n" for number in range(20))
    assert progress.first_failure(log, lines=2) == "line 18\nline 19"
    assert progress.first_failure("") == ""


def rank(host: str, time: float, cpu: float, network: float = 0, rss: float = 1) -> dict[str, Any]:
    return {
        "host": host,
        "time": time,
        "cpu_seconds": cpu,
        "network_bytes": network * 1e6,
        "rss_bytes": rss * 2**30,
    }


def test_what_each_host_does() -> None:
    before = {"0": rank("node0", 10, 5, 100), "1": rank("node0", 10, 6, 100), "2": rank("node1", 11, 0, 0)}
    after = {"0": rank("node0", 12, 13, 130), "1": rank("node0", 12, 13, 120), "2": rank("node1", 13, 2, 4, 0.5)}
    assert progress.describe_hosts(before, after) == (
        "node0 7.5 CPUs 2.0 GiB 15.0 MB/s; node1 1.0 CPUs 0.5 GiB 2.0 MB/s"
    )
    # Without two looks at a rank, or where it runs elsewhere now, nothing can be said of it.
    assert progress.describe_hosts({}, after) == ""
    assert progress.describe_hosts(after, after) == ""
    assert progress.describe_hosts(before, {"0": rank("node1", 12, 0)}) == ""


def test_of_many_hosts_those_that_hold_up_the_others() -> None:
    before = {str(place): rank(f"node{place}", 0, 0) for place in range(6)}
    after = {str(place): rank(f"node{place}", 1, 8 - place) for place in range(6)}
    assert progress.describe_hosts(before, after, most=2) == (
        "least busy: node4 4.0 CPUs 1.0 GiB 0.0 MB/s; node5 3.0 CPUs 1.0 GiB 0.0 MB/s"
    )
