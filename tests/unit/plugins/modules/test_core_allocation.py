from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.modules import core_allocation
from support import modules
from support.checkout import importing
from support.machines import machine

COMMAND = [sys.executable, "-m", core_allocation.__name__]


@pytest.mark.slow
@pytest.mark.parametrize("check_mode", [False, True])
def test_returns_what_it_documents(tmp_path: Path, check_mode: bool) -> None:
    root = machine(1, 7, 2).write(tmp_path)
    answer = modules.run(
        core_allocation, root=str(root), ranks_per_node=2, backend="ccl", _ansible_check_mode=check_mode
    )
    documented = modules.documented(core_allocation)
    assert set(documented) <= set(answer)
    assert set(answer["ranks"][0]) == set(documented["ranks"]["contains"])
    assert set(answer["topology"]) == set(documented["topology"]["sample"])
    assert answer["env"]["OMP_NUM_THREADS"] == "2"
    assert answer["changed"] is False


@pytest.mark.slow
def test_a_request_that_does_not_fit_fails_with_the_message(tmp_path: Path) -> None:
    answer = modules.run(core_allocation, root=str(machine(1, 4).write(tmp_path)), ranks_per_node="9")
    assert answer["failed"] is True
    assert answer["msg"].startswith("ranks_per_node=9, comm_cores=0 and reserved_cores=0 ")
    assert answer["msg"].endswith(" fits: ranks_per_node=4")


# A small process starts the module: the kernel counts the memory of who starts a process as that process's own.
MEASURE = """
import json, os, subprocess, sys
module = subprocess.Popen(sys.argv[2:], stdout=open(sys.argv[1], "w"))
_pid, status, used = os.wait4(module.pid, 0)
print(json.dumps([os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
"""


@pytest.mark.slow
def test_a_large_node_takes_less_than_100_mib(tmp_path: Path) -> None:
    root = machine(2, 128, 2).write(tmp_path / "machine")
    options = {"root": str(root), "ranks_per_node": "7", "backend": "ccl"}
    arguments = tmp_path / "arguments.json"
    arguments.write_text(json.dumps({"ANSIBLE_MODULE_ARGS": options}))
    measure = [sys.executable, "-c", MEASURE, str(tmp_path / "answer.json"), *COMMAND, str(arguments)]
    code, seconds, mebibytes = json.loads(
        subprocess.run(measure, env=importing(), capture_output=True, check=True).stdout
    )
    assert code == 0
    assert mebibytes < 100
    print(f"{seconds:.2f} s, {mebibytes:.0f} MiB")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"host": ""}, "host: it is empty"),
        ({"prefix": "/no/where"}, "prefix: /no/where is no directory on this node"),
        ({"root": "/captured"}, "prefix is of this node, and root of another machine"),
    ],
)
def test_a_prefix_that_cannot_be_heeded_is_refused(tmp_path: Path, options: dict[str, str], message: str) -> None:
    answer = modules.run(core_allocation, **{"prefix": str(tmp_path), "host": "node0", **options})
    assert answer["msg"].startswith(message)


def test_a_served_model_whose_plan_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "jobs/chat-serve/plan.json").mkdir(parents=True)
    (tmp_path / "jobs/chat-serve/status.json").touch()
    answer = modules.run(core_allocation, prefix=str(tmp_path), host="node0")
    assert answer["failed"] and "plan.json" in answer["msg"]
