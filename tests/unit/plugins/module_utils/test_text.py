from __future__ import annotations

import pytest
from ansible_collections.amx.cluster.plugins.module_utils import _text


def test_columns() -> None:
    assert _text.columns([("job", "state"), ("demo-2", "running"), ("x", "")]) == [
        "job     state",
        "demo-2  running",
        "x",
    ]


def test_count() -> None:
    assert [_text.count(0, "rank"), _text.count(1, "rank"), _text.count(2, "process", "processes")] == [
        "0 ranks",
        "1 rank",
        "2 processes",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min 0 s"), (3599, "59 min 59 s"), (7500, "2 h 5 min")],
)
def test_duration(seconds: float, text: str) -> None:
    assert _text.duration(seconds) == text
