from __future__ import annotations

import time
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import transfers
from ansible_collections.amx.cluster.plugins.module_utils._jobs.transfers import Step


def shell(command: str, failure: str = "it failed") -> Step:
    return Step(["bash", "-c", command], failure)


def test_hosts_are_copied_to_side_by_side_and_each_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfers, "AT_ONCE", 2)
    most = "ls running.* 2>/dev/null | wc -l >> most"
    steps = {
        f"node{number}": [
            shell(f"cd {tmp_path}; touch running.{number}; sleep 0.2; {most}; rm running.{number}; echo 1 > {number}"),
            shell(f"cd {tmp_path}; [ $(cat {number}) = 1 ] && echo 2 >> {number}"),
        ]
        for number in range(5)
    }
    assert transfers.run(steps, pause=0.01) == {}
    assert {(tmp_path / str(number)).read_text() for number in range(5)} == {"1\n2\n"}
    assert max(int(line) for line in (tmp_path / "most").read_text().split()) == 2


def test_a_host_that_fails_does_not_keep_the_others() -> None:
    problems = transfers.run(
        {
            "node1": [
                shell("echo no room >&2; exit 1", "model could not be copied to node1"),
                shell("touch /nowhere/x"),
            ],
            "node2": [shell("exit 3")],
            "node3": [shell("true")],
            "node4": [],
            "node5": [Step(["/no/scp"], "it failed")],
        }
    )
    assert "No such file or directory" in problems.pop("node5")
    assert problems == {"node1": "model could not be copied to node1: no room", "node2": "it failed: exit code 3"}


def test_a_stop_ends_what_runs_and_leaves_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfers, "AT_ONCE", 1)
    end = time.monotonic() + 0.3
    steps = {"node1": [shell("sleep 1000")], "node2": [shell("sleep 1000")]}
    problems = transfers.run(steps, lambda: time.monotonic() > end)
    assert problems == dict.fromkeys(steps, "it failed: the job was stopped")
