# Copyright (c) 2026, the amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The picture of a plan: one character, or one coloured cell, for each core, by socket and NUMA node."""

from __future__ import annotations

import string
from collections.abc import Collection
from dataclasses import dataclass
from xml.sax.saxutils import escape

from ansible_collections.amx.cluster.plugins.module_utils._cores.allocation import Allocation
from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import OFFLINE, Core, format_cpus

RANK_LETTERS = string.digits + string.ascii_uppercase
"""Rank 36 and those above it start again at 0; small letters are for cores that no rank computes on."""

MEANINGS = {
    "c": "c communication",
    "s": "s system",
    "r": "r system, left over",
    "-": "- not for this job",
}
"""What the characters of cores mean on which no rank computes."""

_BLOCK = 8
_CELL, _GAP, _LABEL = 16, 3, 190
_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#dd7733", "#445566")
_COMM, _SYSTEM, _UNUSED = "#222222", "#bbbbbb", "#ffffff"


@dataclass(frozen=True)
class _Part:
    letter: str
    colour: str
    text: str


def text_map(plan: Allocation) -> str:
    """Lines such as `socket 0  node 0  sc000000 00000000`, cores by lowest CPU, and what the characters mean."""
    parts = _parts(plan)
    rows = _rows(plan)
    labels = [f"socket {socket}  node {node}" for socket, node in rows]
    width = max(len(label) for label in labels)
    lines = []
    for label, cores in zip(labels, rows.values()):
        letters = "".join(parts[core.number].letter for core in cores)
        blocks = [letters[at : at + _BLOCK] for at in range(0, len(letters), _BLOCK)]
        lines.append(f"{label:<{width}}  {' '.join(blocks)}")
    lines.append(f"one character is one core: {_legend(plan, parts)}")
    lines += _offline(plan)
    return "\n".join(lines)


def svg_map(plan: Allocation, title: str = "") -> str:
    """The same as an SVG document; each cell's tooltip names the core's CPUs. `title` stands above it."""
    parts = _parts(plan)
    rows = _rows(plan)
    longest = max(len(cores) for cores in rows.values())
    step = _CELL + _GAP
    blocks = -(-longest // _BLOCK)
    footer = [f"one cell is one core: {_legend(plan, parts)}", *_offline(plan)]
    width = _LABEL + longest * step + blocks * _GAP * 2
    width = max(width, 20 + max(7 * len(line) for line in [title, *footer]))
    top = 34 if title else 10
    height = top + len(rows) * (step + 6) + 20 * len(footer) + 8
    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    if title:
        body.append(f'<text x="10" y="22" font-size="15" font-weight="bold">{escape(title)}</text>')
    for row, ((socket, node), cores) in enumerate(rows.items()):
        y = top + row * (step + 6)
        body.append(f'<text x="10" y="{y + 12}">socket {socket}, NUMA node {node}</text>')
        for column, core in enumerate(cores):
            part = parts[core.number]
            x = _LABEL + column * step + column // _BLOCK * _GAP * 2
            ink = "#000000" if part.colour in (_SYSTEM, _UNUSED) else "#ffffff"
            body.append(
                f"<g><title>core {core.number}, CPUs {format_cpus(core.online_cpus)}: {escape(part.text)}</title>"
                f'<rect x="{x}" y="{y}" width="{_CELL}" height="{_CELL}" rx="2" fill="{part.colour}" '
                f'stroke="#666666" stroke-width="0.5"/>'
                f'<text x="{x + _CELL // 2}" y="{y + 12}" text-anchor="middle" font-size="10" fill="{ink}">'
                f"{escape(part.letter)}</text></g>"
            )
    for index, line in enumerate(footer):
        y = top + len(rows) * (step + 6) + 14 + 20 * index
        body.append(f'<text x="10" y="{y}">{escape(line)}</text>')
    return "\n".join([*body, "</svg>", ""])


def _parts(plan: Allocation) -> dict[int, _Part]:
    parts: dict[int, _Part] = {}
    for rank in plan.ranks:
        letter = RANK_LETTERS[rank.rank % len(RANK_LETTERS)]
        colour = _COLOURS[rank.rank % len(_COLOURS)]
        parts.update((core.number, _Part(letter, colour, f"compute, rank {rank.rank}")) for core in rank.compute_cores)
        parts.update((core.number, _Part("c", _COMM, f"communication, rank {rank.rank}")) for core in rank.comm_cores)
    parts.update((core.number, _Part("s", _SYSTEM, "system")) for core in plan.reserved_cores)
    parts.update((core.number, _Part("r", _SYSTEM, "system, left over")) for core in plan.remainder_cores)
    for core in plan.topology.cores:
        parts.setdefault(core.number, _Part("-", _UNUSED, "unused: not for this job"))
    return parts


def _rows(plan: Allocation) -> dict[tuple[int, int], list[Core]]:
    rows: dict[tuple[int, int], list[Core]] = {}
    for core in sorted(plan.topology.cores, key=lambda core: (core.socket, core.node, core.online_cpus[0])):
        rows.setdefault((core.socket, core.node), []).append(core)
    return rows


def _legend(plan: Allocation, parts: dict[int, _Part]) -> str:
    return legend(len(plan.ranks), {part.letter for part in parts.values()})


def legend(ranks: int, letters: Collection[str]) -> str:
    """What the characters of a map mean, of those that are in it. ranks: how many the node has."""
    words = [f"{RANK_LETTERS[0]} computes for rank 0" if ranks == 1 else _rank_letters(ranks)]
    return ", ".join(words + [meaning for letter, meaning in MEANINGS.items() if letter in letters])


def _rank_letters(ranks: int) -> str:
    letters = len(RANK_LETTERS)
    last = RANK_LETTERS[min(ranks, letters) - 1]
    again = f", from rank {letters} again from 0" if ranks > letters else ""
    return (
        f"0-{last} compute for the rank of that number (A is 10){again}"
        if ranks > 10
        else f"0-{last} compute for that rank"
    )


def _offline(plan: Allocation) -> list[str]:
    offline = dict(plan.topology.excluded).get(OFFLINE)
    return [f"offline: CPUs {format_cpus(offline)}"] if offline else []
