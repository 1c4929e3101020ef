from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._hosts import fabrics
from ansible_collections.amx.cluster.plugins.module_utils._hosts.fabrics import Choice
from hypothesis import given
from hypothesis import strategies as st
from support.fabrics import TREES, facts

ALL = ("infiniband_hdr", "infiniband_down", "roce", "omni_path", "efa", "nothing")


def test_ports_of_an_infiniband_host() -> None:
    first, second = fabrics.ports(TREES / "infiniband_hdr")
    assert (first.device, first.number, first.vendor, first.link) == ("mlx5_0", 1, "0x15b3", "InfiniBand")
    assert (first.state, first.physical, first.rate) == ("ACTIVE", "LinkUp", "200 Gb/sec (4X HDR)")
    assert (first.interfaces, first.closed, first.active) == (("ib0",), "", True)
    assert (second.device, second.state, second.physical, second.active) == ("mlx5_1", "DOWN", "Disabled", False)


def test_the_same_adapter_as_iwarp(tmp_path: Path) -> None:
    shutil.copytree(TREES / "roce", tmp_path, dirs_exist_ok=True)
    (tmp_path / "sys/class/infiniband/irdma0/node_type").write_text("4: RNIC\n")
    assert [port.link for port in fabrics.ports(tmp_path)] == ["iWARP"]


def test_this_machine() -> None:
    read = fabrics.read()
    assert read["ports"] == [] or all(port["state"] for port in read["ports"])
    assert read["memlock_bytes"] is None or read["memlock_bytes"] >= 0


@pytest.mark.parametrize(
    ("name", "host", "text", "advice"),
    [
        ("mlx", {}, "no InfiniBand or RoCE adapter", "check with lspci"),
        ("mlx", facts("roce"), "no RoCE adapter that mlx works with: irdma0 port 1", "check with lspci"),
        ("efa", facts("infiniband_hdr"), "no EFA adapter", "check with lspci"),
        (
            "mlx",
            facts("infiniband_down"),
            "no active InfiniBand port: mlx5_0 port 1 is DOWN (Polling)",
            "check cable and switch, and that a subnet manager runs",
        ),
        (
            "mlx",
            facts("infiniband_hdr", mlx="libucp.so.0 is missing"),
            "no provider mlx in libfabric: libucp.so.0 is missing",
            "install UCX (libucx0",
        ),
        (
            "psm3",
            facts("roce", memlock_bytes=8 << 20),
            "a limit of 8 MiB for locked memory, which fabrics send from",
            "set memlock to unlimited",
        ),
    ],
)
def test_what_a_host_lacks(name: str, host: dict[str, Any], text: str, advice: str) -> None:
    lack = fabrics.find_lack_everywhere(name, host)
    assert lack is not None
    assert lack.text == text
    assert lack.advice.startswith(advice)


def test_everything_that_software_lacks_is_told_at_once() -> None:
    lack = fabrics.find_lack("psm3", "RoCE", facts("roce", 8 << 20, psm3="libibverbs.so.1 is missing"))
    assert lack is not None
    assert lack.text == (
        "no provider psm3 in libfabric: libibverbs.so.1 is missing, and a limit of 8 MiB for locked memory, which "
        "fabrics send from"
    )
    assert lack.advice.startswith("install libibverbs (")
    assert "; set memlock to unlimited" in lack.advice


def test_a_large_limit_is_enough() -> None:
    assert fabrics.find_lack("psm3", "RoCE", facts("roce", memlock_bytes=256 << 30)) is None


def test_a_device_that_a_container_does_not_have(tmp_path: Path) -> None:
    shutil.copytree(TREES / "infiniband_hdr", tmp_path, dirs_exist_ok=True)
    (tmp_path / "dev/infiniband/uverbs0").unlink()
    assert fabrics.ports(tmp_path)[0].closed == "/dev/infiniband/uverbs0"
    host = {**facts("infiniband_hdr"), "ports": fabrics.read(str(tmp_path))["ports"]}
    lack = fabrics.find_lack("mlx", "InfiniBand", host)
    assert lack is not None
    assert lack.text == "no access to /dev/infiniband/uverbs0, through which programs use mlx5_0"


def test_a_device_in_software_is_taken_only_by_name(tmp_path: Path) -> None:
    shutil.copytree(TREES / "roce", tmp_path, dirs_exist_ok=True)
    shutil.rmtree(tmp_path / "sys/class/infiniband/irdma0/device")
    host = {**facts("nothing"), "ports": fabrics.read(str(tmp_path))["ports"]}
    hosts = {"node0": host, "node1": host}
    assert fabrics.choose("auto", hosts) == Choice("tcp")
    assert fabrics.choose("psm3", hosts) == Choice("psm3")
    assert fabrics.described(host)[0][0] == "RoCE in software irdma0 port 1"


