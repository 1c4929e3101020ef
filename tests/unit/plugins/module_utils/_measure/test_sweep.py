from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._measure import runs, sweep, sweep_text
from ansible_collections.amx.cluster.plugins.module_utils._measure.sweep import Sweep
from ansible_collections.amx.cluster.plugins.module_utils._measure.sweep_request import Request, Run
from hypothesis import given
from hypothesis import strategies as st
from support.runs import run

JOB = run(args={"per_device_train_batch_size": 16}).job
HOSTS = ["node0", "node1", "node2", "node3"]
REQUEST = Request([1, 2, 4], repeats=2)
NOW = "2026-11-22T16:00:00+00:00"
# Samples per second on so many hosts; 0 is one process.
SPEEDS = {0: 60.0, 1: 100.0, 2: 190.0, 4: 300.0}


def sanity(content: Sweep) -> Run:
    assert content.sanity
    return content.sanity


def begun(request: Request = REQUEST, job: Job = JOB, hosts: list[str] | None = None) -> Sweep:
    return sweep.new(job, hosts or HOSTS, request, {"train.py": "abc"}, NOW)


def tried(each: Run, ranks: int = 2, comm: int = 0, **changes: Any) -> dict[str, Any]:
    """Return what a run comes to; changes: stack, failed (the reason), speed, letters (of the map of a host)."""
    ranks = 1 if each.baseline else ranks
    speed = changes.get("speed", SPEEDS[0 if each.baseline else each.hosts] + each.repeat)
    batch = 16 * ranks * each.hosts
    hosts = [
        {
            "host": name,
            "threads_per_rank": 2,
            "ranks": [{"comm_cpus": list(range(comm))}] * ranks,
            "map": {"rows": [{"socket": 0, "node": 0, "letters": changes.get("letters", "0000")}], "offline": ""},
        }
        for name in each.names
    ]
    failed = changes.get("failed", "")
    return {
        "job": each.job,
        "state": "failed" if failed else "succeeded",
        "reason": failed,
        "plan": {"stack": changes.get("stack", "native"), "precision": "bf16", "backend": "gloo", "hosts": hosts},
        "progress": {} if failed else {"epoch": 0.1, "step": 6400 // batch // 10, "samples_per_step": batch},
        "outcome": {} if failed else {"metrics": {"train_samples_per_second": speed}, "seconds": 10.0, "started": NOW},
    }


def made(content: Sweep, most: int = 99, **changes: Any) -> Sweep:
    """Make the runs that are left, at most so many, as scale.yml does."""
    content, stop = sweep.recorded(content, tried(sanity(content), **changes), NOW)
    assert not stop
    for _number in range(most):
        pending = sweep.left(content)
        if not pending:
            break
        content, stop = sweep.recorded(content, tried(pending[0], **changes), NOW)
        assert not stop
    # As a file has it.
    return Sweep.from_json(json.loads(json.dumps(content.to_json())))


def differences(earlier: Sweep, wanted: Sweep) -> list[str]:
    return runs.differences(earlier.to_json(), wanted.to_json(), sweep.VERSION, "playbooks/scale.yml", more_hosts=True)


def counts(content: Sweep) -> dict[int, Any]:
    return {entry.hosts: entry for entry in content.counts}


def test_a_complete_sweep() -> None:
    content = made(begun())
    assert (content.state, content.ended, content.stack) == ("complete", NOW, "native")
    four = counts(content)[4]
    assert four.samples_per_second == {"median": 301.5, "low": 301.0, "high": 302.0, "count": 2}
    assert four.speedup["median"] == pytest.approx(301.5 / 101.5)
    assert (four.speedup["low"], four.speedup["high"]) == pytest.approx((301 / 102, 302 / 101))
    assert four.efficiency["median"] == pytest.approx(301.5 / 101.5 / 4)
    assert four.speedup_over_one_process["median"] == pytest.approx(301.5 / 61.5)
    assert counts(content)[1].efficiency["median"] == 1.0
    assert content.one_process
    assert (content.one_process.ranks, content.one_process.speedup) == (1, None)
    assert content.samples_per_epoch == 6400
    assert four.epoch_seconds["median"] == pytest.approx(6400 * (1 / 301 + 1 / 302) / 2)
    assert all(each.extrapolated for each in content.runs)


def test_weak_scaling_has_an_epoch_that_grows() -> None:
    content = made(begun(replace(REQUEST, scaling="weak")))
    assert counts(content)[4].epoch_seconds["low"] == pytest.approx(4 * 6400 / 302)
    assert any(note.startswith("Weak scaling: the dataset grows with the hosts") for note in content.notes)


@pytest.mark.slow
@given(st.lists(st.floats(min_value=0.1, max_value=1e5), min_size=8, max_size=8))
def test_speed_ups_follow_from_samples_per_second(speeds: list[float]) -> None:
    content = begun()
    for each, speed in zip(sweep.left(content), speeds):
        content, _stop = sweep.recorded(content, tried(each, speed=speed), NOW)
    found = counts(content)
    base = found[1].samples_per_second["median"]
    for hosts, entry in found.items():
        speed = entry.samples_per_second["median"]
        assert entry.speedup["median"] == pytest.approx(speed / base)
        assert entry.efficiency["median"] * hosts == pytest.approx(entry.speedup["median"])
        # Larger samples per second, shorter epoch.
        assert entry.epoch_seconds["low"] * entry.samples_per_second["high"] == pytest.approx(6400)


def test_one_process_is_not_run_twice() -> None:
    content = made(begun(), ranks=1)
    assert [each.job for each in content.runs if each.baseline] == []
    assert content.one_process == counts(content)[1]
    assert "The job on one host is one process on all its cores: both baselines are the same." in content.notes
    # With cores for communication or the system, or without a run on one host, it is another run.
    assert any(each.baseline for each in made(begun(), ranks=1, comm=1).runs)
    assert any(each.baseline for each in made(begun(), ranks=1, letters="s000").runs)
    assert any(each.baseline for each in made(begun(), ranks=1, letters="000r").runs)
    assert any(each.baseline for each in made(begun(Request([2, 4], repeats=1)), ranks=1).runs)


def test_without_one_host_the_fewest_are_the_baseline() -> None:
    content = made(begun(Request([2, 4], repeats=1)))
    assert counts(content)[2].speedup["median"] == 2.0
    assert counts(content)[4].speedup["median"] == pytest.approx(2 * 301 / 191)
    assert any("is set to 2, as if they scaled perfectly" in note for note in content.notes)


def test_a_failed_run_stays_failed_and_the_others_go_on() -> None:
    content, _stop = sweep.recorded(begun(), tried(sanity(begun())), NOW)
    while pending := sweep.left(content):
        failed = "node1 no longer answers" if pending[0].hosts == 2 else ""
        content, stop = sweep.recorded(content, tried(pending[0], failed=failed), NOW)
        assert not stop
    two = counts(content)[2]
    assert (content.state, two.failed, two.repeats, two.samples_per_second) == ("complete", 2, 2, None)
    assert two.speedup is None
    assert counts(content)[4].speedup["median"] > 2
    table = sweep_text.table(content, "results/demo-scale/sweep.json")
    assert "demo+on-2-r1 failed: node1 no longer answers" in table
    assert [line.split()[2] for line in table.splitlines() if line.startswith("2 ")] == ["failed"]


def test_a_failed_sanity_run_stops_the_sweep() -> None:
    content = begun()
    content, stop = sweep.recorded(content, tried(sanity(content), failed="no space left on node2"), NOW)
    assert stop == "The sanity run demo+sanity failed, nothing else was started: no space left on node2"
    assert len(sweep.left(content)) == 8
    assert sweep.interrupted(content) == []


def test_a_first_run_without_throughput_stops_the_sweep_of_a_script_of_its_own() -> None:
    content = begun(job=replace(JOB, kind="torch"))
    first = sweep.left(content)[0]
    assert (content.sanity, first.hosts) == (None, 4)
    without = tried(first)
    without["outcome"]["metrics"] = {}
    content, stop = sweep.recorded(content, without, NOW)
    assert "its results have no throughput" in stop
    assert sweep.left(content)[0].job == first.job
    # Once one has succeeded, it is a failed run as any other.
    content, stop = sweep.recorded(content, tried(first), NOW)
    second = {**tried(sweep.left(content)[0]), "outcome": {}}
    content, stop = sweep.recorded(content, second, NOW)
    assert (stop, content.runs[1].state) == ("", "failed")


@pytest.mark.slow
@given(st.integers(min_value=0, max_value=8))
def test_an_interrupted_sweep_comes_to_the_same(most: int) -> None:
    part = made(begun(), most)
    assert len(sweep.left(part)) == 8 - most
    whole = made(sweep.continued(part, begun()))
    expected = made(begun())
    assert replace(whole, sanity=None) == replace(expected, sanity=None)


def test_an_interrupted_run_is_known() -> None:
    content = made(begun(), 2)
    running = sweep.left(content)[0].job
    content = sweep.started(content, running, NOW)
    assert sweep.interrupted(content) == [running]
    assert sweep.interrupted(made(content)) == []


def test_a_sweep_can_grow() -> None:
    part = made(begun(Request([1, 2], repeats=1), hosts=HOSTS[:2]))
    assert part.state == "complete"
    wanted = begun()
    assert differences(part, wanted) == []
    content = sweep.continued(part, wanted)
    assert content.state == "incomplete"
    assert len(sweep.left(content)) == 8 - 3
    assert counts(content)[2].samples_per_second["count"] == 1


def test_another_request_is_not_mixed_in() -> None:
    earlier = made(begun(), 2)
    assert differences(earlier, begun()) == []
    other = replace(JOB, args={"per_device_train_batch_size": 32}, description="of no matter", expect={"a": 1.0})
    wanted = sweep.new(other, ["node9", *HOSTS], replace(REQUEST, steps=9), {"train.py": "xyz"}, NOW)
    assert differences(earlier, wanted) == [
        "the job's args differs: {'per_device_train_batch_size': 16}, now {'per_device_train_batch_size': 32}",
        "the content of train.py differs",
        "the hosts differ: node0, node1, node2, node3, now node9, node0, node1, node2",
        "steps differs: 75, now 9",
    ]
    assert differences(replace(earlier, version=1), wanted) == [
        "it was not written by this version of playbooks/scale.yml"
    ]


def test_another_stack_is_not_mixed_in() -> None:
    part = sweep.continued(made(begun(), 2), begun())
    content, stop = sweep.recorded(part, tried(sanity(part), stack="ipex-2.8"), NOW)
    assert stop == (
        "The sweep was begun with another environment (stack native, now ipex-2.8), and results of both cannot be "
        "mixed: add -e again=true to start it anew; what there is is moved aside."
    )
    assert len(sweep.left(content)) == 6


def test_the_table() -> None:
    content = made(begun())
    lines = sweep_text.table(content, "results/demo-scale/sweep.json").splitlines()
    (row,) = [line for line in lines if line.startswith("4 ")]
    assert row.split("  ")[0] == "4"
    assert "301.5 (301.0 to 302.0)" in row
    assert "2.97 (2.95 to 2.99)" in row
    assert "74% (74% to 75%)" in row
    assert "4.90 (4.85 to 4.95)" in row
    (alone,) = [line for line in lines if line.startswith("1, one process ")]
    assert "61.5" in alone
    assert "time per epoch: extrapolated from 75 steps" in lines
    assert lines[-1] == "As a page: playbooks/report.yml -e of=results/demo-scale"
    assert not [line for line in lines if line.endswith("left: the same command continues")]
    assert "7 runs left: the same command continues" in sweep_text.table(made(begun(), 1), "x/sweep.json")


def test_lines_of_progress() -> None:
    content = made(begun(), 2)
    assert sweep_text.line(content.runs[1], 2, 8) == "[2/8] demo+on-1-r1 on 1 host, 2 ranks: 101.0 samples/s"
    failed = replace(content.runs[1], state="failed", reason="out of\n  memory")
    assert sweep_text.line(failed, 2, 8) == "[2/8] demo+on-1-r1 on 1 host failed: out of memory"


def test_a_file_is_read_with_what_later_versions_add_and_without_what_is_missing() -> None:
    content = made(begun()).to_json()
    assert Sweep.from_json({**content, "of_later": 1}).to_json() == content
    del content["runs"]
    assert Sweep.from_json(content).runs == []
    del content["job"]
    with pytest.raises(ValueError, match=r"^this is no sweep: it lacks job$"):
        Sweep.from_json(content)


def test_what_was_measured_on_the_most_hosts_says_what_holds_it_back() -> None:
    content = begun(Request([1, 4], repeats=1))
    for each in sweep.left(content):
        share = 0.4 if each.hosts == 4 else 0.05
        parts = {"compute": 1 - share, "communication": share, "input": 0.0, "other": 0.0}
        ranks = [{"rank": number, "host": name, "step_seconds": 1.0, **parts} for number, name in enumerate(each.names)]
        found = tried(each)
        found["outcome"]["measured"] = {
            **{"samples_per_second": 10.0, "step_seconds": {"median": 1.0}, "ranks": ranks},
            "collectives": {"calls": 4, "bytes": 4e7, "backend": "gloo"},
        }
        content, _stop = sweep.recorded(content, found, NOW)
    assert counts(content)[4].split == pytest.approx({"compute": 0.6, "communication": 0.4, "input": 0.0, "other": 0.0})
    limits = sweep.summarised(content, 1000).limits
    assert limits
    assert limits["cause"] == "bandwidth"
    assert "100 MB/s per rank of a link of 1000 Mbit/s" in limits["text"]
