"""The report of a measured network, and a job that is turned into a measurement."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.action import job_read, network_report
from support.modules import run_action

EXAMPLE = json.loads((Path(__file__).parents[2] / "fixtures/measure/network.json").read_text(encoding="utf-8"))
MEASURED: dict[str, Any] = {
    "provider": "tcp",
    "backend": "mpi",
    "pairs": EXAMPLE["pairs"],
    "collectives": [row for row in EXAMPLE["collectives"] if row["tool"] == "torch"],
    "left_out": ["reduce: backend mpi does not do it here"],
    "imb": {"reason": "there is one rank"},
}
HOSTS = [
    {**{key: host[key] for key in ("host", "address", "interface")}, "links": {host["interface"]: host["link_mbit"]}}
    for host in EXAMPLE["hosts"]
]


def test_the_options_alone() -> None:
    assert run_action(network_report, {"largest": "64MB", "minutes": "2"}) == {
        **{"changed": False, "largest": 64 << 20, "seconds": 120.0}
    }
    refused = run_action(network_report, {"largest": "1 byte"})
    assert refused["msg"].startswith("largest: 1 byte is not a size")


def test_text_and_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    to = tmp_path / "results/network/network.json"
    options = {"measured": MEASURED, "hosts": HOSTS, "to": str(to), "parameters": "110M"}
    answer = run_action(network_report, options)
    shown = capsys.readouterr().out
    assert "! node2 is slow: 24.7 MB/s" in shown
    assert "  IMB-MPI1: there is one rank" in shown
    assert "  reduce: backend mpi does not do it here" in shown
    assert f"Wrote {to}" in shown
    assert json.loads(to.read_text()) == answer["network"]
    assert answer["network"]["findings"] == EXAMPLE["findings"]
    assert answer["network"]["hosts"] == EXAMPLE["hosts"]


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    options = {"measured": MEASURED, "hosts": HOSTS, "format": "json", "query": "findings[].host"}
    run_action(network_report, options)
    assert json.loads(capsys.readouterr().out) == ["node2"]


def test_advice_names_the_command_with_the_inventory(capsys: pytest.CaptureFixture[str]) -> None:
    bad = {"latency_us": None, "bandwidth_mbyte_s": None, "state": "failed", "reason": "no route"}
    pairs = [{**pair, **bad} if "node3" in pair["hosts"] else pair for pair in EXAMPLE["pairs"]]
    answer = run_action(network_report, {"measured": {**MEASURED, "pairs": pairs}, "hosts": HOSTS})
    assert answer["network"]["findings"][0]["text"] == (
        "node3 could not be measured with any other host: no route. Check it with ansible-playbook "
        "playbooks/doctor.yml."
    )
    assert "node3 could not be measured" in " ".join(capsys.readouterr().out.split())


def test_a_job_becomes_a_measurement(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "measure.py").touch()
    (tmp_path / "demo.yml").write_text("{name: demo, script: train.py, ranks_per_node: 3, args: {a: 1}}")
    measure = {"name": "network", "kind": "torch", "script": str(tmp_path / "measure.py"), "args": {"largest": 4096}}
    options = {"file": str(tmp_path / "demo.yml"), "hosts": ["node0"], "measure_with": measure}
    job = run_action(job_read, options)["run"]["job"]
    assert (job["name"], job["kind"], job["args"]) == ("+network", "torch", {"largest": 4096})
    assert (job["script"], job["ranks_per_node"]) == (str(tmp_path / "measure.py"), 3)
