from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._cores.allocation import Request, allocate
from ansible_collections.amx.cluster.plugins.module_utils._cores.core_map import CoreMap, described
from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import build
from ansible_collections.amx.cluster.plugins.module_utils._jobs import plan_text
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Plan
from support.machines import Machine, machine
from support.runs import STACK, host, plan, planned, run


def render(content: dict[str, Any], **how: bool) -> str:
    return plan_text.render(Plan.from_json(content), **how)


def plan_of(request: Request, **hosts: tuple[Machine, set[int] | None]) -> dict[str, Any]:
    """The plan of a job on hosts, each a machine and the CPUs that may be used."""
    told = []
    for number, (name, (made, allowed)) in enumerate(hosts.items()):
        plan = allocate(build(made.cpus(), None if allowed is None else frozenset(allowed)), request)
        told.append(
            {
                "host": name,
                "address": f"10.0.0.{number + 1}",
                "interface": "eth0",
                "isa": "avx2",
                "allocation": described(plan),
            }
        )
    return planned(run(precision="fp32"), STACK, told)


def test_the_project() -> None:
    project = {"directory": "/home/me/mine", "digest": "0123456789abcdef", "files": 12, "bytes": 2_340_000}
    text = render({**plan_of(Request(), node0=(machine(1, 4), None)), "project": project})
    assert text.splitlines()[1] == "Project mine 0123456789ab (12 files, 2.3 MB)"


def test_the_optimized_parts_of_a_step() -> None:
    stack = {**STACK, "packages": {"torch": "2.13.0+cpu"}}
    text = (
        "Steps are optimized: dropout (masks drawn on all threads), attention (in the type of its inputs), optimizer "
        "(Adam fused), loss (logits of a decoder at labelled tokens only), padding (rows without it in encoders that "
        "classify them). With optimize: none, PyTorch computes all of them."
    )
    assert text in " ".join(render(plan(host("node0", 1), stack=stack)).split())
    assert "optimize" not in render(plan(host("node0", 1), stack=stack, optimize="none"))


def test_who_calls_ipex_optimize() -> None:
    packages = {
        "torch": "2.8.0",
        "transformers": "4.55.4",
        "accelerate": "1.7.0",
        "intel-extension-for-pytorch": "2.8.0",
    }
    arguments = {**STACK["arguments"], "ipex": {"use_ipex": True}}
    made = plan(host("node0", 1), stack={**STACK, "packages": packages, "arguments": arguments})
    assert render(made).splitlines()[1] == "IPEX: ipex.optimize by accelerate."
    assert "ipex" not in plan(host("node0", 1))


def test_identical_hosts_are_shown_once_with_their_names() -> None:
    server = machine(2, 4)
    text, _newlines, legend = render(
        plan_of(Request(reserved_cores=0), node0=(server, None), node1=(server, None))
    ).rpartition("\n\n")
    assert legend.startswith("One character is one core: ")
    assert (
        text
        == """\
Job demo: 4 ranks on 2 hosts, fp32, backend gloo, stack native

node0 (ranks 0-1), node1 (ranks 2-3): 2 ranks, each with 4 threads
    socket 0  node 0  0000
    socket 1  node 1  1111
    local rank  threads on CPUs  communication  may run on  NUMA nodes
    0           0-3              -              0-3         0
    1           4-7              -              4-7         1

On every host:
    ACCELERATE_USE_CPU      true
    FI_TCP_IFACE            eth0
    GLOO_SOCKET_IFNAME      eth0
    HF_HUB_OFFLINE          1
    I_MPI_PIN_DOMAIN        [0xf,0xf0]
    KMP_AFFINITY            granularity=fine,compact,1,0
    KMP_BLOCKTIME           1
    KMP_HW_SUBSET           1T
    LD_PRELOAD              /opt/env/lib/libiomp5.so
    MASTER_ADDR             10.0.0.1
    OMP_NUM_THREADS         4
    TOKENIZERS_PARALLELISM  false"""
    )


def test_before_the_start_only_the_cores_of_ranks_are_shown() -> None:
    server = machine(2, 4)
    plan = plan_of(Request(reserved_cores=0), node0=(server, None), node1=(server, None))
    plan["hosts"][1]["warnings"] = ["one core is left over"]
    plan["secrets"] = {"HF_TOKEN": "inventory"}
    assert (
        render(plan, full=False)
        == """\
Job demo: 4 ranks on 2 hosts, fp32, backend gloo, stack native
node0 (ranks 0-1), node1 (ranks 2-3): 2 ranks, each with 4 threads
    local rank  threads on CPUs  communication  may run on  NUMA nodes
    0           0-3              -              0-3         0
    1           4-7              -              4-7         1
Secret environment variables: HF_TOKEN
Note for node1: one core is left over"""
    )


