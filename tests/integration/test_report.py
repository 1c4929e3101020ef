"""The playbook report.yml on the control node, and the report that results.yml brings along."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import report_results
from support.local_cluster import LocalCluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> LocalCluster:
    """A control node with results of a job and its sweep."""
    made = LocalCluster(tmp_path_factory.mktemp("cluster"))
    report_results.write_job(made.folder / "results" / "squad")
    report_results.write_sweep(made.folder / "results" / "squad-scale")
    return made


def results(cluster: LocalCluster) -> list[str]:
    """The options that name the directory of results, which is that of the terminal otherwise."""
    folder = cluster.folder / "results"
    return ["-e", f"report_results={folder}", "-e", f"job_results={folder}"]


def test_a_job_and_its_sweep(cluster: LocalCluster) -> None:
    cluster.succeed(
        "report", cluster.play("report", *results(cluster), "-e", "job=squad", "-e", "host_price_per_hour=2")
    )
    said = cluster.output("report")
    page = cluster.folder / "results" / "squad" / "report" / "report.html"
    assert page.as_uri() in said
    assert "% of ideal; held back by the network" in said
    document = json.loads(page.with_name("report.json").read_text())
    given = json.loads((cluster.folder / "results" / "squad-scale" / "sweep.json").read_text())
    rows = [row for row in document["tables"]["scaling"]["rows"] if not row["baseline"]]
    assert [row["speedup"] for row in rows] == [count["speedup"]["median"] for count in given["counts"]]
    assert rows[-1]["cost_per_epoch"] == pytest.approx(2 * 4 * rows[-1]["epoch_seconds"] / 3600)


def test_as_json(cluster: LocalCluster) -> None:
    words = ["-e", "of=results/squad-scale", "-e", "to=elsewhere", "-e", "format=json", "-e", "query=verdict.unit"]
    cluster.succeed("report", cluster.play("report", *words))
    assert any(line.startswith('"on 4 hosts, ') for line in cluster.output("report").splitlines())
    assert (cluster.folder / "elsewhere" / "report.html").is_file()


def test_inference_of_two_clusters(cluster: LocalCluster) -> None:
    given = {name: cluster.folder / name / "serve-inference" for name in ("here", "there")}
    report_results.write_inference(given["here"])
    report_results.write_inference(given["there"], cpu=report_results.ICE_LAKE)
    words = ["-e", f"of={given['here']},{given['there']}", "-e", f"to={cluster.folder / 'comparison'}"]
    cluster.succeed("report", cluster.play("report", *words))
    assert "Xeon Platinum 8375C: distilbert " in cluster.output("report")
    document = json.loads((cluster.folder / "comparison" / "report.json").read_text())
    found = {
        (row["results"], row["model"]): row["samples_per_second"]
        for row in document["tables"]["inference_recommended"]["rows"]
    }
    for path, label in zip(given.values(), ("Xeon Platinum 8488C", "Xeon Platinum 8375C")):
        chosen = json.loads((path / "inference.json").read_text())["recommended"]
        assert {model: one["throughput"]["value"] for model, one in chosen.items()} == {
            model: speed for (results, model), speed in found.items() if results == label
        }
    files = set(document["files"])
    assert {"inference_throughput.png", "inference_throughput.csv", "inference_latency_1.png"} <= files


def test_results_bring_the_report_along(trained: LocalCluster) -> None:
    trained.succeed("results", trained.play("results", *results(trained), "-e", "job=mine"))
    page = trained.folder / "results" / "mine" / "report.html"
    assert f"The report is {page.as_uri()}" in trained.output("results")
    assert json.loads(Path(page.with_name("stack.json")).read_text())["name"] == "native"
    assert "Job mine succeeded on 1 host, 1 rank" in page.read_text()
