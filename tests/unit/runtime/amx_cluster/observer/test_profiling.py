"""Events as torch.profiler has them, of kinds and in nests of which the sums are known."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest
from amx_cluster.observer import profiling, timing
from amx_cluster.observer.gradients import Gradients
from amx_cluster.observer.profiling import ENGINE, Profiling
from ansible_collections.amx.cluster.plugins.module_utils._jobs.wire import OPERATIONS


class Events:
    """Makes events one after another, each with what is within it; times are in microseconds."""

    def __init__(self) -> None:
        self.made: list[Any] = []
        self.now = 0.0

    def add(self, name: str, own: float, *within: Any, number: int = -1, thread: int = 1) -> Any:
        """within: (name, own time, ...) of each event within this one, as the arguments here."""
        event: Any = SimpleNamespace(name=name, sequence_nr=number, thread=thread, is_async=False, cpu_parent=None)
        self.made.append(event)
        start = self.now
        self.now += own
        for inner in within:
            arguments = dict(inner[-1]) if isinstance(inner[-1], dict) else {}
            child = self.add(*(inner[:-1] if arguments else inner), **arguments)
            child.cpu_parent = event
        event.time_range = SimpleNamespace(start=start, end=self.now)
        event.self_cpu_time_total, event.cpu_time_total = own, self.now - start
        return event

    def kinds(self, seconds: float, waited: float = 0.0) -> dict[str, float]:
        """Return the kinds that are not zero, in microseconds."""
        kinds, _operations = profiling.summed(self.made, seconds / 1e6, waited / 1e6)
        assert list(kinds) == list(OPERATIONS)
        assert sum(kinds.values()) == pytest.approx(seconds / 1e6)
        return {kind: round(spent * 1e6) for kind, spent in kinds.items() if round(spent * 1e6)}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((f"aten::{name}", "products") for name in ("mm", "addmm", "bmm", "baddbmm", "_addmm_activation", "mv")),
        *((f"aten::{name}", "products") for name in ("convolution", "convolution_backward", "_slow_conv2d_forward")),
        *((name, "products") for name in ("aten::mkldnn_linear", "torch_ipex::ipex_linear")),
        ("aten::scaled_dot_product_attention", "attention"),
        ("aten::_scaled_dot_product_flash_attention_for_cpu_backward", "attention"),
        (f"{ENGINE}ScaledDotProductFlashAttentionForCpuBackward0", "attention"),
        *((name, "attention") for name in ("Attention", "AttentionBackward", f"{ENGINE}AttentionBackward")),
        *((f"aten::{name}", "dropout") for name in ("dropout", "native_dropout_backward", "bernoulli_", "random_")),
        *((f"aten::{name}", "dropout") for name in ("feature_dropout_", "rand_like", "randperm", "normal_")),
        *((name, "optimizer") for name in ("Optimizer.step#AdamW.step", "aten::_fused_adamw_", "aten::_foreach_norm")),
        *((name, "collectives") for name in ("c10d::allreduce_", "gloo:all_reduce", "record_param_comms")),
        ("torch.distributed.ddp.reducer::copy_bucket_to_grad", "collectives"),
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "input"),
        ("aten::_to_copy", "casts"),
        *((f"aten::{name}", "") for name in ("copy_", "add", "_softmax", "embedding", "native_layer_norm")),
        *((name, "") for name in ("MyAttention", "DistributedDataParallel.forward", "AddmmBackward0", "mm")),
    ],
)
def test_what_decides(name: str, kind: str) -> None:
    assert profiling.decides(name) == kind


def test_the_outermost_that_decides_counts() -> None:
    events = Events()
    events.add("aten::linear", 1, ("aten::to", 2, ("aten::_to_copy", 4, ("aten::copy_", 8))), ("aten::addmm", 100))
    events.add("Attention", 10, ("aten::bmm", 20), ("aten::bernoulli_", 30, ("aten::random_", 5)))
    events.add("aten::dropout", 3, ("aten::bernoulli_", 40), ("aten::mul", 7))
    events.add("Optimizer.step#SGD.step", 50, ("aten::mul_", 60), ("aten::_to_copy", 1))
    events.add("aten::gelu", 9)
    events.add("what the script calls so", 1000, ("aten::add", 11))
    assert events.kinds(2000) == {
        "products": 101,
        "casts": 14,
        "attention": 65,
        "dropout": 50,
        "optimizer": 111,
        "elementwise": 20,
        "other": 2000 - 101 - 14 - 65 - 50 - 111 - 20,
    }


def test_a_backward_pass_is_of_the_kind_that_made_it() -> None:
    events = Events()
    events.add("aten::dropout", 1, ("aten::bernoulli_", 2, {"number": 7}), ("aten::mul", 3, {"number": 7}), number=7)
    events.add("aten::scaled_dot_product_attention", 4, ("aten::bmm", 5, {"number": 8}), number=8)
    events.add("aten::linear", 0, ("aten::_to_copy", 6, {"number": 9}), ("aten::addmm", 7, {"number": 10}), number=9)
    for number, name, inner in ((10, "Addmm", "mm"), (9, "ToCopy", "_to_copy"), (8, "Bmm", "bmm"), (7, "Mul", "mul")):
        node = (f"{name}Backward0", 0, (f"aten::{inner}", 100), {"number": number})
        events.add(f"{ENGINE}{name}Backward0", 10, node, number=number)
    assert events.kinds(1000) == {
        "products": 107,
        "casts": 106,
        "attention": 119,
        "dropout": 116,
        "other": 1000 - 107 - 106 - 119 - 116,
    }


def test_the_last_step_of_the_optimizer_has_not_ended() -> None:
    events = Events()
    events.add("aten::mm", 10)
    step = events.add("Optimizer.step#AdamW.step", 0)
    events.add("aten::add_", 20, ("aten::to", 1))
    events.add("aten::mul_", 30)
    events.now += 5
    step.time_range.end, step.is_async, step.self_cpu_time_total = events.now, True, 0
    assert events.kinds(100) == {"products": 10, "optimizer": 56, "other": 34}


def test_only_the_thread_of_the_steps_counts() -> None:
    events = Events()
    events.add("Optimizer.step#SGD.step", 1)
    events.add("gloo:all_reduce", 5000, thread=2)
    assert events.kinds(10) == {"optimizer": 1, "other": 9}


def test_waits_that_no_operation_shows_are_collectives() -> None:
    events = Events()
    events.add("c10d::allreduce_", 10)
    assert events.kinds(100, waited=60) == {"collectives": 60, "other": 40}
    assert events.kinds(100, waited=5) == {"collectives": 10, "other": 90}
    assert events.kinds(30, waited=500) == {"collectives": 30}


def test_the_operations_with_the_most_time() -> None:
    events = Events()
    for place in range(12):
        events.add(f"aten::op{place}", place)
    events.add(f"{ENGINE}XBackward0", 1, ("XBackward0", 90))
    events.add("x" * 100, 80)
    _kinds, operations = profiling.summed(events.made, 1.0)
    assert len(operations) == 10
    assert operations[0] == {"name": "XBackward0", "kind": "other", "seconds": pytest.approx(91e-6), "calls": 1}
    assert operations[1]["name"] == "x" * 60
    assert operations[2] == {"name": "aten::op11", "kind": "elementwise", "seconds": pytest.approx(11e-6), "calls": 1}
    assert profiling.summed([], 2.0)[0]["other"] == 2.0


class Profiler:
    """Stands for torch's. events: what it returns, or raises."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, events: Any, enabled: bool = False) -> None:
        self.calls: list[str] = []
        self.found = events
        torch, of_torch = ModuleType("torch"), ModuleType("torch.profiler")
        self.prepared = SimpleNamespace(_prepare_trace=lambda inner: self.calls.append(inner))
        autograd = SimpleNamespace(_profiler_enabled=lambda: enabled, profiler=SimpleNamespace(profile=self.prepared))
        vars(torch).update(autograd=autograd, profiler=of_torch)
        vars(of_torch).update(ProfilerActivity=SimpleNamespace(CPU="cpu"), profile=lambda activities: self)
        monkeypatch.setitem(sys.modules, "torch", torch)
        monkeypatch.setitem(sys.modules, "torch.profiler", of_torch)

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")

    def events(self) -> Any:
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


