from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import progress
from ansible_collections.amx.cluster.plugins.module_utils._screen import Screen, cells
from hypothesis import given
from hypothesis import strategies as st

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


NOON = datetime(2026, 11, 25, 12, 0, tzinfo=timezone.utc).timestamp()


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The control node's time zone, an hour before UTC."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def at(step: int, seconds: float, **changes: Any) -> dict[str, Any]:
    """Progress of a job that made its first 5 steps in 1000 s, and all others until NOON in so many seconds."""
    steady = {"step": 5 + changes.get("first_step", 0), "time": NOON - seconds}
    times = {"began": NOON - seconds - 1000, "time": NOON, "steady": steady}
    return {**AT_40, "step": step, "max_steps": 1000, "epoch": None, "metrics": {}, **times, **changes}


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize(
    ("shown", "now", "text"),
    [
        (at(25, 20), NOON, "ends about 13:16 (16 min 15 s left)"),
        (at(25, 200), NOON, "ends about 15:42 (2 h 42 min left)"),
        (at(25, 2000), NOON, "ends about 2026-11-26 16:05 (27 h 5 min left)"),
        # 11 h are left at noon, in UTC, and it is the next day in Berlin.
        (at(25, 813), NOON, "ends about 2026-11-26 00:00 (11 h 0 min left)"),
        # Too few steps of this attempt: the time left is that of the mean, with the warm-up.
        (at(19, 14), NOON, "14 h 32 min left"),
        (at(49, 14, first_step=30), NOON, "14 h 5 min left"),
        (at(55, 20, first_step=30), NOON, "ends about 13:15 (15 min 45 s left)"),
        # It should have ended: what it does is not what was forecast.
        (at(25, 20), NOON + 980, "16 min 15 s left"),
        # It does not run any more, or has ended.
        (at(25, 20), None, "16 min 15 s left"),
        (at(1000, 20), NOON, ""),
        (at(25, 20, steady=None), NOON, "11 h 3 min left"),
        (at(25, -3), NOON, "10 h 48 min left"),
    ],
)
def test_the_end_of_a_job(shown: dict[str, Any], now: float | None, text: str) -> None:
    assert progress.describe(shown, now=now).partition("samples/s")[2].strip() == text


