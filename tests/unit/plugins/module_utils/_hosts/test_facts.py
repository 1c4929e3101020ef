from __future__ import annotations

import platform
import socket
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._hosts import facts
from support.sound_cluster import CAPTURED


def test_addresses_of_this_machine() -> None:
    found = {row["address"]: row for row in facts.addresses()}
    loopback = {"interface": "lo", "address": "127.0.0.1", "network": "127.0.0.0/8", "default": False, "named": ""}
    assert found["127.0.0.1"] == loopback
    names = {name for _index, name in socket.if_nameindex()}
    assert {row["interface"] for row in found.values()} <= names


def test_the_default_route(tmp_path: Path) -> None:
    routes = tmp_path / "route"
    routes.write_text(
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
        "eth9\t0000A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
        "lo\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
        "eth9\t00000000\t010011AC\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
    )
    assert {row["interface"] for row in facts.addresses(routes) if row["default"]} == {"lo"}


def test_read_this_machine(tmp_path: Path) -> None:
    host = facts.read(tmp_path / "cluster" / "prefix", amx_root=str(CAPTURED / "sapphire_rapids"))
    assert host["machine"] == platform.machine()
    assert (host["isa"], host["cpu_model"]) == ("amx", "Intel(R) Xeon(R) Platinum 8480+")
    assert host["amx"]["reason"] == "not_asked"
    assert (host["prefix"], host["prefix_ancestor"]) == (str(tmp_path / "cluster/prefix"), str(tmp_path))
    assert host["prefix_writable"]
    assert host["prefix_free_bytes"] > 0
    assert 0 < host["memory_available_bytes"] <= host["memory_bytes"]
    assert host["python"] == platform.python_version()
    assert host["name"] == socket.gethostname()


def test_the_cluster_network_of_this_machine(tmp_path: Path) -> None:
    loopback = {"interface": "lo", "address": "127.0.0.1", "network": "127.0.0.0/8"}
    assert facts.read(tmp_path, network="127.0.0.0/8")["network"] == loopback
    assert "cluster_network 203.0.113.0/24; " in facts.read(tmp_path, network="203.0.113.0/24")["network"]["refused"]


def test_a_file_is_no_place_for_a_prefix(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert not facts.read(tmp_path / "file")["prefix_writable"]


def test_the_system(tmp_path: Path) -> None:
    assert facts._os_name(tmp_path / "os-release") == ""
    (tmp_path / "os-release").write_text('NAME="Red Hat Enterprise Linux"\nID="rhel"\nVERSION_ID="9.4"\n')
    assert facts._os_name(tmp_path / "os-release") == "rhel 9.4"


def test_addresses_that_the_inventory_names() -> None:
    assert {row["named"] for row in facts.addresses(chosen="127.0.0.1") if row["address"] == "127.0.0.1"} == {
        "cluster_address"
    }
    with pytest.raises(ValueError, match=r"^cluster_address is 192\.0\.2\.9, and this host has .*127\.0\.0\.1"):
        facts.addresses(chosen="192.0.2.9")
