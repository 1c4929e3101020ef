# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A measurement of the network: what was requested of it, and its result as network.json has it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._measure import imb, model_size, network, prediction

SMALLEST, LARGEST = 4096, 1 << 28
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?)(i?)b?", re.IGNORECASE)
_UNITS = {"": 0, "k": 1, "m": 2, "g": 3}


@dataclass(frozen=True)
class Request:
    """Measurements and predictions of a network that are requested.

    largest: bytes of the largest tensor. seconds: for measuring, without the start of the ranks. parameters: of the
    model whose communication is predicted, None without one; source: where the number is from. step_compute_seconds:
    the time of its step without communication.
    """

    largest: int = LARGEST
    seconds: float = 60.0
    parameters: int | None = None
    source: str = ""
    step_compute_seconds: float | None = None


def size(text: object) -> int:
    """Return bytes as a person writes them: 65536, 64MB, 25 MiB; all units are binary. Raises ValueError."""
    match = _SIZE.fullmatch(str(text).strip())
    value = round(float(match[1]) * 1024 ** _UNITS[match[2].lower()]) if match else 0
    if not SMALLEST <= value <= LARGEST:
        raise ValueError(f"largest: {text} is not a size from 4 KB to 256 MB, such as 64MB")
    return value


def request(
    largest: object = "",
    minutes: object = "",
    parameters: object = "",
    model: str = "",
    step_compute_seconds: object = "",
    models: Mapping[str, Mapping[str, Any]] | None = None,
) -> Request:
    """Return a request from options as they are written; an empty one is left open.

    models: those of the job, {name: {directory, hub}}, one of these set. The first whose size is known is predicted for
    when neither a model nor a number of parameters is given. Raises ValueError.
    """
    if parameters not in ("", None) and model:
        raise ValueError("parameters and model are both set: leave one out")
    number, source = None, ""
    if parameters not in ("", None):
        number, source = model_size.number(str(parameters)), "parameters"
    elif model:
        number, source = _of_named(model, models or {})
    elif models:
        for name in models:
            try:
                number, source = _of_named(name, models)
                break
            except ValueError:
                continue  # nobody has asked for a prediction
    return Request(
        largest=size(largest) if largest not in ("", None) else LARGEST,
        seconds=60 * (_positive("minutes", minutes, 60) or 1.0),
        parameters=number,
        source=source,
        step_compute_seconds=_positive("step_compute_seconds", step_compute_seconds, 1e6),
    )


def result(
    request: Request,
    measured: Mapping[str, Any],
    hosts: Sequence[Mapping[str, Any]],
    imb_log: str = "",
    job: str = "",
    times: tuple[str, str] = ("", ""),
    compression: str = "none",
) -> dict[str, Any]:
    """Return what network.json has.

    measured: output/measured.json of the job that measured. hosts: [{host, address, interface, link_mbit}]. imb_log:
    what IMB-MPI1 printed. times: when it began and ended, ISO 8601. compression: gradient_compression of the job.
    """
    rows = [{"tool": "imb", "backend": "mpi", **row} for row in imb.collectives(imb_log)]
    collectives = [*measured["collectives"], *rows]
    predicted = None
    if request.parameters:
        predicted = prediction.predict(
            collectives, request.parameters, measured["backend"], compression, request.step_compute_seconds
        )
    keys = ("hosts", "latency_us", "bandwidth_mbyte_s", "state", "reason")
    pairs = [
        {**{key: pair[key] for key in keys}, "meetings_mbyte_s": pair.get("meetings_mbyte_s", [])}
        for pair in measured["pairs"]
    ]
    return {
        "version": 1,
        "job": job or None,
        "hosts": list(hosts),
        "provider": measured["provider"],
        "started": times[0],
        "ended": times[1],
        "pairs": pairs,
        "collectives": collectives,
        "findings": network.findings(hosts, pairs),
        "prediction": predicted,
    }


def link(host: str, address: str, interface: str, links: Mapping[str, int | None] | None) -> dict[str, Any]:
    """Return a host with the nominal speed of its interface in Mbit/s, None where the host does not report it."""
    return {"host": host, "address": address, "interface": interface, "link_mbit": (links or {}).get(interface)}


def left_out(measured: Mapping[str, Any], imb_log: str, request: Request) -> list[str]:
    """Return what was not measured or predicted, and why."""
    lines = list(measured["left_out"])
    if measured["imb"].get("reason"):
        lines.append(f"IMB-MPI1: {measured['imb']['reason']}")
    elif not imb.collectives(imb_log):
        lines.append("IMB-MPI1: it has printed no times; its log is that of job +network-imb")
    else:
        sizes = measured["imb"]["sizes"]
        rows = imb.collectives(imb_log)
        for operation in imb.BENCHMARKS:
            missing = len(sizes) - sum(row["operation"] == operation for row in rows)
            if missing > 0:
                lines.append(f"IMB-MPI1, {operation}: {missing} of {len(sizes)} sizes; its time was over")
        if sizes[-1] < min(request.largest, max(row["bytes"] for row in measured["collectives"])):
            lines.append(f"IMB-MPI1 above {sizes[-1]} bytes: it would take too long (-e minutes=N gives it more time)")
    return lines


def _of_named(model: str, models: Mapping[str, Mapping[str, Any]]) -> tuple[int, str]:
    """The size of a model of the job, or of any that model_size knows."""
    source = models.get(model, {})
    places = [source.get("directory"), source.get("hub"), model]
    error: ValueError | None = None
    for place in places:
        if place:
            try:
                return model_size.of_model(str(place))
            except ValueError as cause:
                error = error or cause
    raise error or ValueError(f"model: {model} is unknown")


def _positive(name: str, value: object, most: float) -> float | None:
    if value in ("", None):
        return None
    try:
        number = float(str(value))
    except ValueError:
        number = 0.0
    if not 0 < number <= most:
        raise ValueError(f"{name}: {value} is not a number above 0 and up to {most:g}")
    return number
