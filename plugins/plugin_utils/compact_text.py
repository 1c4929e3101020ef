# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Output of the callback plugin amx.cluster.compact: a line for each role or play, failures, and a short recap."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _screen
from ansible_collections.amx.cluster.plugins.module_utils._io import disk_problem
from ansible_collections.amx.cluster.plugins.module_utils._screen import BOLD, DIM, GREEN, RED, YELLOW, Screen
from ansible_collections.amx.cluster.plugins.module_utils._text import count, duration, names

_NAME = 14  # cells of a section's name, so that what follows stands in columns
_SECONDS = 11
_CHANGES = 22
# What a failed module has to say, in this order; the rest follows.
_TOLD = ("msg", "reason", "cmd", "rc", "stderr", "stdout", "module_stderr", "module_stdout", "censored")
# What Ansible itself puts into results, or what another value repeats.
_IGNORED = {
    *("changed", "failed", "unreachable", "skipped", "invocation", "results", "exception", "warnings", "deprecations"),
    *(
        "start",
        "end",
        "delta",
        "stdout_lines",
        "stderr_lines",
        "attempts",
        "retries",
        "diff",
        "item",
        "failed_when_result",
    ),
    *("ansible_loop_var", "ansible_index_var", "ansible_loop", "ansible_facts", "ansible_no_log", "ansible_job_id"),
    *("finished", "started", "results_file", "_ansible_no_log", "skip_reason", "false_condition"),
}
_LONGEST = 300  # characters of a structure that is printed without -v


@dataclass
class Section:
    """Results of a role, or of a play without one, so far.

    began, ended: seconds of a monotonic clock. ours: whether it is a role of this collection.
    """

    name: str
    play: str
    began: float
    ended: float = 0.0
    hosts: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    unreachable: set[str] = field(default_factory=set)
    ours: bool = False


def is_trivial(section: Section) -> bool:
    """Return whether a section needs no line: the collection's checks of options on the control node, which passed."""
    quiet = not (section.changed or section.failed or section.unreachable)
    return section.ours and quiet and section.hosts <= {"localhost"} and section.ended - section.began < 3


def section_line(section: Section, check: bool, screen: Screen) -> str:
    """Return a section as a line: its name, how long it took, which hosts it changed or failed on, and its play."""
    changes, colour = _outcome(section, check)
    took = duration(max(0.0, section.ended - section.began))
    play = "" if section.play == section.name else section.play
    head = f"{_screen.padded(section.name, _NAME)} {took:>{_SECONDS}}"
    room = screen.columns - 1
    if not screen.redraws:  # a file has no width
        room = max(room, _screen.cells(head) + _screen.cells(changes) + _screen.cells(play) + _CHANGES + 4)
    head = _screen.fit(head, room, screen.characters)
    room -= _screen.cells(head) + 2
    if room < 4 and changes:
        return f"{head}\n  {_screen.painted(changes, colour, screen.colours)}"
    padded = _screen.padded(_screen.fit(changes, max(room, 0), screen.characters), _CHANGES) if changes or play else ""
    room -= _screen.cells(padded) + 2
    play = _screen.fit(play, room, screen.characters) if room >= 12 else ""
    shown = padded if play else padded.rstrip()
    return "  ".join(
        filter(None, [head, _screen.painted(shown, colour, screen.colours), _screen.painted(play, DIM, screen.colours)])
    ).rstrip()


def _outcome(section: Section, check: bool) -> tuple[str, str]:
    """Return what became of the hosts, and its colour."""
    parts = []
    if section.failed:
        parts.append(f"failed on {names(sorted(section.failed))}")
    if section.unreachable:
        parts.append(f"cannot reach {names(sorted(section.unreachable))}")
    total = len(section.hosts | section.changed | section.failed | section.unreachable)
    if section.changed:
        verb = "would change" if check else "changed"
        parts.append(verb if total == 1 else f"{len(section.changed)} of {total} hosts {verb}")
    colour = RED if section.failed or section.unreachable else YELLOW if section.changed else ""
    return ", ".join(parts), colour


def failure(
    host: str,
    task: str,
    where: str,
    result: Mapping[str, Any],
    screen: Screen,
    word: str = "FAILED",
    whole: bool = True,
) -> str:
    """Return a failure in full: host and task, what the module told as it is, and the line of the task.

    where: file and line of the task. word: what the first line begins with. whole: whether the message holds all of the
    reason, as those of this collection do, so that other values are left out.
    """
    first = f"{_screen.painted(f'{word} {host}', f'{BOLD};{RED}', screen.colours)}: {task}"
    attempts = result.get("attempts")
    lines = [first + (f" (after {count(int(attempts), 'attempt')})" if attempts else "")]
    lines += [f"  {line}".rstrip() for line in details(result, whole)]
    full = disk_problem("\n".join(lines), host)
    lines += [f"  {full}"] if full else []
    if where:
        lines.append(_screen.painted(f"  {where}", DIM, screen.colours))
    return "\n".join(lines)


