"""Texts whose tokens come one by one: complete characters, and nothing of a stop string."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from amx_cluster.inference.openai_text import Text

SENTENCE = "Grüße 日本語 🙂🙃 the end.\nSTOP here é"


def decode(tokens: Sequence[int]) -> str:
    """As tokens of single bytes are decoded: one replacement character for what is no character."""
    return bytes(tokens).decode("utf-8", errors="replace")


def parts(text: Text, tokens: bytes) -> list[str]:
    found = []
    for token in tokens:
        found.append(text.add(token))
        if text.ended:
            break
    return [*found, text.end()]


def test_characters_are_not_divided() -> None:
    found = parts(Text(decode), SENTENCE.encode())
    assert "".join(found) == SENTENCE
    assert not any("\ufffd" in part for part in found)


def test_bytes_that_are_no_characters_are_written_and_end() -> None:
    tokens = b"ab" + b"\xff" * 40 + "é".encode() + b"\xe6\x97"
    found = parts(Text(decode), tokens)
    assert "".join(found).startswith("ab\ufffd") and "é" in "".join(found)
    assert max(map(len, found)) < 12  # they do not wait for the end


@pytest.mark.parametrize("stops", [["STOP"], ["."], ["the end.\nST", "XX"], ["🙃"], ["end", "the"], ["日本語 🙂🙃"]])
def test_a_text_ends_before_the_first_stop_string(stops: list[str]) -> None:
    text = Text(decode, stops)
    assert "".join(parts(text, SENTENCE.encode())) == SENTENCE[: min(SENTENCE.find(stop) % 10**6 for stop in stops)]
    assert text.ended


def test_what_only_began_like_a_stop_string_is_written() -> None:
    text = Text(decode, ["here é!"])
    assert "".join(parts(text, SENTENCE.encode())) == SENTENCE
    assert not text.ended


def test_random_stops_are_as_a_search_finds_them() -> None:
    chance = random.Random(1)
    for _round in range(300):
        given = "".join(chance.choices("abé", k=30))
        stops = ["".join(chance.choices("abé", k=chance.randint(1, 5))) for _stop in range(2)]
        found = "".join(parts(Text(decode, stops), given.encode()))
        # The stop string that is complete first ends it; of those complete at once, the one that begins first.
        ends = [given.find(stop) + len(stop) for stop in stops if stop in given]
        if not ends:
            assert found == given
        else:
            complete = given[: min(ends)]
            assert found == complete[: min(complete.find(stop) for stop in stops if stop in complete)]


def test_a_continuation_keeps_its_first_space() -> None:
    """Tokenizers like SentencePiece's leave it out at the begin of a text, and texts of single tokens have none."""
    words = [" the", " parcel", " is", " here"]

    def stripped(tokens: Sequence[int]) -> str:
        return "".join(words[token] for token in tokens).removeprefix(" ")

    def text(before: Sequence[int]) -> str:
        made = Text(stripped, before=before)
        return "".join([*map(made.add, [2, 3]), made.end()])

    assert (text([]), text([0, 1]), text([1])) == ("is here", " is here", " is here")


@pytest.mark.parametrize("prompt", ["a გამარჯობა", "日本", "🙂", ""])
@pytest.mark.parametrize("kept", range(9))
def test_a_continuation_of_a_prompt_that_is_cut_within_a_character(prompt: str, kept: int) -> None:
    """Decoders with byte fallback, as Llama's, make all bytes in a row unknown where they are not whole characters."""

    def decoded(tokens: Sequence[int]) -> str:
        try:
            return bytes(tokens).decode()
        except UnicodeDecodeError:
            return "\ufffd" * len(tokens)

    before = prompt.encode()[-kept:] if kept else b""
    assert "".join(parts(Text(decoded, before=before), "გა b.".encode())) == "გა b."
