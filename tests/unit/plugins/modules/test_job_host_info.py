"""What the plan of a job needs of a host, in one call, is what the modules for each part of it return."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import read
from ansible_collections.amx.cluster.plugins.module_utils._io import write_json
from ansible_collections.amx.cluster.plugins.module_utils._stacks import venv
from ansible_collections.amx.cluster.plugins.modules import (
    core_allocation,
    job_host_info,
    jobs_info,
    loader_library_info,
    venv_info,
)
from support import modules

pytestmark = pytest.mark.slow


REQUEST = {"ranks_per_node": 1, "comm_cores": "auto", "reserved_cores": 0, "threads_per_core": 1}


def run(prefix: Path, request: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    question = {
        "backends": {"gloo": "gloo", "ccl": "ccl", "ccl by mpirun": "gloo"},
        "request": request or {},
        "hosts": ["node0"] if request else ["another"],
        "starting": "mine",
        "runtime": "0123",
        "example": "",
    }
    return modules.run(job_host_info, prefix=str(prefix), host="node0", question=question, **options)


def install(prefix: Path, backend: str, bindings: str) -> None:
    (prefix / "envs" / "some-1").mkdir(parents=True)
    stack = {"name": "some", "backend": backend, "packages": {"oneccl-bind-pt": bindings} if bindings else {}}
    venv.mark(prefix / "envs" / "some-1", stack)
    (prefix / "env").symlink_to("envs/some-1")


@pytest.mark.parametrize("check_mode", [False, True])
@pytest.mark.parametrize(
    ("installed", "bindings", "backend"),
    [("gloo", "", "gloo"), ("ccl", "2.3.100", "ccl"), ("ccl", "2.3.0+cpu", "gloo")],
)
def test_each_part_is_what_its_own_module_returns(
    tmp_path: Path, installed: str, bindings: str, backend: str, check_mode: bool
) -> None:
    install(tmp_path, installed, bindings)
    found = run(tmp_path, REQUEST, _ansible_check_mode=check_mode)
    assert found["changed"] is False
    theirs = modules.run(venv_info, prefix=str(tmp_path))
    assert (found["venv"], found["stack"]) == (theirs["path"], theirs["stack"])
    assert found["tcmalloc"] == modules.run(loader_library_info)["path"]
    assert found["runtime"] == f"{tmp_path}/runtime/0123"
    allocation = modules.run(core_allocation, backend=backend, **REQUEST)
    for key in ("ranks", "env", "system_cpus", "core_map", "topology"):
        assert found["allocation"][key] == allocation[key]


def test_the_module_core_allocation_leaves_to_served_models_what_a_plan_does(tmp_path: Path) -> None:
    install(tmp_path, "gloo", "")
    server, held = tmp_path / "jobs/chat-serve", read("/").usable_cores[-1].cpus[0]
    server.mkdir(parents=True)
    ranks = [{"domain_cpus": [held]}]
    plan = {"launcher": {"shares_hosts": True}, "hosts": [{"host": "node0", "ranks": ranks}]}
    write_json(server / "plan.json", plan)
    process = subprocess.Popen([sys.executable, "-c", "input()", "supervise", str(server)], stdin=subprocess.PIPE)
    write_json(server / "status.json", {"state": "running", "pid": process.pid})
    wanted = {**REQUEST, "cores": 1}
    with process:
        planned = run(tmp_path, wanted)["allocation"]
        allocation = modules.run(core_allocation, prefix=str(tmp_path), host="node0", **wanted)
        process.kill()
    same = planned.keys() - {"memory", "warnings"}
    assert {key: allocation.get(key) for key in same} == {key: planned[key] for key in same}
    assert held not in [cpu for rank in allocation.get("ranks", []) for cpu in rank["domain_cpus"]]
    assert "chat-serve" in json.dumps(allocation)
    assert modules.run(core_allocation, prefix=str(tmp_path))["failed"]
    assert "cores=0 is not from 1" in modules.run(core_allocation, cores=0)["msg"]


def test_the_previous_run_of_the_job_that_starts(tmp_path: Path) -> None:
    assert run(tmp_path)["previous"] == {"state": "", "checkpoint": False}
    for job, state in (("mine", "failed"), ("other", "succeeded")):
        (tmp_path / "jobs" / job / "output" / "checkpoint-5").mkdir(parents=True)
        (tmp_path / "jobs" / job / "status.json").write_text(json.dumps({"state": state, "started": "2026"}))
    (tmp_path / "jobs/other/output/checkpoint-5/complete.json").touch()
    assert run(tmp_path)["previous"] == {"state": "failed", "checkpoint": False}
    (tmp_path / "jobs/mine/output/checkpoint-5/complete.json").touch()
    assert run(tmp_path)["previous"] == {"state": "failed", "checkpoint": True}


def test_a_request_that_does_not_fit_is_returned_for_one_message_of_all_hosts(tmp_path: Path) -> None:
    found = run(tmp_path, {**REQUEST, "ranks_per_node": 100_000})
    assert "failed" not in found
    assert found["venv"] == "", "there is none"
    assert found["allocation"]["failed"] is True
    assert "ranks_per_node=100000" in found["allocation"]["msg"]


def test_without_a_request_nothing_is_allocated(tmp_path: Path) -> None:
    assert run(tmp_path)["allocation"] == {}


def test_another_job_that_has_locked_the_host_is_named_and_its_own_is_not(tmp_path: Path) -> None:
    for job in ("mine", "theirs"):
        folder = tmp_path / "jobs" / job
        folder.mkdir(parents=True)
        settings = {"user": "ubuntu", "since": "2026-11-20T13:00:00+00:00"}
        (folder / "job.json").write_text(json.dumps({"settings": settings}))
    files = [os.open(tmp_path / "jobs" / job / "lock.node0.0", os.O_CREAT | os.O_RDWR) for job in ("mine", "theirs")]
    try:
        for lock in files:
            fcntl.flock(lock, fcntl.LOCK_EX)
        found = run(tmp_path)
        theirs = modules.run(jobs_info, path=str(tmp_path / "jobs"), seconds=0, starting="mine", host="node0")
    finally:
        for lock in files:
            os.close(lock)
    # Launchers that run on this machine meanwhile are lines, too.
    locks = [line for line in found["locks"] if "is locked" in line]
    assert locks == ["node0 is locked by job theirs of ubuntu since 2026-11-20T13:00:00+00:00"]
    assert [lock["job"] for lock in found["locked_by"]] == ["mine", "theirs"]
    assert (found["locked_by"], found["jobs"]) == (theirs["locked_by"], theirs["jobs"])
