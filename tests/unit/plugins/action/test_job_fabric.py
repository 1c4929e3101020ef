"""From what hosts report of their fabrics to the files of a job, as the role does it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.action import job_directory, job_plan, job_read
from support.checkout import ROOT
from support.fabrics import facts
from support.modules import run_action
from support.runs import CCL_STACK, host

HOSTS = ["node0", "node1"]


def planned(folder: Path, *trees: str, fabric: str = "auto") -> tuple[dict[str, Any], dict[str, Any]]:
    """What job_read and job_plan return for a job on hosts with these trees of /sys."""
    (folder / "train.py").touch()
    (folder / "demo.yml").write_text("name: demo\nscript: train.py\nkind: torch\n")
    read = run_action(job_read, {"file": str(folder / "demo.yml"), "hosts": HOSTS})
    answers = {}
    for name, tree in zip(HOSTS, trees):
        answer = {**host(name, 1), "venv": "/opt/env", "tcmalloc": "", "fabric": facts(tree)}
        answer["allocation"]["ranks"][0].update(domain_cpus=[0, 1], numa_nodes=[0])
        answers[answer.pop("host")] = answer
    options = {"run": read["run"], "hosts": HOSTS, "answers": answers, "stack": CCL_STACK, "fabric": fabric}
    return read, run_action(job_plan, options)


def files_of(folder: Path, *trees: str) -> dict[str, str]:
    """The files of the job directory on node0."""
    read, plan = planned(folder, *trees)
    made: dict[str, Any] = {}

    def keep(module_args: dict[str, Any], **_more: Any) -> dict[str, Any]:
        made.update(module_args)
        return {}

    options = {
        "path": str(folder / "jobs/demo"),
        "host": "node0",
        "run": read["run"],
        "plan": plan["plan"],
        "stack": CCL_STACK | {"arguments": {}},
        "role_files": str(ROOT / "roles/job/files"),
    }
    run_action(job_directory, options, keep)
    files: dict[str, str] = made["files"]
    return files


def test_hosts_with_a_fabric_exchange_messages_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = files_of(tmp_path, "infiniband_hdr", "infiniband_hdr")
    assert {"exchange.sh", "exchange_ranks.py"} <= set(files)
    assert "FI_PROVIDER=mlx\n" in files["env"]
    assert "stack native, fabric mlx\n" in capsys.readouterr().out


def test_hosts_that_stay_on_tcp_do_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = files_of(tmp_path, "infiniband_hdr", "infiniband_down")
    assert not {"exchange.sh", "exchange_ranks.py"} & set(files)
    assert "FI_PROVIDER=tcp\n" in files["env"]
    assert "because node1 has no active InfiniBand port" in " ".join(capsys.readouterr().out.split())


def test_a_named_fabric_is_refused(tmp_path: Path) -> None:
    _read, answer = planned(tmp_path, "roce", "nothing", fabric="psm3")
    assert answer["failed"]
    assert "- node1 has no RoCE adapter: check with lspci" in answer["msg"]
