from __future__ import annotations

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks import system
from support.sound_cluster import found_on_node1


def test_architecture() -> None:
    assert found_on_node1(system.architecture, {"machine": "aarch64"}) == ["the architecture is aarch64"]


@pytest.mark.parametrize(
    ("version", "texts"),
    [
        ("2.28", []),
        ("2.27", ["the C library is glibc 2.27"]),
        ("2.9", ["the C library is glibc 2.9"]),
        ("", ["the C library is not glibc"]),
    ],
)
def test_glibc(version: str, texts: list[str]) -> None:
    assert found_on_node1(system.glibc, {"glibc": version}) == texts


def test_unknown_os() -> None:
    assert found_on_node1(system.unknown_os, {"os": "fedora 43"}) == ["the system fedora 43 is not known"]
    assert found_on_node1(system.unknown_os, {"os": ""}) == ["the system (no /etc/os-release) is not known"]
    assert found_on_node1(system.unknown_os, {"os": "fedora 43"}, unknown_os="allow") == []
    assert found_on_node1(system.unknown_os, {"os": "almalinux 10.1"}) == []
    assert "Debian 12 and 13; Ubuntu 22.04 and 24.04; " in system.unknown_os.advice
    assert "set cluster_unknown_os to allow" in system.unknown_os.advice


def test_os() -> None:
    text = "the system is ubuntu 24.04, but debian 12 on node0, node2"
    assert found_on_node1(system.os, {"os": "ubuntu 24.04"}) == [text]


@pytest.mark.parametrize(
    ("denied", "text"),
    [
        (["set_mempolicy"], "set_mempolicy is forbidden"),
        (["set_mempolicy", "process_vm_readv"], "set_mempolicy and process_vm_readv are forbidden"),
    ],
)
def test_system_calls(denied: list[str], text: str) -> None:
    assert found_on_node1(system.system_calls, {"denied_calls": denied}) == [text]


def test_calls_are_tried() -> None:
    """They harm nothing: whatever this machine allows, the answer names only the two."""
    assert set(system.denied_calls()) <= {"set_mempolicy", "process_vm_readv"}
