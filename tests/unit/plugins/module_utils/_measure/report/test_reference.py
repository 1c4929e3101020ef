"""The published results: each row complete, with the figures of its source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.amx.cluster.plugins.module_utils._measure.report import reference


def test_the_figures_of_the_articles() -> None:
    rows = reference.load()["rows"]
    found = {(row["series"], row["hosts"]): row["seconds"] for row in rows}
    minutes = {
        ("SQuAD, Sapphire Rapids, 16 cores", 1): 2 * 60 + 15,
        ("SQuAD, Sapphire Rapids, 16 cores", 2): 66,
        ("SQuAD, Sapphire Rapids, 16 cores", 4): 33.5,
        ("SQuAD, Sapphire Rapids, 16 cores", 8): 17 + 40 / 60,
        ("SQuAD, Ice Lake, 16 cores", 1): 360,
        ("SQuAD, Sapphire Rapids, 32 cores", 1): 26,
        ("SQuAD, Sapphire Rapids, 32 cores", 4): 7.5,
        ("SQuAD, Ice Lake, 32 cores", 1): 210,
        ("MRPC, Ice Lake, 32 cores", 1): 7 + 46 / 60,
        ("MRPC, Ice Lake, 32 cores", 2): 4 + 39 / 60,
        ("MRPC, Ice Lake, 32 cores", 4): 2 + 36 / 60,
        ("QQP, Ice Lake, 32 cores", 1): 11 * 60 + 22,
        ("QQP, Ice Lake, 32 cores", 2): 6 * 60 + 38,
        ("QQP, Ice Lake, 32 cores", 4): 3 * 60 + 51,
    }
    assert found == {key: pytest.approx(60 * value) for key, value in minutes.items()}


def test_a_speed_up_as_written_follows_from_the_times() -> None:
    checked = 0
    for row in reference.load()["rows"]:
        if row["speedup_as_written"] and row["speedup"]:
            assert row["speedup"] == pytest.approx(row["speedup_as_written"], abs=0.05)
            checked += 1
    assert checked == 4


def test_rows_that_compare_different_models_say_so() -> None:
    rows = reference.load()["rows"]
    for series in {row["series"] for row in rows}:
        models = {row["model"] for row in rows if row["series"] == series}
        if len(models) > 1:
            assert all("model" in row["note"] for row in rows if row["series"] == series)


def content() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(reference.FILE.read_text(encoding="utf-8"))
    return loaded


@pytest.mark.parametrize("field", reference.FIELDS)
def test_a_row_without_a_field(tmp_path: Path, field: str) -> None:
    given = content()
    del given["rows"][3][field]
    (tmp_path / "rows.yml").write_text(yaml.safe_dump(given))
    with pytest.raises(ValueError, match=f"^rows.yml, row 4: {field} is missing$"):
        reference.load(tmp_path / "rows.yml")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seconds": "1 h"}, "rows.yml, row 1: seconds is '1 h'"),
        ({"seconds": 0}, "rows.yml, row 1: seconds and hosts must be positive"),
        ({"hosts": True}, "rows.yml, row 1: hosts is True"),
        ({"source": "nobody"}, "rows.yml, row 1: source 'nobody' is not among the sources"),
        ({"minutes": 4}, "rows.yml, row 1: minutes is not a field"),
        ({"hosts": 3}, "rows.yml: series 'SQuAD, Sapphire Rapids, 16 cores' has no row of 1 host"),
    ],
)
def test_a_row_that_is_wrong(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    given = content()
    given["rows"][0].update(change)
    (tmp_path / "rows.yml").write_text(yaml.safe_dump(given))
    with pytest.raises(ValueError, match=f"^{message}$"):
        reference.load(tmp_path / "rows.yml")