def details(result: Mapping[str, Any], whole: bool = True) -> list[str]:
    """Return what a result holds, as lines: the message as it is, and other values with their names."""
    lines: list[str] = []
    unshown = []
    for key in (key for key in _TOLD if result.get(key) not in (None, "", [])):
        text = " ".join(map(str, result[key])) if key == "cmd" and isinstance(result[key], list) else _text(result[key])
        lines += text.splitlines() if key in ("msg", "censored") else _named(key, text)
    rest = [key for key in sorted(result) if key not in {*_TOLD, *_IGNORED} and not key.startswith("_ansible")]
    for key in () if whole else rest:
        text = _text(result[key])
        if not isinstance(result[key], str) and len(text) > _LONGEST:
            unshown.append(key)
        elif result[key] not in (None, "", [], {}):
            lines += _named(key, text)
    if unshown:
        lines.append(f"(-v shows {', '.join(unshown)})")
    return lines or ["(no message: -v shows the result)"]


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value.rstrip("\n")
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return "\n".join(value)
    return json.dumps(value, default=str, ensure_ascii=False)


def _named(key: str, text: str) -> list[str]:
    """Return a value with its name: on one line, or below it where it has several."""
    lines = text.splitlines()
    return [f"{key}: {text}"] if len(lines) < 2 else [f"{key}:", *(f"  {line}" for line in lines)]


def passed_over(word: str, host: str, task: str, result: Mapping[str, Any], screen: Screen) -> str:
    """Return a failure that does not count as one, in one line: it is ignored, or rescued."""
    message = next(iter(_text(result.get("msg") or result.get("stderr") or "").splitlines()), "")
    text = f"{word} {host}: {task}" + (f": {message}" if message else "")
    room = screen.columns - 1 if screen.redraws else _screen.cells(text)
    return _screen.painted(_screen.fit(text, room, screen.characters), DIM, screen.colours)


def message(host: str, value: Any) -> str:
    """Return what a debug task shows, as it is, with its host unless that is the control node."""
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False, indent=2)
    if host == "localhost":
        return text
    lines = text.splitlines() or [""]
    return f"{host}: {text}" if len(lines) < 2 else f"{host}:\n{textwrap.indent(text, '  ')}"


def task_line(section: str, task: str, done: int, started: int, note: str, screen: Screen) -> str:
    """Return the task that runs as a line: hosts that have finished it, of those that have begun it."""
    name = task if not section or task == section else f"{section}: {task}"
    hosts = f"{done}/{started} hosts" if started > 1 else ""
    room = screen.columns - 1
    right = _screen.joined([hosts, note])
    left = room - _screen.cells(right) - 2
    if not right or left < 8:
        text = _screen.fit(name, room, screen.characters)
    else:
        text = f"{_screen.fit(name, left, screen.characters)}  {right}"
    return _screen.painted(text, DIM, screen.colours)


def recap(hosts: Mapping[str, Mapping[str, int]], seconds: float, check: bool, screen: Screen) -> str:
    """Return how the run ended: one line where no host failed, or else a line for each host.

    hosts: {host: what AggregateStats.summarize returns}. seconds: how long the run took.
    """
    took = duration(seconds)
    bad = [host for host, stats in hosts.items() if stats["failures"] or stats["unreachable"]]
    changed = sorted(host for host, stats in hosts.items() if stats["changed"])
    verb = "would change" if check else "changed"
    beside = _besides(hosts)
    if not bad:
        changes = f"{verb} {names(changed)}" if changed else "nothing would change" if check else "nothing changed"
        head = _screen.painted("Done", f"{BOLD};{GREEN}", screen.colours)
        return f"{head} in {took}: {changes}{beside}" if hosts else f"{head} in {took}: no host took part"
    lines = [f"{_screen.painted('Failed', f'{BOLD};{RED}', screen.colours)} after {took}{beside}"]
    width = max(map(_screen.cells, hosts))
    for host, stats in sorted(hosts.items()):
        parts = [
            count(stats[key], *words)
            for key, words in (
                ("failures", ("failure",)),
                ("unreachable", ("time unreachable", "times unreachable")),
                ("changed", ("change",)),
                ("ok", ("task ok", "tasks ok")),
            )
            if stats[key]
        ]
        if stats["unreachable"]:
            parts = ["unreachable", *(part for part in parts if "unreachable" not in part)]
        colour = RED if host in bad else ""
        lines.append(f"  {_screen.painted(_screen.padded(host, width), colour, screen.colours)}  {', '.join(parts)}")
    return "\n".join(lines)


def _besides(hosts: Mapping[str, Mapping[str, int]]) -> str:
    totals = {key: sum(stats.get(key, 0) for stats in hosts.values()) for key in ("ignored", "rescued")}
    return "".join(f"; {count(number, 'failure')} {key}" for key, number in totals.items() if number)