def test_steps_are_profiled_after_the_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    events = Events()
    events.add("aten::mm", 10)
    profiler = Profiler(monkeypatch, events.made)
    profiled = Profiling(3, 2)
    assert [profiled.after(made, 0.0) for made in range(1, 8)] == [False, False, True, False, True, False, False]
    assert profiler.calls == ["start", "stop"]
    assert profiled.found["steps"] == 2
    assert profiled.found["kinds"]["products"] == pytest.approx(5e-6)
    assert sum(profiled.found["kinds"].values()) == pytest.approx(profiled.found["seconds"])
    assert profiled.found["operations"][0] | {"seconds": 0} == {
        **{"name": "aten::mm", "kind": "products", "seconds": 0, "calls": 0.5}
    }


def test_what_fails_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    Profiler(monkeypatch, MemoryError("no room"))
    profiled = Profiling(1, 1)
    assert [profiled.after(made, 0.0) for made in (1, 2, 3)] == [True, True, False]
    assert profiled.found == {"note": "MemoryError: no room"}
    Profiler(monkeypatch, [], enabled=True)
    profiled = Profiling(1, 1)
    profiled.after(1, 0.0)
    assert profiled.found == {"note": f"RuntimeError: {profiling.OTHERS}"}
    assert not profiled.after(2, 0.0)


def test_the_script_has_its_own_profiler(monkeypatch: pytest.MonkeyPatch) -> None:
    profiler = Profiler(monkeypatch, [])
    profiled = Profiling(1, 5)
    profiled.after(1, 0.0)
    profiler.prepared._prepare_trace("the script's")
    profiler.prepared._prepare_trace("another")
    assert profiler.calls == ["start", "stop", "the script's", "another"]
    assert not profiled.after(6, 0.0)
    assert profiled.found == {"note": profiling.OTHERS}


@pytest.mark.parametrize("is_first", [True, False])
def test_only_the_first_rank_of_a_host_profiles(monkeypatch: pytest.MonkeyPatch, is_first: bool) -> None:
    Profiler(monkeypatch, [])
    monkeypatch.setenv("KINETO_LOG_LEVEL", "1")
    gradients = SimpleNamespace(rank=SimpleNamespace(is_first=is_first))
    timed = timing.Timing({"warmup_steps": 2, "profile": 3}, cast(Gradients, gradients))
    optimizer = Events()  # anything that can be referred to weakly
    monkeypatch.setattr("amx_cluster.observer.backward.is_compiling", lambda: False)
    for _step in range(10):
        timed.after_step(optimizer)
    found = timed.summary()
    # Two of warm-up, three that are profiled, and the one in which the others wait.
    assert (found["made"], found["steps"]) == (10, 4)
    assert ("profile" in found) == is_first
    if is_first:
        assert found["profile"]["steps"] == 3
