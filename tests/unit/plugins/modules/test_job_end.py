"""The module as Ansible runs it, on processes of a job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import processes
from ansible_collections.amx.cluster.plugins.modules import job_end
from support import modules
from support.patience import started

# One process ends when asked, one does not, and one is in a session of its own, as the starter's are.
TREE = """
trap '' TERM
(trap - TERM; exec sleep 1000) &
setsid sleep 1000 &
echo ready
wait
wait
"""


def run(folder: Path, **options: Any) -> dict[str, Any]:
    return modules.run(job_end, path=str(folder), **options)


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Processes of the job in tmp_path whose supervisor died."""
    environ = {**os.environ, "AMX_CLUSTER_JOB": str(tmp_path), "RANK": "1"}
    with subprocess.Popen(["bash", "-c", TREE], env=environ, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        process.stdout.readline()
        threading.Thread(target=process.wait).start()  # as init does
        yield process
        processes.end(tmp_path, grace=0)


@pytest.mark.slow
def test_check_mode_tells_and_ends_nothing(tmp_path: Path, ranks: subprocess.Popen[str]) -> None:
    answer = run(tmp_path, _ansible_check_mode=True)
    assert (answer["changed"], answer["was_running"]) == (True, False)
    assert ranks.pid in [process["pid"] for process in answer["ended"]]
    assert len(processes.find(tmp_path)) == len(answer["ended"]) == 3


@pytest.mark.slow
def test_orphans_are_ended(tmp_path: Path, ranks: subprocess.Popen[str]) -> None:
    (tmp_path / "secrets.json").write_text("{}")
    found = [process["pid"] for process in processes.find(tmp_path)]
    environ = {**os.environ, "AMX_CLUSTER_JOB": f"{tmp_path}/other"}
    with subprocess.Popen(["sleep", "60"], env=environ) as other:
        answer = run(tmp_path, grace=1)
        assert other.poll() is None
        other.kill()
    assert [process["pid"] for process in answer["ended"]] == found
    assert (answer["changed"], answer["was_running"], len(answer["ended"])) == (True, False, 3)
    assert {(process["kind"], process["rank"]) for process in answer["ended"]} == {("rank", 1)}
    assert answer["lines"] == [f"this host rank 1 (process {process['pid']})" for process in answer["ended"]]
    assert processes.find(tmp_path) == []
    assert not (tmp_path / "secrets.json").exists()
    assert run(tmp_path) == {
        **answer,
        "changed": False,
        "ended": [],
        "lines": [],
        "invocation": {"module_args": {"grace": 20, "patience": 150, "path": str(tmp_path), "host": "this host"}},
    }


SUPERVISOR = """
import signal, sys, pathlib, json, os
folder = pathlib.Path(sys.argv[1])
def stop(*_signal):
    (folder / "status.json").write_text(json.dumps({"state": "stopped", "pid": os.getpid()}))
    sys.exit()
signal.signal(signal.SIGUSR1, stop)
(folder / "status.json").write_text(json.dumps({"state": "running", "pid": os.getpid()}))
print(flush=True)
signal.pause()
"""


@pytest.mark.slow
def test_the_supervisor_is_asked_first(tmp_path: Path) -> None:
    (tmp_path / "supervise").write_text(SUPERVISOR)
    with started([sys.executable, str(tmp_path / "supervise"), str(tmp_path)]) as process:
        assert run(tmp_path, _ansible_check_mode=True)["was_running"] is True
        assert process.poll() is None
        answer = run(tmp_path)
    assert (answer["changed"], answer["was_running"], answer["ended"]) == (True, True, [])
    assert json.loads((tmp_path / "status.json").read_text())["state"] == "stopped"
