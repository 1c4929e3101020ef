"""Scripts that do what real ones do run to their end undisturbed, and those that are at fault do not.

Each script of zoo/ runs as two ranks of a job on this machine, with the real mpirun, rank.py, observer, supervisor,
torch and transformers, as soon as a job may not stall for more than a few seconds. docs/watching.md says what may be
concluded from what.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.action.job_directory import ROLE_FILES
from ansible_collections.amx.cluster.plugins.module_utils._io import read_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import make_plan
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run_files import library_files, run_files
from support import runs

ROOT = Path(__file__).resolve().parents[2]
FILES = ROOT / "roles/job/files"
ZOO = Path(__file__).resolve().parent / "zoo"
# Jobs at a time: they share the machine's cores, and wait most of the time.
LANES = 3
STALL_SECONDS = 5
# Seconds in which the slowest has to come to its end, whatever else the machine does.
LIMIT = 600


@dataclass
class Case:
    """A script of zoo/, the job that it is run as, files of that job, and what comes of it."""

    script: str
    job: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    expect: dict[str, float] = field(default_factory=dict)
    reason: str = ""


TRAINER: dict[str, Any] = {
    "kind": "trainer",
    "args": {"max_steps": 2, "per_device_train_batch_size": 2, "report_to": "none", "save_strategy": "no"},
}
LONG_STEPS = {
    "kind": "trainer",
    "args": {
        **TRAINER["args"],
        "per_device_train_batch_size": 1,
        "per_device_eval_batch_size": 1,
        "gradient_accumulation_steps": 100,
        "max_steps": 1,
        "save_strategy": "steps",
        "save_steps": 1,
    },
}
SHARDED = {"kind": "trainer", "args": {**TRAINER["args"], "remove_unused_columns": False}}
OWN_START = {
    "code/of_the_job.py": "OWN = 1\n",
    "packages/sitecustomize.py": "import builtins\nbuiltins.OWN = 10\n",
}
FSDP = {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "1", "FSDP_AUTO_WRAP_POLICY": "NO_WRAP"}

HEALTHY = {
    "workers of DataLoaders": Case("loaders", expect={"steps": 20}),
    "joblib, shared memory, subprocesses": Case("children", expect={"steps": 14, "squares": 285}),
    "steps and evaluations longer than a stall": Case("long_steps", LONG_STEPS, expect={"steps": 1, "eval_counted": 1}),
    "the same, while the other rank spins in MPI": Case(
        "long_steps", {**LONG_STEPS, "backend": "mpi"}, expect={"steps": 1, "eval_counted": 1}
    ),
    "optimizers of a rank's own": Case("probe", expect={"steps": 14}),
    "groups that end": Case("ends", expect={"ended": 60}),
    "a sharded model": Case("sharded", {**SHARDED, "env": FSDP}, expect={"left": 0.4}),
    "two optimizers": Case("two_optimizers", expect={"steps": 20}),
    "gradients that are not finite": Case("overflow", expect={"steps": 20}),
    "torch.compile": Case("compiled", expect={"steps": 5}),
    "a start of its own, and a lock held": Case(
        "own_start", {"env": {"PYTHONPATH": "code"}}, OWN_START, expect={"own": 21, "calls": 2}
    ),
}
FAULTS = {
    "a rank hangs": Case("hang", reason="rank 1 on localhost is here, and the others wait for it:"),
    "a rank hangs, and the other spins in MPI": Case(
        "hang", {"backend": "mpi"}, reason="rank 1 on localhost is here, and the others wait for it:"
    ),
    "ranks train apart": Case("apart", reason="the ranks formed a group, but each trains a model of its own"),
    "the Trainer's ranks train apart": Case(
        "trainer_apart", TRAINER, reason="the ranks formed a group, but each trains a model of its own"
    ),
    # As accelerate 1.13 and newer do without --use_cpu.
    "the Trainer makes no use of the group": Case(
        "trainer_apart",
        {"args": {**TRAINER["args"], "output_dir": "output"}},
        reason="This rank would train a model of its own: 2 ranks were started and the script trains as if it were",
    ),
    "a script forms no group": Case("no_group", reason="the 2 ranks formed no group: the script never called"),
}
CASES = {**HEALTHY, **FAULTS}


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
            "backend": "gloo",  # several jobs share the cores, and a rank that waits in MPI keeps one busy
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
        "ranks": [{"env": {}}, {"env": {}}],
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


@pytest.fixture(scope="module")
def ended(
    request: pytest.FixtureRequest, environment: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[tuple[dict[str, Any], str]]]]:
    """The jobs of all tests that were asked for, several at a time: {name of the case: its status and log}."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    wanted = [str(item.callspec.params["name"]) for item in items if item.module is request.module]
    with ThreadPoolExecutor(LANES) as pool:
        yield {
            name: pool.submit(run, CASES[name], tmp_path_factory.mktemp("zoo"), environment) for name in sorted(wanted)
        }


Ended = dict[str, "Future[tuple[dict[str, Any], str]]"]


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_script_runs_undisturbed(ended: Ended, name: str) -> None:
    status, log = ended[name].result()
    assert (status["state"], status["reason"]) == ("succeeded", ""), f"{status['reason']}\n{log}"
    assert len(status["attempts"]) == 1
    assert "--- rank" not in log
    assert "_amx_cluster_observer" not in log  # not in a warning, either


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_still_found(ended: Ended, name: str) -> None:
    status, log = ended[name].result()
    assert status["state"] == "failed", log
    assert CASES[name].reason in status["reason"]
