"""From what hosts report of their fabrics to the files of a job, as the role does it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.action import job_plan, job_read
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run
from ansible_collections.amx.cluster.plugins.module_utils._jobs.start_request import Start
from support.fabrics import facts
from support.modules import run_action
from support.runs import CCL_STACK, answer

HOSTS = ["node0", "node1"]


def test_hosts_with_a_fabric_exchange_messages_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "demo.yml").write_text("name: demo\nscript: train.py\nkind: torch\n")
    run = run_action(job_read, {"file": str(tmp_path / "demo.yml"), "hosts": HOSTS})["run"]
    stack = CCL_STACK | {"arguments": {}}
    fabric = facts("infiniband_hdr")
    answers = {name: answer(name, 1, stack, venv=str(tmp_path), fabric=fabric) for name in HOSTS}
    options = {"run": run, "hosts": HOSTS, "answers": answers, "fabric": "verbs"}
    plan = run_action(job_plan, options)["plan"]
    assert "stack native, fabric verbs\n" in capsys.readouterr().out
    (tmp_path / "amx-cluster.json").write_text(json.dumps(stack))
    files = Start(str(tmp_path / "jobs"), Run.from_json(run), plan).placement().files
    assert "exchange.sh" in files
    assert "FI_PROVIDER=verbs\n" in files["env"]
