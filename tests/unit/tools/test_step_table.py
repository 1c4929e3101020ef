# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What docs/scaling.md says of its table."""

from __future__ import annotations

import itertools
import statistics

import pytest
import step_table
from ansible_collections.amx.cluster.plugins.module_utils._cores.allocation import CORES_PER_COMM_CORE
from step_table import Way

pytestmark = pytest.mark.slow


BESIDE, APART, GLOO = Way("mpi"), Way("mpi", 1), Way("gloo")


def gains(cores: int) -> list[float]:
    """Return by how much a communication core is faster for ranks of so many cores, in many cases."""
    cases = itertools.product(
        step_table.MODELS.values(), step_table.HOSTS, step_table.RATES, (2048, 8192, 32768, 131072)
    )
    return [
        step_table.share(weights, APART, hosts, rate, cores, tokens)
        / step_table.share(weights, BESIDE, hosts, rate, cores, tokens)
        for weights, hosts, rate, tokens in cases
    ]


def test_from_so_many_cores_on_no_case_loses_much_by_a_communication_core() -> None:
    for cores in (CORES_PER_COMM_CORE, 14, 28, 56):
        found = gains(cores)
        assert min(found) > 0.95
        assert statistics.median(found) > 1.06
    assert min(gains(4)) < 0.8


def test_mpi_is_never_slower_than_gloo_on_servers() -> None:
    for weights, hosts, rate in itertools.product(step_table.MODELS.values(), step_table.HOSTS, step_table.RATES):
        assert step_table.share(weights, APART, hosts, rate) > step_table.share(weights, GLOO, hosts, rate)


def test_the_size_of_a_bucket_hardly_matters() -> None:
    for weights, hosts, rate in itertools.product(step_table.MODELS.values(), step_table.HOSTS, step_table.RATES):
        found = [step_table.share(weights, APART, hosts, rate, size=size) for size in step_table.SIZES]
        assert min(found) > 0.9 * max(found)
