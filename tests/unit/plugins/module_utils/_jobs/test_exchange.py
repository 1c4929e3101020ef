from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import exchange
from ansible_collections.amx.cluster.plugins.module_utils._jobs.exchange import LINE, Outcome, Pair, rounds
from hypothesis import given
from hypothesis import strategies as st

NAMES = ("node0", "node1", "node2", "node3")


@pytest.mark.slow
@given(st.integers(0, 120))
def test_laws_of_a_tournament(players: int) -> None:
    made = rounds(players)
    assert len(made) == (0 if players < 2 else players - 1 + players % 2)
    for pairs in made:
        met = [player for pair in pairs for player in pair]
        assert len(met) == len(set(met)), "nobody meets two at once"
        assert len(pairs) == players // 2, "at most one pauses"
    everybody = sorted(pair for pairs in made for pair in pairs)
    assert everybody == [(first, second) for first in range(players) for second in range(first + 1, players)]


def test_rounds_of_four_and_of_three() -> None:
    assert rounds(4) == [[(0, 3), (1, 2)], [(0, 2), (1, 3)], [(0, 1), (2, 3)]]
    assert rounds(3) == [[(1, 2)], [(0, 2)], [(0, 1)]]


def said(first: int, second: int, microseconds: float | None, error: str = "") -> str:
    return LINE + json.dumps({"pair": [first, second], "microseconds": microseconds, "error": error}) + "\n"


def test_every_pair_is_evaluated() -> None:
    text = "MPI startup(): something\n" + said(0, 1, 2.5) + said(1, 2, 3.5) + LINE + '{"pai'
    assert exchange.evaluate(text, NAMES[:3], "no answer") == [
        Pair("node0", "node1", 2.5),
        Pair("node0", "node2", None, "no answer"),
        Pair("node1", "node2", 3.5),
    ]


def test_an_error_that_one_of_both_saw() -> None:
    for text in (said(0, 1, 2.5) + said(0, 1, None, "damaged"), said(0, 1, None, "damaged") + said(0, 1, 2.5)):
        assert exchange.evaluate(text, NAMES[:2], "") == [Pair("node0", "node1", None, "damaged")]


def test_the_latency_is_noted() -> None:
    text = said(0, 1, 1.0) + said(0, 2, 1.5) + said(1, 2, 9.25)
    assert exchange.conclude("mlx", text, NAMES[:3], "") == Outcome(
        note="every pair of hosts exchanged messages over the fabric mlx: 1.5 µs each way, at most 9.2 µs "
        "(node1 and node2)"
    )


def test_the_pair_that_fails_is_named() -> None:
    text = "".join(said(first, second, 1.0) for pairs in rounds(4) for first, second in pairs if second != 3)
    text += said(0, 3, None, "no answer within 5 s") + said(1, 3, 2.0) + said(2, 3, None, "damaged")
    assert exchange.conclude("psm3", text, NAMES, "").reason == (
        "2 of 6 pairs of hosts could not exchange messages over the fabric psm3: node0 and node3: no answer within "
        "5 s; node2 and node3: damaged. exchange.log in the job directory has what MPI printed; cluster_fabric: tcp "
        "does without the fabric"
    )


def test_a_pair_that_was_not_tested_is_not_blamed() -> None:
    waits = LINE + json.dumps({"pair": [0, 1], "waits": [1, 2]}) + "\n"
    alone = said(0, 1, None, "no answer within 5 s")
    rest = said(0, 2, 1.0) + said(1, 2, None, "no answer within 5 s")
    for text in (waits + alone + rest, alone + waits + rest):
        pair = exchange.evaluate(text, NAMES[:3], "")[0]
        assert pair == Pair("node0", "node1", None, "node1 waits for node2", tested=False)
        assert exchange.conclude("mlx", text, NAMES[:3], "").reason.startswith(
            "1 of 3 pairs of hosts could not exchange messages over the fabric mlx: node1 and node2: no answer within "
            "5 s (1 pair not tested, because a host still waited for another one). "
        )


def test_many_pairs_that_fail_are_counted() -> None:
    text = said(0, 1, None, "damaged")
    reason = exchange.conclude("efa", text, NAMES, "no answer").reason
    assert reason.startswith("6 of 6 pairs of hosts ")
    assert "node1 and node3: no answer; and 1 further pair. " in reason


def test_an_exchange_that_did_not_start_is_told_once() -> None:
    reason = exchange.conclude("efa", "", NAMES, "mpirun ended with exit code 1").reason
    assert reason.startswith(
        "no pair of hosts could exchange messages over the fabric efa: mpirun ended with exit code 1. exchange.log in "
    )


def test_without_mpi4py() -> None:
    text = LINE + json.dumps({"missing": "mpi4py cannot be imported"})
    note = "the fabric mlx was not tested between the hosts: mpi4py cannot be imported"
    assert exchange.conclude("mlx", text, NAMES, "no answer") == Outcome(note=note)


def folder(path: Path, program: str) -> tuple[Path, dict[str, Any]]:
    """A job directory whose exchange is this program, and its plan of two hosts."""
    (path / exchange.SCRIPT).write_text(program)
    return path, {"job": "demo", "hosts": [{"host": "node0"}, {"host": "node1"}], "fabric": {"name": "mlx"}}


def test_a_job_without_an_exchange(tmp_path: Path) -> None:
    assert exchange.run(tmp_path, {}, lambda: False) == Outcome()


def test_an_mpi_that_does_not_start(tmp_path: Path) -> None:
    reason = exchange.run(*folder(tmp_path, "echo 'OFI fi_getinfo() failed' >&2; exit 3"), lambda: False).reason
    assert "over the fabric mlx: mpirun ended with exit code 3: OFI fi_getinfo() failed. " in reason


@pytest.mark.slow
def test_an_exchange_that_does_not_end(tmp_path: Path) -> None:
    reason = exchange.run(*folder(tmp_path, "sleep 60"), lambda: False, start=-exchange.PAIR).reason
    assert "over the fabric mlx: the exchange did not end. " in reason
