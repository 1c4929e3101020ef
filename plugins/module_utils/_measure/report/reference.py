# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Published results that a report draws beside measured ones: reference_results.yml, beside this file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("reference_results.yml")


def load() -> dict[str, Any]:
    """Return the published results: {sources: {id: {file, title, url}}, disagreements, rows}.

    The file says what a row has. `speedup` is against one host of its series; None in a series of one row.
    """
    import yaml

    document = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    rows = [dict(row) for row in document["rows"]]
    first = {row["series"]: row["seconds"] for row in rows if row["hosts"] == 1}
    several = {row["series"] for row in rows if row["hosts"] > 1}
    for row in rows:
        row["speedup"] = first[row["series"]] / row["seconds"] if row["series"] in several else None
    return {
        "sources": {source["id"]: source for source in document["sources"]},
        "disagreements": list(document["disagreements"]),
        "rows": rows,
    }