def test_one_rank_for_each_socket_with_four_numa_nodes_is_shown_with_all_of_them() -> None:
    server = machine(2, 14, 2, nodes_per_socket=4, memory_nodes=range(8, 16))
    text = render(plan_of(Request("socket", reserved_cores=0), node0=(server, None)))
    rows = [f"    socket {node // 4}  node {node}  {str(node // 4) * 8} {str(node // 4) * 6}" for node in range(8)]
    expected = [
        "node0 (ranks 0-1): 2 ranks, each with 56 threads",
        *rows,
        "    local rank  threads on CPUs  communication  may run on  NUMA nodes",
        "    0           0-55             -              0-55        0-3",
        "    1           56-111           -              56-111      4-7",
    ]
    assert "\n".join(expected) in text
    assert "Note: rank 0 spans NUMA nodes 0-3" in text


def test_what_the_launcher_is_set_to_is_shown() -> None:
    made = plan_of(Request(), node0=(machine(1, 2), None))
    assert "Environment of mpirun" not in render(made)
    text = render({**made, "env_launcher": {"I_MPI_HYDRA_DEBUG": "on"}})
    assert "\n\nEnvironment of mpirun from the job file:\n    I_MPI_HYDRA_DEBUG  on\n\n" in text


def of_isas(precision: str, *isas: str) -> list[str]:
    """The first lines of the plan of a job on hosts with these instruction sets, joined where they were wrapped."""
    allocation = allocate(build(machine(1, 2).cpus(), None), Request())
    answer = described(allocation)
    hosts = [{**host(f"node{number}", 1, isa=isa), "allocation": answer} for number, isa in enumerate(isas)]
    text = render(plan(*hosts, precision=precision))
    return [" ".join(line.split()) for line in text.split("\n\n")[0].replace("\n    ", " ").splitlines()]


def test_explicit_bf16_on_cpus_without_it_is_warned_about_with_their_names() -> None:
    assert of_isas("bf16", "amx", "avx512_vnni", "avx512_vnni", "avx2")[1:] == [
        "bf16 runs as amx on node0; bf16 is emulated with avx512_vnni on node1, node2; bf16 is emulated with avx2 on "
        "node3",
        "WARNING: the job file sets precision to bf16, and the CPUs of node1, node2, node3 have no bf16 instructions, "
        "neither AMX nor avx512_bf16: set precision to fp32 or auto, or leave these hosts out.",
    ]


def test_the_plan_says_where_bf16_runs_without_amx() -> None:
    assert of_isas("auto", "amx", "amx")[1:] == []
    assert of_isas("auto", "amx", "avx512_bf16")[1:] == ["bf16 runs as amx on node0; bf16 runs as avx512_bf16 on node1"]
    assert of_isas("fp32", "avx2")[1:] == []
    assert of_isas("auto", "avx2")[1:] == [], "auto has chosen fp32"


def test_the_plan_warns_of_lost_amx() -> None:
    made = plan_of(Request(), node0=(machine(1, 2), None), node1=(machine(1, 2), None))
    hosts = [
        {**one, "isa": "avx512_bf16", "amx": reason}
        for one, reason in zip(made["hosts"], ("kernel_too_old", "no_amx"), strict=True)
    ]
    text = " ".join(render({**made, "precision": "bf16", "hosts": hosts}).split())
    assert "WARNING: AMX cannot be used on node0, though the CPU has it: playbooks/preflight.yml shows why" in text
    assert text.count("WARNING") == 1


def test_hosts_that_differ_only_in_which_core_they_use_stand_under_one_heading() -> None:
    server = machine(1, 2)
    text = render(plan_of(Request(1, reserved_cores=0), node0=(server, {0}), node1=(server, {1}), node2=(server, {0})))
    assert (
        "\n".join(text.splitlines()[2:13])
        == """\
node0 (rank 0), node1 (rank 1), node2 (rank 2): 1 rank, with 1 thread
  on node0 (rank 0), node2 (rank 2):
    socket 0  node 0  0-
    local rank  threads on CPUs  communication  may run on  NUMA nodes
    0           0                -              0           0
    I_MPI_PIN_DOMAIN  [0x1]
  on node1 (rank 1):
    socket 0  node 0  -0
    local rank  threads on CPUs  communication  may run on  NUMA nodes
    0           1                -              1           0
    I_MPI_PIN_DOMAIN  [0x2]"""
    )
    assert text.count("OMP_NUM_THREADS") == 1
    assert text.endswith(", - not for this job.")


def test_unlike_hosts_stand_apart_and_what_they_share_is_said_once() -> None:
    text = render(plan_of(Request("<=2", reserved_cores=0), node0=(machine(1, 1), None), node1=(machine(1, 2), None)))
    assert "\nnode0 (rank 0): 1 rank, with 1 thread\n" in text
    assert "\nnode1 (ranks 1-2): 2 ranks, each with 1 thread\n" in text
    assert text.count("One character is one core: ") == text.count("OMP_NUM_THREADS") == 1


def test_warnings_name_their_hosts_unless_all_share_them() -> None:
    odd, even = machine(1, 7), machine(1, 6)
    request = Request(2, reserved_cores=0)
    apart = render(plan_of(request, node0=(odd, None), node1=(even, None)))
    assert "\nNote for node0: 1 of 7 usable cores left over (CPUs 0)" in apart
    shared = render(plan_of(request, node0=(odd, None), node1=(odd, None)))
    assert shared.count("left over (CPUs 0)") == 1
    assert "\nNote: 1 of 7 usable cores left over" in shared


