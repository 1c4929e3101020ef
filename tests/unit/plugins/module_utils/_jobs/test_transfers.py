from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import transfers
from ansible_collections.amx.cluster.plugins.module_utils._jobs.transfers import Step


def shell(command: str, failure: str = "it failed") -> Step:
    return Step(["bash", "-c", command], failure)


@pytest.mark.slow
def test_hosts_are_copied_to_side_by_side_and_each_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfers, "AT_ONCE", 2)
    # The last of the five is alone; a busy machine takes its time to start another.
    other = "for i in $(seq 20); do [ $(ls running.* | wc -l) = 1 ] || break; sleep 0.1; done; sleep 0.2"
    most = "ls running.* 2>/dev/null | wc -l >> most"
    steps = {
        f"node{number}": [
            shell(f"cd {tmp_path}; touch running.{number}; {other}; {most}; rm running.{number}; echo 1 > {number}"),
            shell(f"cd {tmp_path}; [ $(cat {number}) = 1 ] && echo 2 >> {number}"),
        ]
        for number in range(5)
    }
    assert transfers.run(steps, pause=0.01) == {}
    assert {(tmp_path / str(number)).read_text() for number in range(5)} == {"1\n2\n"}
    assert max(int(line) for line in (tmp_path / "most").read_text().split()) == 2


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_stop_ends_what_runs_and_leaves_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfers, "AT_ONCE", 1)
    end = time.monotonic() + 0.3
    steps = {"node1": [shell("sleep 1000")], "node2": [shell("sleep 1000")]}
    problems = transfers.run(steps, lambda: time.monotonic() > end)
    assert problems == dict.fromkeys(steps, "it failed: the job was stopped")


# STAND-INS: what a host has lies in the directory of its name under $HOSTS.
SSH = """#!/bin/bash
while [ "$1" = -o ]; do shift 2; done
cd "$HOSTS/$1" && shift && eval "${*/ \\// .\\/}"
"""
SCP = """#!/bin/bash
exec cp -r "$HOSTS/${2%%:*}${2#*:}" "$3"
"""


def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path, **files: list[str]) -> None:
    """Have hosts that can be copied from, each with these files in its `folder`."""
    (tmp_path / "bin").mkdir()
    folder.parent.mkdir()
    for name, text in {"ssh": SSH, "scp": SCP}.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    for host, names in files.items():
        for name in names:
            path = tmp_path / "hosts" / host / folder.relative_to("/") / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{name} of {host}")
    monkeypatch.setenv("HOSTS", str(tmp_path / "hosts"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)


@pytest.mark.slow
def test_what_another_host_has_replaces_what_was_fetched_from_it_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the script has deleted since does not come back."""
    folder = tmp_path / "head" / "output"
    hosts(tmp_path, monkeypatch, folder, node1=["checkpoint-20/model", "log"])
    (folder / "checkpoint-10").mkdir(parents=True)
    assert transfers.fetch("node1", folder, lambda: False) == ""
    assert sorted(path.name for path in folder.iterdir()) == ["checkpoint-20", "log"]
    assert [path.name for path in folder.parent.iterdir()] == ["output"]


@pytest.mark.slow
def test_what_was_fetched_from_a_host_that_is_gone_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 0 has moved, and its new host has only what it has written itself."""
    folder = tmp_path / "head" / "output"
    hosts(tmp_path, monkeypatch, folder, node1=["checkpoint-20/model", "log", "runs/1"], node2=["log", "runs/2"])
    assert transfers.fetch("node1", folder, lambda: False) == ""
    assert transfers.fetch("node2", folder, lambda: False, before="node1") == ""
    found = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}
    assert found == {
        "checkpoint-20/model": "checkpoint-20/model of node1",
        "log": "log of node2",
        "runs/1": "runs/1 of node1",
        "runs/2": "runs/2 of node2",
    }
    assert [path.name for path in folder.parent.iterdir()] == ["output"]
