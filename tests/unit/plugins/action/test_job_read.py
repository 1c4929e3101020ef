"""What is read of a job for the purpose that it is run for."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.action import job_read
from ansible_collections.amx.cluster.plugins.module_utils._jobs.purposes import PURPOSES
from ansible_collections.amx.cluster.plugins.plugin_utils import requested
from support.modules import run_action


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "train.py").touch()
    (tmp_path / "demo.yml").write_text("{name: demo, script: train.py, launcher: kubernetes, hosts: 8}")
    return str(tmp_path / "demo.yml")


def test_a_job_that_runs_elsewhere_has_no_hosts(file: str) -> None:
    read = run_action(job_read, {"file": file, "hosts": ["node0"], "settings": {"user": "anna"}})
    assert (read["hosts"], read["members"]) == ([], [])
    assert read["run"]["job"]["name"] == "demo"
    assert read["run"]["settings"]["user"] == "anna"


@pytest.mark.parametrize("purpose", sorted(set(PURPOSES) - {"train"}))
def test_what_needs_ranks_on_hosts_refuses_it(file: str, purpose: str) -> None:
    refused = run_action(job_read, {"file": file, "hosts": ["node0"], "purpose": purpose})
    assert "launcher: kubernetes starts pods, not ranks on hosts" in refused["msg"]
    assert "run the job (ansible-playbook playbooks/train.yml -e amx_job=" in refused["msg"]


def test_a_job_that_is_not_named(file: str) -> None:
    assert run_action(job_read, {"default": file, "purpose": "plan"})["job"]["name"] == "demo"
    assert run_action(job_read, {"default": file})["msg"].startswith("no job was named: add -e amx_job=FILE")


def test_what_follows_from_the_purpose_is_returned(file: str) -> None:
    assert run_action(job_read, {"file": file})["purpose"]["keeps_previous"] is True
    assert run_action(job_read, {"file": file, "purpose": "trial"})["purpose"]["keeps_previous"] is False


def test_steps_are_profiled_where_a_job_trains(file: str) -> None:
    measure = {"warmup_steps": 5, "split": True, "profile": 5}
    assert run_action(job_read, {"file": file, "profile": "true"})["job"]["measure"] == measure
    assert run_action(job_read, {"file": file, "profile": "false"})["job"]["measure"] is None
    trial = {"suffix": "try", "steps": 2}
    derived = run_action(job_read, {"file": file, "profile": "true", "purpose": "trial", "derive": trial})
    assert derived["job"]["measure"]["profile"] is None
    refused = run_action(job_read, {"file": file, "profile": "often"})
    assert refused["msg"].startswith("profile: 'often' is neither true, false nor ")


def test_a_misspelt_option_is_refused(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requested, "given", lambda _loader: {"profil": True})
    assert run_action(job_read, {"file": file})["msg"] == "profil: unknown option; did you mean amx_profile?"
