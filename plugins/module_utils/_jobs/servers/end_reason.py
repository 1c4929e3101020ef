# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reason for which an instance ended, as far as the log of its server tells it."""

from __future__ import annotations

import itertools
import re
import signal
from collections.abc import Iterator

from ansible_collections.amx.cluster.plugins.module_utils._jobs.progress import FAILURE
from ansible_collections.amx.cluster.plugins.module_utils._screen import plain

BYTES = 1 << 20
"""At the end of a log, in which the reason is looked for: the rest may be long, or holes."""
LENGTH = 400
"""Characters of a reason."""
REFERS = "root cause"
"""What an exception of vLLM says that only refers to another one, of another process."""
KILLED = re.compile(r"Failed core proc\(s\): \{[^{},]{0,99}: -(\d+)")
"""How vLLM 0.32.0 says that a signal ended its first engine."""
PROCESS = re.compile(r"^(\([\w-]+ pid=\d+\) )(?:[A-Z]+ \d\d-\d\d [\d:]+ \[[^\]]*\] ?)?")
"""What vLLM 0.32.0 writes before lines of a process, and before those of its logger."""
HAPROXY = re.compile(r"\[(?:NOTICE|WARNING|ALERT)\] +(?:\d+/\d+ )?\(\d+\) : ")
PYDANTIC = re.compile(r"validation errors? for \w+$")
TRACEBACK = "Traceback (most recent call last):"
NOISE = ("For further information visit ", "warnings.warn(", "resource_tracker: ", "]:[W", "[W")
"""What Pydantic, Python and torch write after a reason."""
REFUSED = re.compile(r"\berror: ")
"""What argparse writes before its reason."""


def find(log: str, here: str, rank: int) -> str:
    """Return why an instance ended, in at most LENGTH characters.

    log: the last BYTES of its server's log. here: the name of this host, with which lines of the server begin. rank: of
    the instance. That is the exception, or the last line, of what the observer wrote of this rank; else the exception
    of the first process of vLLM that failed, else the last line.
    """
    own = re.compile(rf"\d{{4}}-\d\d-\d\dT[\d:]+\+00:00 {re.escape(here)}: ")
    parts = [part for line in plain(log.replace("\0", "")).split("\n") for part in line.split("\r")]
    lines = [own.split(part)[0].rstrip() for part in parts if not HAPROXY.match(part)]
    text = "".join(f"{line}\n" for line in lines if line)
    observed = [failure[3] for failure in FAILURE.finditer(text) if failure[1] == str(rank)]
    if observed:
        errors = [error for _process, error in _exceptions(observed[-1])]
        reason = errors[-1] if errors else last_line(observed[-1])
    else:
        reason = _unobserved(FAILURE.sub("", text))
    return reason[:LENGTH]


def _unobserved(text: str) -> str:
    errors, last = list(_exceptions(text)), last_line(text)
    if not errors or REFUSED.search(last):
        return last
    final = errors[-1][1]
    if REFERS not in final:
        return final
    killed = KILLED.search(final)
    if killed:
        return f"its engine was ended by signal {killed[1]} ({signal.strsignal(int(killed[1]))})"
    causes = [(process, error) for process, error in errors if REFERS not in error]
    # Of the process that failed first its last one: what came before was handled, or led to it.
    return [error for process, error in causes if process == causes[0][0]][-1] if causes else final


def last_line(text: str) -> str:
    """Return the last line of a program's output that tells something."""
    lines = [line.strip() for line in text.splitlines() if not any(words in line for words in NOISE)]
    return next((line for line in reversed(lines) if line), "no message")


def _exceptions(text: str) -> Iterator[tuple[str, str]]:
    """Yield (process, exception in one line) of tracebacks; lines of several processes may alternate."""
    inside: set[str] = set()
    lines = text.splitlines()
    for number, line in enumerate(lines):
        prefix = PROCESS.match(line)
        process, words = (prefix[1], line[prefix.end() :]) if prefix else ("", line)
        if words.startswith(TRACEBACK):
            inside.add(process)
        elif process in inside and words and not words[0].isspace() and not words.startswith("[W"):
            inside.remove(process)
            # Pydantic's says in further lines what is wrong.
            following = lines[number + 1 : number + 4] if PYDANTIC.search(words) else []
            details = [PROCESS.sub("", further).strip() for further in following]
            kept = itertools.takewhile(lambda detail: not detail.startswith(NOISE), details)
            yield process, " ".join([words, *kept])
