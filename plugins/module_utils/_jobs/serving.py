# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A model that is served over HTTP: what is requested, as a job of instances, and what it answers."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._io import read_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import adapters as adapter_files
from ansible_collections.amx.cluster.plugins.module_utils._jobs import inference_requests, known_models, predictions
from ansible_collections.amx.cluster.plugins.module_utils._jobs.inference_requests import (
    INT8,
    LIMITS,
    SERVER,
    SERVERS,
    Serving,
)
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers import instances
from ansible_collections.amx.cluster.plugins.module_utils._jobs.servers import front, states
from ansible_collections.amx.cluster.plugins.module_utils._text import count

SUFFIX = "serve"
PORT = 8000
# Path and fields of a first request, of models that have others than /predict.
OPENAI: dict[str, tuple[str, dict[str, Any]]] = {
    known_models.GENERATION: ("/v1/completions", {"prompt": "..."}),
    known_models.EMBEDDING: ("/v1/embeddings", {"input": "..."}),
    known_models.RANKING: ("/v1/rerank", {"query": "...", "documents": ["..."]}),
}
# The last versions for Python 3.9.
REQUIREMENTS = ("uvicorn==0.39.0", "starlette==0.49.3", "prometheus_client==0.26.0")
TOKENIZER = re.compile(r"tokenizer\.(json|model)|vocab\.json|tekken\.json|.+\.tiktoken")
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


def read_cores(given: object) -> int:
    """Return how many cores of a host the instances may have, 0 for all of them. Raises ValueError."""
    text = str(given or 0)
    if not text.isdecimal():
        raise ValueError(f"serve_cores: {given} is no number of cores, such as 8")
    return int(text)


def read_engine(engine: str, environment: str) -> tuple[str, str]:
    """Return the engine that serves and its environment on the hosts; empty for the stack's own. Raises ValueError."""
    if engine not in SERVERS:
        raise ValueError(f"serve_engine: {engine} is not one of {', '.join(SERVERS)}")
    if environment and not environment.startswith("/"):
        raise ValueError(
            f"serve_environment: {environment} is not the absolute path of an environment with vLLM on every host"
        )
    if engine == "amx" and environment:
        raise ValueError("serve_environment: is for serve_engine: vllm: leave it out")
    return engine, environment


def read_key_file(path: str) -> list[str]:
    """Return the hashes of the keys in a file on the control node; none without a file. Raises ValueError."""
    if not path:
        return []
    try:
        return front.read_keys(Path(path).expanduser().read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ValueError(f"serve_key_file: {path}: {why}") from None


def read_certificate(path: str) -> str:
    """Return the path of the certificate on the hosts. Raises ValueError."""
    if path and not path.startswith("/"):
        raise ValueError(
            f"serve_certificate: {path} is not the absolute path of a PEM file with certificate and key, which every "
            "host has"
        )
    return path


def read_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of inference_requests.Serving that the command line sets. Raises ValueError."""
    engine, environment = read_engine(str(options["serve_engine"] or "amx"), str(options["serve_environment"] or ""))
    return {
        "address": read_address(options["serve_address"]),
        "port": read_port(options["serve_port"]),
        "limits": read_limits(options["serve_limits"] or {}),
        "cores": read_cores(options["serve_cores"]),
        "keys": read_key_file(options["serve_key_file"]),
        "certificate": read_certificate(str(options["serve_certificate"] or "")),
        "engine": engine,
        "environment": environment,
    }


def request(
    cell: Mapping[str, Any],
    model: Mapping[str, Any],
    columns: Sequence[str],
    hosts: Sequence[str],
    options: Mapping[str, Any],
    override: Mapping[str, Any] = MappingProxyType({}),
    adapters: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> Serving:
    """Return what the instances are asked to serve. Raises ValueError.

    cell: how the model is run, as predictions.cell returns it. model: as prediction_files.of_job returns it. columns:
    those that the user named. hosts: that serve. options: as read_options returns them. override: fields of the job
    that the user set. adapters: {name: as prediction_files.of_job returns it}.
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
        **options,
    )
    if made.engine == "vllm" and (cell["task"] != known_models.GENERATION or cell["precision"] == "int8"):
        raise ValueError(
            f"serve_engine: vllm serves decoders (text-generation) in fp32, bf16 or fp16, and {cell['model']} does "
            f"{cell['task']} in {cell['precision']}: leave it out"
        )
    if made.engine == "vllm" and not any(TOKENIZER.fullmatch(name) for name in model["files"]):
        raise ValueError(
            f"serve_engine: vllm: {cell['model']} has no tokenizer (tokenizer.json, tokenizer.model or vocab.json): "
            "copy it beside the model"
        )
    for name, adapter in adapters.items():
        try:
            if name == known_models.short_name(cell["model"]):
                raise ValueError("is the name of the model itself: give the adapter another one")
            made.adapters[name] = adapter_files.check(adapter, model, cell["model"])
        except ValueError as error:
            raise ValueError(f"serve_adapters: {name} {error}") from None
    files = [model["sha256"], *(adapter["sha256"] for adapter in adapters.values())]
    identity = json.dumps([made.to_json(), *files, list(hosts), dict(override)], sort_keys=True)
    return replace(made, digest=hashlib.sha256(identity.encode()).hexdigest()[:32])


