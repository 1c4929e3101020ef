from __future__ import annotations

import cProfile
import re
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._cores.allocation import Request, allocate
from ansible_collections.amx.cluster.plugins.module_utils._cores.core_map import described
from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import build
from ansible_collections.amx.cluster.plugins.module_utils._hosts import login_shell
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.known import LAUNCHERS
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Plan
from ansible_collections.amx.cluster.plugins.module_utils._jobs.planning import choose_precision
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run_files import run_files
from support.fabrics import facts
from support.machines import machine
from support.runs import CCL_STACK, OLD_CCL_STACK, STACK, host, plan, planned, run


def on_hosts(content: dict[str, Any], *names: str) -> dict[str, Any]:
    return Plan.from_json(content).on_hosts(names).to_json()


def test_plan_counts_ranks_over_the_hosts() -> None:
    made = plan(host("node0", 2), host("node1", 1, warnings=["1 core is left over"]))
    assert {
        key: made[key]
        for key in ("job", "kind", "watch", "head", "stack", "backend", "precision", "master_addr", "world_size")
    } == {
        "job": "demo",
        "kind": "trainer",
        "watch": {"gradients": True, "stall": True, "group": True},
        "head": "node0",
        "stack": "native",
        "backend": "gloo",
        "precision": "bf16",
        "master_addr": "10.0.0.1",
        "world_size": 3,
    }
    assert [entry["first_rank"] for entry in made["hosts"]] == [0, 2]
    assert [[rank["rank"] for rank in entry["ranks"]] for entry in made["hosts"]] == [[0, 1], [2]]
    assert [entry["warnings"] for entry in made["hosts"]] == [[], ["1 core is left over"]]


def test_the_plan_of_each_launcher() -> None:
    assert plan(host("node0", 1))["launcher"] == {
        "name": "mpirun",
        "rank_variables": ["PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"],
        "pins": True,
        "ignored": login_shell.OF_RANKS,
    }
    assert plan(host("node0", 1), launcher="torchrun")["launcher"] == {
        "name": "torchrun",
        "rank_variables": ["RANK", "WORLD_SIZE", "LOCAL_RANK"],
        "pins": False,
        "ignored": login_shell.OF_RANKS,
    }
    assert LAUNCHERS["kubernetes"].for_ranks()["ignored"] == ""


def test_independent_ranks_need_no_group() -> None:
    assert not plan(host("node0", 1), kind="ranks")["watch"]["group"]


def test_a_launcher_that_does_not_work_with_the_backend() -> None:
    error = "^launcher: torchrun cannot start ranks with backend mpi; it works with gloo, ccl$"
    with pytest.raises(ValueError, match=error):
        plan(host("node0", 1), stack={**STACK, "backend": "mpi"}, launcher="torchrun", backend="mpi")
    for launcher in ("torchrun", "kubernetes"):
        with pytest.raises(
            ValueError, match=rf"^backend: ccl needs launcher mpirun .* not {launcher}.* before 2\.3\.100"
        ):
            plan(host("node0", 1), stack=OLD_CCL_STACK, launcher=launcher, backend="ccl")
    with pytest.raises(ValueError, match=r"^backend: mpi is not in this stack; it has ccl, gloo$"):
        plan(host("node0", 1), stack=CCL_STACK, backend="mpi")


@pytest.mark.parametrize(("launcher", "wanted"), [("mpirun", "gloo"), ("torchrun", "auto"), ("torchrun", "gloo")])
def test_a_stack_with_oneccl_does_without_it(launcher: str, wanted: str) -> None:
    stack = {
        **OLD_CCL_STACK,
        "mpi": {"CCL_ROOT": "/b", "CCL_CONFIGURATION": "cpu", "I_MPI_ROOT": "/b/mpi", "PATH": "/b"},
    }
    made = plan(host("node0", 2), stack=stack, launcher=launcher, backend=wanted)
    variables = run_files(Plan.from_json(made), run(launcher=launcher), stack)["env"]
    assert made["backend"] == "gloo"
    bindings = "this stack's oneccl-bind-pt, as all before 2.3.100"
    notes = [f"backend auto is gloo: {bindings}, does not read LOCAL_RANK, by which launcher {launcher} numbers ranks"]
    assert made["hosts"][0]["warnings"] == (notes if wanted == "auto" else [])
    assert not [name for name in made["hosts"][0]["env"] if name.startswith("CCL_") or name == "AMX_CLUSTER_BINDINGS"]
    assert "CCL_" not in variables
    assert ("I_MPI_ROOT=/b/mpi" in variables) == (launcher == "mpirun"), "Intel MPI is that of the bindings"


