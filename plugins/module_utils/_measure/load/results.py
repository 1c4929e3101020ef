# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of loads: load.json, which has the runs of a server, and what of it a person reads."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult

from ansible_collections.amx.cluster.plugins.module_utils import _io
from ansible_collections.amx.cluster.plugins.module_utils._jobs import known_models
from ansible_collections.amx.cluster.plugins.module_utils._measure.load import steps
from ansible_collections.amx.cluster.plugins.module_utils._measure.load.served import Served
from ansible_collections.amx.cluster.plugins.module_utils._text import count, now

VERSION = 1
FILE, SUFFIX = "load.json", "-load"
ABOUT = ("task", "precision", "engine", "batch_size", "sequence_length")
"""What is kept of what a server says of itself."""
COLUMNS = ("rate/s", "answered/s", "requests", "p50 s", "p90 s", "p99 s", "max s")
OF_TEXTS = ("first p50", "first p99", "tokens/s")


def name_of(url: SplitResult) -> str:
    """Return the name of the results of a server that is named by its URL."""
    return re.sub(r"[^\w.-]+", "-", f"{url.netloc}{url.path.removesuffix('/v1')}").strip("-")


class Results:
    """Runs of a server in a directory of results, of which this one is the last."""

    def __init__(self, directory: Path, name: str) -> None:
        """Read the earlier runs. name: of what is served. Raises ValueError."""
        self.path, self.name = directory / FILE, name
        self.document, self.run = self.read(), dict[str, Any]()
        self.lock = -1

    def read(self) -> dict[str, Any]:
        """Return what is in the file. Raises ValueError."""
        earlier = _io.read_json(self.path)
        if earlier is None and self.path.exists():
            raise ValueError(f"{self.path} is no JSON: move it away")
        if earlier is not None and (earlier.get("version") != VERSION or not isinstance(earlier.get("runs"), list)):
            raise ValueError(f"{self.path} is not what this version of the collection writes: move it away")
        return earlier or {"version": VERSION, "job": self.name, "runs": []}

    def begin(self, urls: Sequence[str], served: Served, wanted: steps.Wanted, rows: str) -> None:
        """Begin a run, which is kept from its first step on. Raises OSError, and ValueError beside another run.

        Its lock is held until its end, or that of the process.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.lock = os.open(self.path.parent, os.O_RDONLY)
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                f"another run of it is under way and would be part of what is measured: wait for its end, or stop it "
                f"({self.path})"
            ) from None
        self.document = self.read()
        self.run = {
            "started": now(),
            "state": "incomplete",
            "urls": list(urls),
            "model": known_models.short_name(served.model),
            **{name: served.about.get(name) for name in ABOUT},
            "path": served.path,
            "rows": rows or "built-in",
            "tokens": wanted.tokens if served.path != "/predict" else None,
            "even": wanted.even,
            "limit_p99_ms": wanted.limit * 1000,
            "steps": [],
        }
        self.document["runs"].append(self.run)

    def add(self, step: Mapping[str, Any]) -> None:
        """Keep a step. Raises OSError."""
        self.run["steps"].append(dict(step))
        self.write()

    def end(self) -> None:
        """Note that the run has made all its steps. Raises OSError."""
        self.run["state"] = "complete"
        self.write()
        os.close(self.lock)

    def write(self) -> None:
        """Write the file. Raises OSError."""
        self.run["ended"] = now()
        _io.write_json(self.path, self.document)


def head(texts: bool) -> str:
    """Return the first line of the table of steps. texts: whether a decoder is served."""
    return _line([*COLUMNS, *(OF_TEXTS * texts)])


def line(step: Mapping[str, Any], texts: bool) -> str:
    """Return the line of a step, with what is to be known of it."""
    latency, first = step["latency_seconds"] or {}, step.get("first_token_seconds") or {}
    seconds = [latency.get(name) for name in ("p50", "p90", "p99", "max")]
    seconds += [first.get("p50"), first.get("p99")] if texts else []
    cells = [f"{step['rate']:g}", f"{step['achieved']:.4g}", str(step["requests"]), *map(_shown, seconds)]
    cells += [f"{step.get('tokens_per_second', 0):.4g}"] if texts else []
    return f"{_line(cells)}  {step['remark']}".rstrip()


def best(run: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the step with the highest rate that was held; None where none was."""
    return max((step for step in run["steps"] if step["held"]), key=lambda step: float(step["rate"]), default=None)


def sentence(run: Mapping[str, Any]) -> str:
    """Return what came of a run."""
    step, limit = best(run), f"{run['limit_p99_ms'] / 1000:g} s"
    least = step["rate"] if step else 0
    late = [each["rate"] for each in run["steps"] if each["state"] == steps.LATE and each["rate"] > least]
    end = f" This machine cannot send {min(late):g} in time." if late else ""
    if step is None:
        return f"{run['model']}: at none of these rates, 99 % of the requests were answered within {limit}.{end}"
    before, after = step["instances"]
    number = after if before == after else None
    answers = "of the texts begin" if "first_token_seconds" in step else "of the answers come"
    slowest = (step.get("first_token_seconds") or step["latency_seconds"])["p99"]
    of = f"{count(number, 'instance')} of {run['model']}" if number else run["model"]
    verb = "hold" if number and number > 1 else "holds"
    return f"{of} {verb} {step['rate']:g} requests/s: 99 % {answers} within {limit} (p99 {_shown(slowest)} s).{end}"


def _shown(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.3f}"


def _line(cells: Sequence[str]) -> str:
    return "".join(f"{cell:>{max(6, len(name)) + 2}}" for cell, name in zip(cells, (*COLUMNS, *OF_TEXTS)))
