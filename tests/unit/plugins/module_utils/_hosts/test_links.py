"""The nominal speed of interfaces, from trees as the kernel has them in /sys."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._hosts import links


class Machine:
    """A /sys that is written file by file."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def interface(self, name: str, speed: str = "", lower: tuple[str, ...] = (), hardware: bool = True) -> None:
        folder = self.root / "sys/class/net" / name
        folder.mkdir(parents=True)
        if speed:
            (folder / "speed").write_text(f"{speed}\n")
        if hardware:
            (folder / "device").mkdir()
        for other in lower:
            (folder / f"lower_{other}").symlink_to(f"../{other}")

    def infiniband(self, name: str, rate: str, interface: str, state: str = "4: ACTIVE") -> None:
        device = self.root / "sys/class/infiniband" / name
        (device / "ports/1").mkdir(parents=True)
        (device / "device/net" / interface).mkdir(parents=True)
        for file, text in {"rate": rate, "state": state, "link_layer": "InfiniBand", "phys_state": "5: LinkUp"}.items():
            (device / "ports/1" / file).write_text(f"{text}\n")

    def speed(self, name: str) -> int | None:
        return links.read([name], str(self.root))[name]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize(
    ("speed", "expected"), [("25000", 25000), ("-1", None), ("4294967295", None), ("", None), ("fast", None)]
)
def test_an_interface_with_hardware(machine: Machine, speed: str, expected: int | None) -> None:
    machine.interface("eth0", speed)
    assert machine.speed("eth0") == expected


@pytest.mark.parametrize("name", ["veth0", "tun0", "lo"])
def test_a_virtual_interface_has_no_speed_whatever_it_says(machine: Machine, name: str) -> None:
    machine.interface(name, "10000", hardware=False)
    assert machine.speed(name) is None


def test_a_bond_is_as_fast_as_its_slowest_interface(machine: Machine) -> None:
    machine.interface("eth0", "25000")
    machine.interface("eth1", "10000")
    machine.interface("bond0", "35000", ("eth0", "eth1"), hardware=False)
    machine.interface("bond0.7", "35000", ("bond0",), hardware=False)
    assert machine.speed("bond0") == machine.speed("bond0.7") == 10000


def test_virtual_interfaces_of_a_bridge_do_not_count(machine: Machine) -> None:
    machine.interface("eth0", "1000")
    machine.interface("veth1", "10000", hardware=False)
    machine.interface("br0", "10000", ("eth0", "veth1"), hardware=False)
    assert machine.speed("br0") == 1000
    machine.interface("br1", "10000", ("veth1",), hardware=False)
    assert machine.speed("br1") is None


def test_interfaces_that_lie_on_each_other_end(machine: Machine) -> None:
    machine.interface("a", "10", ("b",), hardware=False)
    machine.interface("b", "10", ("a",), hardware=False)
    assert machine.speed("a") is None


def test_infiniband(machine: Machine) -> None:
    machine.interface("ib0")
    machine.infiniband("mlx5_0", "200 Gb/sec (4X HDR)", "ib0")
    machine.interface("ib1")
    machine.infiniband("mlx5_1", "2.5 Gb/sec (1X SDR)", "ib1", "1: DOWN")
    assert machine.speed("ib0") == 200000
    assert machine.speed("ib1") is None


def test_this_machine() -> None:
    assert links.read(["lo", "lo"]) == {"lo": None}
