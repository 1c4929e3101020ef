# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The content of inference.json. docs/inference.md says what each field is."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._documents import Document


@dataclass(frozen=True)
class Cell(Document):
    """A model with one setting, and what was measured of it.

    path, small, configured: where the model is from, see inference_matrix. setting: its place in the benchmark's
    settings, of which a host may refuse the instances and threads, which are None then. round: in which it was measured
    last. cut: why it was not measured for the full time. confirming: what confirming runs have found. again: whether
    the same command tries it again. What comes after is of inference_files.
    """

    id: str
    model: str
    path: str | None
    small: str | None
    configured: str | None
    evaluation: str | None
    task: str | None
    precision: str
    int8: str | None
    engine: str
    channels_last: bool
    batch_size: int
    sequence_length: int | None
    new_tokens: int | None
    setting: int
    instances_per_node: Any
    threads_per_instance: Any
    instances: Any
    state: str
    reason: str
    hosts: int
    round: int = 0
    cut: str = ""
    confirming: list[dict[str, Any]] = field(default_factory=list)
    again: bool = False
    throughput: dict[str, Any] | None = None
    latency_ms: dict[str, float] | None = None
    first_call_seconds: float | None = None
    peak_memory_bytes: float | None = None
    overhead: float | None = None
    isa: str | None = None
    int8_route: str | None = None
    emulated: bool = False
    agreement: dict[str, Any] | None = None
    new_weights: list[Any] = field(default_factory=list)
    generation: dict[str, Any] | None = None
    open_loop: list[dict[str, Any]] = field(default_factory=list)
    autocast: bool = False

    def speed(self) -> float:
        """Return the throughput of a cell that was measured, in samples a second over all instances."""
        return float(self.throughput["value"]) if self.throughput else 0.0

    def latency(self, name: str = "p99") -> float:
        """Return a figure of the latencies of a cell that was measured, in milliseconds."""
        return float(self.latency_ms[name]) if self.latency_ms else 0.0


@dataclass(frozen=True)
class Trial(Document):
    """A job that measures cells of one setting.

    turn: of the confirming runs. tried_again: it counts no longer. began: in seconds since the Unix epoch.
    """

    job: str
    round: int
    setting: int
    cells: list[str]
    seconds: float | None = None
    state: str = "pending"
    reason: str = ""
    turn: int | None = None
    tried_again: bool = False
    began: float | None = None


@dataclass(frozen=True)
class Benchmark(Document):
    """A benchmark. entered: the cells of round 2. confirm: {cells, turns, reason} of the confirming runs."""

    version: int
    job: str
    started: str
    ended: str | None
    state: str
    cpu: str | None
    stack: str | None
    hosts: int
    names: list[str]
    limit_p99_ms: float | None
    least_agreement: float
    budget_minutes: float
    used_minutes: float = 0.0
    cells: list[Cell] = field(default_factory=list)
    recommended: dict[str, dict[str, Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    models: dict[str, dict[str, Any]] = field(default_factory=dict)
    settings: list[dict[str, Any]] = field(default_factory=list)
    rounds: int | None = None
    entered: list[str] | None = None
    confirm: dict[str, Any] | None = None
    trials: list[Trial] = field(default_factory=list)
    running: Trial | None = None
    request: dict[str, Any] = field(default_factory=dict)

    def in_state(self, state: str, model: str | None = None) -> list[Cell]:
        """Return the cells in this state, of all models or of one."""
        return [cell for cell in self.cells if cell.state == state and model in (None, cell.model)]

    def named(self, ids: Collection[str]) -> list[Cell]:
        """Return the cells with these ids, in the order of these."""
        by_id = {cell.id: cell for cell in self.cells}
        return [by_id[each] for each in ids]

    def with_cells(self, change: Callable[[Cell], Cell], ids: Collection[str] | None = None) -> Benchmark:
        """Return the benchmark with its cells changed, all of them or those with these ids."""
        cells = [change(cell) if ids is None or cell.id in ids else cell for cell in self.cells]
        return replace(self, cells=cells)
