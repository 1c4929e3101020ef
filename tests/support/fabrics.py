"""Reports of hosts with fabrics: made trees of /sys, see their README.md."""

from __future__ import annotations

from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._hosts import fabrics
from support.checkout import ROOT

TREES = ROOT / "tests/unit/fixtures/fabrics"


def facts(tree: str, memlock_bytes: int | None = None, **providers: str) -> dict[str, Any]:
    """Return the report of a host that has a tree's devices. providers: {fabric: why libfabric does not have it}."""
    read = fabrics.read(str(TREES / tree), memory_bytes=512 << 30)
    return {**read, "memlock_bytes": memlock_bytes, "providers": providers}


def lack(tree: str) -> str:
    """Return why a host that has a tree's devices cannot use mlx."""
    obstacle = fabrics.find_lack_everywhere("mlx", facts(tree))
    assert obstacle
    return obstacle.text
