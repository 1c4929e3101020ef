"""A job that was interrupted ends with the weights of one that was not, bit by bit, with optimized steps and dropout.

Real ranks, mpirun, rank.py, observer and supervisor, and transformers' Trainer; one machine, with the same ranks and
threads before and after. Sums over other numbers of ranks or threads may round otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._io import read_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Checkpoints
from support import real_jobs
from support.at_length import only_at_length
from support.checkout import ROOT

SCRIPT = ROOT / "tests/integration/zoo/resumes.py"
HAS_BF16 = re.search(r"\b(avx512_bf16|amx_bf16)\b", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
ARGS = {"output_dir": "output", "max_steps": 12, "per_device_train_batch_size": 8, "data_seed": 1, "report_to": "none"}
TWO_THREADS = [{"OMP_NUM_THREADS": "2"}]
TWO_RANKS: list[dict[str, str]] = [{}, {}]
OPTIMIZED = [f"amx_cluster.optimize.{name}" for name in ("attention", "calls", "loss", "masks", "optimizer", "padding")]
Train = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory, environment: Path) -> Train:
    """Train 12 steps with a checkpoint every 6, each job once; return what the script reports."""
    made: dict[str, dict[str, Any]] = {}

    def once(*given: Any, **job: Any) -> dict[str, Any]:
        key = repr((given, job))
        if key not in made:
            made[key] = run(*given, **job)
        return made[key]

    def run(ranks: list[dict[str, str]], seed: int = 1, fault: int | None = None, **job: Any) -> dict[str, Any]:
        place = tmp_path_factory.mktemp("job") / "jobs/resumes"
        if fault is not None:
            job = {**job, "restarts": 1, "env": {"FAULT": str(fault)}}
        given = {"precision": "bf16" if HAS_BF16 else "fp32", "checkpoints": Checkpoints(6), **job}
        args = {**ARGS, "seed": seed}
        real_jobs.start(
            {"localhost": place},
            SCRIPT,
            environment.resolve(),
            ranks,
            kind="trainer",
            name="resumes",
            args=args,
            **given,
        )
        status, log = real_jobs.ended(place)
        assert status["state"] == "succeeded", f"{status['reason']}\n{log}"
        found = read_json(place / "output/all_results.json") or {}
        assert (found["steps"], found["world"]) == (12, len(ranks))
        return found

    return once


@pytest.mark.parametrize(
    ("ranks", "backend"),
    [
        pytest.param(TWO_THREADS, "gloo", id="one rank of two threads"),
        pytest.param(TWO_RANKS, "mpi", id="two ranks by mpi"),
        pytest.param(
            TWO_RANKS, "gloo", id="two ranks by gloo", marks=only_at_length("it differs from mpi by the sums alone")
        ),
    ],
)
def test_weights_are_the_same_bit_by_bit(train: Train, ranks: list[dict[str, str]], backend: str) -> None:
    whole = train(ranks, backend=backend)
    assert (whole["from"], whole["optimized"]) == (None, OPTIMIZED)
    resumed = train(ranks, backend=backend, fault=8)
    assert resumed == {**whole, "from": "output/checkpoint-6"}


def test_they_depend_on_dropout_and_on_what_is_optimized(train: Train) -> None:
    """Without that, the test above would find nothing."""
    whole = train(TWO_THREADS, backend="gloo")
    assert train(TWO_THREADS, 2, backend="gloo")["weights"] != whole["weights"]
    plain = train(TWO_THREADS, backend="gloo", optimize="none")
    assert plain["optimized"] == []
    assert plain["weights"] != whole["weights"]
