"""Tests that only `make test-all` runs: what takes minutes and guards what seldom changes.

Whatever is left out says so, with the reason, in the output of its part and in the summary.
"""

from __future__ import annotations

import os

import pytest

VARIABLE = "AMX_TEST_ALL"
# Values of the variable: everything runs, or only what else is left out.
EVERYTHING, REST = "1", "rest"
EVERYTHING_RUNS = os.environ.get(VARIABLE) == EVERYTHING
REST_RUNS = os.environ.get(VARIABLE) == REST
# Whether what takes long runs.
AT_LENGTH = EVERYTHING_RUNS or REST_RUNS


def left_out_because(reason: str) -> str:
    """Return the line that says why something was left out."""
    return f"only in make test-all: {reason}"


def only_at_length(reason: str) -> pytest.MarkDecorator:
    """Return the mark of a test that is left out unless everything is run, with the reason."""
    return pytest.mark.at_length(reason=reason)


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests that are marked, or all others where only those run."""
    for item in items:
        mark = item.get_closest_marker("at_length")
        if mark and not AT_LENGTH:
            item.add_marker(pytest.mark.skip(reason=left_out_because(mark.kwargs["reason"])))
    if REST_RUNS:
        others = [item for item in items if not item.get_closest_marker("at_length")]
        items[:] = [item for item in items if item not in set(others)]
        config.hook.pytest_deselected(items=others)
