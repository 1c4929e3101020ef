"""How often a sweep names a host, on simulated hosts: docs/scaling.md states what is shown here."""

from __future__ import annotations

import random
import statistics
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._measure import bottleneck, sweep
from ansible_collections.amx.cluster.plugins.module_utils._measure.sweep_request import Request, Run
from support.runs import run

pytestmark = pytest.mark.slow


DEFAULT = Request([1])
# The standard deviation of a step's time of computing, as a part of it: each rank's texts are padded to its longest.
SPREAD = 0.3
BLOCK = 4


def simulated(
    chance: random.Random,
    hosts: int,
    slow: float = 1.0,
    repeats: int = DEFAULT.repeats,
    steps: int = DEFAULT.steps,
    ranks: int = 1,
    spread: float = SPREAD,
    same_data: bool = False,
    of_run: float = 0.0,
) -> list[dict[str, Any]]:
    """Return what each run of a sweep measured on so many hosts, of which node0 is `slow` times as slow.

    same_data: all runs have the same batches. of_run: the spread of a rank's whole runs.
    """
    found = []
    drawn: list[list[float]] = []
    for _repeat in range(repeats):
        if not drawn or not same_data:
            drawn = [[chance.lognormvariate(0, spread) for _step in range(steps)] for _rank in range(hosts * ranks)]
        speeds = [(slow if rank < ranks else 1.0) * chance.lognormvariate(0, of_run) for rank in range(hosts * ranks)]
        times = [[speed * value for value in each] for speed, each in zip(speeds, drawn)]
        step = statistics.fmean(map(max, zip(*times))) + 0.05
        found.append(
            {"steps": steps, "ranks": [_rank(number, number // ranks, each, step) for number, each in enumerate(times)]}
        )
    return found


def _rank(number: int, host: int, times: list[float], step: float) -> dict[str, Any]:
    compute = statistics.fmean(times)
    blocks = [statistics.fmean(times[at : at + BLOCK]) for at in range(0, len(times) - BLOCK + 1, BLOCK)]
    parts = {"compute": compute, "communication": step - compute, "input": 0.0, "other": 0.0}
    return {"rank": number, "host": f"node{host}", "step_seconds": step, **parts, "compute_blocks": blocks}


def concluded(measured: list[dict[str, Any]], hosts: int) -> Any:
    """Return the sweep of these runs on so many hosts."""
    names = [f"node{number}" for number in range(hosts)]
    content = sweep.new(run().job, names, Request([hosts], repeats=len(measured)), {}, "2026-11-23T12:00:00+00:00")

    def made(each: Run) -> Run:
        found = measured[each.repeat - 1]
        speed = 1 / found["ranks"][0]["step_seconds"]
        return replace(each, state="succeeded", samples_per_second=speed, measured=None if each.baseline else found)

    return sweep.summarised(replace(content, runs=[made(each) for each in content.runs]))


def named(measured: list[dict[str, Any]], hosts: int) -> str | None:
    limits = concluded(measured, hosts).limits
    return limits["host"] if limits["cause"] == "slow_host" else None


@pytest.mark.parametrize(("hosts", "sweeps"), [(4, 400), (8, 300), (16, 200), (64, 100)])
def test_of_equal_hosts_fewer_than_one_percent_of_sweeps_name_one(hosts: int, sweeps: int) -> None:
    chance = random.Random(hosts)
    alarms = [named(simulated(chance, hosts), hosts) for _sweep in range(sweeps)]
    assert sum(alarm is not None for alarm in alarms) < 0.01 * sweeps


@pytest.mark.parametrize(("hosts", "sweeps"), [(4, 600), (8, 200), (16, 100), (64, 40)])
def test_a_host_that_is_20_percent_slower_is_named_in_more_than_95_percent(hosts: int, sweeps: int) -> None:
    chance = random.Random(hosts)
    found = [named(simulated(chance, hosts, slow=1.2), hosts) for _sweep in range(sweeps)]
    assert found.count("node0") > 0.95 * sweeps


@pytest.mark.parametrize(
    "unlike",
    [{"same_data": True}, {"of_run": 0.1, "spread": 0.1}, {"ranks": 3, "spread": 0.02, "of_run": 0.05}],
    ids=["the same batches in all repeats", "runs that differ as a whole", "several ranks"],
)
def test_what_steps_or_runs_have_in_common_is_no_slow_host(unlike: dict[str, Any]) -> None:
    chance = random.Random(5)
    alarms = [named(simulated(chance, 8, **unlike), 8) for _sweep in range(120)]
    assert sum(alarm is not None for alarm in alarms) < 0.01 * 120


def test_too_few_steps_are_a_verdict_of_their_own() -> None:
    """Steps that are enough by their own count find the host that is 20 % slower."""
    chance = random.Random(3)
    content = concluded(simulated(chance, 4, slow=1.2, steps=12), 4)
    (note,) = [note for note in content.notes if note.startswith("Not enough steps to tell whether a host is slow")]
    assert content.limits["slow_hosts"]["hosts"] == {}
    assert content.limits["slow_hosts"]["detectable"] > 0.2
    needed = int(note.partition("-e steps=")[2].split(",")[0])
    assert 40 <= needed <= 300
    enough = concluded(simulated(chance, 4, steps=max(75, needed)), 4)
    assert not [note for note in enough.notes if note.startswith("Not enough")]


def test_one_run_or_runs_without_blocks_cannot_tell() -> None:
    chance = random.Random(4)
    one = concluded(simulated(chance, 4, slow=3.0, repeats=1), 4)
    assert one.limits["slow_hosts"] is None
    assert any(note.startswith("Not enough runs or steps to tell whether a host is slow") for note in one.notes)
    earlier = simulated(chance, 4, slow=3.0)
    for run_ in earlier:
        for rank in run_["ranks"]:
            del rank["compute_blocks"]
    assert concluded(earlier, 4).limits["slow_hosts"] is None


def test_two_slow_hosts_are_both_named_with_their_slowest_rank() -> None:
    chance = random.Random(6)
    measured = simulated(chance, 4, slow=1.5, spread=0.05, ranks=2)
    for each in measured:
        for rank in each["ranks"][-1:]:  # of node3
            rank.update(compute=2 * rank["compute"], compute_blocks=[2 * block for block in rank["compute_blocks"]])
    limits = concluded(measured, 4).limits
    assert limits["host"] == "node3"
    assert limits["text"].startswith("node3, node0 are slow: the slowest rank computes ")
    assert limits["slow_hosts"]["hosts"] == pytest.approx({"node3": 2.0, "node0": 1.5}, rel=0.05)
    assert limits["text"].endswith("Of sweeps on equal hosts, fewer than 1% name one.")


def test_a_slow_rank_on_the_only_host_is_no_slow_host() -> None:
    chance = random.Random(7)
    assert bottleneck.slow_hosts(simulated(chance, 1, slow=2.0, ranks=2)) is None
    assert bottleneck.slow_hosts([]) is None


def test_a_difference_that_is_nothing_of_a_step_is_no_slow_host() -> None:
    measured = simulated(random.Random(8), 4, slow=2.0, spread=0.05)
    for each in measured:
        for rank in each["ranks"]:
            rank["step_seconds"] = 100.0
    found = bottleneck.slow_hosts(measured)
    assert found is not None
    assert found["hosts"] == {}
