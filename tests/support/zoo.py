"""The scripts of tests/integration/zoo as jobs of two ranks on this machine.

Mpirun, rank.py, observer, supervisor, torch and transformers are the real ones.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.action.job_directory import ROLE_FILES
from ansible_collections.amx.cluster.plugins.module_utils._io import read_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import make_plan
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run_files import library_files, run_files
from support import runs
from support.checkout import ROOT

FILES = ROOT / "roles/job/files"
ZOO = ROOT / "tests/integration/zoo"
STALL_SECONDS = 5
# Seconds in which the slowest has to come to its end, whatever else the machine does.
LIMIT = 600


@dataclass
class Case:
    """A script of zoo/, the job that it is run as, files of that job, what comes of it, and its ranks' variables."""

    script: str
    job: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    expect: dict[str, float] = field(default_factory=dict)
    reason: str = ""
    rank_env: dict[str, str] = field(default_factory=dict)


def run(case: Case, folder: Path, environment: Path) -> tuple[dict[str, Any], str]:
    """Run a case as a job of two ranks on this machine; return its status and its log."""
    made = runs.run(
        {"head": "localhost", "head_address": "127.0.0.1", "world_timeout": LIMIT},
        **{
            "name": case.script.replace("_", "-"),
            "script": ZOO / f"{case.script}.py",
            "precision": "fp32",
            "kind": "torch",
            "stall_seconds": STALL_SECONDS,
            "backend": "gloo",
            "expect": case.expect,
            **case.job,
            # What torch.compile has made in an earlier run is not found.
            "env": {"TORCHINDUCTOR_CACHE_DIR": str(folder / "compiled"), **case.job.get("env", {})},
        },
    )
    # A directory of jobs for each: ranks of one job refuse a host where another one's are.
    place = folder / "jobs" / case.script
    sources = {str(path.relative_to(FILES)): path for name in ROLE_FILES for path in FILES.glob(name)}
    sources[f"{case.script}.py"] = ZOO / f"{case.script}.py"
    stack = json.loads((environment / "amx-cluster.json").read_text())
    mask = hex(sum(1 << cpu for cpu in os.sched_getaffinity(0)))
    allocation = {
        "ranks": [{"env": case.rank_env}, {"env": case.rank_env}],
        "env": {"I_MPI_PIN_DOMAIN": f"[{mask},{mask}]", "OMP_NUM_THREADS": "1"},
        "threads_per_rank": 1,
        "core_map": runs.core_map(),
    }
    host = {"host": "localhost", "address": "127.0.0.1", "interface": "lo", "isa": "avx2", "allocation": allocation}
    plan = make_plan(made, stack, str(environment.resolve()), [host])
    files = {
        "host": "localhost\n",
        **{name: source.read_text() for name, source in sources.items()},
        **library_files(),
        **run_files(plan, made, stack),
        **case.files,
    }
    for name, content in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(content)
    python = f"{environment}/bin/python"
    subprocess.run([python, "-S", "supervise.py", str(place)], cwd=place, check=True, timeout=60)
    end = time.monotonic() + LIMIT
    while (status := read_json(place / "status.json") or {}).get("state") == "running":
        if time.monotonic() > end:
            os.kill(status["pid"], directory.STOP)
            raise AssertionError(f"{case.script} did not end within {LIMIT} s")
        time.sleep(0.2)
    return status, (place / "log").read_text()
