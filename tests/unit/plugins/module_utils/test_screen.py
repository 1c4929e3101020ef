from __future__ import annotations

import pytest
from ansible_collections.amx.cluster.plugins.module_utils import _screen
from ansible_collections.amx.cluster.plugins.module_utils._screen import Screen
from hypothesis import given
from hypothesis import strategies as st

UTF8 = {"TERM": "xterm-256color", "LANG": "en_US.UTF-8"}


@pytest.mark.parametrize(
    ("environ", "terminal", "columns", "colours", "screen"),
    [
        (UTF8, True, 132, True, Screen(132, True, True, True)),
        (UTF8, True, 0, True, Screen(80, True, True, True)),
        (UTF8, True, 40, False, Screen(40, True, False, True)),  # NO_COLOR
        ({**UTF8, "TERM": "dumb"}, True, 80, True, Screen(80, False, False, True)),
        ({"LANG": "C.UTF-8"}, True, 80, True, Screen(80, False, False, True)),  # no TERM
        (UTF8, False, 0, False, Screen(_screen.WIDE, False, False, True)),
        (UTF8, False, 0, True, Screen(_screen.WIDE, False, True, True)),  # ANSIBLE_FORCE_COLOR in a pipe
        ({"TERM": "xterm", "LC_ALL": "POSIX", "LANG": "en_US.UTF-8"}, True, 80, True, Screen(80, True, True, False)),
        # What Python makes of a missing locale.
        ({"TERM": "xterm", "LC_CTYPE": "C.UTF-8"}, True, 80, True, Screen(80, True, True, False)),
        ({"TERM": "xterm", "LC_CTYPE": "de_DE.utf8@euro"}, True, 80, True, Screen(80, True, True, True)),
    ],
)
def test_detect(environ: dict[str, str], terminal: bool, columns: int, colours: bool, screen: Screen) -> None:
    assert _screen.detect(environ, terminal, columns, colours) == screen


@pytest.mark.parametrize(
    ("text", "width"),
    [("", 0), ("demo", 4), ("█░", 2), ("日本", 4), ("e\u0301", 1), ("\x1b[2mdim\x1b[0m", 3), ("a\rb", 2)],
)
def test_cells(text: str, width: int) -> None:
    assert _screen.cells(text) == width


@pytest.mark.slow
@given(text=st.text(), columns=st.integers(0, 40), characters=st.booleans())
def test_fit_never_exceeds_the_width(text: str, columns: int, characters: bool) -> None:
    fitted = _screen.fit(text, columns, characters)
    assert _screen.cells(fitted) <= columns
    assert "\n" not in fitted
    if text.isprintable() and _screen.cells(text) <= columns:
        assert fitted == text


def test_fit_cuts_between_cells() -> None:
    assert _screen.fit("日本語です", 6, characters=True) == "日本…"
    assert _screen.fit("one two three", 10) == "one two..."
    assert _screen.fit("one", 2) == "on"


@pytest.mark.slow
@given(done=st.integers(-5, 200), total=st.integers(0, 100), columns=st.integers(0, 40), characters=st.booleans())
def test_a_bar_has_its_width(done: int, total: int, columns: int, characters: bool) -> None:
    drawn = _screen.gauge(done, total, columns, characters)
    assert _screen.cells(drawn) == columns
    assert characters or drawn.isascii()
    assert (set(drawn) <= {"█", "#"}) == (columns == 0 or (total > 0 and done >= total))


def test_bar() -> None:
    assert _screen.gauge(7, 10, 10, characters=True) == "███████░░░"
    assert _screen.gauge(7, 10, 10) == "#######..."


def test_colours_end_on_every_line() -> None:
    assert _screen.painted("a\n\nb", _screen.RED) == "\x1b[31ma\x1b[0m\n\n\x1b[31mb\x1b[0m"
    assert _screen.painted("a", _screen.RED, colours=False) == "a"
    assert _screen.plain(_screen.painted("a\nb", _screen.DIM)) == "a\nb"
