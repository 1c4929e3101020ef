# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text that shows the progress of a running job, and the failure of another."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _screen
from ansible_collections.amx.cluster.plugins.module_utils._screen import Screen
from ansible_collections.amx.cluster.plugins.module_utils._text import count, duration

# What is printed around the traceback of a rank: by its observer (runtime), in pods by _kubernetes/pod/rounds.py.
FAILURE = re.compile(
    r"^--- rank (\d+) on (\S+) failed ---\n(.*?)(?:^--- end of rank \1 ---$|\Z)", re.MULTILINE | re.DOTALL
)
METRICS = {"loss": "loss", "eval_loss": "evaluation loss", "eval_accuracy": "evaluation accuracy"}


# Seconds over which the rate is formed while a job is followed.
WINDOW = 30.0
# Steps of an attempt after which its end is forecast.
FORECAST = 20
_BAR = (20, 4)  # cells of the progress bar, where there is room, and at least


class Recent:
    """The latest steps of a job that is followed, for a rate without the time of its start.

    Several processes, libraries and caches warm up in the first steps, which take several times as long.
    """

    def __init__(self, window: float = WINDOW) -> None:
        """Remember `window` seconds, and always as much as it takes to see one step end."""
        self.window = window
        self._points: deque[tuple[float, float]] = deque()
        self._began: float | None = None

    def add(self, progress: Mapping[str, Any]) -> None:
        """Remember how far the job is. progress: as in describe. A job that began again is seen from there."""
        step, at = progress["step"], progress["time"]
        if progress["began"] != self._began or (self._points and step < self._points[-1][1]):
            self._points.clear()
            self._began = progress["began"]
        if step <= progress.get("first_step", 0) or (self._points and step == self._points[-1][1]):
            return
        self._points.append((at, step))
        while len(self._points) > 2 and self._points[1][0] <= at - self.window:
            self._points.popleft()

    def seconds_per_step(self) -> float | None:
        """Return the mean over the window; None before two steps were seen to end."""
        if len(self._points) < 2:
            return None
        (then, before), (now, after) = self._points[0], self._points[-1]
        return (now - then) / (after - before) if now > then else None


def describe(progress: Mapping[str, Any], recent: Recent | None = None, now: float | None = None) -> str:
    """Return the progress of a job in one line.

    progress: progress.json, as a rank's observer writes it: step, max_steps, epoch, samples_per_step (over all ranks),
    began and time (seconds since the Unix epoch), first_step (that it began after, where it goes on from a checkpoint),
    steady ({step, time} after the warm-up), metrics ({name: latest value}); or what of_rows returns. recent: from which
    the rate is formed, where it has seen enough, rather than from the job's beginning. now: seconds since the Unix
    epoch, for a job that runs, whose end is shown then.
    """
    if progress["max_steps"] is None and progress.get("unit") == "row":
        return f"serving, {count(progress['step'], 'row')} so far"
    if progress["max_steps"] is None:
        lately = recent.seconds_per_step() if recent else None
        return _screen.joined([f"step {progress['step']}", f"{lately:.3g} s per step" if lately else ""])
    parts = [f"{progress.get('unit', 'step')} {progress['step']}/{progress['max_steps']}"]
    if progress.get("epoch") is not None:
        parts.append(f"epoch {progress['epoch']:.2f}")
    seconds = recent.seconds_per_step() if recent else None
    return _screen.joined([*parts, *_metrics(progress), *_speed(progress, seconds, now)])


def _metrics(progress: Mapping[str, Any]) -> list[str]:
    return [f"{words} {progress['metrics'][key]:.4g}" for key, words in METRICS.items() if key in progress["metrics"]]