@pytest.mark.parametrize(
    ("tree", "missing", "chosen"),
    [
        ("infiniband_hdr", {}, "mlx"),
        ("infiniband_hdr", {"mlx": "libucp.so.0 is missing"}, "verbs"),
        ("roce", {}, "psm3"),
        ("roce", {"psm3": "libibverbs.so.1 is missing"}, "verbs"),
        ("omni_path", {}, "psm2"),
        ("efa", {}, "efa"),
        ("nothing", {}, "tcp"),
    ],
)
def test_auto_on_hosts_that_are_alike(tree: str, missing: dict[str, str], chosen: str) -> None:
    hosts = {f"node{number}": facts(tree, None, **missing) for number in range(3)}
    assert fabrics.choose("auto", hosts) == Choice(chosen)


def test_auto_names_the_host_that_keeps_all_on_tcp() -> None:
    hosts = {f"node{number}": facts("infiniband_hdr") for number in range(3)}
    hosts["node3"] = facts("infiniband_down")
    choice = fabrics.choose("auto", hosts)
    assert choice == Choice(
        "tcp",
        "all ranks communicate over TCP instead of InfiniBand (mlx), because node3 has no active InfiniBand port: "
        "mlx5_0 port 1 is DOWN (Polling) (check cable and switch, and that a subnet manager runs). cluster_fabric: tcp "
        "accepts that, without this note",
    )


def test_auto_with_too_little_memory_to_lock() -> None:
    hosts = {"node0": facts("infiniband_hdr"), "node1": facts("infiniband_hdr", memlock_bytes=64 << 10)}
    note = fabrics.choose("auto", hosts).note
    assert "because node1 has a limit of 64 KiB for locked memory" in note
    assert "node0" not in note


def test_hosts_on_different_networks_share_no_fabric() -> None:
    hosts = {"node0": facts("infiniband_hdr"), "node1": facts("roce")}
    assert fabrics.choose("auto", hosts).name == "tcp"
    with pytest.raises(
        ValueError, match=r"share no network \(InfiniBand on node0, RoCE on node1\): set cluster_fabric"
    ):
        fabrics.choose("verbs", hosts)


def test_a_host_alone_needs_no_fabric() -> None:
    assert fabrics.choose("auto", {"node0": facts("infiniband_hdr")}) == Choice("tcp")
    assert fabrics.choose("mlx", {"node0": facts("infiniband_hdr")}) == Choice("mlx")


def test_a_backend_that_does_not_use_mpi() -> None:
    hosts = {"node0": facts("efa"), "node1": facts("efa")}
    note = (
        "backend gloo communicates over TCP whatever fabric there is; with a backend that uses MPI, ranks would use efa"
    )
    assert fabrics.choose("auto", hosts, "gloo", uses_it=False) == Choice("tcp", note)
    assert fabrics.choose("efa", hosts, "gloo", uses_it=False) == Choice("tcp", note)
    assert fabrics.choose("tcp", hosts, "gloo", uses_it=False) == Choice("tcp")
    assert fabrics.choose("auto", {"node0": {}, "node1": {}}, "gloo", uses_it=False) == Choice("tcp")


def test_a_named_fabric_that_hosts_lack() -> None:
    hosts = {
        "node0": facts("infiniband_hdr"),
        "node1": facts("infiniband_down"),
        "node2": {},
        "node3": facts("infiniband_down"),
    }
    with pytest.raises(ValueError, match=r"^cluster_fabric is mlx, ") as refused:
        fabrics.choose("mlx", hosts, "gloo", uses_it=False)
    assert str(refused.value).splitlines() == [
        "cluster_fabric is mlx, which not all hosts can use (with auto, jobs would use TCP then):",
        "- node1, node3 have no active InfiniBand port: mlx5_0 port 1 is DOWN (Polling): check cable and switch, and "
        "that a subnet manager runs",
        "- node2 has no InfiniBand or RoCE adapter: check with lspci and dmesg that the adapter and its driver are "
        "there",
    ]


@given(
    trees=st.lists(st.sampled_from(ALL), min_size=1, max_size=4),
    wanted=st.sampled_from(fabrics.VALUES),
    uses_it=st.booleans(),
    locked=st.sampled_from([None, 1 << 20]),
)
def test_laws(trees: list[str], wanted: str, uses_it: bool, locked: int | None) -> None:
    """A fabric is chosen only where every host has it; TCP without a word only where no host has anything."""
    hosts = {f"node{number}": facts(tree, memlock_bytes=locked) for number, tree in enumerate(trees)}
    try:
        choice = fabrics.choose(wanted, hosts, "ccl", uses_it)
    except ValueError as error:
        assert wanted in fabrics.FABRICS
        assert any(fabrics.find_lack_everywhere(wanted, host) for host in hosts.values()) or "share no" in str(error)
        return
    if choice.name != "tcp":
        assert uses_it
        assert wanted in ("auto", choice.name)
        assert not any(fabrics.find_lack_everywhere(choice.name, host) for host in hosts.values())
    elif set(trees) == {"nothing"} or wanted == "tcp":
        assert choice == Choice("tcp")
    elif len(hosts) > 1 and uses_it:
        assert re.search(r"because node\d", choice.note)
