from __future__ import annotations

from ansible_collections.amx.cluster.plugins.module_utils._data.answers import best_span

OFFSETS = [None, None, (0, 3), (4, 9), (10, 12), (13, 20)]


def test_the_best_answer_is_in_the_context() -> None:
    assert best_span([9.0, 0, 1, 5, 0, 0], [9.0, 0, 0, 1, 4, 0], OFFSETS, 10) == (9.0, (4, 12))
    assert best_span([1, 1], [1, 1], [None, None], 10) is None


def test_the_best_answer_is_neither_backward_nor_too_long() -> None:
    start, end = [0.0, 0, 5, 0, 0, 6], [0.0, 0, 1, 0, 0, 5]
    assert best_span(start, end, OFFSETS, 4) == (11.0, (13, 20))
    assert best_span([0.0, 0, 5, 0, 0, -9], end, OFFSETS, 3) == (6.0, (0, 3))
    long = [(place, place + 1) for place in range(100)]
    span = best_span([1.0] + [0.0] * 99, [0.0] * 99 + [1.0], long, 30)
    assert span is not None
    assert span[1][1] - span[1][0] <= 30


def test_logits_of_padding_do_not_count() -> None:
    assert best_span([0.0, 1, 0, 99], [0.0, 1, 0, 99], [None, (0, 1)], 5) == (2.0, (0, 1))