def _speed(progress: Mapping[str, Any], lately: float | None, now: float | None = None) -> tuple[str, str]:
    """Return the rate and the time left as text, empty where not known. lately: seconds of a step, if known."""
    if progress["max_steps"] is None:
        return "", ""
    elapsed = progress["time"] - progress["began"]
    made = progress["step"] - progress.get("first_step", 0)
    seconds = lately or (elapsed / made if made > 0 and elapsed > 0 else None)
    if not seconds:
        return "", ""
    things = "rows" if progress.get("unit") == "row" else "samples"
    left = progress["max_steps"] - progress["step"]
    rate = f"{progress['samples_per_step'] / seconds:.1f} {things}/s"
    mean = _mean(progress)
    took = f"{duration(left * (mean or seconds))} left"
    end = clock(progress["time"] + left * mean, now) if mean and now is not None else ""
    return rate, "" if left <= 0 else f"ends about {end} ({took})" if end else took


def _mean(progress: Mapping[str, Any]) -> float | None:
    """Return the mean seconds of a step since the warm-up, in which evaluations and checkpoints count.

    None in the first steps of an attempt: a mean over few of them says little.
    """
    since = progress.get("steady")
    if not since or progress["step"] < progress.get("first_step", 0) + FORECAST:
        return None
    return max(0.0, progress["time"] - since["time"]) / (progress["step"] - since["step"]) or None


def clock(at: float, now: float) -> str:
    """Return a time (seconds since the Unix epoch) in this process' time zone, with the date where it is another day.

    Empty for one that has passed: the forecast did not hold.
    """
    if at < now:
        return ""
    then = datetime.fromtimestamp(at).astimezone()
    same = then.date() == datetime.fromtimestamp(now).astimezone().date()
    return f"{then:%H:%M}" if same else f"{then:%Y-%m-%d %H:%M}"


def left(progress: Mapping[str, Any]) -> str:
    """Return the time that a job takes from now on, such as 35 s; empty where it is not known."""
    return _speed(progress, None)[1].removesuffix(" left")


def line(name: str, progress: Mapping[str, Any], lately: float | None, screen: Screen, now: float | None = None) -> str:
    """Return how far a job is as a line with a bar that is no wider than the screen; what has no room is left out.

    progress, now: as in describe. lately: seconds of a step (Recent.seconds_per_step).
    """
    done, total = progress["step"], progress["max_steps"]
    if total is None:
        return _screen.fit(_screen.joined([name, describe(progress)]), screen.columns - 1, screen.characters)
    rate, left = _speed(progress, lately, now)
    metrics = [words.replace("evaluation", "eval") for words in _metrics(progress)]
    steps = f"{done}/{total}"
    if _screen.cells(_screen.joined([name, steps, left, *metrics[:1]])) > screen.columns - 1:
        left = _speed(progress, lately)[1]
    # The most important first, which are kept.
    kept = [name, steps, left, *metrics[:1], rate, *metrics[1:]]
    while len(kept) > 2 and _screen.cells(_screen.joined(kept)) > screen.columns - 1:
        kept.pop()
    shown = [part for part in (*metrics, rate, left) if part in kept]
    room = screen.columns - 1 - _screen.cells(_screen.joined([name, steps, *shown])) - 1
    widest, narrowest = _BAR
    drawn = _screen.gauge(done, total, min(widest, room), screen.characters) if room >= narrowest else ""
    head = " ".join(filter(None, [name, drawn, steps]))
    return _screen.fit(_screen.joined([head, *shown]), screen.columns - 1, screen.characters)


