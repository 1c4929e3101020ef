"""Of a long text, only the beginning is encoded that the model reads."""

from __future__ import annotations

from typing import Any

import pytest
from amx_cluster.inference import tasks
from amx_cluster.inference.loaded import Loaded

MEGABYTE = 1 << 20


class Words:
    """STAND-IN for a tokenizer of words without a limit, which counts the characters that it encodes."""

    def __init__(self) -> None:
        self.encoded = 0

    def __call__(self, text: str, **_options: Any) -> dict[str, list[int]]:
        self.encoded += len(text)
        return {"input_ids": [len(word) for word in text.split()]}

    def get_vocab(self) -> dict[str, int]:
        return {"a" * 12: 0, "b": 1}


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("a " * 100, 0),
        ("ab " * MEGABYTE, 1 << 16),
        ("ab" + " " * 3 * MEGABYTE, 6 * MEGABYTE),  # there might be words behind the blanks
        (" " * MEGABYTE + "ab " * 1000, 6 * MEGABYTE),
        (" " * 16300 + "a" * 3 * MEGABYTE, 9 * MEGABYTE),  # of a part of a word there may be more tokens
        ("a" * 3 * MEGABYTE, 6 * MEGABYTE),
    ],
    ids=["short", "words", "blanks", "blanks before", "part of a word", "one word"],
)
def test_the_tokens_that_are_read_are_those_of_the_whole(text: str, most: int) -> None:
    words = Words()
    part = tasks.bounded(Loaded("tiny", None, None, "feature-extraction", words), text, 512)
    assert text.startswith(part) and part.split()[:512] == text.split()[:512]
    assert words.encoded <= most
