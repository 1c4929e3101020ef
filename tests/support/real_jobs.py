"""Jobs in directories of this machine: rank.py, observer, supervisor, torch and the script are the real ones."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._io import read_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import archive, directory
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Plan
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run_files import run_files
from support import runs, runtimes

# Seconds in which the slowest has to come to its end, whatever else the machine does.
LIMIT = 600


def start(
    places: Mapping[str, Path],
    script: Path,
    environment: Path,
    ranks: Sequence[Mapping[str, str]],
    files: Mapping[str, str] | None = None,
    settings: Mapping[str, Any] | None = None,
    supervisor: Mapping[str, str] | None = None,
    **job: Any,
) -> None:
    """Start a job of kind torch.

    places: its directory by host, the head's first. environment: the virtual environment. ranks: of each host, with
    variables of their own. files: more files of the directories. supervisor: its variables beside this process's.
    """
    head = next(iter(places))
    made = runs.run(
        {"head": head, "head_address": "127.0.0.1", "world_timeout": LIMIT, **(settings or {})},
        **{"script": script, "precision": "fp32", "kind": "torch", "backend": "gloo", **job},
    )
    stack = json.loads((environment / "amx-cluster.json").read_text())
    mask = hex(sum(1 << cpu for cpu in os.sched_getaffinity(0)))
    allocation = {
        "ranks": [{"env": dict(variables)} for variables in ranks],
        "env": {"I_MPI_PIN_DOMAIN": f"[{','.join([mask] * len(ranks))}]", "OMP_NUM_THREADS": "1"},
        "threads_per_rank": 1,
        "core_map": runs.core_map(),
    }
    hosts = [
        {"host": host, "address": "127.0.0.1", "interface": "lo", "isa": "avx2", "allocation": allocation}
        for host in places
    ]
    plan = runs.planned(made, stack, hosts, env=str(environment), runtime=runtimes.installed())
    texts = {**directory_files(made, plan, stack), **(files or {})}
    for host, place in places.items():
        for name, text in {**texts, "host": f"{host}\n"}.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(text)
    place = places[head]
    command = archive.command(plan, "supervise", str(place))
    subprocess.run(command, cwd=place, env={**os.environ, **(supervisor or {})}, check=True, timeout=60)


def directory_files(made: Run, plan: Mapping[str, Any], stack: Mapping[str, Any]) -> dict[str, str]:
    """Return {name: content} of a job's directory, the same on every host but for `host`, which has the host's name.

    plan: as plan.json has it. stack: an entry of the catalogue.
    """
    job = made.job
    scripts = [job.script, *([job.prepare.script] if job.prepare else [])]
    return {**{path.name: path.read_text() for path in scripts}, **run_files(Plan.from_json(plan), made, stack)}


def ended(place: Path) -> tuple[dict[str, Any], str]:
    """Wait for the end of the job in a directory; return its status and its log."""
    end = time.monotonic() + LIMIT
    while (status := read_json(place / "status.json") or {}).get("state") == "running":
        if time.monotonic() > end:
            os.kill(status["pid"], directory.STOP)
            raise AssertionError(f"it did not end within {LIMIT} s:\n{log(place)}")
        time.sleep(0.2)
    return status, log(place)


def log(place: Path) -> str:
    """Return what the ranks have printed; nothing before they were started."""
    path = place / "log"
    return path.read_text() if path.exists() else ""
