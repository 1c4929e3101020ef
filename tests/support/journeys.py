"""Journeys of a scenario's script: what a user does, compared with what should come of it.

A journey is a function that returns what it found, in lines, or raises WrongError. Its name says what it shows.
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from support.at_length import AT_LENGTH, REST_RUNS, left_out_because

Journey = Callable[[], Sequence[str]]


class WrongError(Exception):
    """A result that is not as it should be."""


def check(right: object, message: str) -> None:
    """Raise WrongError, which says so, unless it is right."""
    if not right:
        raise WrongError(message)


def attempt(journey: Journey) -> str:
    """Make a journey, print what it found, and return what is wrong; an empty string when nothing is."""
    name, began = journey.__name__.replace("_", " "), time.monotonic()
    wrong = ""
    try:
        lines = list(journey())
    except WrongError as error:
        lines, wrong = [], f"{name}: {error}"
    except Exception:  # the other journeys are to be seen, too
        lines, wrong = [], f"{name}: {traceback.format_exc()}"
    result = "WRONG" if wrong else "as it should be"
    print("\n".join([*lines, f"[{name}: {result}, {time.monotonic() - began:.0f} s]"]), flush=True)
    return wrong


def make(
    journeys: Sequence[Sequence[Journey]],
    after_a_wrong_one: Callable[[], None] = lambda: None,
    at_length: Mapping[Any, str] | None = None,
) -> int:
    """Make the journeys one after another, those that stand together at the same time. Returns the exit code.

    JOURNEYS="name name" in the environment chooses some only; those `at_length`, which state why, are made only if they
    are named or everything is to be run (`support.at_length`).
    """
    named = os.environ.get("JOURNEYS", "").split()
    reasons = {} if AT_LENGTH or named else dict(at_length or {})
    wrong = []
    for together in journeys:
        chosen = []
        for journey in together:
            if journey in reasons:
                print(
                    f"skipped: {journey.__name__.replace('_', ' ')}: {left_out_because(reasons[journey])}", flush=True
                )
            elif journey.__name__ in named or not (named or (REST_RUNS and journey not in (at_length or {}))):
                chosen.append(journey)
        if not chosen:
            continue
        with ThreadPoolExecutor(len(chosen)) as pool:
            failures = [failure for failure in pool.map(attempt, chosen) if failure]
        if failures:
            wrong += failures
            after_a_wrong_one()
    print(f"wrong: {len(wrong)}")
    print("\n".join(wrong), flush=True)
    return 1 if wrong else 0
