"""What the real libfabric of the wheel impi-rt says of its providers on this machine."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.amx.cluster.plugins.module_utils._hosts import fabrics
from ansible_collections.amx.cluster.plugins.module_utils._stacks import intel_mpi, libfabric


def test_every_fabric_is_known_to_the_wheel(environment: Path) -> None:
    """A file for each provider; and what one lacks is a library that has a package, or a device."""
    for name in fabrics.FABRICS:
        assert list((environment / "lib").glob(f"lib{libfabric.FILES.get(name, name)}*-fi.so")), name
    unusable = libfabric.unusable(intel_mpi.mpi_environment(str(environment)), ["tcp", *fabrics.FABRICS])
    assert unusable.pop("tcp") == ""
    for name, why in unusable.items():
        missing = why.endswith(" is missing") and why.split()[0] in fabrics.PACKAGES
        assert missing or why.startswith("it finds no device") or why == "", (name, why)
