"""Databases and hypervisors among the processes of a host."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.amx.cluster.plugins.module_utils._hosts import services


def test_programs_that_are_known() -> None:
    others = ["sshd", "mysqld_exporter", "postgres_export", "kvm-nx-lpage-re", "redis-cli"]
    assert services.known(others) == []
    there = ["mariadbd", "postgres", "postgres", "qemu-system-x86", "ora_pmon_ORCL", "pmxcfs", "valkey-server"]
    assert services.known([*there, *others]) == [
        "postgresql",
        "mysql",
        "redis",
        "oracle",
        "virtual machines",
        "proxmox",
    ]


def test_processes_of_a_host(tmp_path: Path) -> None:
    for process, name in (("1", "systemd"), ("20", "mongod"), ("self", "postgres")):
        (tmp_path / process).mkdir()
        (tmp_path / process / "comm").write_text(f"{name}\n")
    (tmp_path / "30").mkdir()  # which ends meanwhile
    (tmp_path / "30/comm").mkdir()
    assert services.running(tmp_path) == ["mongodb"]