def of_rows(heartbeats: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return how far a prediction is, in the form of progress.json; empty for a job that predicts no rows.

    heartbeats: ranks.json. A rank's `rows` are {rows (that it has), of (all of its own; None where it serves a model),
    first (that were there when it began), began, time}; rows count once they are predicted, and those of a rank that
    has reported nothing do not.
    """
    reports = [rank["rows"] for rank in heartbeats.values() if rank.get("rows")]
    if not reports:
        return {}
    return {
        "unit": "row",
        "step": sum(report["rows"] for report in reports),
        "max_steps": None if reports[0]["of"] is None else sum(report["of"] for report in reports),
        "first_step": sum(report["first"] for report in reports),
        "began": min(report["began"] for report in reports),
        "time": max(report["time"] for report in reports),
        "samples_per_step": 1,
        "epoch": None,
        "metrics": {},
    }


def of_ranks(heartbeats: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return how far a job without the Trainer is, in the form of progress.json; empty where no rank tells.

    heartbeats: ranks.json. It is what of_rows returns, or the optimizer's steps of the rank that has made most of them.
    """
    steps = max((int(rank.get("steps") or 0) for rank in heartbeats.values()), default=0)
    if not steps:
        return of_rows(heartbeats)
    at = max(float(rank.get("time") or 0) for rank in heartbeats.values())
    return {"step": steps, "max_steps": None, "began": 0.0, "time": at, "samples_per_step": 1, "metrics": {}}


def lines(progress: Mapping[str, Any], screen: Screen) -> list[str]:
    """Return what is drawn of a running job: a line, and below it what its hosts do, dimmed.

    progress: {name, progress (as in describe, or empty), lately, now (as in describe), hosts (describe_hosts), waited:
    seconds since one began to follow it}.
    """
    columns = screen.columns - 1
    if progress["progress"]:
        first = line(progress["name"], progress["progress"], progress["lately"], screen, progress.get("now"))
    else:
        text = f"{progress['name']}  running, {duration(progress['waited'])}"
        first = _screen.fit(text, columns, screen.characters)
    if not progress["hosts"]:
        return [first]
    hosts = _screen.fit("  " + progress["hosts"], columns, screen.characters)
    return [first, _screen.painted(hosts, _screen.DIM, screen.colours)]


def first_failure(log: str, lines: int = 12, reason: str = "") -> str:
    """Return the part of a log that tells why the job failed; nothing where the reason tells all of it.

    That is the last traceback of the rank that the reason names, or of the first rank that failed, headed by its rank
    and host; where none printed one, the last `lines` lines.
    """
    named = re.match(r"rank (\d+) on ", reason)
    matches = [match for match in FAILURE.finditer(log) if not named or match[1] == named[1]]
    if not matches:
        return "\n".join([line for line in log.splitlines() if line.strip()][-lines:])
    failure = matches[-1] if named else matches[0]
    text = failure[3].rstrip()
    return "" if named and reason.endswith(f"failed: {text}") else f"rank {failure[1]} on {failure[2]}:\n{text}"


def describe_hosts(
    before: Mapping[str, Mapping[str, Any]], after: Mapping[str, Mapping[str, Any]], most: int = 4
) -> str:
    """Return in one line what each host did between two looks; an empty string where there are not two of any rank.

    before, after: ranks.json, {rank: {host, time, cpu_seconds, rss_bytes, network_bytes, ...}}. With more than `most`
    hosts, those whose ranks computed least are named: they hold up the others.
    """
    hosts: dict[str, dict[str, float]] = {}
    for rank, now in after.items():
        then = before.get(rank)
        same = then is not None and all(now.get(key) == then.get(key) for key in ("host", "pid"))  # not restarted
        if then is None or not same or now["time"] <= then["time"]:
            continue
        seconds = now["time"] - then["time"]
        host = hosts.setdefault(now["host"], {"cpu": 0.0, "memory": 0.0, "network": 0.0})
        host["cpu"] += max(0.0, now["cpu_seconds"] - then["cpu_seconds"]) / seconds
        host["memory"] += now["rss_bytes"] / 2**30
        # Ranks of one host count the same interface.
        host["network"] = max(host["network"], (now["network_bytes"] - then["network_bytes"]) / seconds / 1e6)
    named = sorted(hosts.items(), key=lambda item: item[1]["cpu"])[:most] if len(hosts) > most else hosts.items()
    uses = [
        f"{name} {use['cpu']:.1f} CPUs {use['memory']:.1f} GiB {use['network']:.1f} MB/s" for name, use in sorted(named)
    ]
    return ("least busy: " if len(hosts) > most else "") + "; ".join(uses)
