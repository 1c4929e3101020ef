"""The exchange between every pair of hosts: ranks of the real Intel MPI on this machine, each in place of a host."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import exchange
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.launcher import variables_file
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Plan
from ansible_collections.amx.cluster.plugins.module_utils._stacks import intel_mpi
from support import runtimes

HOSTS = ["node0", "node1", "node2"]


@pytest.fixture
def python(environment: Path) -> str:
    """The virtual environment's Python, where it has mpi4py."""
    interpreter = str(environment / "bin/python")
    if subprocess.run([interpreter, "-c", "import mpi4py"], capture_output=True, check=False).returncode:
        pytest.skip(f"{environment} has no mpi4py")
    return interpreter


def job_directory(folder: Path, python: str, environment: Path) -> dict[str, Any]:
    """Make a job directory as far as the exchange needs it, and return its plan. Messages go over TCP only."""
    env = {"FI_TCP_IFACE": "lo", "I_MPI_FABRICS": "ofi"}
    plan = {"job": "demo", "hosts": [{"host": name, "env": env} for name in HOSTS], "fabric": {"name": "tcp"}}
    plan["runtime"] = str(shutil.copytree(runtimes.installed(), folder / "runtime"))
    variables = {**intel_mpi.mpi_environment(str(environment)), "I_MPI_HYDRA_IFACE": "lo"}
    files = {
        exchange.SCRIPT: exchange.script(Plan.from_json(plan), python),
        "plan.json": json.dumps(plan),
        "env": variables_file(variables),
        "hostfile": "localhost\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return plan


def test_every_pair_exchanges_messages(tmp_path: Path, python: str, environment: Path) -> None:
    plan = job_directory(tmp_path, python, environment)
    outcome = exchange.run(tmp_path, plan, lambda: False)
    assert outcome.reason == ""
    assert re.match(r"every pair of hosts .* tcp: [\d.]+ µs ", outcome.note)
    pairs = exchange.evaluate((tmp_path / exchange.LOG).read_text(encoding="utf-8"), HOSTS, "no answer")
    assert [(pair.first, pair.second) for pair in pairs] == [
        ("node0", "node1"),
        ("node0", "node2"),
        ("node1", "node2"),
    ]
    assert all(pair.microseconds for pair in pairs)


def test_a_host_that_does_not_answer_is_named(tmp_path: Path, python: str, environment: Path) -> None:
    plan = job_directory(tmp_path, python, environment)
    program = tmp_path / "runtime/amx_cluster/exchange_ranks.py"
    text = program.read_text(encoding="utf-8")
    deaf = text.replace("    begun, failed", "    if me == 2:\n        time.sleep(600)\n    begun, failed")
    assert deaf != text
    program.write_text(deaf, encoding="utf-8")
    reason = exchange.run(tmp_path, plan, lambda: False, start=15).reason
    late = "no answer within 5 s"
    assert re.match(
        rf"2 of 3 pairs of hosts .* tcp: node0 and node2: {late}; node1 and node2: {late} \(1 pair not tested, ", reason
    )
