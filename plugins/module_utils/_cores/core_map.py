# Copyright (c) 2026, the amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The core map: one character, or one coloured cell, for each core, by socket and NUMA node."""

from __future__ import annotations

import string
from collections.abc import Collection
from dataclasses import dataclass
from html import escape
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._cores.allocation import Allocation
from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import OFFLINE, Core, format_cpus
from ansible_collections.amx.cluster.plugins.module_utils._documents import Document

RANK_LETTERS = string.digits + string.ascii_uppercase
"""Rank 36 and those above it start again at 0; small letters are for cores that no rank computes on."""

MEANINGS = {
    "c": "c communication",
    "s": "s system",
    "r": "r system, left over",
    "-": "- not for this job",
}
"""What the characters of cores mean on which no rank computes."""

SYSTEM_LETTERS = "sr"
"""Those of cores that are left to the system."""

_BLOCK = 8
_CELL, _GAP, _LABEL = 16, 3, 190
_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#dd7733", "#445566")
_COMM, _SYSTEM, _UNUSED = "#222222", "#bbbbbb", "#ffffff"
_NOT_COMPUTING = {"c": _COMM, "s": _SYSTEM, "r": _SYSTEM, "-": _UNUSED}
_DARK = (
    "@media(prefers-color-scheme:dark){"
    f"rect[fill='{_UNUSED}']{{fill:#0d1117}}svg>text,rect[fill='{_UNUSED}']+text{{fill:#e6edf3}}"
    f"rect[fill='{_COMM}']{{stroke:#9198a1}}}}"
)


@dataclass(frozen=True)
class Cell:
    """A core: its number, its online CPUs as a list, its character and what it is for."""

    core: int
    cpus: str
    letter: str
    purpose: str


@dataclass(frozen=True)
class Row:
    """The cores of one NUMA node in one socket, by lowest CPU."""

    socket: int
    node: int
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class CoreMap(Document):
    """The cores of a node and what each is for. ranks: how many the node has. offline: CPUs as a list, or empty."""

    rows: tuple[Row, ...]
    ranks: int
    offline: str

    @classmethod
    def of(cls, allocation: Allocation) -> CoreMap:
        """Return the map of an allocation."""
        parts = _parts(allocation)
        rows: dict[tuple[int, int], list[Core]] = {}
        for core in sorted(allocation.topology.cores, key=lambda core: (core.socket, core.node, core.online_cpus[0])):
            rows.setdefault((core.socket, core.node), []).append(core)
        offline = dict(allocation.topology.excluded).get(OFFLINE)
        return cls(
            tuple(
                Row(
                    socket,
                    node,
                    tuple(Cell(core.number, format_cpus(core.online_cpus), *parts[core.number]) for core in cores),
                )
                for (socket, node), cores in rows.items()
            ),
            len(allocation.ranks),
            format_cpus(offline) if offline else "",
        )

    def letters(self) -> dict[str, Any]:
        """Return the characters alone: {rows: [{socket, node, letters}], offline}."""
        rows = [
            {"socket": row.socket, "node": row.node, "letters": "".join(cell.letter for cell in row.cells)}
            for row in self.rows
        ]
        return {"rows": rows, "offline": self.offline}

    def text(self) -> str:
        """Return lines such as `socket 0  node 0  sc000000 00000000`, and what the characters mean."""
        drawn = self.letters()
        return "\n".join(
            [*letter_rows(drawn["rows"]), f"one character is one core: {self._legend()}", *offline_line(self.offline)]
        )

    def svg(self, title: str = "") -> str:
        """Return the same as an SVG document; each cell's tooltip names the core's CPUs. `title` is its heading."""
        longest = max(len(row.cells) for row in self.rows)
        step = _CELL + _GAP
        blocks = -(-longest // _BLOCK)
        footer = [f"one cell is one core: {self._legend()}", *offline_line(self.offline)]
        width = _LABEL + longest * step + blocks * _GAP * 2
        # Wide fonts fit, too. The title is larger, and bold.
        width = max(width, 20 + 10 * len(title), 20 + 8 * max(map(len, footer)))
        top = 34 if title else 10
        height = top + len(self.rows) * (step + 6) + 20 * len(footer) + 8
        body = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
            *([f"<title>{escape(title)}</title>"] if title else []),
            f"<style>{_DARK}</style>",
            f'<rect width="{width}" height="{height}" fill="{_UNUSED}"/>',
        ]
        if title:
            body.append(f'<text x="10" y="22" font-size="14" font-weight="bold">{escape(title)}</text>')
        for index, row in enumerate(self.rows):
            y = top + index * (step + 6)
            body.append(f'<text x="10" y="{y + 12}">socket {row.socket}, NUMA node {row.node}</text>')
            for column, cell in enumerate(row.cells):
                x = _LABEL + column * step + column // _BLOCK * _GAP * 2
                body.append(_drawn(cell, x, y))
        for index, line in enumerate(footer):
            y = top + len(self.rows) * (step + 6) + 14 + 20 * index
            body.append(f'<text x="10" y="{y}">{escape(line)}</text>')
        return "\n".join([*body, "</svg>", ""])

    def _legend(self) -> str:
        return legend(self.ranks, {cell.letter for row in self.rows for cell in row.cells})


