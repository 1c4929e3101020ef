"""What `make test` leaves out, and `make test-all` runs: what takes minutes and guards what seldom changes.

Whatever is left out says so, with the reason, in the output of its part and in the summary.
"""

from __future__ import annotations

import os

import pytest

VARIABLE = "AMX_TEST_ALL"
# Whether everything runs.
AT_LENGTH = os.environ.get(VARIABLE) == "1"


def left_out_because(reason: str) -> str:
    """Return the line that says why something was left out."""
    return f"only at length (make test-all): {reason}"


def only_at_length(reason: str) -> pytest.MarkDecorator:
    """Return the mark of a test that `make test` leaves out for a reason."""
    return pytest.mark.skipif(not AT_LENGTH, reason=left_out_because(reason))