@pytest.mark.usefixtures("berlin")
def test_the_end_of_a_job_that_evaluates() -> None:
    """A step takes 1 s, and an evaluation 60 s after each 50 steps; the latest steps do not tell of it."""

    def clock(step: int) -> float:
        return NOON + 100 + step + 60 * (step // 50)

    recent = progress.Recent()
    for step in range(1, 500):
        shown = at(step, 0, time=clock(step), began=NOON, steady={"step": 5, "time": clock(5)})
        recent.add(shown)
        if step >= 100:
            told = progress.describe(shown, recent, clock(step))
            hours, minutes = map(int, told.partition("ends about ")[2][:5].split(":"))
            error = (hours * 60 + minutes - 60) * 60 - (12 * 3600 + clock(1000) - NOON)
            assert abs(error) < 0.25 * (clock(1000) - clock(step)) + 60, told
    assert told.startswith("step 499/1000  32.0 samples/s")


@pytest.mark.usefixtures("berlin")
def test_a_narrow_line_has_the_time_left_alone() -> None:
    shown = at(25, 20, metrics={"loss": 0.546})
    lines = [progress.line("demo", shown, None, Screen(columns), NOON) for columns in (80, 70, 50)]
    assert lines == [
        "demo 25/1000  loss 0.546  0.8 samples/s  ends about 13:16 (16 min 15 s left)",
        "demo ...... 25/1000  loss 0.546  ends about 13:16 (16 min 15 s left)",
        "demo ..... 25/1000  loss 0.546  16 min 15 s left",
    ]


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
FIRST = "rank 3 on node1:\n" + LOG[LOG.index("Traceback") : LOG.index("\n--- end of rank 3")]


def test_the_rank_that_the_reason_names_is_the_one_that_is_shown() -> None:
    """Of the last attempt, and not what another one has said because of it; nothing where the reason has all of it."""
    blocks = [(0, "Connection closed"), (1, "KeyError: 1"), (0, "Connection closed"), (1, "Traceback x\nKeyError: 2")]
    log = "".join(f"--- rank {rank} on a failed ---\n{text}\n--- end of rank {rank} ---\n" for rank, text in blocks)
    shown = progress.first_failure(log, reason="rank 1 on a failed: KeyError: 2")
    assert shown == "rank 1 on a:\nTraceback x\nKeyError: 2"
    assert progress.first_failure(log, reason="rank 0 on a failed: Connection closed") == ""
    assert progress.first_failure(log, lines=1, reason="rank 2 on a ended with exit code 3") == "--- end of rank 1 ---"


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


def seen(*points: tuple[float, int], **changes: Any) -> progress.Recent:
    """What is remembered of a job that was seen at these (seconds since it began, step)."""
    recent = progress.Recent(window=10)
    for at, step in points:
        recent.add({**AT_40, "step": step, "time": 1000.0 + at, **changes})
    return recent


def test_the_rate_leaves_out_the_start() -> None:
    # The first step took 12 s, later ones 0.5 s.
    recent = seen((0, 0), (12, 1), (14, 5), (16, 9))
    assert recent.seconds_per_step() == 0.5
    now = {**AT_40, "step": 9, "time": 1016.0, "metrics": {}, "epoch": None}
    assert progress.describe(now, recent) == "step 9/100  64.0 samples/s  46 s left"
    assert progress.describe(now) == "step 9/100  18.0 samples/s  2 min 42 s left"


def test_the_rate_is_that_of_the_window() -> None:
    recent = seen((1, 1), (2, 2), (4, 3), (8, 5), (12, 7), (16, 9), (20, 11))
    assert recent.seconds_per_step() == 2.0
    # A step that takes longer than the window.
    assert seen((1, 1), (2, 2), (40, 3)).seconds_per_step() == 38.0
    assert seen((1, 1), (2, 2), (40, 3), (78, 4)).seconds_per_step() == 38.0


def test_no_rate_before_two_steps_were_seen() -> None:
    assert seen().seconds_per_step() is None
    assert seen((0, 0), (5, 1), (6, 1)).seconds_per_step() is None
    # It goes on from a checkpoint of step 30.
    assert seen((0, 30), (5, 31), first_step=30).seconds_per_step() is None


def test_a_job_that_began_again_is_seen_from_there() -> None:
    recent = seen((1, 50), (2, 60))
    recent.add({**AT_40, "began": 1100.0, "first_step": 40, "step": 41, "time": 1101.0})
    assert recent.seconds_per_step() is None
    recent.add({**AT_40, "began": 1100.0, "first_step": 40, "step": 42, "time": 1103.0})
    assert recent.seconds_per_step() == 2.0


@pytest.mark.slow
@given(points=st.lists(st.tuples(st.floats(0, 1e6), st.integers(0, 10_000)), max_size=30), window=st.floats(0.1, 100))
def test_a_rate_is_positive(points: list[tuple[float, int]], window: float) -> None:
    recent = progress.Recent(window)
    for at, step in sorted(points):
        recent.add({**AT_40, "step": step, "time": 1000.0 + at})
    assert (recent.seconds_per_step() or 1) > 0


def test_line() -> None:
    shown = {**AT_40, "step": 72, "max_steps": 125, "metrics": {"loss": 0.546}, "time": 1047.2}
    wide = Screen(80, characters=True)
    assert progress.line("demo", shown, None, wide) == (
        "demo ███████████░░░░░░░░░ 72/125  loss 0.546  48.8 samples/s  35 s left"
    )
    narrow = [progress.line("demo", shown, None, Screen(columns)) for columns in (60, 40)]
    assert narrow == [
        "demo ####... 72/125  loss 0.546  48.8 samples/s  35 s left",
        "demo 72/125  loss 0.546  35 s left",
    ]
    assert progress.line("demo", shown, None, Screen(20)) == "demo ###... 72/125"


@pytest.mark.slow
@given(
    name=st.text(min_size=1, max_size=60).filter(str.isprintable),
    step=st.integers(0, 10**7),
    columns=st.integers(5, 200),
    characters=st.booleans(),
)
def test_a_line_never_wraps(name: str, step: int, columns: int, characters: bool) -> None:
    line = progress.line(
        name, {**AT_40, "step": step, "max_steps": 10**7}, None, Screen(columns, True, True, characters)
    )
    assert cells(line) < columns
    assert characters or not name.isascii() or line.isascii()
