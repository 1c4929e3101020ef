"""What IMB-MPI1 printed, read: real output of version 2021.11 with two ranks, and with what a log has besides."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.amx.cluster.plugins.module_utils._measure import imb

TEXT = (Path(__file__).parents[3] / "fixtures/measure/imb.txt").read_text(encoding="utf-8")


def test_every_collective_and_size() -> None:
    rows = imb.collectives(TEXT)
    assert [row["operation"] for row in rows[::3]] == list(imb.BENCHMARKS)
    assert {row["ranks"] for row in rows} == {2}
    assert [row["bytes"] for row in rows if row["operation"] == "all_reduce"] == [4096, 65536, 1048576]
    assert rows[2] == {
        **{"operation": "broadcast", "bytes": 1048576, "ranks": 2},
        **{"microseconds": 45.46, "low": 45.22, "high": 45.70},
    }


def test_blocks_are_counted_for_all_ranks() -> None:
    rows = imb.collectives(TEXT)
    for operation in ("all_gather", "all_to_all"):
        assert [row["bytes"] for row in rows if row["operation"] == operation] == [8192, 131072, 2097152]


def test_what_else_a_log_has() -> None:
    noise = "1 2 3 4 5\nAbort(15) on node 0\n 4096 10 out-of-mem.; needed X= 0.5 GB\n 4096 int_overflow.\n"
    assert imb.collectives(noise + TEXT + noise) == imb.collectives(TEXT)
    assert imb.collectives("") == imb.collectives(noise) == []
    cut = TEXT[: TEXT.index("# Benchmarking Allgather")]
    assert len(imb.collectives(cut)) == 12
