"""From a job file to a job directory as the role does it: the values of secrets are in one file, and nowhere else."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.action import job_plan, job_read
from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory, placing
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import without_secrets
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes import hosts
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes.runtime import Request
from support import modules
from support.runs import STACK, answer

VALUES = {
    "HF_TOKEN": "hf_from-the-inventory",
    "PLAIN_NAME": "also from the inventory",
    "WANDB_API_KEY": 'written: "here-and-nowhere", #1',
    "HTTPS_PROXY": "http://me:pass%20word@proxy.example:3128",
    "OVERRIDE_PASSWORD": "given-for-one-start",
}
HOOK = {"AMX_CLUSTER_ON_END": "https://hooks.example/services/T0/in-the-path"}
JOB = """
name: demo
script: train.py
kind: torch
env_from: [HF_TOKEN, PLAIN_NAME]
env:
  KMP_BLOCKTIME: 3
  # was: written: "here-and-nowhere", #1
  WANDB_API_KEY: &key 'written: "here-and-nowhere", #1'
  HTTPS_PROXY: http://me:pass%20word@proxy.example:3128
on_end: {url: https://hooks.example/services/T0/in-the-path}
"""
JOB_ENV = {"HF_TOKEN": VALUES["HF_TOKEN"], "PLAIN_NAME": VALUES["PLAIN_NAME"], "NOT_ASKED_FOR": "kept to itself"}
OVERRIDE = {"env": {"OVERRIDE_PASSWORD": VALUES["OVERRIDE_PASSWORD"]}}
HIDDEN = (*VALUES.values(), "kept to itself", "pass%20word", "here-and-nowhere", "in-the-path")


class Played:
    """The results of the role's tasks for one host, and what the last of them hands to the head."""

    def __init__(self, folder: Path) -> None:
        (folder / "train.py").touch()
        (folder / "demo.yml").write_text(JOB)
        self.path = folder / "jobs" / "demo"
        self.read = self.run(job_read, file=str(folder / "demo.yml"), override=OVERRIDE, hosts=["node0"])
        (folder / "env").mkdir(exist_ok=True)
        (folder / "env/amx-cluster.json").write_text(json.dumps(STACK))
        answers = {"node0": answer("node0", 1, venv=str(folder / "env"))}
        self.planned = self.run(job_plan, run=self.read["run"], hosts=["node0"], answers=answers, job_env=JOB_ENV)
        request = Request(Run.from_json(self.read["run"]), OVERRIDE, self.planned["plan"], JOB_ENV)
        self.document = hosts.start_document(request, str(self.path.parent))
        self.made = placing.place(self.document.placement(), "node0")

    @staticmethod
    def run(action: Any, **options: Any) -> dict[str, Any]:
        return modules.run_action(action, options)


def hidden_in(text: str) -> list[str]:
    """The values that a text has, as they are or as JSON writes them."""
    return [value for value in HIDDEN if value in text or json.dumps(value)[1:-1] in text]


def test_values_are_in_one_file_that_only_its_user_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = os.umask(0)
    try:
        played = Played(tmp_path)
    finally:
        os.umask(before)
    shown = capsys.readouterr().out
    assert hidden_in(shown) == hidden_in(json.dumps([played.read, played.planned, played.made])) == []
    assert [line.split() for line in shown.splitlines() if "***" in line] == [[name, "***"] for name in sorted(VALUES)]
    assert "Note: the job file has the value of WANDB_API_KEY, HTTPS_PROXY, OVERRIDE_PASSWORD in plain text" in shown

    assert played.document.secrets == {**VALUES, **HOOK}
    assert hidden_in(json.dumps({**played.document.to_json(), "secrets": {}})) == []

    files = [path for path in played.path.rglob("*") if path.is_file()]
    assert {path.name for path in files if hidden_in(path.read_text())} == {"secrets.json"}
    assert json.loads((played.path / "secrets.json").read_text()) == {**VALUES, **HOOK}
    modes = {path: path.stat().st_mode & 0o777 for path in [played.path, *played.path.rglob("*")]}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file() and path.suffix != ".sh"} == {0o600}
    assert modes[played.path / "launch.sh"] == 0o700


def test_the_files_say_which_secrets_there_are(tmp_path: Path) -> None:
    played = Played(tmp_path)
    job_yml = (played.path / "job.yml").read_text()
    assert "WANDB_API_KEY: '***'" in job_yml
    assert "KMP_BLOCKTIME: 3" in job_yml
    assert "url: https://hooks.example/***" in job_yml
    job = json.loads((played.path / "job.json").read_text())["job"]
    assert (job["env"], job["env_from"]) == ({"KMP_BLOCKTIME": "3"}, ["HF_TOKEN", "PLAIN_NAME"])
    assert job["secrets"] == dict.fromkeys(["WANDB_API_KEY", "HTTPS_PROXY", "OVERRIDE_PASSWORD", *HOOK], "***")
    assert job["on_end"] == {"command": "", "url": "https://hooks.example/***", "url_from": ""}
    assert json.loads((played.path / "plan.json").read_text())["secrets"] == {
        "HF_TOKEN": "job_env",
        "PLAIN_NAME": "job_env",
        "WANDB_API_KEY": "job file",
        "HTTPS_PROXY": "job file",
        "OVERRIDE_PASSWORD": "job file",
    }


def test_the_directory_of_an_earlier_run_keeps_no_secrets(tmp_path: Path) -> None:
    first = Played(tmp_path)
    (first.path / "status.json").write_text('{"state": "succeeded", "started": "2026-11-20T13:00:00+00:00"}')
    first.path.chmod(0o755)
    moved = Path(Played(tmp_path).made["moved_to"])
    assert (moved / "plan.json").exists()
    assert not (moved / "secrets.json").exists()
    assert moved.stat().st_mode & 0o777 == 0o700
    assert directory.remove_secrets(first.path)
    assert not directory.remove_secrets(first.path)


def test_a_job_file_that_needs_no_mask_is_copied_as_it_is(tmp_path: Path) -> None:
    text = "# a comment\n{name: a, script: b, env: {OMP_NUM_THREADS: 2}}"
    (tmp_path / "a.yml").write_text(text)
    assert without_secrets(tmp_path / "a.yml") == text
