# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fetched results as a run of an MLflow server (https://mlflow.org/docs/latest/api_reference/rest-api.html, 2.0).

A run has a tag with the start of its job, by which it is found again: results are uploaded once. A run of an upload
that was interrupted lacks the tag that they are all there, and is replaced, unless another control node may be at it.
"""

from __future__ import annotations

import base64
import fcntl
import json
import math
import platform
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlencode, urljoin, urlsplit

from ansible_collections.amx.cluster.plugins.module_utils._io import read_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import curves, on_end
from ansible_collections.amx.cluster.plugins.module_utils._text import masked

# Variables of the control node, MLflow's own.
URI, EXPERIMENT = "MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME"
TOKEN, USER, PASSWORD = "MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"
START, COMPLETE, BY = "amx_cluster.start", "amx_cluster.complete", "amx_cluster.uploaded_by"
LOCK = ".upload.lock"
# Seconds after which an upload of another control node, which is not complete, was interrupted.
PATIENCE = 3600
SECONDS = 30.0
# What a server takes at a time, and how long a parameter may be in every version.
METRICS, PARAMETERS, LONGEST = 1000, 100, 250
STATES = {"succeeded": "FINISHED", "stopped": "KILLED"}
FOREIGN = re.compile(r"[^0-9A-Za-z_\-. :/]")
TAGS = ("job", "state", "reason", "hosts", "ranks", "stack", "precision", "backend", "model", "seconds", "restarts")


class Server:
    """An MLflow server. Its methods raise ValueError with its address, what is wrong, and what to do."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """environ: the variables of the control node."""
        self.uri = environ.get(URI, "").rstrip("/")
        parts = urlsplit(self.uri)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            setting = f"is {masked(self.uri)!r}" if self.uri else "is not set"
            raise ValueError(
                f"upload=mlflow: {URI} {setting} on the control node: set it to the address of a server, as in "
                f"{URI}=http://mlflow.example.com:5000 ansible-playbook ..."
            )
        login, _at, address = parts.netloc.rpartition("@")
        self.shown = masked(self.uri)
        self._base = f"{parts.scheme}://{address}{parts.path}"
        self._headers = {"Content-Type": "application/json"}
        user, password = environ.get(USER), environ.get(PASSWORD, "")
        if environ.get(TOKEN):
            self._headers["Authorization"] = f"Bearer {environ[TOKEN]}"
        elif user or login:
            pair = f"{user}:{password}" if user else unquote(login)
            self._headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"

    def ask(self, path: str, document: Mapping[str, Any] | None = None, **query: str) -> dict[str, Any]:
        """Send a request, by POST with a document; return the answer. Raises Missing where its subject is not there."""
        url = f"{self._base}/api/2.0/mlflow/{path}" + (f"?{urlencode(query)}" if query else "")
        data = None if document is None else json.dumps(document).encode()
        try:
            request = urllib.request.Request(url, data, self._headers)
            with urllib.request.build_opener(on_end.no_redirect()).open(request, timeout=SECONDS) as answer:
                received = json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            raise self._refused(path, error) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise ValueError(
                f"upload=mlflow: {self.shown} does not answer as an MLflow server ({reason}): correct {URI}, or start "
                "the server"
            ) from None
        if not isinstance(received, dict):
            raise ValueError(f"upload=mlflow: {self.shown} does not answer as an MLflow server: correct {URI}")
        return received

    def _refused(self, path: str, error: urllib.error.HTTPError) -> ValueError:
        if 300 <= error.code < 400:
            place = masked(urljoin(error.url or "", error.headers.get("Location") or ""))
            return ValueError(
                f"upload=mlflow: {self.shown} answered {path} with HTTP {error.code}, a redirect to {place}, where no "
                f"login is sent: set {URI} to the server's new address"
            )
        try:
            response = json.loads(error.read())
            code, message = str(response["error_code"]), str(response["message"]).strip().splitlines()[0]
        except (OSError, ValueError, KeyError, TypeError, IndexError):
            code, message = "", ""
        if code == "RESOURCE_DOES_NOT_EXIST":
            return Missing(message)
        remedy = f": set {TOKEN}, or {USER} and {PASSWORD}" if error.code in (401, 403) else ""
        detail = f": {message}" if message else ""
        return ValueError(f"upload=mlflow: {self.shown} answered {path} with HTTP {error.code}{detail}{remedy}")


class Missing(ValueError):
    """The server has no such thing."""


@dataclass(frozen=True)
class Uploaded:
    """A run. made: whether it was made now. url: its page."""

    run: str
    url: str
    made: bool


def check(environ: Mapping[str, str]) -> Server:
    """Return the server, which answers, before anything is changed. Raises ValueError."""
    server = Server(environ)
    server.ask("experiments/search", {"max_results": 1})
    return server


def upload(server: Server, results: Path, experiment: str = "") -> Uploaded:
    """Make a run of a job's fetched results, unless the server has it.

    results: its directory. experiment: by default named as the job. Raises ValueError and OSError.
    """
    with (results / LOCK).open("w") as lock:  # another upload from here ends first
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _upload(server, results, experiment)


def _upload(server: Server, results: Path, experiment: str) -> Uploaded:
    outcome = read_json(results / "results.json")
    run = read_json(results / "job.json")
    if not outcome or not run:
        raise ValueError(f"{results} has no results of a job: fetch them first")
    number = _experiment(server, experiment or outcome["job"])
    start = str(run["settings"].get("start") or outcome["started"])
    for run_there in _runs(server, number, start):
        known = run_there["info"]["run_id"]
        marks = {tag["key"]: tag.get("value", "") for tag in run_there["data"].get("tags", [])}
        if COMPLETE in marks:
            return Uploaded(known, _page(server, number, known), False)
        where, _space, since = marks.get(BY, "").partition(" ")
        ago = max(0.0, time.time() - float(since or 0))
        if since and where != platform.node() and ago < PATIENCE:
            raise ValueError(
                f"upload=mlflow: {where} uploads this job to {server.shown} since {ago:.0f} s "
                f"(run {known}): wait for its end, or delete that run if it was interrupted"
            )
        server.ask("runs/delete", {"run_id": known})
    tags = {
        START: start,
        BY: f"{platform.node()} {time.time():.0f}",
        **{name: outcome[name] for name in TAGS if outcome.get(name) not in (None, "")},
    }
    times = {"start_time": _milliseconds(outcome["started"]), "end_time": _milliseconds(outcome["ended"])}
    made = server.ask(
        "runs/create",
        {
            "experiment_id": number,
            "run_name": outcome["job"],
            "start_time": times["start_time"],
            "tags": [{"key": name, "value": str(value)[:LONGEST]} for name, value in tags.items()],
        },
    )["run"]["info"]["run_id"]
    for part in _parts(parameters(run["job"].get("args", {})), PARAMETERS):
        server.ask("runs/log-batch", {"run_id": made, "params": part})
    for part in _parts(metrics(outcome, curves.read(results / curves.CURVES), times["end_time"]), METRICS):
        server.ask("runs/log-batch", {"run_id": made, "metrics": part})
    server.ask("runs/update", {"run_id": made, "status": STATES.get(outcome["state"], "FAILED"), **times})
    server.ask("runs/set-tag", {"run_id": made, "key": COMPLETE, "value": "true"})
    return Uploaded(made, _page(server, number, made), True)


def parameters(args: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the arguments of a job's script as parameters of a run."""
    return [{"key": FOREIGN.sub("_", name), "value": str(value)[:LONGEST]} for name, value in args.items()]


