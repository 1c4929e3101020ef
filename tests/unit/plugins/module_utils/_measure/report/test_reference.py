"""The published results: each row complete, with the figures of its source."""

from __future__ import annotations

import pytest
import yaml
from ansible_collections.amx.cluster.plugins.module_utils._measure.report import reference
from support.checkout import ROOT


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


# The fields of a row and what they are.
FIELDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("series", "job", "source", "instance", "precision", "what", "as_written", "note"), (str,)),
    "model": (str, type(None)),
    "hosts": (int,),
    "processes": (int, type(None)),
    "seconds": (int, float),
    "speedup_as_written": (int, float, type(None)),
}


def test_every_row_has_every_field_and_a_source() -> None:
    content = yaml.safe_load(reference.FILE.read_text(encoding="utf-8"))
    sources = {source["id"] for source in content["sources"]}
    for row in content["rows"]:
        assert set(row) == set(FIELDS), row
        wrong = [name for name, types in FIELDS.items() if not isinstance(row[name], types) or row[name] is True]
        assert not wrong, row
        assert row["source"] in sources, row
        assert (ROOT / f"jobs/{row['job']}.yml").is_file(), row
        assert min(row["seconds"], row["hosts"]) > 0, row
    assert all(
        1 in {row["hosts"] for row in content["rows"] if row["series"] == one["series"]} for one in content["rows"]
    )
