"""What stop.yml says: in check mode, nothing was stopped or removed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from jinja2.nativetypes import NativeEnvironment

ROLES = Path(__file__).resolve().parents[3] / "roles"
IN_PODS = {"namespace": "team", "lines": ["Job demo"], "directory": "jobs/demo-1"}


def text(role: str, *, running: bool, check: bool) -> str:
    """Return what the last task of a role's stop.yml shows."""
    task = yaml.safe_load((ROLES / role / "tasks/stop.yml").read_text(encoding="utf-8"))[-1]
    shown = task["block"][-1] if "block" in task else task
    environment = NativeEnvironment()  # as Ansible's are
    environment.filters["flatten"] = lambda lists: [item for one in lists for item in one]
    environment.filters["extract"] = lambda name, table, key: table[name][key]
    stopped = {"was_running": running, "lines": ["rank 0"]}
    known: dict[str, Any] = {
        "ansible_check_mode": check,
        "__job_name": "demo",
        "__job_head": "node0",
        "job_hosts": ["node0"],
        "hostvars": {"node0": {"__job_stopped": stopped}},
        "__kubernetes_stopped": {"was_running": running, **IN_PODS},
    }
    for name, template in task["vars"].items():
        known[name] = environment.from_string(template).render(known)
    return " ".join(str(environment.from_string(shown["amx.cluster.show"]["text"]).render(known)).split())


@pytest.mark.parametrize(
    ("role", "running", "check", "expected"),
    [
        ("kubernetes", True, False, "job demo was stopped; removed from namespace team: Job demo; its files stay"),
        ("kubernetes", True, True, "job demo would be stopped; would be removed from namespace team: Job demo; its"),
        ("kubernetes", False, True, "job demo was not running; would be removed from namespace team: Job demo; its"),
    ],
)
def test_check_mode_stops_nothing(role: str, running: bool, check: bool, expected: str) -> None:
    assert text(role, running=running, check=check).startswith(expected)
