from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.amx.cluster.plugins.module_utils._hosts import amx
from ansible_collections.amx.cluster.plugins.modules import amx_info

ROOT = Path(__file__).resolve().parents[4]
CAPTURED = ROOT / "tests" / "unit" / "fixtures" / "proc"


def run(**options: Any) -> dict[str, Any]:
    """What the module answers when it is run as a program, as Ansible does."""
    done = subprocess.run(
        [sys.executable, "-m", amx_info.__name__],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": options}),
        env={**os.environ, "PYTHONPATH": str(ROOT / ".collections")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_returns_what_it_documents() -> None:
    answer = run(root=str(CAPTURED / "sapphire_rapids"), _ansible_check_mode=True)
    documented = yaml.safe_load(amx_info.RETURN)
    assert set(answer) == {*documented, "changed", "invocation"}
    assert (answer["changed"], answer["reason"], answer["usable"]) == (False, "not_asked", None)
    for name in ("cpu", "kernel"):
        assert set(answer[name]) == set(documented[name]["contains"])
    listed = " ".join(documented["reason"]["description"])
    assert all(f"V({reason})" in listed for reason in amx.REASONS)
    assert listed.count("V(") == len(amx.REASONS)


def test_this_machine_in_either_interpreter() -> None:
    here, there = run(), run(python=[sys.executable, "-S"])
    assert here["kernel"]["asked"] or here["reason"] == "not_x86_64"
    assert {key: value for key, value in here.items() if key != "invocation"} == {
        key: value for key, value in there.items() if key != "invocation"
    }


def test_refusals() -> None:
    assert run(root="/nonexistent")["msg"] == (
        "facts about AMX cannot be gathered: [Errno 2] No such file or directory: '/nonexistent/proc/cpuinfo'"
    )
    assert run(root="/captured", python=["python3"])["msg"] == (
        "python and root (/captured) exclude each other: set one of them"
    )
