"""Requests of a served model, put together into batches: what each gets, whatever becomes of the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from amx_cluster.inference import batches
from ansible_collections.amx.cluster.plugins.module_utils._data import rows


class Model:
    """Predicts the text in capitals; records what it was asked at a time."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __call__(
        self, records: Sequence[rows.Record], report: Callable[[float], None]
    ) -> tuple[list[rows.Record], list[dict[str, Any]], list[rows.Record]]:
        self.asked.append(len(records))
        report(len(records))
        if any(record.values.get("text") == "crash" for record in records):
            raise RuntimeError("out of memory")
        broken = [rows.Record(one.line, one.values, "", "has no text") for one in records if "text" not in one.values]
        good = [record for record in records if "text" in record.values]
        return good, [{"label": record.values["text"].upper()} for record in good], broken


def texts(*words: str) -> list[dict[str, str]]:
    return [{"text": word} for word in words]


def test_what_waits_becomes_one_batch() -> None:
    model = Model()
    waiting = batches.Batches(model, batch_size=4, most=100)
    answers = [waiting.submit(texts(*words)) for words in (["a"], ["b", "c"], ["d", "e"], ["f"])]
    waiting.close()
    waiting.run()
    assert [[one["label"] for one in answer.result(0)] for answer in answers] == [["A"], ["B", "C"], ["D", "E"], ["F"]]
    assert model.asked == [5, 1]
    assert waiting.rows == 6


def test_a_broken_row_is_its_request_s_alone() -> None:
    waiting = batches.Batches(Model(), batch_size=8, most=100)
    good, broken, last = waiting.submit(texts("a")), waiting.submit([{"text": "b"}, {}, {}]), waiting.submit(texts("c"))
    waiting.close()
    waiting.run()
    assert good.result(0) == [{"label": "A"}]
    assert last.result(0) == [{"label": "C"}]
    with pytest.raises(batches.Broken, match=r"^row 1 has no text; row 2 has no text$"):
        broken.result(0)
    assert waiting.rows == 2


def test_a_model_that_fails_answers_the_next_ones() -> None:
    waiting = batches.Batches(Model(), batch_size=2, most=100)
    together = [waiting.submit(texts("crash")), waiting.submit(texts("a"))]
    after = waiting.submit(texts("b"))
    waiting.close()
    waiting.run()
    with pytest.raises(RuntimeError, match="out of memory"):
        together[0].result(0)
    assert together[1].result(0) == [{"label": "A"}]  # the error is that of the other request
    assert after.result(0) == [{"label": "B"}]


def test_so_many_rows_may_wait() -> None:
    waiting = batches.Batches(Model(), batch_size=2, most=3)
    waiting.submit(texts(*"abcdef"))  # the first one is taken whatever its size
    with pytest.raises(batches.Busy):
        waiting.submit(texts("g"))
    waiting.close()
    waiting.run()
    assert waiting.submit(texts("g"))


def test_a_request_that_was_given_up_is_not_computed() -> None:
    model = Model()
    waiting = batches.Batches(model, batch_size=1, most=100)
    given_up, other = waiting.submit(texts("a")), waiting.submit(texts("b"))
    given_up.cancel()
    waiting.close()
    waiting.run()
    assert model.asked == [1]
    assert other.result(0) == [{"label": "B"}]


def test_so_many_bytes_may_wait() -> None:
    waiting = batches.Batches(Model(), batch_size=2, most=100, most_bytes=3000)
    first = waiting.submit(texts("a" * 2000))
    with pytest.raises(batches.Busy):
        waiting.submit(texts("b" * 2000))
    first.cancel()  # what is given up makes room at once
    assert waiting.submit(texts("c" * 2000))


def test_entries_are_counted_and_limited() -> None:
    model = Model()
    waiting = batches.Batches(
        model, batch_size=4, most=100, entries=lambda values: sum(len(row["text"]) for row in values), most_entries=9
    )
    answers = [waiting.submit(texts(word)) for word in ("aaaa", "b" * 10, "cc", "d")]
    waiting.close()
    waiting.run()
    with pytest.raises(batches.TooMuch, match="10"):
        answers[1].result(0)
    assert [answers[at].result(0) for at in (0, 2, 3)] == [[{"label": "AAAA"}], [{"label": "CC"}], [{"label": "D"}]]
    assert model.asked == [1, 2]


def test_how_long_rows_wait_and_the_model_is_silent() -> None:
    now = [100.0]
    seen: list[tuple[float, float]] = []

    def predict(records: Sequence[rows.Record], report: Callable[[float], None]) -> Any:
        now[0] += 7
        seen.append((waiting.waited(), waiting.silent()))
        report(0.5)
        now[0] += 2
        seen.append((waiting.waited(), waiting.silent()))
        return list(records), [{"label": "x"} for _record in records], []

    waiting = batches.Batches(predict, batch_size=1, most=100, clock=lambda: now[0])
    assert (waiting.waited(), waiting.silent()) == (0, 0)
    waiting.submit(texts("a"))
    now[0] += 5
    waiting.submit(texts("b"))
    assert (waiting.waited(), waiting.silent()) == (5, 0)
    waiting.close()
    waiting.run()
    assert seen == [(12, 7), (14, 2), (16, 7), (18, 2)]
    assert (waiting.waited(), waiting.silent(), waiting.slowest) == (0, 0, 7)


def test_a_batch_ends_when_nobody_waits_for_it() -> None:
    went_on: list[int] = []

    def predict(records: Sequence[rows.Record], report: Callable[[float], None]) -> Any:
        for step in range(3):
            if step == 1:
                first.cancel()
            report(step)
            went_on.append(step)
        return list(records), [{"label": "x"} for _record in records], []

    waiting = batches.Batches(predict, batch_size=1, most=100)
    first, second = waiting.submit(texts("a")), waiting.submit(texts("b"))
    waiting.close()
    waiting.run()
    assert went_on == [0, 0, 1, 2]
    assert second.result(0) == [{"label": "x"}]


@pytest.mark.slow
def test_many_threads_ask_at_once() -> None:
    waiting = batches.Batches(Model(), batch_size=16, most=1000)
    model = threading.Thread(target=waiting.run)
    model.start()
    found: dict[int, str] = {}

    def ask(number: int) -> None:
        found[number] = waiting.submit(texts(f"t{number}")).result(30)[0]["label"]

    asking = [threading.Thread(target=ask, args=(number,)) for number in range(100)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join(30)
    waiting.close()
    model.join(30)
    assert found == {number: f"T{number}" for number in range(100)}
    assert waiting.rows == 100