def test_communication_cores_and_their_ranks_own_environment_are_named() -> None:
    text = render(plan_of(Request(2, "gloo", 1, 0), node0=(machine(1, 8), None)))
    assert "2 ranks, each with 3 threads and 1 CPU for communication\n    socket 0  node 0  c000c111\n" in text
    assert re.search(r"^    1 +5-7 +4 +4-7 +0$", text, re.MULTILINE)
    assert "KMP_AFFINITY  granularity=fine,proclist=[5,6,7],explicit (rank 1)" in text


@pytest.mark.parametrize(
    ("request_", "hosts", "said"),
    [
        (Request(2, "mpi", "auto", 0), {"node0": 24}, "on a communication core of each."),
        (Request(2, "mpi", 1, 0), {"node0": 8}, "on a communication core of each."),
        (
            Request(2, "mpi", "auto", 0),
            {"node0": 22},
            "on the compute cores, as ranks with fewer than 12 cores get none for it.",
        ),
        (Request(2, "mpi", 0, 0), {"node0": 24}, "on the compute cores, as comm_cores is 0."),
        (
            Request(2, "mpi", "auto", 0),
            {"node0": 24, "node1": 8},
            "on a communication core of some, and the others' cores.",
        ),
    ],
)
def test_the_plan_says_on_which_cores_tensors_travel(request_: Request, hosts: dict[str, int], said: str) -> None:
    planned_ = plan_of(request_, **{name: (machine(1, cores), None) for name, cores in hosts.items()})
    text = render({**planned_, "backend": "mpi"})
    assert f" Gradients are exchanged while ranks compute, {said} " in " ".join(text.split())


def test_the_plan_says_that_oneccl_has_no_worker() -> None:
    text = render({**plan_of(Request(2, "ccl", 0, 0), node0=(machine(1, 2), None)), "backend": "ccl"})
    assert "\nGradients are exchanged while ranks compute, on the compute cores, as oneCCL has no worker.\n" in text
    with_worker = {**plan_of(Request(2, "ccl"), node0=(machine(1, 24), None)), "backend": "ccl"}
    assert "Tensors" not in render(with_worker)
    # The job turns the worker off; a pod that floats has one on none of its CPUs.
    for each in with_worker["hosts"]:
        each["env"]["CCL_WORKER_OFFLOAD"] = "0"
    assert "as oneCCL has no worker.\n" in render(with_worker)
    for each in with_worker["hosts"]:
        del each["env"]["CCL_WORKER_OFFLOAD"]
        each["ranks"] = [{**rank, "comm_cpus": []} for rank in each["ranks"]]
    assert "Tensors" not in render(with_worker)


def test_nothing_is_said_of_tensors_that_do_not_travel() -> None:
    assert "Tensors" not in render({**plan_of(Request(1, "mpi"), node0=(machine(1, 24), None)), "backend": "mpi"})
    assert "Tensors" not in render(plan_of(Request(2, "gloo"), node0=(machine(1, 24), None)))


def test_colour_adds_nothing_but_colour() -> None:
    plan = plan_of(Request(2, "gloo", 1, 2), node0=(machine(2, 9), None))
    plain, coloured = render(plan), render(plan, colour=True)
    assert coloured != plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


def test_more_ranks_than_letters_can_be_drawn() -> None:
    plan = plan_of(Request(40, reserved_cores=0), node0=(machine(1, 40), None))
    assert "from rank 36 again from 0" in render(plan, colour=True)


def test_a_drawing_stands_for_all_hosts_of_the_same_map() -> None:
    def drawn(made: Machine) -> CoreMap:
        return CoreMap.of(allocate(build(made.cpus(), None), Request(reserved_cores=0)))

    one, other = drawn(machine(1, 2)), drawn(machine(1, 4))
    files = plan_text.drawings([("node0", one), ("node1", other), ("node<2>", one)])
    assert sorted(files) == ["plan-node0.svg", "plan-node1.svg"]
    title = ElementTree.fromstring(files["plan-node0.svg"]).find("{http://www.w3.org/2000/svg}title")
    assert title is not None
    assert title.text == "node0, node<2>"


def test_the_fabric_is_named() -> None:
    server = machine(1, 2)
    made = plan_of(Request(1, reserved_cores=0), node0=(server, None), node1=(server, None))
    plain = render(made)
    named = {"name": "psm3", "note": "", "env": {"FI_PROVIDER": "psm3"}}
    assert render({**made, "fabric": named}) == plain.replace("stack native", "stack native, fabric psm3")
    note = "all ranks communicate over TCP, because node1 has no RoCE adapter"
    kept_back = {"name": "tcp", "note": note, "env": {}}
    assert render({**made, "fabric": kept_back}) == f"{plain}\n\nNote: {note}"
