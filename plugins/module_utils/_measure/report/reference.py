# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Published results that a report draws beside measured ones: docs/reference_results.yml of the collection."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parents[4] / "docs" / "reference_results.yml"

# The fields of a row and what they are; a field that may be null names None.
FIELDS: dict[str, tuple[type, ...]] = {
    "series": (str,),
    "source": (str,),
    "model": (str, type(None)),
    "dataset": (str,),
    "cpu": (str,),
    "instance": (str,),
    "precision": (str,),
    "hosts": (int,),
    "processes": (int, type(None)),
    "what": (str,),
    "seconds": (int, float),
    "as_written": (str,),
    "speedup_as_written": (int, float, type(None)),
    "note": (str,),
}


def load(path: Path = FILE) -> dict[str, Any]:
    """Return the published results: {sources: {id: {file, title, url}}, disagreements, rows}.

    A row has FIELDS, and `speedup`, against one host of its series; None in a series of one row. Raises ValueError
    naming the row and what is wrong with it, or that there is no such file.
    """
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{path}: there is no such file: install the collection completely") from None
    sources = {source["id"]: source for source in content["sources"]}
    rows = [dict(row) for row in content["rows"]]
    for place, row in enumerate(rows, 1):
        problem = _problem(row, sources)
        if problem:
            raise ValueError(f"{path.name}, row {place}: {problem}")
    first = {row["series"]: row["seconds"] for row in rows if row["hosts"] == 1}
    several = {row["series"] for row in rows if row["hosts"] > 1}
    for row in rows:
        if row["series"] not in first:
            raise ValueError(f"{path.name}: series {row['series']!r} has no row of 1 host")
        row["speedup"] = first[row["series"]] / row["seconds"] if row["series"] in several else None
    return {"sources": sources, "disagreements": list(content["disagreements"]), "rows": rows}


def _problem(row: Mapping[str, Any], sources: Mapping[str, Any]) -> str:
    for field, types in FIELDS.items():
        if field not in row:
            return f"{field} is missing"
        if not isinstance(row[field], types) or isinstance(row[field], bool):
            return f"{field} is {row[field]!r}"
    unknown = sorted(set(row) - set(FIELDS))
    if unknown:
        return f"{unknown[0]} is not a field"
    if row["source"] not in sources:
        return f"source {row['source']!r} is not among the sources"
    if row["seconds"] <= 0 or row["hosts"] < 1:
        return "seconds and hosts must be positive"
    return ""
