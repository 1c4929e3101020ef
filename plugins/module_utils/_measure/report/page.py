# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of a report's page, one HTML file that needs nothing else: style, figures and tables are in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._cores import core_map
from ansible_collections.amx.cluster.plugins.module_utils._measure.report import style
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.page_style import CSS
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.sources import (
    Source,
    entries,
    mapping,
    text,
)
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.style import Drawn
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.tables import Table
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.verdict import Verdict

# Rows of a table that the page shows at most: of a longer one every n-th.
ROWS = 120
# The CSS class of a cell of the core map on which no rank computes.
_CLASSES = {"c": "c", "s": "s", "r": "r", "-": "u"}


def style_sheet() -> str:
    """Return the page's style, with the colours of the figures."""
    light, dark = (";".join(f"--{name}:{pair[side]}" for name, pair in style.COLOURS.items()) for side in (0, 1))
    return CSS.replace("LIGHT", light).replace("DARK", dark)


def table(content: Table) -> str:
    """Return a table as HTML in a box that scrolls by itself; every n-th row of a long one, which is said."""
    columns = content.used()
    if not columns:
        return ""
    cells = content.cells()
    step = max(1, -(-len(cells) // ROWS))
    look = [_look(column.form) for column in columns]
    head = "".join(f"<th{one}>{escape(column.title)}</th>" for column, one in zip(columns, look))
    body = "".join(
        f"<tr{_bad(row)}>{''.join(f'<td{one}>{escape(value)}</td>' for value, one in zip(shown, look))}</tr>"
        for row, shown in list(zip(content.rows, cells))[::step]
    )
    note = f"Every {step}th of {len(cells)} rows; all are in {content.name}.csv"
    thinned = f'<p class="note">{note}</p>' if step > 1 else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(content.title)}"><table><thead><tr>{head}'
        f"</tr></thead><tbody>{body}</tbody></table></div>{thinned}"
    )


def titled(content: Table) -> str:
    """Return a table under its title; nothing for one without rows."""
    return f"<h3>{escape(content.title)}</h3>{table(content)}" if content.rows else ""


def transposed(content: Table) -> str:
    """Return a table of a few rows as HTML with a column for each: they are read from top to bottom."""
    cells = content.cells()
    body = "".join(
        f'<tr><th scope="row">{escape(column.title)}</th>'
        + "".join(f"<td>{escape(row[place])}</td>" for row in cells)
        + "</tr>"
        for place, column in enumerate(content.used())
    )
    return (
        f'<div class="scroll whole" tabindex="0" role="region" aria-label="{escape(content.title)}">'
        f'<table class="facts-of"><tbody>{body}</tbody></table></div>'
    )


def _look(form: str) -> str:
    """Return the class of a column: figures stand at the right, names on one line."""
    return {"text": "", "name": ' class="w"'}.get(form, ' class="n"')


def _bad(row: Mapping[str, Any]) -> str:
    return ' class="bad"' if row.get("state") in ("failed", "refused") else ""


def details(title: str, *contents: str) -> str:
    """Return what is shown on request; nothing when there is nothing."""
    inner = "".join(contents)
    return f"<details><summary>{escape(title)}</summary>{inner}</details>" if inner else ""


def figure(drawn: Drawn) -> str:
    """Return a figure with its table."""
    note = f"<p>{escape(drawn.note)}</p>" if drawn.note else ""
    return (
        f'<figure id="{drawn.name}"><h3>{escape(drawn.title)}</h3><div role="img" aria-label="{escape(drawn.alt)}">'
        f"{style.svg(drawn)}</div><figcaption>{note}{details('Table', table(drawn.table))}</figcaption></figure>"
    )


def section(title: str, *contents: str) -> str:
    """Return a section; nothing when all its contents are empty."""
    inner = "".join(contents)
    return f"<section><h2>{escape(title)}</h2>{inner}</section>" if inner else ""


def halves(sections: Sequence[str]) -> str:
    """Return sections side by side, below each other where the page is narrow."""
    there = [one for one in sections if one]
    return f'<div class="halves">{"".join(there)}</div>' if len(there) > 1 else "".join(there)


def beside(one: str, other: str) -> str:
    """Return two contents side by side, below each other where the page is narrow."""
    if one and other:
        return f'<div class="figures">{one}<div>{other}</div></div>'
    return f'<div class="figures one">{one}</div>' if one else other


def figures(drawn: Iterable[Drawn]) -> str:
    """Return figures side by side, below each other where the page is narrow."""
    made = [figure(one) for one in drawn]
    one = " one" if len(made) == 1 else ""
    return f'<div class="figures{one}">{"".join(made)}</div>' if made else ""


def core_maps(jobs: Sequence[Source]) -> str:
    """Return the core map of every host; hosts with the same map stand together."""
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
    if not groups:
        return ""
    drawn = "".join(_core_map(rows, isa, names) for (rows, isa), names in groups.items())
    legend = escape(core_map.legend(ranks, letters))
    return f'<div class="maps">{drawn}</div><p class="legend">One cell is one core: {legend}.</p>'


def _core_map(rows: Sequence[tuple[str, str, str]], isa: str, names: Sequence[str]) -> str:
    lines = "".join(
        f'<div class="row"><span>socket {escape(socket)}, node {escape(node)}</span><div class="cells">'
        f"{''.join(map(_cell, letters))}</div></div>"
        for socket, node, letters in rows
    )
    told = "; ".join(f"socket {socket}, NUMA node {node}: {letters}" for socket, node, letters in rows)
    title = ", ".join(names) + (f" ({isa})" if isa else "")
    label = escape(f"Cores of {', '.join(names)}. {told}")
    return f'<div><h3>{escape(title)}</h3><div role="img" aria-label="{label}">{lines}</div></div>'


def _cell(letter: str) -> str:
    name = f' class="{_CLASSES[letter]}"' if letter in _CLASSES else ""
    back = "" if letter == "-" else f' style="background:{core_map.colour(letter)}"'
    return f"<i{name}{back}>{escape(letter)}</i>"


def notes(texts: Sequence[str]) -> str:
    """Return notes as a list; nothing where there are none."""
    return f'<ul class="notes">{"".join(f"<li>{escape(one)}</li>" for one in texts)}</ul>' if texts else ""


def code(content: str) -> str:
    """Return a text as it is written; nothing when it is empty."""
    return f'<pre tabindex="0">{escape(content)}</pre>' if content else ""


def header(verdict: Verdict) -> str:
    """Return the first lines: the big number, the answer, whether it still learns, further figures."""
    facts = "".join(f"<div><dt>{escape(what)}</dt><dd>{escape(value)}</dd></div>" for value, what in verdict.facts)
    answer = "".join(f"<p>{escape(one)}</p>" for one in verdict.sentences)
    learned = f'<p class="learned">{escape(verdict.learned)}</p>' if verdict.learned else ""
    tiles = f'<dl class="facts">{facts}</dl>' if facts else ""
    return (
        f'<header><p class="eyebrow">{escape(verdict.measured)}</p><h1><b>{escape(verdict.number)}</b> '
        f'<span>{escape(verdict.unit)}</span></h1><div class="answer">{answer}</div>{learned}{tiles}</header>'
    )


def page(title: str, contents: Sequence[str], footer: str) -> str:
    """Return the page."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<title>{escape(title)}</title><link rel="icon" href="data:,"><style>{style_sheet()}</style></head>'
        f"<body><main>{''.join(contents)}<footer>{escape(footer)}</footer></main></body></html>\n"
    )
