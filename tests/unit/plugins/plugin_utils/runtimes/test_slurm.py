"""Jobs that a login host of Slurm submits. Its answers are made up, in its words; a scenario has the real one."""

from __future__ import annotations

import os
import subprocess
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes import known, slurm
from support.runs import run

START = "to start at 2026-11-28T02:54:43 using 3 processors on nodes s[0-2] in partition main"
ACCEPTED = f"sbatch: Job 6 {START}\nConnection closed."
SHORT = "PartitionName=short MaxNodes=UNLIMITED MaxTime=00:05:00 State=UP"


class Login(slurm.Slurm):
    """A login host. answers: what commands print, by their first word; those that were run are in `ran`."""

    def __init__(self, **answers: tuple[int, str]) -> None:
        super().__init__(SimpleNamespace(), {"inventory_hostname": "login"})
        self.answers, self.ran = answers, list[str]()

    def _ask(self, *words: str) -> dict[str, Any]:
        self.ran.append(" ".join(words))
        code, output = self.answers[words[0]]
        return {"rc": code, "stdout": output, "stderr": ""}


def test_slurm_is_asked_without_submitting() -> None:
    login = Login(sbatch=(0, ACCEPTED))
    made = run({"slurm": {"cpus": 4}}, launcher="slurm", hosts=3)
    assert login.accepted(made) == START
    assert login.ran == [
        "sbatch --test-only --nodes=3 --ntasks-per-node=1 --cpus-per-task=4 --job-name=demo --wrap=true"
    ]


def test_options_that_a_login_has_set_are_not_used() -> None:
    set_by_login = {"SBATCH_ACCOUNT": "a b", "SLURM_HINT": "x", "SLURM_CONF": "/c", "MINE": "SLURM_A=1"}
    printed = subprocess.run(
        ["sh", "-c", f"{slurm.CLEAR}; env"],
        env={"PATH": os.environ["PATH"], **set_by_login},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    names = {line.partition("=")[0] for line in printed.splitlines()}
    assert {"SLURM_CONF", "MINE"} <= names and not names & {"SBATCH_ACCOUNT", "SLURM_HINT"}


def test_a_job_that_slurm_does_not_accept() -> None:
    login = Login(sbatch=(1, "sbatch: error: invalid partition specified: nope\n"))
    with pytest.raises(ValueError, match=r"^cluster_slurm\.partition: Slurm does not accept job demo: "):
        login.accepted(run({"slurm": {"partition": "nope"}}, launcher="slurm"))


def test_a_time_that_slurm_accepts_and_never_starts() -> None:
    login = Login(sbatch=(0, ACCEPTED), scontrol=(0, SHORT))
    with pytest.raises(ValueError, match=r"^cluster_slurm\.time: 60 is over the limit"):
        login.accepted(run({"slurm": {"partition": "short", "time": "60"}}, launcher="slurm"))


def test_a_host_without_slurm() -> None:
    with pytest.raises(ValueError, match=r"^login has no sbatch in its PATH: name a login host of Slurm as the head"):
        Login(sbatch=(127, "sh: 1: sbatch: not found\n")).accepted(run({"slurm": {}}, launcher="slurm"))


def test_which_runtime_an_inventory_has() -> None:
    action: Any = SimpleNamespace(_templar=SimpleNamespace(template=lambda value: value))
    settings: list[dict[str, Any]] = [{}, {"cluster_slurm": {}}, {"cluster_slurm": False}]
    names = {
        str(variables): [runtime.name for runtime in known.configured(action, variables)] for variables in settings
    }
    assert list(names.values()) == [["hosts"], ["slurm"], ["hosts"]]


def test_a_job_that_waits_is_looked_at_less_often() -> None:
    assert Login.interval({"status": {"waiting": "Slurm job 27 is pending: Resources"}}) == slurm.PENDING
    assert Login.interval({"status": {}}) < slurm.PENDING
