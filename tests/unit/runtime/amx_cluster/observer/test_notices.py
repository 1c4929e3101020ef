"""A notice that the supervisor writes into the job directory; those of hosts are in the integration tests."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from amx_cluster.observer.notices import Notices
from support.clock import SetClock


def test_a_notice_in_the_job_directory(tmp_path: Path) -> None:
    path = tmp_path / "leaves.json"
    rank: Any = SimpleNamespace(notices=f"file:{path}", is_first=True)
    clock = SetClock()
    notices = Notices(rank, clock)
    notices.look()
    assert (notices.notice, notices.problem) == (None, "")
    path.write_text(json.dumps({"action": "terminate", "time": "2026-11-28T03:01:21Z"}))
    notices.look()
    assert notices.notice is None, "it is asked every few seconds only"
    clock.now += Notices.SECONDS
    notices.look()
    assert notices.notice == {"action": "terminate", "time": "2026-11-28T03:01:21Z"}
    message: Any = {}
    notices.tell(message)
    assert message == {"leaves": notices.notice}