def metrics(
    outcome: Mapping[str, Any], points: Mapping[int, Sequence[curves.Point]], ended: int
) -> list[dict[str, Any]]:
    """Return the curves of a job, under the Trainer's own names, and its final metrics at the last step.

    outcome: results.json. Each metric is there once a step. Those of a script's second Trainer begin with 2/. ended:
    when the job ended, in milliseconds since the Unix epoch.
    """
    metrics: dict[tuple[str, int], dict[str, Any]] = {}
    final = {name: value for name, value in outcome["metrics"].items() if isinstance(value, (int, float))}
    series = [(number, point.step, point.time * 1000, point.metrics) for number in points for point in points[number]]
    for number, step, at, values in [(0, outcome.get("steps", 0), ended, final), *series]:
        for name, value in values.items():
            key = FOREIGN.sub("_", f"{number + 1}/{name}" if number else name)
            metrics[key, step] = {"key": key, "value": _number(value), "timestamp": int(at), "step": step}
    return sorted(metrics.values(), key=lambda entry: (entry["step"], entry["key"]))


def _number(value: float) -> float | str:
    """Return a number as JSON of protocol buffers has it."""
    if math.isfinite(value):
        return float(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _experiment(server: Server, name: str) -> str:
    try:
        known = server.ask("experiments/get-by-name", experiment_name=name)["experiment"]
    except Missing:
        return str(server.ask("experiments/create", {"name": name})["experiment_id"])
    if known.get("lifecycle_stage") == "deleted":
        raise ValueError(
            f"upload=mlflow: the experiment {name} of {server.shown} is deleted: restore it, or set {EXPERIMENT} to "
            "another one"
        )
    return str(known["experiment_id"])


def _runs(server: Server, experiment: str, start: str) -> list[dict[str, Any]]:
    request = {
        "experiment_ids": [experiment],
        "filter": f"tags.`{START}` = '{start}'",
        "run_view_type": "ACTIVE_ONLY",
        "max_results": 100,
    }
    return list(server.ask("runs/search", request).get("runs", []))


def _page(server: Server, experiment: str, run: str) -> str:
    return f"{server.shown}/#/experiments/{quote(experiment)}/runs/{quote(run)}"


def _milliseconds(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp() * 1000)


def _parts(entries: Sequence[Any], most: int) -> Iterator[list[Any]]:
    left = iter(entries)
    while part := list(islice(left, most)):
        yield part
