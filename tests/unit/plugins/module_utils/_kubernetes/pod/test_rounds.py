"""What pods tell each other about a round, and which cause follows from that."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._io import write_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import heartbeats
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.pod import ranks, rounds
from hypothesis import given
from hypothesis import strategies as st

TRACE = "--- rank {0} on {1} failed ---\nTraceback (most recent call last):\n{2}\n--- end of rank {0} ---\n"
CONNECTION = TRACE.format(0, "a", "RuntimeError: Connection closed by peer")
OWN = TRACE.format(1, "b", "ValueError: no such column")


def failure(pod: str, rank: int, exitcode: int, log: str = "", out_of_memory: bool = False) -> dict[str, Any]:
    return {"pod": pod, "rank": rank, "exitcode": exitcode, "log": log, "out_of_memory": out_of_memory}


LOST = failure("a", 0, 1, CONNECTION)


@pytest.mark.parametrize(
    ("failed", "gone", "ended", "message", "decided"),
    [
        ([LOST, failure("b", 1, -9)], {}, [], "rank 1 on b was ended by signal 9", True),
        ([LOST, failure("b", 1, 1, OWN)], {}, [0, 1], "rank 1 on b failed: ValueError: no such column", True),
        ([LOST, failure("b", 1, -9, "", True)], {}, [], "the kernel of b ended a rank", True),
        ([failure("a", 0, -6), failure("b", 1, -9)], {}, [1, 0], "rank 1 on b was ended by signal 9", True),
        ([LOST], {"b": "it was lost"}, [], r"b does not answer .*\(it was lost\)", False),
        ([LOST], {}, [], "rank 0 on a failed: RuntimeError: Connection closed", False),
        ([failure("a", 0, 3), failure("b", 1, 4)], {}, [1], "rank 1 on b ended with exit code 4", False),
        ([], {}, [], "torchrun ended with exit code 1 and printed nothing", False),
    ],
)
def test_what_failed_first(
    failed: list[dict[str, Any]], gone: dict[str, str], ended: list[int], message: str, decided: bool
) -> None:
    assert re.match(message, rounds.cause(failed, gone, ended, 1))
    assert rounds.is_decided(failed) == decided


@pytest.mark.slow
@given(st.lists(st.integers(1, 3), min_size=1, max_size=5), st.data())
def test_plans_are_joined_whichever_pods_are_known(counts: list[int], data: st.DataObject) -> None:
    """Every rank is in the joined plan once, those of known pods under their pod's name."""
    known, first = {}, 0
    for number, count in enumerate(counts):
        ranks = [{"rank": first + place} for place in range(count)]
        known[number] = {"host": {"host": f"pod-{number}", "first_rank": first, "ranks": ranks, "isa": "amx_bf16"}}
        first += count
    some = {number: known[number] for number in data.draw(st.sets(st.sampled_from(sorted(known)), min_size=1))}
    own = {"world_size": first, "hosts": [known[min(some)]["host"]]}
    joined = rounds.join(own, some)
    assert sorted(rank["rank"] for host in joined["hosts"] for rank in host["ranks"]) == list(range(first))
    assert {host["host"] for host in joined["hosts"]} - {""} == {f"pod-{number}" for number in some}
    assert ("" in {host["host"] for host in joined["hosts"]}) == (len(some) < len(counts))
    assert all(host["isa"] for host in joined["hosts"]), "results.json names the instruction set of each"


def test_lost_pods() -> None:
    before = {
        0: {"pod": "a", "incarnation": "1"},
        1: {"pod": "b", "incarnation": "2"},
        2: {"pod": "c", "incarnation": "3"},
    }
    now = {0: before[0], 1: {"pod": "b", "incarnation": "9"}}
    assert rounds.lost(before, now) == {
        "b": "it was lost, and another one has taken its place",
        "c": "the job goes on without it",
    }


