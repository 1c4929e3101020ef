"""docs/core_allocation.md shows a map and a refusal as the allocation gives them."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._cores.allocation import Request, allocate
from ansible_collections.amx.cluster.plugins.module_utils._cores.core_map import CoreMap
from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import build
from support.machines import machine

PAGE = (Path(__file__).resolve().parents[3] / "docs/core_allocation.md").read_text(encoding="utf-8")
NODE = build(machine(1, 32, 2).cpus(), None)


def test_the_map() -> None:
    text = CoreMap.of(allocate(NODE, Request(2, "ccl", 1, 6))).text()
    assert f"\n\n    {text.splitlines()[0]}\n\n" in PAGE


def test_the_refusal() -> None:
    with pytest.raises(ValueError) as refused:
        allocate(NODE, Request(8, "ccl", 3, 2))
    assert str(refused.value) in " ".join(PAGE.split())
