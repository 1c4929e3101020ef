from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import (
    Cpu,
    Topology,
    _lscpu,
    build,
    cpu_quota,
    format_cpus,
    packages,
    parse_cpus,
    parse_lscpu,
    read,
)
from support.machines import Machine, machine

FIXTURES = Path(__file__).parents[3] / "fixtures/lscpu"


def parts(cpus: tuple[Cpu, ...], level: str) -> set[frozenset[int]]:
    """Which CPUs lscpu puts together; its numbers of cores and sockets are its own."""
    found: dict[int, set[int]] = {}
    for cpu in cpus:
        if cpu.online:
            found.setdefault(getattr(cpu, level), set()).add(cpu.number)
    return {frozenset(part) for part in found.values()}


class TestCpuLists:
    @pytest.mark.parametrize(
        ("text", "cpus"),
        [
            ("", []),
            ("0", [0]),
            ("0-3,8", [0, 1, 2, 3, 8]),
            ("8, 2-3", [2, 3, 8]),
            ("0-5:2", [0, 2, 4]),
            ("1,\n", [1]),
        ],
    )
    def test_are_read(self, text: str, cpus: list[int]) -> None:
        assert parse_cpus(text) == frozenset(cpus)

    @pytest.mark.parametrize(("text", "part"), [("0-x", "0-x"), ("1,5-2", "5-2"), ("-1", "-1"), ("0-4:0", "0-4:0")])
    def test_that_are_not_lists_are_refused(self, text: str, part: str) -> None:
        error = f"{part!r} in {text!r} is not a CPU number or an ascending range such as 0-5"
        with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
            parse_cpus(text)

    @pytest.mark.parametrize(("cpus", "text"), [([], ""), ([3, 1, 2, 7], "1-3,7"), (range(64), "0-63")])
    def test_are_written(self, cpus: list[int], text: str) -> None:
        assert format_cpus(cpus) == text


class TestLscpu:
    @pytest.mark.parametrize("name", ["util-linux-2.32.json", "util-linux-2.38.json", "util-linux-2.40.json"])
    def test_of_every_version_is_understood(self, name: str) -> None:
        cpus = parse_lscpu((FIXTURES / name).read_text())
        assert cpus == (
            Cpu(0, 0, 0, 0, True),
            Cpu(1, 1, 1, 2, True),
            Cpu(2, 0, 0, 0, True),
            Cpu(3, None, None, None, False),
        )

    def test_without_numa_or_topology_files(self) -> None:
        text = '{"cpus": [{"cpu": 0, "node": null, "socket": null, "core": null, "online": true}, {"cpu": "1"}]}'
        assert parse_lscpu(text) == (Cpu(0, 0, 0, 0, True), Cpu(1, 1, 0, 0, True))

    @pytest.mark.parametrize("text", ["", "CPU NODE\n0 0", '{"lscpu": []}', '{"cpus": [{"node": 0}]}', '{"cpus": [1]}'])
    def test_other_text_is_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match=r"^the output of lscpu --json --extended was not understood"):
            parse_lscpu(text)

    def test_no_online_cpu(self) -> None:
        with pytest.raises(ValueError, match=r"^lscpu shows no online CPU$"):
            parse_lscpu('{"cpus": [{"cpu": 0, "online": false}]}')


