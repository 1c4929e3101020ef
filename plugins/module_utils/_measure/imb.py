# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what IMB-MPI1 (Intel MPI Benchmarks 2021.11) prints.

A benchmark begins with "# Benchmarking Allreduce" and "# #processes = 4", then a line of column names with units, and a
line for each size: bytes, repetitions, and t_min, t_max, t_avg in µs over the ranks.
"""

from __future__ import annotations

import re
from typing import Any

# The names of torch.distributed, and those of IMB-MPI1.
BENCHMARKS = {
    "broadcast": "Bcast",
    "reduce": "Reduce",
    "reduce_scatter": "Reduce_scatter",
    "all_reduce": "Allreduce",
    "all_gather": "Allgather",
    "all_to_all": "Alltoall",
}
_OPERATIONS = {benchmark: operation for operation, benchmark in BENCHMARKS.items()}
# Whose size is that of the block which a rank sends, so that a rank's tensor has as many blocks as there are ranks.
_BLOCKS = ("all_gather", "all_to_all")
_TITLE = re.compile(r"# Benchmarking (\S+)")
_RANKS = re.compile(r"# #processes = (\d+)")
# A rank's prefix, as mpirun -l has it, is none of this.
_ROW = re.compile(r"\s*(\d+)\s+\d+\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s*")


def collectives(text: str) -> list[dict[str, Any]]:
    """Return each size of each collective that was measured: {operation, bytes, ranks, microseconds, low, high}.

    bytes: of a rank's complete tensor, which for all_gather and all_to_all is IMB's size times the ranks. microseconds:
    the mean over the ranks of the mean over the repetitions; low, high: those of the fastest and the slowest rank.
    Sizes that IMB left out are missing, as is what else the log has.
    """
    rows: list[dict[str, Any]] = []
    operation, ranks = "", 0
    for line in text.splitlines():
        title, number, row = _TITLE.match(line), _RANKS.match(line), _ROW.fullmatch(line)
        if title:
            operation, ranks = _OPERATIONS.get(title[1], ""), 0
        elif number:
            ranks = int(number[1])
        elif row and ranks and operation:
            size = int(row[1]) * (ranks if operation in _BLOCKS else 1)
            low, high, mean = (float(value) for value in row.groups()[1:])
            about = {"operation": operation, "bytes": size, "ranks": ranks}
            rows.append({**about, "microseconds": mean, "low": low, "high": high})
        elif not line.strip():  # the end of a table
            ranks = 0
    return rows