def job_fields(
    name: str,
    request: Serving,
    model: Mapping[str, Any],
    setting: Mapping[str, Any],
    hosts: Sequence[str],
    adapters: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the fields of the job file of a server on these hosts. adapters: {name: a source of a job file}.

    The other arguments are those of predictions.fields_of_instances.
    """
    description = f"Serve {request.cell['model']} on port {request.port}"
    fields = predictions.fields_of_instances(name, description, SERVER, request, model, setting)
    return {
        **fields,
        "models": {**fields["models"], **{adapter_files.PREFIX + name: dict(adapters[name]) for name in adapters}},
        "requirements": list(REQUIREMENTS) if request.engine == "amx" else [],
        "launcher": instances.LAUNCHER.name,
        "hosts": list(hosts),
    }


def urls(addresses: Mapping[str, str], address: str, port: int, certificate: str = "") -> dict[str, str]:
    """Return where each host accepts requests.

    addresses: of the hosts, in the cluster. address: as requested, or empty. certificate: of TLS, or empty.
    """
    scheme, urls = "https" if certificate else "http", {}
    for host, own in addresses.items():
        used = own if address in ("", "0.0.0.0", "::") else address
        urls[host] = f"{scheme}://[{used}]:{port}" if ":" in used else f"{scheme}://{used}:{port}"
    return urls


def urls_of(directory: Path) -> dict[str, str]:
    """Return where the server in a job directory accepts requests, as urls() does. Raises ValueError."""
    request = Serving.from_json(inference_requests.of_job(directory))
    hosts = (read_json(directory / "plan.json") or {})["hosts"]
    return urls({host["host"]: host["address"] for host in hosts}, request.address, request.port, request.certificate)


def served(
    name: str, request: Serving, urls: Mapping[str, str], hosts: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return what is served, as the JSON document has it.

    name: of the job. urls: {host: URL}. hosts: the status of the server of each host; empty where it has none.
    """
    answering = {host: states.answering(status) for host, status in hosts.items()}
    cell = request.cell
    return {
        "version": 1,
        "job": name,
        "model": cell["model"],
        "task": cell["task"],
        "precision": cell["precision"],
        "columns": known_models.read_columns(cell["task"], request.columns, request.trained_on),
        "predicted": list(known_models.PREDICTED[cell["task"]]),
        "instances": sum(answering.values()),
        "urls": dict(urls),
        "key": bool(request.keys),
        "engine": request.engine,
        "adapters": list(request.adapters),
        "hosts": {
            host: {
                "instances": len(status.get("instances", [])),
                "answering": answering[host],
                "front": bool(status.get("front")),
                "state": status.get("state", "none"),
                "reason": status.get("reason", ""),
            }
            for host, status in hosts.items()
        },
    }


def text(serving: Mapping[str, Any]) -> str:
    """Return what is served and how it is asked, for a person. serving: as served() returns it."""
    urls, hosts = serving["urls"], serving["hosts"]
    width = max(map(len, urls))
    row = json.dumps(dict.fromkeys(serving["columns"], "..."))
    instances = count(serving["instances"], "instance")
    key = " -H 'Authorization: Bearer KEY'" if serving["key"] else ""
    lines = [f"{serving['model']} ({serving['task']}, {serving['precision']}) is served by {instances}:"]
    for host, url in urls.items():
        of = hosts.get(host, {})
        lacks = of.get("instances", 0) - of.get("answering", 0)
        lines.append(f"  {host:{width}}  {url}" + (f"  ({lacks} of {of['instances']} do not answer)" if lacks else ""))
    if serving["adapters"]:
        lines.append(f"With its adapters, each as a `model` by its name: {', '.join(serving['adapters'])}")
    without = [host for host, of in hosts.items() if of["instances"] and not of["front"]]
    if without:
        lines.append(
            f"Without HAProxy on {', '.join(without)}: each host answers with its own instances alone, without keys "
            "and TLS. cluster_serving: true in the inventory has playbooks/site.yml install it."
        )
    elif not serving["key"]:
        lines.append("Whoever reaches these addresses can use it: --serve-key-file FILE asks for a key.")
    url, path = next(iter(urls.values())), "/predict"
    if serving["task"] in OPENAI:  # as OpenAI's clients do
        path, fields = OPENAI[serving["task"]]
        row = json.dumps({"model": known_models.short_name(serving["model"]), **fields})
        key += " -H 'Content-Type: application/json'"
    return "\n".join(
        [
            *lines,
            f"Ask it:   curl -s {url}{path}{key} -d '{row}'",
            f"Stop it:  playbooks/stop.yml -e job={serving['job']}",
        ]
    )
