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


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 KiB"), (1, "1 KiB"), (64 << 10, "64 KiB"), (5 << 20, "5 MiB"), (2**30, "1.0 GiB")],
)
def test_size(number: float, text: str) -> None:
    assert _text.size(number) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "at https://me:pass@index.example/simple and https://index.example/a@b",
            "at https://***@index.example/simple and https://index.example/a@b",
        ),
        ("https://token@index.example", "https://***@index.example"),
        ("http://me:p@ss@index.example:81/simple", "http://***@index.example:81/simple"),
    ],
)
def test_masked(text: str, shown: str) -> None:
    assert _text.masked(text) == shown
