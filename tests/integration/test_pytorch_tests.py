"""PyTorch's own tests of process groups: what passes with gloo passes with mpi. docs/collectives.md has the counts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.at_length import only_at_length
from support.mpi_ranks import JUDGES, run

# A few of each family, of those that take well under a second each.
QUICK = (
    *("test_all_reduce_sum*", "test_all_gather", "test_all_to_all*group", "test_broadcast", "test_reduce_m*"),
    *("test_barrier*", "test_isend*", "test_send_recv", "test_send_recv_any_source", "test_sparse*"),
    *("test_DistributedDataParallelCPU*", "test_accumulate_gradients*", "test_*object*", "test_destroy*group"),
)
# How often a run is begun again after a test that has ended its ranks.
STARTS = 5


def outcomes(environment: Path, folder: Path, backend: str, ranks: int, patterns: Sequence[str]) -> dict[str, str]:
    """Run the tests; return {test: passed, failed or left out}."""
    found: dict[str, str] = {}
    for start in range(STARTS):
        place = folder / f"{backend}-{ranks}-{start}"
        place.mkdir()
        after = max(found, default="")
        runner = str(JUDGES / "pytorch_tests.py")
        done = run(environment, ranks, runner, backend, str(place), after, *patterns, timeout=1800)
        for line in done.stdout.splitlines():
            if line.startswith('{"test"'):
                report = json.loads(line)
                found[report["test"]] = report["outcome"]
        if done.returncode == 0:
            break
    return {name: "failed" if outcome == "begun" else outcome for name, outcome in found.items()}


def test_a_selection_passes(environment: Path, tmp_path: Path) -> None:
    found = outcomes(environment, tmp_path, "mpi", 2, QUICK)
    # These need CUDA, and fail without it.
    failed = [name for name, outcome in found.items() if outcome == "failed" and "cuda" not in name]
    assert not failed
    assert list(found.values()).count("passed") >= 25


@pytest.mark.parametrize("ranks", [2, 4])
@only_at_length("all of them, with both backends, take minutes")
def test_what_passes_with_gloo_passes_with_mpi(environment: Path, tmp_path: Path, ranks: int) -> None:
    gloo, mpi = (outcomes(environment, tmp_path, backend, ranks, ()) for backend in ("gloo", "mpi"))
    assert gloo.keys() == mpi.keys()
    assert [name for name in gloo if gloo[name] == "passed" and mpi[name] != "passed"] == []
    assert list(mpi.values()).count("passed") >= 100
