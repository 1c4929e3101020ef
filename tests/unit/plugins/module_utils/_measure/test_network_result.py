"""network.json, and what is shown of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._measure import network_result, network_text

FIXTURES = Path(__file__).parents[3] / "fixtures/measure"
EXAMPLE = json.loads((FIXTURES / "network.json").read_text(encoding="utf-8"))
IMB = (FIXTURES / "imb.txt").read_text(encoding="utf-8")


def measured(**changes: Any) -> dict[str, Any]:
    return {
        "provider": "tcp",
        "backend": "mpi",
        "pairs": [{**pair, "bytes": 1 << 24} for pair in EXAMPLE["pairs"]],
        "collectives": [row for row in EXAMPLE["collectives"] if row["tool"] == "torch"],
        "left_out": [],
        "imb": {"sizes": [4096, 65536, 1048576], "seconds": 1},
        **changes,
    }


def test_the_example_is_what_comes_of_it() -> None:
    asked = network_result.request(parameters="109482240", step_compute_seconds="4.2")
    times = EXAMPLE["started"], EXAMPLE["ended"]
    found = network_result.result(asked, measured(), EXAMPLE["hosts"], IMB, "", times)
    assert list(found) == list(EXAMPLE)
    for name in ("version", "job", "hosts", "provider", "started", "ended", "pairs", "findings", "prediction"):
        assert found[name] == EXAMPLE[name], name
    assert [list(row) for row in found["collectives"]] == [list(EXAMPLE["collectives"][0])] * len(found["collectives"])
    assert {row["tool"] for row in found["collectives"]} == {"torch", "imb"}


@pytest.mark.parametrize(
    ("text", "value"), [("4KB", 4096), ("25 MiB", 25 << 20), ("256mb", 1 << 28), ("1.5M", 3 << 19), ("65536", 65536)]
)
def test_a_size(text: str, value: int) -> None:
    assert network_result.size(text) == value


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"largest": "1KB"}, "largest: 1KB is not a size from 4 KB to 256 MB, such as 64MB"),
        ({"largest": "1GB"}, "largest: 1GB is not a size from 4 KB to 256 MB"),
        ({"largest": "much"}, "largest: much is not a size"),
        ({"minutes": "0"}, "minutes: 0 is not a number above 0 and up to 60"),
        ({"minutes": "soon"}, "minutes: soon is not a number"),
        ({"step_compute_seconds": "-1"}, "step_compute_seconds: -1 is not a number"),
        ({"parameters": "1M", "model": "gpt2"}, "parameters and model are both set"),
        ({"model": "nobody/knows"}, "model: nobody/knows is neither a directory"),
    ],
)
def test_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        network_result.request(**options)


def test_the_jobs_model_is_predicted_for_where_its_size_is_known(tmp_path: Path) -> None:
    models = {"some": {"hub": "nobody/knows"}, "gpt2": {"hub": "openai-community/gpt2", "directory": ""}}
    assert network_result.request(models=models).parameters == 124_000_000
    assert network_result.request(models={"some": {"hub": "nobody/knows"}}).parameters is None
    assert network_result.request().parameters is None
    with pytest.raises(ValueError, match="model: nobody/knows is neither"):
        network_result.request(model="some", models=models)


def test_findings_come_first() -> None:
    lines = network_text.render(EXAMPLE).splitlines()
    assert lines[0] == "Network of 4 hosts, 4 ranks, over tcp"
    assert lines[2].startswith("! node2 is slow: 24.7 MB/s at best")
    assert "node2  eth0       1000 Mbit/s (125 MB/s)  28.7 µs  24.7 MB/s" in lines
    assert any(line.startswith("all_reduce") and "25 MiB" in line for line in lines)
    assert any(line.startswith("Prediction: 109.5 million parameters") for line in lines)


@pytest.mark.parametrize(
    ("hosts", "link", "text"),
    [
        (1, None, "There is one host: no pair to measure."),
        (2, None, "Two hosts without a known link speed: there is nothing to compare their pair with."),
        (2, 1000, "No host is below the speed of its link."),
        (3, None, "No host is slow beside the median host."),
        (3, 1000, "No host is slow beside the median host or below the speed of its link."),
    ],
)
def test_what_was_compared_is_said(hosts: int, link: int | None, text: str) -> None:
    some = [{**host, "link_mbit": link} for host in EXAMPLE["hosts"][:hosts]]
    network = {**EXAMPLE, "hosts": some, "findings": [], "collectives": [], "prediction": None, "pairs": []}
    assert text in network_text.render(network)


def test_what_was_left_out_is_said() -> None:
    asked = network_result.request()
    assert network_result.left_out(measured(), IMB, asked) == [
        "IMB-MPI1 above 1048576 bytes: it would take too long (-e minutes=N gives it more time)"
    ]
    assert network_result.left_out(measured(), "", asked)[0].startswith("IMB-MPI1: it has printed no times")
    cut = IMB[: IMB.index("# Benchmarking Alltoall")]
    assert "IMB-MPI1, all_to_all: 3 of 3 sizes; its time was over" in network_result.left_out(measured(), cut, asked)
    no_imb = measured(imb={"reason": "there is one rank"}, left_out=["pairs: there is one host"])
    assert network_result.left_out(no_imb, "", asked) == ["pairs: there is one host", "IMB-MPI1: there is one rank"]
