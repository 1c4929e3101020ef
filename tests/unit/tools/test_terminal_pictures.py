"""Pictures of terminals: lines and styles of a screen, frames of a film, SVG."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pyte
from terminal import Screen, shown
from terminal_pictures import COLUMNS, LAST, LINES, MOMENTS, SHOWN, Frame, film, frame, picture

SVG = "{http://www.w3.org/2000/svg}"


def frame_of(written: str) -> Frame:
    screen = Screen(COLUMNS, LINES)
    pyte.Stream(screen).feed(written.replace("\n", "\r\n"))
    return frame(screen)


def test_what_a_terminal_shows() -> None:
    assert shown("one\ntwo\r\x1b[KTWO\n", 80) == ["one", "TWO"]
    assert shown("one\ntwo\x1b[1A\rONE\n\n", 80) == ["ONE", "two"]
    assert shown("abcdef\ngh", 4) == ["abcd", "ef", "gh"]


def test_a_still_picture() -> None:
    root = ElementTree.fromstring(
        picture([(LAST, frame_of("$ a <b>\n\n  \x1b[1;31mFAILED\x1b[0m node0 \x1b[2mdim\x1b[0m\n"))], "it")
    )
    texts = [(text.text, text.get("class")) for text in root.iter(f"{SVG}text")]
    assert texts == [("$ a <b>", None), ("FAILED", "red bold"), ("node0", None), ("dim", "dim")]
    rows = [float(text.get("y", 0)) for text in root.iter(f"{SVG}text")]
    assert rows[1] == rows[2] == rows[3] > rows[0]
    assert "animation" not in ElementTree.tostring(root, encoding="unicode")


def test_columns_stay_in_place() -> None:
    root = ElementTree.fromstring(picture([(LAST, frame_of("ab\x1b[32mcd\x1b[0m\n  cd\n"))], "it"))
    (_ab, green, below) = root.iter(f"{SVG}text")
    assert green.get("x") == below.get("x")
    assert green.get("textLength") == below.get("textLength")


def test_a_film() -> None:
    # A burst at the start, a long wait, then a step each second.
    steps = [frame_of(f"step {number}\n") for number in range(60)]
    seen = [(0.0, steps[0]), (0.1, steps[1]), (0.2, steps[2])]
    seen += [(20.0 + number, step) for number, step in enumerate(steps[3:])]
    shown = film(seen)
    assert shown[0] == (SHOWN, steps[0])
    assert shown[1][1] == steps[2], "what is drawn over within a moment is left out"
    assert SHOWN * 8 < shown[1][0] < SHOWN * 12, "20 of 76 s"
    assert shown[-1] == (LAST, steps[-1])
    assert abs(sum(seconds for seconds, _ in shown) - (MOMENTS - 1) * SHOWN - LAST) < 0.01
    text = picture(shown, "it")
    assert len(list(ElementTree.fromstring(text).iter(f"{SVG}text"))) == len(shown)
    assert text.count("translateY") == len(shown) + 2, "each frame, the end of the film, and the end without motion"


def test_a_film_of_one_picture() -> None:
    (only,) = film([(0.0, frame_of("$ it\n"))])
    assert only[1] == frame_of("$ it\n")
