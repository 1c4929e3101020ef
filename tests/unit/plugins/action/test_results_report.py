"""The action that makes a report: where it goes, what it shows, and what it refuses."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.action import results_report
from support import report_results
from support.checkout import importing
from support.modules import run_action

pytestmark = pytest.mark.slow


def test_of_a_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report_results.write_job(tmp_path / "squad")
    report_results.write_sweep(tmp_path / "squad-scale")
    answer = run_action(results_report, {"job": "squad", "results": str(tmp_path)})
    page = tmp_path / "squad" / "report" / "report.html"
    assert (answer["path"], answer["url"]) == (str(page), page.as_uri())
    assert page.is_file()
    said = capsys.readouterr().out
    assert said.startswith("Job squad, distilbert/distilbert-base-uncased, bf16")
    assert "held back by the network's bandwidth" in said
    assert said.splitlines()[-2:] == [f"The report is {page}", page.as_uri()]


@pytest.mark.parametrize("form", [list, ",".join, " , ".join])
def test_of_directories(tmp_path: Path, form: type) -> None:
    paths = [str(report_results.write_sweep(tmp_path / name)) for name in ("one", "other")]
    answer = run_action(results_report, {"of": form(paths), "to": str(tmp_path / "both"), "price": "2 EUR"})
    assert answer["path"] == str(tmp_path / "both" / "report.html")
    assert len(json.loads((tmp_path / "both" / "report.json").read_text())["sources"]) == 2


def test_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = report_results.write_sweep(tmp_path / "one")
    run_action(results_report, {"of": str(path), "format": "json"})
    (line,) = capsys.readouterr().out.splitlines()
    document = json.loads(line)
    assert (
        document["verdict"]["number"] == f"{report_results.sweep()['counts'][-1]['speedup']['median']:.2f}" + "\u00d7"
    )
    assert document["url"].startswith("file:///")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "a report of nothing: add -e amx_job=NAME"),
        ({"of": "nowhere"}, "nowhere: there is no such directory"),
        ({"job": "squad"}, "there are no results of job squad"),
        ({"of": "{one},{other}"}, "these results are of different jobs"),
        ({"of": "{one}", "price": "dear"}, "host_price_per_hour: 'dear' is not a price"),
    ],
)
def test_refusals(tmp_path: Path, options: dict[str, str], message: str) -> None:
    places = {"one": report_results.write_sweep(tmp_path / "one")}
    places["other"] = report_results.write_sweep(tmp_path / "other", job="another")
    given = {key: value.format(**places) for key, value in options.items()}
    answer = run_action(results_report, {"results": str(tmp_path / "none"), **given})
    assert answer["failed"]
    assert answer["msg"].startswith(message)
    assert not list(tmp_path.rglob("report.html"))


def test_in_check_mode_nothing_is_written(tmp_path: Path) -> None:
    path = report_results.write_sweep(tmp_path / "one")
    answer = run_action(results_report, {"of": str(path)}, check=True)
    assert answer["changed"]
    assert not (path / "report").exists()


def test_a_report_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    report_results.write_job(tmp_path / "squad")
    answer = run_action(results_report, {"job": "squad", "results": str(tmp_path)})
    assert answer["failed"]
    assert answer["msg"].startswith("matplotlib is missing on the control node")


def test_matplotlib_is_imported_only_for_a_report() -> None:
    import subprocess

    code = (
        "import sys; from ansible_collections.amx.cluster.plugins.action import results_report;"
        "sys.exit('matplotlib' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=importing())
