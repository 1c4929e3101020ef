from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.amx.cluster.plugins.module_utils._hosts import systems

ROOT = Path(__file__).resolve().parents[5]
CATALOGUE = yaml.safe_load((ROOT / "roles/torch_stack/vars/stacks.yml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("ubuntu 22.04", "Ubuntu 22.04"),
        ("rocky 9.4", "RHEL, Rocky Linux, AlmaLinux, CentOS Stream 9"),
    ],
)
def test_known(name: str, title: str) -> None:
    system = systems.find(name)
    assert system is not None
    assert system.title == title


@pytest.mark.parametrize(
    "name", ["debian 11", "debian 1", "ubuntu 22.10", "ubuntu 22", "rhel 90", "amzn 2", "debian", ""]
)
def test_unknown(name: str) -> None:
    assert systems.find(name) is None
    assert systems.describe(name) == {"known": False, "packages": {"nftables": "nftables"}}
    assert systems.newer(name) == {}


def test_packages() -> None:
    assert systems.describe("rocky 9.4") == {
        "known": True,
        "packages": {"nftables": "nftables", "tcmalloc": "gperftools-libs"},
    }
    assert list(systems.newer("rocky 9.4").items()) == [("3.12", "python3.12"), ("3.11", "python3.11")]
    assert systems.newer("debian 13") == {}


def test_a_name_is_of_one_system() -> None:
    for system in systems.SYSTEMS:
        for identifier in system.ids:
            assert systems.find(f"{identifier} {system.version}") is system


def test_every_system_has_a_python_for_the_stack_that_is_taken_by_default() -> None:
    usable = CATALOGUE["__torch_stack_catalogue"]["native"]["python"]
    for system in systems.SYSTEMS:
        assert {system.python, *system.newer} & set(usable), system.title
        assert (system.newer_from != "") == bool(system.newer), system.title
