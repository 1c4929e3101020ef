"""Measure one cell of an inference benchmark, in a process of its own (run_benchmark.py starts it)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from amx_cluster.inference import agreement, engines, isa, models, precision, tasks, timing
from amx_cluster.inference.loaded import Loaded, Unavailable
from amx_cluster.inference.tasks import Inputs
from amx_cluster.inference.together import Host

# Different inputs that the requests of a loop go through.
VARIETY = 4


class Measurement:
    """One instance's part of a cell. host: where the instances of this host meet. seconds: the cell's time limit."""

    def __init__(self, cell: Mapping[str, Any], rank: int, host: Host, seconds: float) -> None:
        self.cell = cell
        self.rank = rank
        self.host = host
        self.end = time.monotonic() + seconds
        self.found: dict[str, Any] = {}

    def run(self) -> dict[str, Any]:
        """Measure; return the fields of the result that are known (EMPTY of run_benchmark.py). Raises Unavailable."""
        import torch

        cell = self.cell
        engines.check(cell, cell["task"])
        precision.check(cell["precision"], bool(cell.get("emulation")), precision.cpu_flags())
        self._check_memory()
        began = time.perf_counter()
        loaded = models.load(cell, new_head=True)
        self.found["load_seconds"] = round(time.perf_counter() - began, 3)
        self.found["new_weights"] = loaded.new_weights
        if loaded.int8:
            raise Unavailable(f"{loaded.name} has int8 weights: measure the model that it was made of, in int8")
        size, length = int(cell["batch_size"]), cell.get("sequence_length")
        inputs = [tasks.synthetic(loaded, size, length, self.rank * VARIETY + number) for number in range(VARIETY)]
        with torch.inference_mode():
            reference = self._reference(loaded)
            self._prepare(loaded, inputs)
            self._loops(inputs, size)
            self._compare(reference)
            if self.host.number == 0:
                self.found["isa"] = isa.probe(lambda: self.prepared(inputs[0]))
        return self.found

    def _left(self) -> float:
        return max(0.0, self.end - time.monotonic())

    def _check_memory(self) -> None:
        """Refuse the cell before any instance of this host has loaded its model: the first one decides for all."""
        name = f"{self.cell['id']}.memory"
        if self.host.number == 0:
            try:
                models.check_memory(self.cell, self.host.count)
            except Unavailable as error:
                self.host.announce(name, str(error))
                raise
            self.host.announce(name, "")
        else:
            refusal = self.host.hear(name, self.cell["id"], self._left())
            if refusal:
                raise Unavailable(refusal)

    def _reference(self, loaded: Loaded) -> tuple[list[Inputs], str, list[Any]] | None:
        """Ask the model as it was loaded what its variant will be asked; one instance of the job is enough."""
        cell = self.cell
        if self.rank != 0 or (cell["precision"] == "fp32" and cell["engine"] == "eager"):
            return None
        batches, data = agreement.samples(loaded, cell)
        plain = {**cell, "precision": "fp32", "engine": "eager", "channels_last": False, "autocast": False}
        call = engines.prepare(loaded, plain, batches[0])
        # No longer than the measurement itself.
        answers = agreement.answers(call, batches, float(cell.get("seconds") or 3))
        return batches[: len(answers)], data, answers

    def _prepare(self, loaded: Loaded, inputs: list[Inputs]) -> None:
        """Convert the model and make the first request, which may compile it."""
        began = time.perf_counter()
        self.prepared = engines.prepare(loaded, self.cell, inputs[0], inputs)
        self.prepared(inputs[0])
        self.found["first_call_seconds"] = round(time.perf_counter() - began, 3)
        self.found["int8_route"] = self.prepared.int8_route
        self.found["emulated"] = self.prepared.emulated

    def _loops(self, inputs: list[Inputs], size: int) -> None:
        cell, call = self.cell, self.prepared
        generates = cell["task"] == "text-generation"
        prefill: list[float] = []
        tokens: list[float] = []

        def request(number: int) -> None:
            call(inputs[number % VARIETY])
            if generates:
                marks = call.marks
                prefill.append(marks[1] - marks[0])
                tokens.extend(after - before for before, after in zip(marks[1:], marks[2:]))

        timing.warm_up(request, int(cell.get("warmup") or 1))
        prefill.clear()
        tokens.clear()
        self.found["together"] = self.host.wait(cell["id"], "closed", self._left())
        loop = timing.closed_loop(request, float(cell.get("seconds") or 3))
        self.found.update(
            latencies_us=timing.microseconds(loop.latencies),
            count=loop.count,
            seconds=loop.seconds,
            samples=loop.count * size,
            throughput=timing.throughput(loop, size),
            overhead=loop.overhead(),
        )
        if generates:
            self.found["generation"] = {
                "prefill_us": timing.microseconds(prefill),
                "per_token_us": timing.microseconds(tokens),
            }
        self.found["open_loop"] = []
        for place, rate in enumerate(cell.get("rates") or []):
            seconds = float(cell.get("seconds") or 3)
            times = timing.arrivals(rate, seconds, seed=self.rank)
            self.host.wait(cell["id"], f"open{place}", self._left())
            loop = timing.open_loop(request, times, seconds)
            self.found["open_loop"].append(
                {
                    "rate": rate,
                    "latencies_us": timing.microseconds(loop.latencies),
                    "count": loop.count,
                    "offered": loop.offered,
                    "seconds": loop.seconds,
                }
            )

    def _compare(self, reference: tuple[list[Inputs], str, list[Any]] | None) -> None:
        if reference is None:
            return
        batches, data, expected = reference
        answered = agreement.answers(self.prepared, batches, seconds=float("inf"))
        self.found["agreement"] = {**agreement.compare(self.cell["task"], expected, answered), "data": data}
