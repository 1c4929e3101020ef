# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A model that is served over HTTP: what is requested, as a job of independent ranks."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs import predictions
from ansible_collections.amx.cluster.plugins.module_utils._jobs.inference_requests import INT8, SERVER, Serving
from ansible_collections.amx.cluster.plugins.module_utils._text import count

SUFFIX = "serve"
PORT = 8000
# The last versions for Python 3.9.
REQUIREMENTS = ("uvicorn==0.39.0", "starlette==0.49.3")
# A server runs for months, and is of no use once it gives up.
RESTARTS = 1000
# Of server.py: seconds until /health is 503, until an instance hangs, and until a request is given up.
LIMITS = ("health", "hung", "request")
ADDRESS = re.compile(r"[0-9A-Fa-f:.]{2,45}")


def read_port(given: object) -> int:
    """Return the port that was requested, as text or number. Raises ValueError."""
    text = str(given or PORT)
    if not text.isdecimal() or not 1024 <= int(text) <= 65535:
        raise ValueError(f"serve_port: {given} is not a port from 1024 to 65535")
    return int(text)


def read_address(given: str) -> str:
    """Return the address that was requested, empty for that of each host in the cluster. Raises ValueError."""
    if given and not ADDRESS.fullmatch(given):
        raise ValueError(f"serve_address: {given!r} is no IP address, such as 0.0.0.0 for all that a host has")
    return given


def read_limits(given: Mapping[str, Any]) -> dict[str, float]:
    """Return the time limits that were set, in seconds. Raises ValueError."""
    limits = {}
    for name, value in given.items():
        try:
            limits[str(name)] = float(value)
        except (TypeError, ValueError):
            limits[str(name)] = 0.0
        if name not in LIMITS or not 0 < limits[name] < float("inf"):
            raise ValueError(f"serve_limits: {name}={value} is not seconds above 0 for {', '.join(LIMITS)}")
    return limits


def request(
    cell: Mapping[str, Any],
    model: Mapping[str, Any],
    columns: Sequence[str],
    hosts: Sequence[str],
    address: str,
    port: int,
    limits: Mapping[str, float] = MappingProxyType({}),
) -> Serving:
    """Return what the ranks are asked to serve. Raises ValueError.

    cell: how the model is run, as predictions.cell returns it. model: as prediction_files.of_job returns it. columns:
    those that the user named. hosts: that serve. limits: see read_limits.
    """
    if cell["int8"] == "static" and not model["config"].get(INT8):
        raise ValueError(
            "static int8 needs rows from which the ranges of inputs are found: train with jobs/int8.yml, which writes "
            "a model with them, or use int8: dynamic"
        )
    made = Serving(
        cell=dict(cell),
        columns=list(columns) or predictions.columns_of_arguments(model["args"]),
        trained_on=list(model["trained_on"]),
        address=address,
        port=port,
        limits=dict(limits),
    )
    identity = json.dumps([made.to_json(), model["sha256"], list(hosts)], sort_keys=True)
    return replace(made, digest=hashlib.sha256(identity.encode()).hexdigest()[:32])


def job_fields(name: str, request: Serving, model: Mapping[str, Any], setting: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the job file of a server; the arguments are those of predictions.fields_of_instances."""
    description = f"Serve {request.cell['model']} on port {request.port}"
    fields = predictions.fields_of_instances(name, description, SERVER, request, model, setting)
    return {
        **fields,
        "requirements": list(REQUIREMENTS),
        "restarts": RESTARTS,
        # Nobody asks at night, and that is no stall.
        "watch": {"gradients": False, "group": False, "stall": False},
    }


def is_ready(heartbeats: Mapping[str, Mapping[str, Any]], size: int) -> bool:
    """Return whether all ranks of a job serve. heartbeats: ranks.json. size: how many there are."""
    return sum(1 for rank in heartbeats.values() if rank.get("rows") and rank["rows"]["of"] is None) >= size


def urls(addresses: Mapping[str, str], address: str, port: int) -> dict[str, str]:
    """Return where each host serves. addresses: of the hosts, in the cluster. address: as requested, or empty."""
    urls = {}
    for host, own in addresses.items():
        used = own if address in ("", "0.0.0.0", "::") else address
        urls[host] = f"http://[{used}]:{port}" if ":" in used else f"http://{used}:{port}"
    return urls


def served(name: str, urls: Mapping[str, str], answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what is served, as the JSON document has it.

    name: of the job. urls: {host: URL}. answers: what GET / has returned, of each host.
    """
    same = ("model", "task", "precision", "columns", "predicted")
    return {
        "version": 1,
        "job": name,
        **{key: answers[0][key] for key in same},
        "instances": sum(answer["instances"] for answer in answers),
        "urls": dict(urls),
    }


def text(serving: Mapping[str, Any]) -> str:
    """Return what is served and how it is asked, for a person. serving: as served() returns it."""
    urls = serving["urls"]
    width = max(map(len, urls))
    row = json.dumps(dict.fromkeys(serving["columns"], "..."))
    instances = count(serving["instances"], "instance")
    return "\n".join(
        [
            f"{serving['model']} ({serving['task']}, {serving['precision']}) is served by {instances}:",
            *(f"  {host:{width}}  {url}" for host, url in urls.items()),
            f"Ask it:   curl -s {next(iter(urls.values()))}/predict -d '{row}'",
            f"Stop it:  playbooks/stop.yml -e job={serving['job']}",
        ]
    )