@pytest.mark.parametrize("launcher", ["torchrun", "kubernetes"])
@pytest.mark.parametrize("wanted", ["auto", "ccl"])
def test_oneccl_without_mpirun_uses_libfabric_over_the_cluster_network(launcher: str, wanted: str) -> None:
    hosts = [{**host("node0", 1), "interface": "eth7"}, host("node1", 2)]
    made = plan(*hosts, stack=CCL_STACK, launcher=launcher, backend=wanted)
    bindings = "/opt/env/lib/python3.10/site-packages/oneccl_bindings_for_pytorch"
    fabric = f"{bindings}/opt/mpi/libfabric/lib"
    assert made["backend"] == "ccl"
    for entry, interface in zip(made["hosts"], ("eth7", "eth0")):
        assert entry["warnings"] == []
        assert {
            "AMX_CLUSTER_BINDINGS": "oneccl_bindings_for_pytorch",
            "CCL_ATL_TRANSPORT": "ofi",
            "CCL_KVS_IFACE": interface,
            "FI_PROVIDER": "tcp",
            "FI_PROVIDER_PATH": f"{fabric}/prov",
            "FI_TCP_IFACE": interface,
            "LD_LIBRARY_PATH": f"{fabric}:{bindings}/opt/mpi/lib:{bindings}/lib:/opt/env/lib",
        }.items() <= entry["env"].items()
    under_mpirun = plan(*hosts, stack=CCL_STACK, backend="ccl")["hosts"][0]["env"]
    assert not {"CCL_ATL_TRANSPORT", "FI_PROVIDER", "FI_PROVIDER_PATH", "LD_LIBRARY_PATH"} & set(under_mpirun)


def test_libraries_of_a_job_do_not_hide_those_of_oneccl() -> None:
    def path(**job: Any) -> str:
        made = plan(host("node0", 2), stack=CCL_STACK, env={"LD_LIBRARY_PATH": "/own"}, **job)
        return str(made["hosts"][0]["env"]["LD_LIBRARY_PATH"])

    usual = plan(host("node0", 2), stack=CCL_STACK, launcher="torchrun")["hosts"][0]["env"]["LD_LIBRARY_PATH"]
    assert path(launcher="torchrun") == f"{usual}:/own"
    assert path(launcher="torchrun", backend="gloo") == path(launcher="mpirun") == "/own"


def test_oneccl_without_mpirun_uses_no_fabric() -> None:
    hosts = [{**host(f"node{number}", 1), "fabric": facts("infiniband_hdr")} for number in range(2)]
    fabric = plan(*hosts, stack=CCL_STACK, launcher="torchrun")["fabric"]
    assert (fabric["name"], fabric["env"]) == ("tcp", {})
    assert fabric["note"].endswith("with launcher: mpirun, ranks would use mlx")


@pytest.mark.parametrize(
    ("env", "hosts", "reason"),
    [
        ({"CCL_ATL_TRANSPORT": "MPI"}, 1, "ranks that mpirun did not start hang in Intel MPI"),
        ({"FI_PROVIDER": "tcp,shm"}, 1, "oneCCL finds no provider on one host, and hangs between hosts"),
        ({"FI_PROVIDER": ""}, 1, "oneCCL finds no provider on one host, and hangs between hosts"),
        ({"CCL_KVS_IFACE": ""}, 2, "ranks wait for each other without the interface of their network"),
        ({"FI_TCP_IFACE": ""}, 1, "oneCCL hangs between hosts without the interface of their network"),
        ({"FI_TCP_IFACE": "lo"}, 2, "oneCCL hangs between hosts without the interface of their network"),
    ],
)
def test_settings_with_which_oneccl_hangs_without_mpirun(env: dict[str, str], hosts: int, reason: str) -> None:
    names = [f"node{number}" for number in range(hosts)]

    def made(**job: Any) -> dict[str, Any]:
        return plan(*(host(name, 1) for name in names), stack=CCL_STACK, env=env, **job)

    ((name, value),) = env.items()
    for launcher in ("torchrun", "kubernetes"):
        with pytest.raises(ValueError, match=f"^env: {name}={value} with backend ccl: {reason}"):
            made(launcher=launcher)
        assert made(launcher=launcher, backend="gloo")["hosts"][0]["env"][name] == value
    assert made(launcher="mpirun")["backend"] == "ccl"


