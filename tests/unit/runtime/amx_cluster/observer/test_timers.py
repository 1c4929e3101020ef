"""The division of a rank's time by a clock of the test. tests/integration/test_measured.py has the real torch."""

from __future__ import annotations

import os
import threading
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest
from amx_cluster.observer import timers, timing
from amx_cluster.observer.gradients import Gradients
from ansible_collections.amx.cluster.plugins.module_utils._jobs.wire import PARTS
from hypothesis import given
from hypothesis import strategies as st


class Optimizer:
    """One that can be referred to weakly."""


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def made(warmup: int = 1) -> tuple[Any, Clock]:
    clock = Clock()
    found = timers.Timers(clock)
    found.warmup, found.thread = warmup, threading.get_ident()
    return found, clock


def test_a_step_with_input_and_communication() -> None:
    timer, clock = made()
    optimizer, other = Optimizer(), Optimizer()
    for _step in range(4):
        clock.now += 0.5  # other, but in the first step
        timer.enter(timers.INPUT)
        clock.now += 1
        timer.enter(timers.COMMUNICATION)  # within the input
        clock.now += 0.25
        timer.leave()
        timer.leave()
        timer.delivering()
        clock.now += 2
        timer.enter(timers.COMPUTE)
        clock.now += 3
        timer.spend()
        timer.part = timers.COMMUNICATION
        clock.now += 4
        timer.leave()
        timer.step(optimizer)
        timer.step(other)  # which does not lead
    found = timer.summary()
    parts = {"compute": 5, "communication": 4.25, "input": 1, "other": 0.5}
    assert {name: found[name] for name in PARTS} == parts
    assert (found["made"], found["steps"], found["step_seconds"]["mean"]) == (4, 3, sum(parts.values()))


def test_an_optimizer_that_is_gone_no_longer_leads() -> None:
    timer, _clock = made(0)
    first, second = Optimizer(), Optimizer()
    timer.step(first)
    timer.step(second)
    assert timer.steps == 1
    del first
    timer.step(second)
    assert timer.steps == 2


def test_only_the_main_thread_of_the_process_counts() -> None:
    timer, _clock = made()
    optimizer = Optimizer()
    other = threading.Thread(target=timer.step, args=(optimizer,))
    other.start()
    other.join()
    assert timer.steps == 0
    timer.pid = os.getpid() + 1  # as in a forked child
    timer.step(optimizer)
    assert timer.steps == 0


@pytest.mark.slow
@given(
    steps=st.lists(st.floats(0.001, 100), min_size=1, max_size=40), warmup=st.integers(0, 10), kept=st.integers(2, 9)
)
def test_the_warm_up_is_left_out_and_times_are_bounded(steps: list[float], warmup: int, kept: int) -> None:
    timer, clock = made(warmup)
    before = timers.KEPT
    vars(timers)["KEPT"] = kept
    optimizer = Optimizer()
    for seconds in steps:
        clock.now += seconds
        timer.step(optimizer)
    vars(timers)["KEPT"] = before
    counted = steps[max(1, warmup) :]
    found = timer.summary()
    assert (found["made"], found["steps"]) == (len(steps), len(counted))
    assert len(timer.seconds) <= kept
    if counted:
        assert found["step_seconds"]["mean"] == pytest.approx(sum(counted) / len(counted))
        assert min(counted) - 1e-9 <= found["step_seconds"]["low"] <= found["step_seconds"]["high"]
        assert found["step_seconds"]["high"] <= max(counted) + 1e-9
        assert sum(found[name] for name in PARTS) == pytest.approx(sum(counted) / len(counted))


def test_optimizers_of_torch_1_13(monkeypatch: pytest.MonkeyPatch) -> None:
    class Old:
        hooked = False

        def __init__(self) -> None:
            self._hook_for_profile()

        def _hook_for_profile(self) -> None:
            pass

        def step(self) -> str:
            return "done"

    monkeypatch.setitem(__import__("sys").modules, "torch", ModuleType("torch"))
    seen: list[Any] = []
    timed = timing.Timing({}, cast(Gradients, None))
    monkeypatch.setattr(timed.timers, "step", seen.append)
    timed.watch_optimizers(SimpleNamespace(Optimizer=Old))
    first, second = Old(), Old()
    assert [first.step(), second.step()] == ["done", "done"]
    assert seen == [first, second]


def test_bytes_of_tensors_in_lists() -> None:
    tensor = SimpleNamespace(numel=lambda: 3, element_size=lambda: 4)
    assert timing.bytes_of([[tensor, tensor], (tensor,), None]) == 36


@pytest.mark.slow
@given(st.lists(st.floats(min_value=0.01, max_value=10), min_size=1, max_size=200))
def test_blocks_of_steps_have_the_time_of_computing(steps: list[float]) -> None:
    timer, clock = made()
    optimizer = Optimizer()
    timer.step(optimizer)  # the warm-up
    for seconds in steps:
        clock.now += seconds
        timer.enter(timers.COMMUNICATION)
        clock.now += 1
        timer.leave()
        timer.step(optimizer)
    blocks = timer.summary()["compute_blocks"]
    size = timer.block_steps
    assert len(blocks) == len(steps) // size <= timers.BLOCKS
    assert len(steps) < timers.BLOCKS or len(blocks) >= timers.BLOCKS // 2
    expected = [sum(steps[at : at + size]) / size for at in range(0, len(blocks) * size, size)]
    assert blocks == pytest.approx(expected, rel=1e-4)