def letter_rows(rows: Collection[dict[str, Any]]) -> list[str]:
    """Return a line for each row {socket, node, letters}: its label, and its characters in blocks of eight."""
    labels = [f"socket {row['socket']}  node {row['node']}" for row in rows]
    width = max(map(len, labels))
    return [f"{label:<{width}}  {in_blocks(row['letters'])}" for label, row in zip(labels, rows)]


def in_blocks(letters: str) -> str:
    """Return characters in blocks of eight, for the eye."""
    return " ".join(letters[at : at + _BLOCK] for at in range(0, len(letters), _BLOCK))


def offline_line(offline: str) -> list[str]:
    """Return the line that names the CPUs that are offline, where there are any."""
    return [f"offline: CPUs {offline}"] if offline else []


def colour(letter: str) -> str:
    """Return the colour of a core with this character."""
    place = RANK_LETTERS.find(letter)
    return _COLOURS[place % len(_COLOURS)] if place >= 0 else _NOT_COMPUTING.get(letter, _UNUSED)


def _drawn(cell: Cell, x: int, y: int) -> str:
    fill = colour(cell.letter)
    ink = "#000000" if fill in (_SYSTEM, _UNUSED, "#ccbb44", "#66ccee") else "#ffffff"
    return (
        f"<g><title>core {cell.core}, CPUs {cell.cpus}: {escape(cell.purpose)}</title>"
        f'<rect x="{x}" y="{y}" width="{_CELL}" height="{_CELL}" rx="2" fill="{fill}" '
        f'stroke="#666666" stroke-width="0.5"/>'
        f'<text x="{x + _CELL // 2}" y="{y + 12}" text-anchor="middle" font-size="10" fill="{ink}">'
        f"{escape(cell.letter)}</text></g>"
    )


def _parts(allocation: Allocation) -> dict[int, tuple[str, str]]:
    """Return {core: (its character, what it is for)}."""
    parts: dict[int, tuple[str, str]] = {}
    for rank in allocation.ranks:
        letter = RANK_LETTERS[rank.rank % len(RANK_LETTERS)]
        parts.update((core.number, (letter, f"compute, rank {rank.rank}")) for core in rank.compute_cores)
        parts.update((core.number, ("c", f"communication, rank {rank.rank}")) for core in rank.comm_cores)
    parts.update((core.number, ("s", "system")) for core in allocation.reserved_cores)
    parts.update((core.number, ("r", "system, left over")) for core in allocation.remainder_cores)
    for core in allocation.topology.cores:
        parts.setdefault(core.number, ("-", "unused: not for this job"))
    return parts


def described(plan: Allocation) -> dict[str, Any]:
    """Return an allocation with its map as plain data: what the module core_allocation returns, and the plan of a job
    and a pod have of a host."""
    return {**plan.as_dict(), "core_map": CoreMap.of(plan).to_json()}


def legend(ranks_per_node: int, letters: Collection[str]) -> str:
    """Return the meaning of the characters that are in a map. ranks_per_node: how many the node has."""
    words = [f"{RANK_LETTERS[0]} computes for rank 0" if ranks_per_node == 1 else _rank_letters(ranks_per_node)]
    return ", ".join(words + [meaning for letter, meaning in MEANINGS.items() if letter in letters])


def _rank_letters(ranks_per_node: int) -> str:
    letters = len(RANK_LETTERS)
    last = RANK_LETTERS[min(ranks_per_node, letters) - 1]
    again = f", from rank {letters} again from 0" if ranks_per_node > letters else ""
    return (
        f"0-{last} compute for the rank of that number (A is 10){again}"
        if ranks_per_node > 10
        else f"0-{last} compute for that rank"
    )
