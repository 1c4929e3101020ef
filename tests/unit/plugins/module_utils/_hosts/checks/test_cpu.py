from __future__ import annotations

from ansible_collections.amx.cluster.plugins.module_utils._hosts.amx_text import explained, rule
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks import cpu
from support.sound_cluster import amx, found_on_node1

HIDDEN = amx("emerald_rapids_guest_hidden")


def test_cpu_model() -> None:
    text = "the CPU is not known, but Intel(R) Xeon(R) Platinum 8480+ on node0, node2"
    assert found_on_node1(cpu.cpu_model, {"cpu_model": ""}) == [text]


def test_isa() -> None:
    text = "the best instruction set is avx512_bf16, but amx on node0, node2"
    assert found_on_node1(cpu.isa, {"isa": "avx512_bf16"}) == [text]


def test_cpu_quota() -> None:
    assert found_on_node1(cpu.cpu_quota, {"cpu_quota": 224.0}) == []
    assert found_on_node1(cpu.cpu_quota, {"cpu_quota": 7.5}) == ["its cgroup may use the time of 7.5 CPUs of 224"]


def test_amx_is_required() -> None:
    assert found_on_node1(cpu.amx, {"amx": amx("ice_lake")}) == []
    for seen in (amx("ice_lake"), HIDDEN):
        assert found_on_node1(cpu.amx, {"amx": seen}, require="amx") == [explained(seen)]


def test_avx512_is_required() -> None:
    old = {"isa": "avx2", "cpu_model": "Old"}
    text = "Old has no AVX-512 that torch uses: its best instruction set is avx2"
    assert found_on_node1(cpu.amx, old, require="avx512") == [text]
    assert found_on_node1(cpu.amx, {"isa": "avx512"}, require="avx512") == []


def test_amx_that_is_not_used() -> None:
    text = f"{HIDDEN['found']} (kernel {rule(HIDDEN)})"
    assert found_on_node1(cpu.amx_unused, {"amx": HIDDEN}) == [text]
    assert found_on_node1(cpu.amx_unused, {"amx": HIDDEN}, require="amx") == [], "it is a failure already"
    assert found_on_node1(cpu.amx_unused, {"amx": amx("ice_lake")}) == []
