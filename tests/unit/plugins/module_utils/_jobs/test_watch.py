from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import watch
from support import runs

PLAN: dict[str, Any] = {
    "world_size": 2,
    "watch": {"stall": True, "group": True, "gradients": True},
    "hosts": [{"host": "node1", "ranks": [{"rank": 0}, {"rank": 1}]}],
}


def beat(rank: int, waiting: bool) -> dict[str, Any]:
    told = {"rank": rank, "host": "node1", "idle": 60.0, "files": {}, "oom_kills": 0}
    return {**told, "waiting": waiting, "stepped": True, "stack": f"where rank {rank} is"}


def test_who_is_not_listened_to_while_hosts_are_asked_is_not_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On hosts with much else to do each question takes long."""
    clock = [1000.0]
    monkeypatch.setattr(watch, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    class Asks(watch.Watch):
        def _find_busy(self, ranks: Sequence[int]) -> None:
            assert list(ranks) == [1]
            clock[0] += 8

    watched = Asks(tmp_path, runs.run({"head": "node1"}, script=Path(__file__), stall_seconds=30), PLAN, "node1")
    watched.take([beat(0, True), beat(1, False)])
    assert watched.reason() == (
        "no rank has made a step or done any other work for 60 s\n"
        "rank 1 on node1 is here, and the others wait for it:\nwhere rank 1 is"
    )
