"""The section Load of a report has the data of load.json: a line for each number of instances, of its last run."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._measure.report import sources
from support import report_results
from support.report_results import figure, load_run, report

pytestmark = pytest.mark.slow


def test_a_line_for_each_number_of_instances(tmp_path: Path) -> None:
    changed = load_run(2, 60)
    changed["steps"][0]["instances"] = [2, 1]
    late = load_run(2, 70)
    for step in late["steps"]:
        step.update(state="not measured", held=False)
    runs = [load_run(2, 1), load_run(1, 32), changed, late]
    made = report(report_results.write_load(tmp_path / "demo-load", *runs))
    drawn = figure(made, "load")
    (axes,) = drawn.figure.axes
    lines = {line.get_label(): line.get_xydata() for line in axes.lines if not line.get_label().startswith("_")}
    assert list(lines) == ["1 instance, fp32", "2 instances, fp32", "limit of p99"]
    measured = [step for step in changed["steps"][1:] if step["state"] == "measured"]
    points = [(step["rate"], 1000 * step["latency_seconds"]["p99"]) for step in measured]
    assert lines["2 instances, fp32"].tolist() == [pytest.approx(point) for point in points]
    assert len(made.tables["load"].rows) == 24, "the overloaded ones and earlier runs are in the table"
    assert (made.verdict.number, made.verdict.unit) == ("48.0", "requests/s held by 2 instances, fp32")
    assert made.verdict.sentences == [
        "Load of demo, 99 % within 1 s: 1 instance, fp32: 25.6 requests/s; 2 instances, fp32: 48.0 requests/s."
    ]
    assert made.verdict.measured == "Job demo."
    assert "<h2>Load</h2>" in made.html()


def test_a_decoder_of_another_server(tmp_path: Path) -> None:
    path = report_results.write_load(tmp_path / "host-load", load_run(None, 4, True, precision=None), job="host")
    made = report(path)
    drawn = figure(made, "load")
    assert drawn.title == "Time to the first token by rate of requests: demo"
    highest = max(line.get_ydata().max() for line in drawn.figure.axes[0].lines if len(line.get_ydata()) > 2)
    assert highest == pytest.approx(2500), "of the first token, not of the whole text"


def test_a_load_beside_its_job_and_what_is_damaged(tmp_path: Path) -> None:
    report_results.write_job(tmp_path / "squad")
    report_results.write_load(tmp_path / "squad-load", load_run(1, 9), {"steps": [{}, {"rate": 1.0}]}, {}, job="squad")
    made = report(*sources.of_job("squad", tmp_path))
    assert [source.kind for source in made.sources.all] == ["job", "load"]
    assert len(made.tables["load"].rows) == 7
    assert made.html()
