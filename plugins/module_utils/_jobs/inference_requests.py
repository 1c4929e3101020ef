# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests to the programs of runtime/amx_cluster/inference: the field `request` of the job that runs them.

Playbooks write it, ranks read it once from job.json. A *cell* says how a model is run: see models.load and
engines.prepare there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._documents import Document
from ansible_collections.amx.cluster.plugins.module_utils._io import read_json

# Before the path of a model, or of data, on the head.
HEAD = "head:"
# The programs, as `script` of a job names them.
PROGRAMS = Path("runtime/amx_cluster/inference")
BENCHMARK, PREDICTION = (PROGRAMS / f"run_{name}.py" for name in ("benchmark", "prediction"))
SERVER = PROGRAMS / "server.py"
# The program of an instance, by the engine that serves.
SERVERS = {"amx": "amx_cluster.inference.server", "vllm": "amx_cluster.inference.vllm_instance"}
QUANTIZE = PROGRAMS / "quantize.py"
PRECISIONS = ("fp32", "bf16", "fp16", "int8")
ENGINES = ("eager", "compile", "trace", "ipex")
INT8_INPUTS = ("dynamic", "static")
# The entry of a config.json whose model has int8 weights, as jobs/int8.yml writes them.
INT8 = "amx_cluster_int8"
# Of a server: seconds until /health is 503, until an instance hangs, until a request is given up, and until a model
# that is not loaded hangs.
LIMITS = {"health": 30.0, "hung": 300.0, "request": 300.0, "load": 1800.0}
# Seconds in which a request has to arrive; that a connection is kept between two requests, longer than balancers keep
# theirs (60), so that these close them; and that requests under way have when a server or an instance is to end.
RECEIVE, IDLE, DRAIN = 20, 75, 60
# How many cores of a host a server may have, in its request.
CORES = "cores"
# The directory of a prediction's chunks in its job directory; the file in it that says which chunks each host has.
CHUNKS, ELSEWHERE = "output/predictions", "elsewhere.json"


@dataclass(frozen=True)
class Prediction(Document):
    """A batch prediction.

    digest: of what is predicted. data: a path in the job directory. columns: those that the model reads. predicted:
    those that are added. hosts: those that the prediction began with.
    """

    digest: str
    data: str
    columns: list[str]
    predicted: list[str]
    chunk_rows: int
    hosts: list[str]
    cell: dict[str, Any]


@dataclass(frozen=True)
class Serving(Document):
    """A served model.

    digest: of all the rest, the model and the hosts. columns: those that the model reads; empty where that is not
    known. trained_on: the columns of its training data, as far as known. address: empty for that of the host in the
    plan. limits: see serving.read_limits. cores: how many of each host its instances may have, 0 for all. keys: hashes
    of the keys that requests may have, see servers/front.py; empty where none is asked for. certificate: the path of
    the PEM file of TLS on the hosts; empty for none. engine: one of SERVERS. environment: the path of the virtual
    environment of that engine on the hosts; empty for amx, which has the stack's. adapters: {name: rank}, whose files
    are models of the job, see adapters.py.
    """

    cell: dict[str, Any]
    columns: list[str]
    trained_on: list[str]
    address: str
    port: int
    limits: dict[str, float] = field(default_factory=dict)
    cores: int = 0
    keys: list[str] = field(default_factory=list)
    certificate: str = ""
    engine: str = "amx"
    environment: str = ""
    adapters: dict[str, int] = field(default_factory=dict)
    digest: str = ""


@dataclass(frozen=True)
class Benchmark(Document):
    """Cells to be measured, each with an `id` of its own.

    limit_seconds: of a cell. deadline: seconds since the Unix epoch after which no cell begins.
    """

    cells: list[dict[str, Any]]
    limit_seconds: float = 1800.0
    deadline: float | None = None

    def __post_init__(self) -> None:
        ids = [cell.get("id") for cell in self.cells]
        if len(set(ids)) != len(ids) or not all(ids):
            raise ValueError("each cell of the request needs an `id` of its own")


def on_head(source: str) -> str:
    """Return the path of a model, or of data, on the head; empty where it is on the control node."""
    return source.removeprefix(HEAD) if source.startswith(HEAD) else ""


def chunks(directory: Path) -> list[Path]:
    """Return the files of chunks in a job directory, damaged ones among them."""
    return list((directory / CHUNKS).glob("chunk-*"))


def of_job(directory: Path) -> dict[str, Any]:
    """Return the request of the job in a directory; empty where there is none."""
    request = (read_json(directory / "job.json") or {}).get("job", {}).get("request")
    return request if isinstance(request, dict) else {}
