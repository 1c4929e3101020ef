"""Which status on the volume is of the run that the API server has now: runs may share a directory."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.plugin_utils import pods

SINCE, EARLIER = "2026-11-22T22:00:00+00:00", "2026-11-21T22:00:00+00:00"


@pytest.mark.parametrize(
    ("annotations", "status", "expected"),
    [
        # The first pod was replaced after the end: it began later than the job has ended.
        ({"amx.cluster/since": SINCE}, {"state": "succeeded", "since": SINCE, "started": SINCE}, True),
        ({"amx.cluster/since": SINCE}, {"state": "succeeded", "since": EARLIER, "started": EARLIER}, False),
        # The previous run was lost, and this one has not written anything yet.
        ({"amx.cluster/since": SINCE}, {"state": "running", "since": EARLIER, "started": EARLIER}, False),
        # Files that were applied have no time.
        ({}, {"state": "running", "since": "", "started": EARLIER}, True),
        ({}, {"state": "failed", "since": "", "started": EARLIER}, False),
        ({}, {"state": "failed", "since": "", "started": "2026-11-22T23:00:01+00:00"}, True),
        ({"amx.cluster/since": SINCE}, None, False),
    ],
)
def test_a_status_is_of_this_run(annotations: dict[str, str], status: Any, expected: bool) -> None:
    trains = {"kind": "Job", "metadata": {"name": "demo", "annotations": annotations}}
    assert pods.is_of({"status": status}, trains, "2026-11-22T23:00:00Z") is expected