def entry(kept: Path, here: Path) -> dict[str, Any]:
    plan = {"hosts": [{"host": "b", "first_rank": 1, "ranks": [{"rank": 1}, {"rank": 2}]}]}
    environ = {
        "MASTER_ADDR": "fd00::1",
        "MASTER_PORT": "4711",
        "AMX_CLUSTER_INDEX": "1",
        "GROUP_WORLD_SIZE": "2",
        rounds.INCARNATION: "x",
    }
    return rounds.announce(kept, here, plan, environ, "")


def test_a_failure_is_of_its_round_and_has_the_tracebacks(tmp_path: Path) -> None:
    made = entry(tmp_path, tmp_path)
    assert (made["round"], made["pods"]) == ("fd00-1-4711", 2)
    assert rounds.entries(tmp_path, made["round"], 2) == {1: made}
    rounds.fail(tmp_path, tmp_path, -9, 1, f"step 1\n{OWN}step 2\n", False)
    (record,) = rounds.failures(tmp_path, made["round"], 2)
    assert (record["pod"], record["rank"], record["exitcode"], record["log"]) == ("b", 2, -9, OWN)
    assert rounds.failures(tmp_path, "another", 2) == []
    rounds.fail(tmp_path, tmp_path, 1, 1, OWN.partition("--- end")[0], False)
    assert rounds.failures(tmp_path, made["round"], 2)[0]["log"] == OWN, "another pod's would be part of it"
    rounds.clear(tmp_path)
    assert rounds.entries(tmp_path, made["round"], 2) == {}


def test_torchrun_says_which_rank_failed() -> None:
    """As torch 2.13 logs it when it restarts ranks."""
    line = "E1122 23:39:28.509000 11 torch/api.py:1002] failed (exitcode: -9) local_rank: 1 (pid: 14) of binary: python"
    found = rounds.FAILED.search(line)
    assert found
    assert found.groups() == ("-9", "1")


@pytest.mark.slow
def test_messages_of_a_pod_reach_the_supervisor() -> None:
    with heartbeats.Receiver("127.0.0.1") as receiver:
        rounds.tell(receiver.endpoint, "b", busy={"2": 0.9})
        (message,) = receiver.receive(0)
        assert (message["rank"], message["busy"]) == (-1, {"2": 0.9})
        assert rounds.unreachable(receiver.endpoint) == ""


def test_an_endpoint_that_cannot_be_reached(tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        told = rounds.unreachable(f"127.0.0.1:{port}:token")
    assert told.startswith(f"this pod's heartbeats do not reach the first pod at 127.0.0.1:{port} (Connection refused")
    assert "an address that is not on the volume" in rounds.unreachable(rounds.endpoint(tmp_path))
    rounds.tell("127.0.0.1:1:token", "b", busy={})  # is no error


def test_pods_that_refuse(tmp_path: Path) -> None:
    rounds.refuse(tmp_path, 1, "", "")
    rounds.refuse(tmp_path, 1, "b", "no image")
    assert rounds.refusals(tmp_path, 2) == ["pod b: no image"]
    rounds.refuse(tmp_path, 1, "b", "")
    assert rounds.refusals(tmp_path, 2) == []


@pytest.mark.parametrize("content", ["low 0\noom_kill 3\n", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"])
def test_processes_that_were_out_of_memory(tmp_path: Path, content: str) -> None:
    (tmp_path / "events").write_text(content)
    assert ranks.oom_kills([tmp_path / "missing", tmp_path / "events"]) == 3
    assert ranks.oom_kills([tmp_path / "missing"]) == 0


def test_a_broken_entry_counts_as_missing(tmp_path: Path) -> None:
    directory = tmp_path / rounds.PODS / "r"
    directory.mkdir(parents=True)
    (directory / "0.json").write_text(json.dumps({"a": 1})[:-1])
    write_json(directory / "1.json", {"a": 1})
    assert rounds.entries(tmp_path, "r", 2) == {1: {"a": 1}}