@pytest.mark.parametrize(
    "env", [{"CCL_KVS_IFACE": ""}, {"FI_TCP_IFACE": "lo"}, {"CCL_ATL_TRANSPORT": "ofi"}, {"FI_PROVIDER": "verbs"}]
)
def test_settings_with_which_oneccl_does_not_hang(env: dict[str, str]) -> None:
    made = plan(host("node0", 2), stack=CCL_STACK, env=env, launcher="torchrun")
    assert env.items() <= made["hosts"][0]["env"].items()


@pytest.mark.parametrize("launcher", ["mpirun", "torchrun", "kubernetes"])
def test_oneccl_has_no_worker_without_a_core_for_it(launcher: str) -> None:
    without = host("node0", 2, env={"CCL_WORKER_COUNT": "1", "CCL_WORKER_OFFLOAD": "0"})

    def made(answer: dict[str, Any], value: str, **job: Any) -> str:
        planned_ = plan(answer, stack=CCL_STACK, launcher=launcher, env={"CCL_WORKER_OFFLOAD": value}, **job)
        return str(planned_["hosts"][0]["env"]["CCL_WORKER_OFFLOAD"])

    with pytest.raises(ValueError, match=r"^env: CCL_WORKER_OFFLOAD=1 with backend ccl: .*, or set comm_cores: 1$"):
        made(without, "1")
    assert made(without, "0") == "0"
    assert made(without, "1", backend="gloo") == made(host("node0", 2), "1") == "1"


def test_settings_of_oneccl_are_the_jobs_except_its_cores() -> None:
    chosen = {"CCL_ALLREDUCE": "ring", "CCL_ATL_TRANSPORT": "ofi"}
    made = plan(host("node0", 2), stack=CCL_STACK, env=chosen)
    assert made["backend"] == "ccl"
    assert chosen.items() <= made["hosts"][0]["env"].items()
    for backend in ("auto", "gloo"):
        with pytest.raises(ValueError, match=r"^env: CCL_WORKER_COUNT .*: set comm_cores instead$"):
            plan(host("node0", 2), stack=CCL_STACK, backend=backend, env={"CCL_WORKER_COUNT": "4"})
        with pytest.raises(ValueError, match=r"^env: CCL_WORKER_AFFINITY .*: leave it out$"):
            plan(host("node0", 2), stack=CCL_STACK, backend=backend, env={"CCL_WORKER_AFFINITY": "auto"})


@pytest.mark.parametrize(
    ("launcher", "name", "value", "reason"),
    [
        ("mpirun", "I_MPI_HYDRA_IFACE", "eth9", "is set to eth0, which follows from the plan"),
        ("mpirun", "I_MPI_HYDRA_BOOTSTRAP", "slurm", "is set to ssh, which follows from the plan"),
        ("mpirun", "FI_PROVIDER_PATH", "/x", "is set to /opt/env/lib, which follows from the plan"),
        ("torchrun", "MASTER_ADDR", "10.9.9.9", "is set to 10.0.0.1, which follows from the plan"),
        ("torchrun", "MASTER_PORT", "29500", "is set by launch.sh at every start"),
        ("mpirun", "I_MPI_PERHOST", "4", "is set by launch.sh from hosts and ranks_per_node"),
        (
            "mpirun",
            "I_MPI_PIN",
            "off",
            "is set by the core allocation (ranks_per_node, comm_cores, reserved_cores, threads_per_core)",
        ),
    ],
)
def test_what_the_job_sets_the_launcher_to_and_the_plan_as_well(
    launcher: str, name: str, value: str, reason: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(f'env_launcher: {name} {reason}: leave it out')}$"):
        plan(host("node0", 1), launcher=launcher, env_launcher={name: value})


def test_the_same_value_contradicts_nothing() -> None:
    same = {"I_MPI_HYDRA_IFACE": "eth0", "I_MPI_HYDRA_DEBUG": "on"}
    assert plan(host("node0", 1), env_launcher=same)["env_launcher"] == same


def test_the_allocator_that_a_host_has_is_preloaded_before_openmp() -> None:
    path = "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4.5.9"
    made = plan({**host("node0", 1), "tcmalloc": path}, host("node1", 1))
    assert [each["env"]["LD_PRELOAD"] for each in made["hosts"]] == [
        f"{path}:/opt/env/lib/libiomp5.so",
        "/opt/env/lib/libiomp5.so",
    ]


