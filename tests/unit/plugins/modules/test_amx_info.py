from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._hosts import amx
from ansible_collections.amx.cluster.plugins.modules import amx_info
from support import modules

ROOT = Path(__file__).resolve().parents[4]
CAPTURED = ROOT / "tests" / "unit" / "fixtures" / "proc"


def run(**options: Any) -> dict[str, Any]:
    return modules.run(amx_info, **options)


@pytest.mark.slow
def test_returns_what_it_documents() -> None:
    answer = run(root=str(CAPTURED / "sapphire_rapids"), _ansible_check_mode=True)
    documented = modules.documented(amx_info)
    assert set(answer) == {*documented, "changed", "invocation"}
    assert (answer["changed"], answer["reason"], answer["usable"]) == (False, "not_asked", None)
    for name in ("cpu", "kernel"):
        assert set(answer[name]) == set(documented[name]["contains"])
    listed = " ".join(documented["reason"]["description"])
    assert all(f"V({reason})" in listed for reason in amx.REASONS)
    assert listed.count("V(") == len(amx.REASONS)


@pytest.mark.slow
def test_this_machine_in_either_interpreter() -> None:
    here, there = run(), run(python=[sys.executable, "-S"])
    assert here["kernel"]["asked"] or here["reason"] == "not_x86_64"
    assert {key: value for key, value in here.items() if key != "invocation"} == {
        key: value for key, value in there.items() if key != "invocation"
    }


@pytest.mark.slow
def test_refusals() -> None:
    assert run(root="/nonexistent")["msg"] == (
        "facts about AMX cannot be gathered: [Errno 2] No such file or directory: '/nonexistent/proc/cpuinfo'"
    )
    assert run(root="/captured", python=["python3"])["msg"] == (
        "python and root (/captured) exclude each other: set one of them"
    )