class TestTrees:
    """What the installed lscpu reads from a tree is the machine that was written."""

    @pytest.mark.parametrize(
        "made",
        [
            machine(2, 4, 2),
            machine(2, 4, 2, numbering="siblings adjacent"),
            machine(2, 3, 2, nodes_per_socket=2, numbering="interleaved", node_ids=(0, 2, 3, 7), memory_nodes=(9,)),
            machine(2, 4, 2, numbering="shuffled", seed=3).without([0, 5]),
            machine(1, 6, 2, small_cores=8),
            machine(8, 1),
        ],
    )
    def test_are_read_as_written(self, made: Machine, tmp_path: Path) -> None:
        topology = read(str(made.write(tmp_path)))
        assert [(cpu.number, cpu.node, cpu.online) for cpu in topology.cpus] == [
            (cpu.number, cpu.node, cpu.online) for cpu in made.cpus()
        ]
        for level in ("core", "socket"):
            assert parts(topology.cpus, level) == parts(made.cpus(), level)

    def test_sockets_are_the_kernels_packages(self, tmp_path: Path) -> None:
        """A wrong mask of siblings, as a captured server with Xeons E7-4870 has it of CPU 3, is a socket to lscpu."""
        made = machine(4, 10, numbering="interleaved").write(tmp_path)
        sockets = made / "sys/devices/system/cpu/cpu3/topology"
        for name in ("core_siblings", "package_cpus"):
            (sockets / name).write_text("0000000f\n")
            (sockets / f"{name}_list").write_text("0-3\n")
        assert len(parts(parse_lscpu(_lscpu(made)), "socket")) == 5
        assert read(str(made)).summary()["sockets"] == len(set(packages(made).values())) == 4
        assert [node["sockets"] for node in read(str(made)).summary()["numa_nodes"]] == [[0], [1], [2], [3]]
        (sockets / "physical_package_id").unlink()
        assert read(str(made)).summary()["sockets"] == 5

    def test_packages_are_those_of_online_cpus(self, tmp_path: Path) -> None:
        made = machine(2, 2).write(tmp_path)
        (made / "sys/devices/system/cpu/online").write_text("0-1\n")
        (made / "sys/devices/system/cpu/cpu1/topology/physical_package_id").write_text("-1\n")
        assert packages(made) == {0: 0}

    def test_isolated_cpus(self, tmp_path: Path) -> None:
        made = Machine(machine(1, 4).places, isolated=frozenset({3}))
        assert read(str(made.write(tmp_path))).excluded == (("isolated from the scheduler", (3,)),)

    def test_what_the_captured_process_was_allowed(self, tmp_path: Path) -> None:
        made = machine(1, 4).confined({1, 2}).write(tmp_path)
        assert read(str(made)).excluded == (("not allowed", (0, 3)),)

    def test_small_cores_named_by_the_kernel(self, tmp_path: Path) -> None:
        made = machine(1, 4).write(tmp_path)
        (made / "sys/devices/cpu_atom").mkdir()
        (made / "sys/devices/cpu_atom/cpus").write_text("2-3\n")
        assert [core.efficient for core in read(str(made)).cores] == [False, False, True, True]

    def test_a_folder_that_is_missing(self, tmp_path: Path) -> None:
        missing = tmp_path / "none"
        error = f"root {str(missing)!r} is not a directory with the /sys and /proc of a machine"
        with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
            read(str(missing))

    def test_a_folder_without_a_machine(self, tmp_path: Path) -> None:
        with pytest.raises(
            ValueError, match=f"^lscpu cannot read the machine below {str(tmp_path)!r}: lscpu: .*possible"
        ):
            read(str(tmp_path))

    def test_without_lscpu(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(ValueError, match=r"^lscpu, a part of util-linux, could not be run: .*No such file"):
            read()


class TestThisMachine:
    def test_is_limited_to_what_the_process_may_use(self) -> None:
        usable = {cpu for core in read().cores for cpu in core.cpus}
        assert usable <= os.sched_getaffinity(0)
        assert usable

    def test_a_named_list_does_not_change_the_affinity_of_the_process(self) -> None:
        before = os.sched_getaffinity(0)
        one = str(min(before))
        assert [core.cpus for core in read("/", one).usable_cores] == [(int(one),)]
        assert os.sched_getaffinity(0) == before


class TestAllowed:
    def built(self, allowed: str, offline: tuple[int, ...] = (), isolated: str = "") -> Topology:
        made = machine(1, 4, 2).without(offline)
        return build(made.cpus(), parse_cpus(allowed), named=True, isolated=parse_cpus(isolated))

    def test_absent_and_offline_cpus_are_refused(self) -> None:
        error = (
            "allowed_cpus '2-3,8-9' names CPUs 8-9, which this node does not have and CPUs 3, which are offline. "
            "This node has CPUs 0-7, online 0-2,4-7. The nearest list that fits: 2"
        )
        with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
            self.built("2-3,8-9", offline=(3,))

    def test_a_list_of_nothing_else_is_refused_with_every_cpu(self) -> None:
        error = (
            "allowed_cpus '64' names CPUs 64, which this node does not have. "
            "This node has CPUs 0-7, online 0-7. The nearest list that fits: 0-7"
        )
        with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
            self.built("64")

    def test_a_list_that_is_none(self, tmp_path: Path) -> None:
        error = (
            "allowed_cpus: 'x' in '0-1,x' is not a CPU number or an ascending range such as 0-5. "
            "The CPUs online on this node are 0-3"
        )
        with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
            read(str(machine(1, 4).write(tmp_path)), "0-1,x")

    def test_isolated_cpus_that_are_named_are_used_with_a_warning(self) -> None:
        topology = self.built("2-3", isolated="3,7")
        assert [core.cpus for core in topology.usable_cores] == [(2,), (3,)]
        assert topology.warnings == (
            "CPUs 3 are isolated: the kernel does not balance load over them, so threads that nothing pins stay where "
            "they start",
        )

    def test_a_process_confined_to_isolated_cpus_may_use_them(self) -> None:
        topology = build(machine(1, 4).cpus(), frozenset({2, 3}), isolated=frozenset({2, 3}))
        assert [core.cpus for core in topology.usable_cores] == [(2,), (3,)]

    def test_a_core_may_be_allowed_in_part(self) -> None:
        assert [core.cpus for core in self.built("0,4,5").usable_cores] == [(0, 4), (5,)]


class TestSmallCores:
    def test_are_the_single_threaded_ones_beside_others(self) -> None:
        topology = build(machine(1, 2, 2, small_cores=2).cpus())
        assert topology.hybrid
        assert topology.summary()["efficient_cpus"] == "2-3"  # siblings last

    def test_a_core_with_an_offline_sibling_is_not_one(self) -> None:
        topology = build(machine(1, 4, 2).without([7]).cpus())
        assert not topology.hybrid


def test_the_summary_counts_what_there_is() -> None:
    made = machine(2, 4, 2, node_ids=(0, 2)).without([15])
    summary = build(made.cpus(), made.online - {0, 8}).summary()
    assert summary == {
        "cpus": 16,
        "online_cpus": 15,
        "usable_cpus": 13,
        "cores": 8,
        "usable_cores": 7,
        "threads_per_core": 2,
        "sockets": 2,
        "numa_nodes": [
            {"node": 0, "sockets": [0], "cores": 4, "usable_cores": 3, "cpus": "0-3,8-11"},
            {"node": 2, "sockets": [1], "cores": 4, "usable_cores": 4, "cpus": "4-7,12-14"},
        ],
        "offline": "15",
        "not_allowed": "0,8",
        "isolated": "",
        "over_quota": "",
        "hybrid": False,
        "efficient_cpus": "",
    }


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


class TestQuota:
    def test_of_version_2_is_the_least_above(self, tmp_path: Path) -> None:
        assert cpu_quota(tmp_path) is None
        write(tmp_path / "proc/self/cgroup", "0::/user.slice/job\n")
        assert cpu_quota(tmp_path) is None
        groups = tmp_path / "sys/fs/cgroup"
        write(groups / "user.slice/job/cpu.max", "max 100000\n")
        assert cpu_quota(tmp_path) is None
        write(groups / "user.slice/cpu.max", "350000 100000\n")
        assert cpu_quota(tmp_path) == 3.5
        write(groups / "user.slice/job/cpu.max", "800000 100000\n")
        assert cpu_quota(tmp_path) == 3.5
        write(groups / "cpu.max", "100000 100000\n")  # the mount of a container
        assert cpu_quota(tmp_path) == 1

    def test_of_version_1(self, tmp_path: Path) -> None:
        write(tmp_path / "proc/self/cgroup", "4:memory:/a\n3:cpu,cpuacct:/docker/b\n1:name=systemd:/\n0::/\n")
        group = tmp_path / "sys/fs/cgroup/cpu,cpuacct"
        write(group / "cpu.cfs_period_us", "50000\n")
        write(group / "cpu.cfs_quota_us", "-1\n")
        assert cpu_quota(tmp_path) is None
        write(group / "cpu.cfs_quota_us", "200000\n")
        assert cpu_quota(tmp_path) == 4

    def test_leaves_cores_alone_but_for_as_many_of_as_few_nodes_as_possible(self) -> None:
        cpus = machine(2, 4, 2, numbering="interleaved").cpus()
        topology = build(cpus, quota=3.995)  # rounded in microseconds
        assert [core.node for core in topology.usable_cores] == [0] * 4
        topology = build(cpus, quota=2.5)
        assert len(topology.usable_cores) == 2
        used = {cpu for core in topology.usable_cores for cpu in core.cpus}
        over = tuple(sorted(set(range(16)) - used))
        assert topology.excluded == (("over the CPU quota", over),)
        assert topology.summary()["over_quota"] == format_cpus(over)
        assert topology.warnings == (
            f"the cgroup of this process may use the time of 2.5 CPUs: CPUs {format_cpus(over)} are left alone, "
            "because threads on more cores would be stopped again and again. Raise or remove the quota (CPUQuota of "
            "systemd, --cpus of a container) to use them",
        )

    @pytest.mark.parametrize(("quota", "cores"), [(None, 4), (4.0, 4), (99.0, 4), (1.0, 1), (0.2, 1)])
    def test_keeps_at_least_one_core(self, quota: float | None, cores: int) -> None:
        topology = build(machine(1, 4).cpus(), quota=quota)
        assert len(topology.usable_cores) == cores
        assert bool(topology.warnings) == (cores < 4)

    def test_does_not_change_cpus_that_a_person_named(self) -> None:
        topology = build(machine(1, 4).cpus(), frozenset({1, 2}), named=True, quota=1)
        assert len(topology.usable_cores) == 2
        assert topology.warnings == (
            "the cgroup of this process may use the time of 1 CPUs: threads on more cores are stopped again and again, "
            "and all ranks wait for them",
        )

    def test_of_a_captured_machine(self, tmp_path: Path) -> None:
        machine(1, 4).write(tmp_path)
        write(tmp_path / "proc/self/cgroup", "0::/\n")
        write(tmp_path / "sys/fs/cgroup/cpu.max", "200000 100000")
        assert read(str(tmp_path)).excluded == (("over the CPU quota", (2, 3)),)