def test_the_environment_of_a_host() -> None:
    made = plan(host("node0", 1), {**host("node1", 1), "interface": "ib0"}, env={"KMP_BLOCKTIME": "0"})
    assert made["hosts"][1]["env"] == {
        "OMP_NUM_THREADS": "2",
        "KMP_BLOCKTIME": "0",  # the job's own value wins
        "I_MPI_PIN_DOMAIN": "[3,c]",
        "LD_PRELOAD": "/opt/env/lib/libiomp5.so",
        "GLOO_SOCKET_IFNAME": "ib0",
        "FI_TCP_IFACE": "ib0",
        "MASTER_ADDR": "10.0.0.1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "ACCELERATE_USE_CPU": "true",
    }


def test_accelerate_trains_on_cpus_in_the_precision_of_the_script() -> None:
    def variables(**job: Any) -> dict[str, str]:
        env = plan(host("node0", 1), **job)["hosts"][0]["env"]
        return {name: value for name, value in env.items() if name.startswith("ACCELERATE_")}

    assert variables(kind="torch") == variables(precision="bf16") == {"ACCELERATE_USE_CPU": "true"}
    assert variables(env={"ACCELERATE_MIXED_PRECISION": "no"})["ACCELERATE_MIXED_PRECISION"] == "no"
    assert variables(kind="ranks") == {}


def test_the_fabric_of_hosts_that_have_one() -> None:
    hosts = [{**host(f"node{number}", 1), "fabric": facts("infiniband_hdr")} for number in range(2)]
    made = plan(*hosts, stack=CCL_STACK)
    assert made["fabric"] == {
        "name": "mlx",
        "note": "",
        "env": {"FI_PROVIDER": "mlx", "I_MPI_OFI_PROVIDER": "mlx"},
    }
    assert on_hosts(made, "node1")["fabric"] == made["fabric"]
    assert planned(run(), CCL_STACK, hosts, "verbs")["fabric"]["name"] == "verbs"
    unused = planned(run(), STACK, hosts)["fabric"]
    assert (unused["name"], unused["env"]) == ("tcp", {})
    assert unused["note"].startswith("backend gloo communicates over TCP")


def test_a_plan_without_a_fabric_says_nothing_of_it() -> None:
    plain = plan(host("node0", 1), host("node1", 1), stack=CCL_STACK)
    nothing = [{**host(f"node{number}", 1), "fabric": facts("nothing")} for number in range(2)]
    assert "fabric" not in plain
    assert plan(*nothing, stack=CCL_STACK) == plain
    hosts = [{**host(f"node{number}", 1), "fabric": facts("efa")} for number in range(2)]
    assert planned(run(), CCL_STACK, hosts, "tcp") == plain


def test_a_fabric_that_a_host_does_not_have() -> None:
    hosts = [
        {**host("node0", 1), "fabric": facts("infiniband_hdr")},
        {**host("node1", 1), "fabric": facts("infiniband_down")},
    ]
    fabric = plan(*hosts, stack=CCL_STACK)["fabric"]
    assert fabric["name"] == "tcp"
    assert re.search("because node1 .* mlx5_0 port 1 is DOWN", fabric["note"])
    with pytest.raises(ValueError, match=r"^cluster_fabric is mlx.*\n- node1 "):
        planned(run(), CCL_STACK, hosts, "mlx")


@pytest.mark.parametrize(
    ("wanted", "isas", "chosen"),
    [
        ("auto", ["amx", "avx512_bf16"], "bf16"),
        ("auto", ["amx", "avx512_vnni"], "fp32"),
        ("bf16", ["avx2"], "bf16"),
        ("fp32", ["amx"], "fp32"),
    ],
)
def test_precision(wanted: str, isas: list[str], chosen: str) -> None:
    assert choose_precision(wanted, {f"node{number}": isa for number, isa in enumerate(isas)}) == chosen


