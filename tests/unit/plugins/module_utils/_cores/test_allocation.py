"""Worked examples, machines that launchers get wrong, and what bad requests get."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._cores.allocation import Allocation, Request, allocate
from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import build, parse_cpus
from support.machines import Machine, machine

NO_RANKS = "is not a whole number of at least 1, 'auto', 'socket', or '<=N' for at most N"
ONE_SOCKET = machine(1, 32, 2)
TWO_SOCKETS = machine(2, 24, 1)
SNC4 = machine(2, 14, 2, nodes_per_socket=4, memory_nodes=range(8, 16))
LSCPU = Path(__file__).parents[3] / "fixtures/lscpu/xeon-max-9480-snc4.txt"
"""What lscpu prints on that machine, shortened: linux-kernel mailing list, 2024-02-07."""


def test_the_machine_with_four_numa_nodes_in_each_socket_is_the_captured_one() -> None:
    text = LSCPU.read_text(encoding="utf-8")
    captured = {int(node): frozenset(parse_cpus(cpus)) for node, cpus in re.findall(r"node(\d+) CPU\(s\): *(.*)", text)}
    assert captured == {node: frozenset(cpu.number for cpu in SNC4.cpus() if cpu.node == node) for node in range(16)}
    cores = [len({cpu.core for cpu in SNC4.cpus() if cpu.socket == socket}) for socket in range(2)]
    assert re.findall(r"(?:Core\(s\) per socket|Socket\(s\)): *(\d+)", text) == [str(cores[0]), str(len(cores))]


def plan_for(made: Machine, request: Request, allowed: str | None = None) -> Allocation:
    return allocate(build(made.cpus(), parse_cpus(allowed) if allowed else None), request)


def refusal(made: Machine, request: Request, allowed: str | None = None) -> str:
    with pytest.raises(ValueError) as caught:
        plan_for(made, request, allowed)
    return str(caught.value)


class TestWorkedExamples:
    """Those of docs/core_allocation.md."""

    def test_the_defaults_on_two_sockets_of_56(self) -> None:
        plan = plan_for(machine(2, 56, 2), Request(backend="mpi"))
        assert plan.env["OMP_NUM_THREADS"] == "54"
        assert [rank.comm_cpus for rank in plan.ranks] == [(1,), (57,)]
        assert [rank.sockets for rank in plan.ranks] == [(0,), (1,)]
        assert [core.cpus for core in plan.system_cores] == [(0, 112), (56, 168)]
        assert not plan.warnings

    def test_two_ranks_two_communication_and_six_system_cores_of_32(self) -> None:
        plan = plan_for(ONE_SOCKET, Request(2, "ccl", 1, 6))
        assert plan.env == {
            "OMP_NUM_THREADS": "12",
            "KMP_HW_SUBSET": "1T",
            "KMP_AFFINITY": "granularity=fine,compact,1,0",
            "KMP_BLOCKTIME": "1",
            "I_MPI_PIN_DOMAIN": "[0x7ff80,0xfff00000]",
            "CCL_WORKER_COUNT": "1",
            "CCL_WORKER_AFFINITY": "6,19",
        }
        assert [rank.compute_cpus for rank in plan.ranks] == [tuple(range(7, 19)), tuple(range(20, 32))]
        assert plan.as_dict()["system_cpus"] == [*range(6), *range(32, 38)]
        assert not plan.remainder_cores
        assert not plan.warnings

    def test_one_rank_per_socket_with_one_communication_core_of_24(self) -> None:
        plan = plan_for(TWO_SOCKETS, Request(2, "ccl", "auto", 0))
        assert plan.env["OMP_NUM_THREADS"] == "23"
        assert plan.env["CCL_WORKER_COUNT"] == "1"
        assert plan.env["CCL_WORKER_AFFINITY"] == "0,24"
        assert [rank.sockets for rank in plan.ranks] == [(0,), (1,)]
        assert not plan.system_cores

    def test_one_rank_with_four_communication_cores_of_32(self) -> None:
        plan = plan_for(ONE_SOCKET, Request(1, "ccl", 4, 0))
        assert plan.ranks[0].comm_cpus == (0, 1, 2, 3)
        assert plan.env["OMP_NUM_THREADS"] == "28"
        assert plan.env["I_MPI_PIN_DOMAIN"] == "[0xfffffff0]"
        assert plan.unused_cpus == (("further thread of a rank's core (threads_per_core=1)", tuple(range(32, 64))),)

    @pytest.mark.parametrize("numbering", ["siblings last", "siblings adjacent"])
    def test_four_ranks_with_one_communication_core_each_of_16(self, numbering: str) -> None:
        plan = plan_for(machine(1, 16, 2, numbering=numbering), Request(4, "ccl", 1, 0))
        assert plan.env["OMP_NUM_THREADS"] == "3"
        assert [len(rank.compute_cores) for rank in plan.ranks] == [3, 3, 3, 3]


class TestBackends:
    def test_gloo_shares_the_domain_and_binds_openmp_to_the_compute_cores(self) -> None:
        plan = plan_for(machine(1, 8, 2), Request(2, "gloo", 1, 0))
        assert [rank.domain_cpus for rank in plan.ranks] == [(0, 1, 2, 3), (4, 5, 6, 7)]
        assert [rank.env for rank in plan.ranks] == [
            {"KMP_AFFINITY": "granularity=fine,proclist=[1,2,3],explicit"},
            {"KMP_AFFINITY": "granularity=fine,proclist=[5,6,7],explicit"},
        ]
        assert plan.env == {
            "OMP_NUM_THREADS": "3",
            "KMP_HW_SUBSET": "1T",
            "KMP_BLOCKTIME": "1",
            "I_MPI_PIN_DOMAIN": "[0xf,0xf0]",
        }

    def test_gloo_has_no_communication_cores_unless_asked(self) -> None:
        plan = plan_for(machine(1, 8, 2), Request(2))
        assert plan.comm_cores == 0
        assert plan.env["KMP_AFFINITY"] == "granularity=fine,compact,1,0"
        assert [rank.env for rank in plan.ranks] == [{}, {}]

    @pytest.mark.parametrize(
        ("cores", "ranks", "hosts", "backend", "comm"),
        [
            (12, 1, 2, "mpi", 1),
            (11, 1, 2, "mpi", 0),
            (24, 2, 1, "mpi", 1),
            (24, 2, 0, "mpi", 0),
            (24, 1, 1, "mpi", 0),
            (23, 2, 8, "mpi", 0),
            (24, 2, 8, "gloo", 0),
            (24, 1, 0, "ccl", 1),
        ],
    )
    def test_ranks_of_many_cores_that_exchange_tensors_by_mpi_have_a_communication_core(
        self, cores: int, ranks: int, hosts: int, backend: str, comm: int
    ) -> None:
        request = Request(ranks, backend, reserved_cores=0, exchanging_hosts=hosts)
        plan = plan_for(machine(1, cores, 2), request)
        assert plan.comm_cores == comm
        assert plan.threads_per_rank == cores // ranks - comm

    def test_ranks_of_ccl_without_communication_cores_have_no_worker(self) -> None:
        plan = plan_for(machine(1, 2), Request(2, "ccl", 0, 0))
        assert [rank.compute_cpus for rank in plan.ranks] == [(0,), (1,)]
        assert (plan.env["CCL_WORKER_COUNT"], plan.env["CCL_WORKER_OFFLOAD"]) == ("1", "0")
        assert "CCL_WORKER_AFFINITY" not in plan.env
        with pytest.raises(ValueError, match=r"The nearest request that fits: ranks_per_node=1, or comm_cores=0$"):
            plan_for(machine(1, 2), Request(2, "ccl", "auto", 0))

    def test_all_threads_of_a_core_compute(self) -> None:
        plan = plan_for(machine(1, 4, 2), Request(1, "gloo", 1, 0, "all"))
        assert plan.env["OMP_NUM_THREADS"] == "6"
        assert plan.env["KMP_HW_SUBSET"] == "2T"
        assert plan.ranks[0].compute_cpus == (1, 2, 3, 5, 6, 7)
        assert plan.ranks[0].comm_cpus == (0, 4)

    def test_a_worker_of_ccl_is_one_thread_even_then(self) -> None:
        plan = plan_for(machine(1, 4, 2), Request(1, "ccl", 1, 0, "all"))
        assert plan.env["CCL_WORKER_AFFINITY"] == "0"
        assert plan.unused_cpus == (("further thread of a rank's core (threads_per_core=2)", (4,)),)


class TestAuto:
    def test_one_rank_for_each_numa_node_that_has_cpus(self) -> None:
        plan = plan_for(SNC4, Request())
        assert [rank.numa_nodes for rank in plan.ranks] == [(node,) for node in range(8)]
        assert plan.env["OMP_NUM_THREADS"] == "13"

    def test_one_rank_for_each_socket_of_a_captured_machine_with_four_numa_nodes_in_each(self) -> None:
        plan = plan_for(SNC4, Request("socket", "ccl", 1, 0))
        assert [(rank.sockets, rank.numa_nodes) for rank in plan.ranks] == [((0,), (0, 1, 2, 3)), ((1,), (4, 5, 6, 7))]
        assert plan.env["OMP_NUM_THREADS"] == "55"
        assert plan.env["CCL_WORKER_AFFINITY"] == "0,56"
        assert [rank.compute_cpus for rank in plan.ranks] == [tuple(range(1, 56)), tuple(range(57, 112))]
        assert len(plan_for(SNC4, Request(backend="ccl")).ranks) == 8
        # The system's cores are taken evenly from the nodes of a rank.
        reserved = plan_for(SNC4, Request("socket")).reserved_cores
        assert sorted(core.node for core in reserved) == list(range(8))

    def test_one_rank_for_each_socket_that_has_usable_cores(self) -> None:
        assert [rank.sockets for rank in plan_for(TWO_SOCKETS, Request("socket"), allowed="24-47").ranks] == [(1,)]
        one_core = plan_for(machine(2, [2, 1]), Request("socket", "ccl"))
        assert len(one_core.ranks) == 1
        assert one_core.warnings[0].startswith(
            "ranks_per_node=socket gives 1: one for each of 2 sockets does not fit. This node has 3 usable cores"
        )

    def test_one_reserved_core_for_each_numa_node_of_ten_or_more(self) -> None:
        assert len(plan_for(machine(2, 10), Request()).reserved_cores) == 2
        assert len(plan_for(machine(2, 9), Request()).reserved_cores) == 0
        assert len(plan_for(machine(2, [10, 9]), Request()).reserved_cores) == 1

    def test_less_is_reserved_where_the_ranks_need_the_cores(self) -> None:
        plan = plan_for(machine(1, 10), Request(10))
        assert len(plan.ranks) == 10
        assert not plan.system_cores

    def test_fewer_ranks_where_a_node_has_too_few_cores(self) -> None:
        plan = plan_for(machine(2, 4), Request(backend="ccl", comm_cores=3), allowed="0-5")
        assert len(plan.ranks) == 1
        assert plan.warnings[0] == (
            "ranks_per_node=auto gives 1: one for each of 2 NUMA nodes does not fit. "
            "This node has 6 usable cores of 8, 1 thread each at most, on 2 sockets and 2 NUMA nodes."
        )

    @pytest.mark.parametrize(("cores", "ranks"), [(1, 1), (2, 2), (3, 3), (64, 3)])
    def test_at_most_so_many_ranks(self, cores: int, ranks: int) -> None:
        plan = plan_for(machine(1, cores), Request("<=3"))
        assert len(plan.ranks) == ranks
        assert not any("do not fit" in warning for warning in plan.warnings)


class TestMachinesThatLaunchersGetWrong:
    def test_node_numbers_with_gaps(self) -> None:
        plan = plan_for(machine(3, 4, node_ids=(0, 2, 3)), Request())
        assert [rank.numa_nodes for rank in plan.ranks] == [(0,), (2,), (3,)]

    def test_cpu_0_offline(self) -> None:
        plan = plan_for(machine(1, 8, 2).without([0]), Request(1))
        assert plan.ranks[0].compute_cpus == (1, 2, 3, 4, 5, 6, 7, 8)
        assert plan.unused_cpus[0] == ("offline", (0,))

    def test_a_cpuset_of_six_of_32(self) -> None:
        plan = plan_for(machine(4, 4, nodes_per_socket=2), Request(2), allowed="0-5")
        assert [rank.compute_cpus for rank in plan.ranks] == [(2, 3), (4, 5)]
        assert plan.as_dict()["remainder_cpus"] == [0, 1]
        assert plan.warnings == (
            "2 of 6 usable cores left over (CPUs 0-1) and given to the system: each rank has as many compute cores as "
            "the others and lies within one NUMA node. ranks_per_node=3 would leave none",
        )

    def test_three_ranks_on_two_sockets(self) -> None:
        plan = plan_for(machine(2, 16, 2), Request(3, reserved_cores=0))
        assert [rank.sockets for rank in plan.ranks] == [(0,), (0,), (1,)]
        assert plan.env["OMP_NUM_THREADS"] == "8"
        assert plan.warnings == (
            "8 of 32 usable cores left over (CPUs 16-23) and given to the system: each rank has as many compute cores "
            "as the others and lies within one NUMA node. ranks_per_node=2 would leave none",
        )

    def test_four_ranks_on_seven_cores(self) -> None:
        plan = plan_for(machine(1, 7), Request(4))
        assert plan.env["I_MPI_PIN_DOMAIN"] == "[0x8,0x10,0x20,0x40]"
        assert plan.as_dict()["remainder_cpus"] == [0, 1, 2]

    def test_one_rank_over_two_sockets_is_warned_of(self) -> None:
        plan = plan_for(machine(2, 4), Request(1))
        assert plan.warnings == (
            "rank 0 spans NUMA nodes 0-1, so part of its memory is remote to each of its threads; "
            "ranks_per_node=2 would keep each rank within one",
        )

    def test_reserved_cores_come_from_the_nodes_in_turn(self) -> None:
        plan = plan_for(machine(2, 8), Request(2, reserved_cores=3))
        assert plan.reserved_cores[0].cpus + plan.reserved_cores[1].cpus + plan.reserved_cores[2].cpus == (0, 8, 1)
        assert plan.as_dict()["remainder_cpus"] == [9]

    def test_small_cores_serve_the_system_then_communication(self) -> None:
        hybrid = machine(1, 6, 2, numbering="siblings adjacent", small_cores=8)
        plan = plan_for(hybrid, Request(2, "ccl", 1, 2))
        assert [rank.compute_cpus for rank in plan.ranks] == [(0, 2, 4), (6, 8, 10)]
        assert [rank.comm_cpus for rank in plan.ranks] == [(18,), (19,)]
        assert plan.as_dict()["system_cpus"] == [12, 13, 14, 15, 16, 17]
        assert plan.warnings == (
            "4 of 14 usable cores left over (CPUs 14-17) and given to the system: no rank computes on small cores",
        )

    def test_small_cores_serve_the_system_even_if_a_large_one_is_to_spare(self) -> None:
        hybrid = machine(1, 7, 2, numbering="siblings adjacent", small_cores=2)
        plan = plan_for(hybrid, Request(2, "ccl", 1, 0))
        assert plan.as_dict()["system_cpus"] == [14]
        assert [rank.comm_cpus for rank in plan.ranks] == [(15,), (6,)]

    def test_ranks_go_where_they_need_not_cross_a_boundary(self) -> None:
        uneven = machine(2, (6, 6, 6, 9, 9, 1), nodes_per_socket=3)
        plan = plan_for(uneven, Request(2, reserved_cores=19))
        assert [rank.numa_nodes for rank in plan.ranks] == [(3,), (4,)]

    def test_a_core_whose_sibling_is_taken_away_does_not_compute_with_all_threads(self) -> None:
        plan = plan_for(machine(1, 4, 2), Request(1, threads_per_core="all"), allowed="0-6")
        assert plan.ranks[0].compute_cpus == (0, 1, 2, 4, 5, 6)
        assert plan.as_dict()["system_cpus"] == [3]

    def test_isolated_cpus_are_left_alone(self) -> None:
        made = machine(1, 8)
        plan = allocate(build(made.cpus(), isolated=frozenset({6, 7})), Request(1))
        assert plan.ranks[0].compute_cpus == (0, 1, 2, 3, 4, 5)
        assert plan.unused_cpus == (("isolated from the scheduler", (6, 7)),)


HAS_32 = "This node has 32 usable cores, 2 threads each at most, on 1 socket and 1 NUMA node."


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (
            Request(40, reserved_cores=0),
            "ranks_per_node=40, comm_cores=0 and reserved_cores=0 ask for at least 40 x (1 compute + 0 communication) "
            f"+ 0 = 40 cores. {HAS_32} The nearest request that fits: ranks_per_node=32",
        ),
        (
            Request(8, "ccl", 3, 2),
            "ranks_per_node=8, comm_cores=3 and reserved_cores=2 ask for at least 8 x (1 compute + 3 communication) "
            f"+ 2 = 34 cores. {HAS_32} The nearest request that fits: ranks_per_node=7, or comm_cores=2, "
            "or reserved_cores=0",
        ),
        (
            Request(40, "ccl", 40, 40),
            "ranks_per_node=40, comm_cores=40 and reserved_cores=40 ask for at least "
            f"40 x (1 compute + 40 communication) + 40 = 1680 cores. {HAS_32} "
            "The nearest request that fits: ranks_per_node=16, comm_cores=1, reserved_cores=0",
        ),
        (
            Request(1, "ccl", -1),
            f"comm_cores=-1 is not a whole number of at least 0 or 'auto'. {HAS_32} "
            "The nearest request that fits: comm_cores=0",
        ),
        (
            Request(1, threads_per_core=4),
            f"threads_per_core=4 is more than a core of this node offers. {HAS_32} "
            "The nearest request that fits: threads_per_core=2",
        ),
        (
            Request(1, threads_per_core="both"),
            f"threads_per_core=both is not a whole number of at least 1 or 'all'. {HAS_32} "
            "The nearest request that fits: threads_per_core=1",
        ),
        (
            Request(-1),
            f"ranks_per_node=-1 {NO_RANKS}. {HAS_32} The nearest request that fits: ranks_per_node=1",
        ),
        (
            Request("2.5"),
            f"ranks_per_node=2.5 {NO_RANKS}. {HAS_32} The nearest request that fits: ranks_per_node=1",
        ),
        (
            Request("<=0"),
            f"ranks_per_node=<=0 {NO_RANKS}. {HAS_32} The nearest request that fits: ranks_per_node=1",
        ),
        (
            Request(1, reserved_cores=-2),
            f"reserved_cores=-2 is not a whole number of at least 0 or 'auto'. {HAS_32} "
            "The nearest request that fits: reserved_cores=0",
        ),
        (
            Request(1, "nccl"),
            f"backend='nccl' is not one of ccl, gloo, mpi. {HAS_32} "
            "The nearest request that fits: backend=ccl, or backend=gloo, or backend=mpi",
        ),
    ],
)
def test_a_bad_request_is_refused_with_the_numbers(request_: Request, message: str) -> None:
    assert refusal(ONE_SOCKET, request_) == message


def test_cores_that_lie_wrongly_are_refused_with_the_rule() -> None:
    assert refusal(machine(2, 3), Request(3, "ccl", 1, 0)) == (
        "ranks_per_node=3, comm_cores=1 and reserved_cores=0 ask for at least 3 x (1 compute + 1 communication) + 0 = "
        "6 cores, and each rank must have as many compute cores as the others and lie within one NUMA node or socket "
        "where there are no more of these than ranks. This node has 6 usable cores, 1 thread each at most, "
        "on 2 sockets and 2 NUMA nodes. The nearest request that fits: ranks_per_node=2, or comm_cores=0"
    )


def test_a_node_with_no_usable_core() -> None:
    assert refusal(machine(1, 2).without([1]), Request(1), allowed="1") == (
        "No rank can be placed. This node has no usable core: 1 core online, none of them allowed. No request fits."
    )


def test_one_core_with_ccl_has_none_for_communication() -> None:
    message = refusal(machine(1, 1), Request(1, "ccl"))
    assert message.endswith("on 1 socket and 1 NUMA node. The nearest request that fits: comm_cores=0")
