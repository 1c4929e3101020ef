"""The page of a job beside its results."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.plugin_utils import job_page
from support import report_results


@pytest.mark.slow
def test_the_page_beside_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report_results.write_job(tmp_path / "squad")
    # A sweep of another stack than the job's last run is left out.
    report_results.write_sweep(tmp_path / "squad-scale", stack="native")
    before = {path.name for path in (tmp_path / "squad").iterdir()}
    page = job_page.write("squad", tmp_path)
    assert page == tmp_path / "squad" / "report.html"
    assert {path.name for path in (tmp_path / "squad").iterdir()} == before | {"report.html"}
    assert capsys.readouterr().out.splitlines() == [f"The report is {page.as_uri()}"]
    assert 'id="speedup"' not in page.read_text()


def test_results_without_matplotlib(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    report_results.write_job(tmp_path / "squad")
    assert job_page.write("squad", tmp_path) is None
    assert "No report was made: matplotlib is missing" in capsys.readouterr().out


def test_results_of_which_none_can_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "squad").mkdir()
    assert job_page.write("squad", tmp_path) is None
    assert "No report was made: " in capsys.readouterr().out