def test_a_plan_for_fewer_hosts() -> None:
    made = plan(host("node0", 2), host("node1", 1), host("node2", 3))
    fewer = on_hosts(made, "node2", "node1")
    assert (fewer["world_size"], fewer["master_addr"]) == (4, "10.0.0.2")
    assert [(entry["host"], entry["first_rank"]) for entry in fewer["hosts"]] == [("node1", 0), ("node2", 1)]
    assert [[rank["rank"] for rank in entry["ranks"]] for entry in fewer["hosts"]] == [[0], [1, 2, 3]]
    assert {entry["env"]["MASTER_ADDR"] for entry in fewer["hosts"]} == {"10.0.0.2"}
    assert made == plan(host("node0", 2), host("node1", 1), host("node2", 3))  # the first one stays as it is
    assert on_hosts(made, "node0", "node1", "node2") == made
    with pytest.raises(ValueError, match=r"^no host is left to run the job on$"):
        on_hosts(made, "node9")


def hundred_hosts(count: int) -> list[dict[str, Any]]:
    """Return hosts with two sockets of 56 cores, as their own modules answer."""
    allocation = allocate(build(machine(2, 56, 2).cpus(), None), Request())
    answer = described(allocation)
    return [
        {
            "host": f"node{n}",
            "address": f"10.0.{n // 200}.{n % 200 + 1}",
            "interface": "eth0",
            "isa": "amx",
            "allocation": answer,
        }
        for n in range(count)
    ]


@pytest.mark.slow
def test_the_work_of_a_plan_grows_with_its_hosts_alone(capsys: pytest.CaptureFixture[str]) -> None:
    def calls(count: int) -> int:
        hosts, profile = hundred_hosts(count), cProfile.Profile()
        with profile:
            made = planned(run(), STACK, hosts)
            run_files(Plan.from_json(made), run(), STACK)
        return sum(entry.callcount for entry in profile.getstats())

    calls(1)  # what is made once for a process
    few, many = calls(20), calls(100)
    with capsys.disabled():
        print(f" [plan of 100 hosts of 2 x 56 cores: {many} calls, of 20 {few}]", end="")
    assert many < 6 * few  # quadratic growth would be 25 times


@pytest.mark.parametrize(
    ("job", "found"),
    [({}, "dropout,attention,optimizer,loss,padding"), ({"optimize": "none"}, None), ({"kind": "ranks"}, None)],
)
def test_ranks_know_which_parts_of_a_step_are_optimized(job: dict[str, Any], found: str | None) -> None:
    made = plan(host("node0", 1), stack={**STACK, "packages": {"torch": "2.13.0+cpu"}}, **job)
    assert made["hosts"][0]["env"].get("AMX_CLUSTER_OPTIMIZE") == found
    assert Plan.from_json(made).optimized() == (found.split(",") if found else [])


def test_a_restart_has_the_parts_of_the_start() -> None:
    """Such as of a job that was started when there were fewer."""
    made = plan(host("node0", 1), host("node1", 1), stack={**STACK, "packages": {"torch": "2.13.0+cpu"}})
    for each in made["hosts"]:
        each["env"]["AMX_CLUSTER_OPTIMIZE"] = "dropout,optimizer"
    assert Plan.from_json(on_hosts(made, "node1")).optimized() == ["dropout", "optimizer"]


SHARDING_STACK = {**STACK, "packages": {"transformers": "5.23.0"}}


def test_ranks_know_what_is_sharded() -> None:
    env = plan(host("node0", 1), stack=SHARDING_STACK, sharding="optimizer")["hosts"][0]["env"]
    assert (env["AMX_CLUSTER_SHARDING"], env["MALLOC_MMAP_THRESHOLD_"]) == ("optimizer", "1048576")
    assert "AMX_CLUSTER_SHARDING" not in plan(host("node0", 1))["hosts"][0]["env"]


def test_sharding_that_a_stack_does_not_have() -> None:
    with pytest.raises(ValueError, match=r"^sharding: full needs .* 4\.24\.0"):
        plan(host("node0", 1), stack={**STACK, "packages": {"transformers": "4.24.0"}}, sharding="full")


def test_the_best_of_sharded_checkpoints_is_read_where_all_of_it_is() -> None:
    job = {"sharding": "full", "args": {"load_best_model_at_end": True}}
    hosts = [host("node0", 1), host("node1", 1)]
    with pytest.raises(
        ValueError, match=r"^args: load_best_model_at_end: with sharding: full, each of 2 hosts has a part"
    ):
        plan(*hosts, stack=SHARDING_STACK, **job)
    assert plan(hosts[0], stack=SHARDING_STACK, **job)
    assert planned(run({"shared_directory": True}, **job), SHARDING_STACK, hosts)
