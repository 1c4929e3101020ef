from __future__ import annotations

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._hosts import slurm


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        ("90", 5400),
        ("1:30", 90),
        ("1:30:00", 5400),
        ("2-12", 216000),
        ("1-00:30:00", 88200),
        ("00:05:00", 300),
        ("UNLIMITED", 0),
        ("NONE", 0),
    ],
)
def test_times_are_read_as_sbatch_does(time: str, seconds: int) -> None:
    assert slurm.seconds(time) == seconds


@pytest.mark.parametrize(
    ("time", "is_over"), [("5", False), ("6", True), ("0", True), ("0:00", True), ("0-0", True), ("", False)]
)
def test_the_limit_of_a_partition(time: str, is_over: bool) -> None:
    """0 requests no limit."""
    assert bool(slurm.over_limit({"MaxTime": "00:05:00"}, time)) == is_over
    assert not slurm.over_limit({"MaxTime": "UNLIMITED"}, time)
