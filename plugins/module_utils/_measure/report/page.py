# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of a report: page.html.j2, filled with its tables, figures and core maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._cores import core_map
from ansible_collections.amx.cluster.plugins.module_utils._measure.report import style
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.sources import (
    Source,
    entries,
    mapping,
    text,
)

TEMPLATE, STYLE_SHEET = (Path(__file__).with_name(name) for name in ("page.html.j2", "page.css"))
# Rows of a table that the page shows at most: of a longer one every n-th.
ROWS = 120
# The CSS class of a cell of the core map on which no rank computes.
CELL_CLASSES = {"c": "c", "s": "s", "r": "r", "-": "u"}


def render(jobs: Sequence[Source], **values: Any) -> str:
    """Return the page. jobs: whose core maps it has. values: what the template names besides."""
    import jinja2  # only here: the control node has it, as a part of Ansible
    import markupsafe

    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    page = template.render(
        style=markupsafe.Markup(style_sheet()),
        svg=lambda drawn: markupsafe.Markup(style.svg(drawn)),
        most_rows=ROWS,
        cell_classes=CELL_CLASSES,
        cell_colour=core_map.colour,
        **core_maps(jobs),
        **values,
    )
    return page.lstrip() + "\n"


def style_sheet() -> str:
    """Return the page's style, with the colours of the figures."""
    light, dark = (";".join(f"--{name}:{pair[side]}" for name, pair in style.COLOURS.items()) for side in (0, 1))
    return STYLE_SHEET.read_text(encoding="utf-8").replace("/*LIGHT*/", light).replace("/*DARK*/", dark)


def core_maps(jobs: Sequence[Source]) -> dict[str, Any]:
    """Return {maps: the core maps, each with the hosts that have it, legend: what their letters mean}."""
    groups: dict[tuple[Any, ...], list[str]] = {}
    ranks, letters = 1, set[str]()
    for job in jobs:
        for host in entries(mapping(job.files.get("plan.json")).get("hosts")):
            rows = tuple(
                (text(row.get("socket")), text(row.get("node")), text(row.get("letters")))
                for row in entries(mapping(host.get("map")).get("rows"))
            )
            if not any(row[2] for row in rows):
                continue
            ranks = max(ranks, len(entries(host.get("ranks"))))
            letters.update("".join(row[2] for row in rows))
            named = groups.setdefault((rows, text(host.get("isa"))), [])
            if text(host.get("host")) not in named:
                named.append(text(host.get("host")))
    maps = [_core_map(rows, isa, names) for (rows, isa), names in groups.items()]
    return {"maps": maps, "legend": core_map.legend(ranks, letters)}


def _core_map(rows: Sequence[tuple[str, str, str]], isa: str, names: Sequence[str]) -> Mapping[str, Any]:
    described = "; ".join(f"socket {socket}, NUMA node {node}: {letters}" for socket, node, letters in rows)
    hosts = ", ".join(names)
    return {"title": f"{hosts} ({isa})" if isa else hosts, "label": f"Cores of {hosts}. {described}", "rows": rows}
