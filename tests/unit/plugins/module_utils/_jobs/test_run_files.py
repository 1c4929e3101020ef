from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import run_files
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import choose_precision, make_plan, on_hosts
from ansible_collections.amx.cluster.plugins.module_utils._stacks import intel_mpi

JOB: dict[str, Any] = {"name": "demo", "precision": "auto", "args": {"seed": 1}, "env": {"KMP_BLOCKTIME": "0"}}
STACK: dict[str, Any] = {
    "name": "native",
    "backend": "gloo",
    "arguments": {"cpu": {"use_cpu": True}, "distributed": {"ddp_backend": "gloo"}, "bf16": {"bf16": True}},
}


def host(name: str, ranks: int, domain: str = "[3,c]", isa: str = "amx", **allocation: Any) -> dict[str, Any]:
    """A host as make_plan wants it, with as many ranks of two cores each."""
    return {
        "host": name,
        "address": f"10.0.0.{ord(name[-1]) - ord('0') + 1}",
        "interface": "eth0",
        "isa": isa,
        "allocation": {
            "ranks": [
                {"env": {}, "compute_cpus": [2 * place, 2 * place + 1], "comm_cpus": []} for place in range(ranks)
            ],
            "env": {"OMP_NUM_THREADS": "2", "KMP_BLOCKTIME": "1", "I_MPI_PIN_DOMAIN": domain},
            "threads_per_rank": 2,
            "map": "socket 0  0011",
            **allocation,
        },
    }


def plan(*hosts: dict[str, Any], **job: Any) -> dict[str, Any]:
    return make_plan({**JOB, **job}, STACK, "/opt/env", hosts)


def test_plan_counts_ranks_over_the_hosts() -> None:
    made = plan(host("node0", 2), host("node1", 1, warnings=["1 core is left over"]))
    assert {key: made[key] for key in ("job", "stack", "backend", "precision", "master_addr", "world_size")} == {
        "job": "demo",
        "stack": "native",
        "backend": "gloo",
        "precision": "bf16",
        "master_addr": "10.0.0.1",
        "world_size": 3,
    }
    assert [entry["first_rank"] for entry in made["hosts"]] == [0, 2]
    assert [[rank["rank"] for rank in entry["ranks"]] for entry in made["hosts"]] == [[0, 1], [2]]
    assert [entry["warnings"] for entry in made["hosts"]] == [[], ["1 core is left over"]]


def test_what_all_ranks_of_a_host_are_told() -> None:
    made = plan(host("node0", 1), {**host("node1", 1), "interface": "ib0"})
    assert made["hosts"][1]["env"] == {
        "OMP_NUM_THREADS": "2",
        "KMP_BLOCKTIME": "0",  # the job's own word is the last
        "I_MPI_PIN_DOMAIN": "[3,c]",
        "LD_PRELOAD": "/opt/env/lib/libiomp5.so",
        "GLOO_SOCKET_IFNAME": "ib0",
        "FI_TCP_IFACE": "ib0",
        "MASTER_ADDR": "10.0.0.1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
    }


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


@pytest.mark.parametrize(
    ("made", "args", "words"),
    [
        (
            plan(host("node0", 2)),
            {"seed": 1},
            "--output_dir output --ddp_backend gloo --bf16 --seed 1 --use_cpu",
        ),
        (plan(host("node0", 1, isa="avx2")), {"seed": 1}, "--output_dir output --seed 1 --use_cpu"),
        (
            plan(host("node0", 1)),
            {"output_dir": "here", "bf16": False, "use_cpu": False},
            "--output_dir here --bf16 false --use_cpu",
        ),
    ],
)
def test_script_arguments(made: dict[str, Any], args: dict[str, Any], words: str) -> None:
    assert run_files.script_arguments({**JOB, "args": args}, STACK, made) == words.split()


def test_render_arguments() -> None:
    args = {"a": True, "b": False, "c": [1, "x y"], "d": 1e-4, "e": "", "f": []}
    words = ["--a", "--b", "false", "--c", "1", "x y", "--d", "0.0001", "--e", "", "--f"]
    assert run_files.render_arguments(args) == words


def test_environment_of_a_stack_with_bindings() -> None:
    stack = {**STACK, "backend": "ccl", "bindings": "oneccl_bindings_for_pytorch", "interpreter": "3.10"}
    made = make_plan(JOB, stack, "/opt/env", [host("node0", 1)])
    root = "/opt/env/lib/python3.10/site-packages/oneccl_bindings_for_pytorch"
    assert made["hosts"][0]["env"]["AMX_CLUSTER_BINDINGS"] == "oneccl_bindings_for_pytorch"
    told = run_files.environment_file(made).splitlines()
    assert told[:6] == [
        f"CCL_ROOT={root}",
        f"I_MPI_ROOT={root}",
        f"PATH={root}/bin:/opt/env/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        f"LD_LIBRARY_PATH={root}/lib:/opt/env/lib",
        f"FI_PROVIDER_PATH={root}/lib/prov",
        "FI_PROVIDER=tcp",
    ]
    assert intel_mpi.bindings_folder({**stack, "bindings": "torch_ccl"}) == "lib/python3.10/site-packages/torch_ccl"


def test_hostfile_and_environment_file() -> None:
    made = plan(host("node0", 1), host("node1", 1))
    assert run_files.hostfile(made) == "node0\nnode1\n"
    sourced = subprocess.run(
        ["bash", "-c", f"set -a\n{run_files.environment_file(made)}\nenv -0"], capture_output=True, env={}, check=True
    )
    told = dict(line.split("=", 1) for line in sourced.stdout.decode().split("\0") if line)
    expected = {
        **intel_mpi.mpi_environment("/opt/env"),
        "I_MPI_HYDRA_IFACE": "eth0",
        "I_MPI_HYDRA_BOOTSTRAP": "ssh",
        "MASTER_ADDR": "10.0.0.1",
    }
    assert {name: told[name] for name in expected} == expected


def run_launch_script(folder: Path, made: dict[str, Any], arguments: list[str]) -> list[str]:
    """Run launch.sh as it is with a program mpirun that shows how it was called; returns the words."""
    made = {**made, "environment": str(folder / "my env")}
    (folder / "my env/bin").mkdir(parents=True)
    (folder / "my env/bin/python").symlink_to(sys.executable)
    mpirun = folder / "my env/bin/mpirun"
    mpirun.write_text('#!/bin/bash\n[[ $MASTER_PORT -gt 1023 ]] || exit 3\nprintf "%s\\0" "$PWD" "$@"\n')
    mpirun.chmod(0o755)
    (folder / "env").write_text(run_files.environment_file(made))
    (folder / "launch.sh").write_text(run_files.launch_script(made, "train it.py", arguments))
    ran = subprocess.run(["bash", str(folder / "launch.sh")], capture_output=True, check=True, cwd="/")
    return ran.stdout.decode().split("\0")[:-1]


RANK = ["-S", "rank.py", "train it.py", "--text", "it's $HOME", "--list", "1", "-2"]


def test_launch_script_of_like_hosts(tmp_path: Path) -> None:
    made = plan(host("node0", 2), host("node1", 2))
    python = str(tmp_path / "my env/bin/python")
    assert run_launch_script(tmp_path, made, RANK[3:]) == [
        str(tmp_path),
        *shlex.split("-f hostfile -n 4 -ppn 2 -genv I_MPI_PIN_DOMAIN [3,c]"),
        *[python, *RANK],
    ]


def test_launch_script_of_unlike_hosts(tmp_path: Path) -> None:
    made = plan(host("node0", 2), host("node1", 1, domain="[f]"))
    python = str(tmp_path / "my env/bin/python")
    assert run_launch_script(tmp_path, made, RANK[3:]) == [
        str(tmp_path),
        *shlex.split("-n 2 -host node0 -env I_MPI_PIN_DOMAIN [3,c]"),
        *[python, *RANK, ":"],
        *shlex.split("-n 1 -host node1 -env I_MPI_PIN_DOMAIN [f]"),
        *[python, *RANK],
    ]


def test_a_plan_for_fewer_hosts() -> None:
    made = plan(host("node0", 2), host("node1", 1), host("node2", 3))
    fewer = on_hosts(made, ["node2", "node1"])
    assert (fewer["world_size"], fewer["master_addr"]) == (4, "10.0.0.2")
    assert [(entry["host"], entry["first_rank"]) for entry in fewer["hosts"]] == [("node1", 0), ("node2", 1)]
    assert [[rank["rank"] for rank in entry["ranks"]] for entry in fewer["hosts"]] == [[0], [1, 2, 3]]
    assert {entry["env"]["MASTER_ADDR"] for entry in fewer["hosts"]} == {"10.0.0.2"}
    assert made == plan(host("node0", 2), host("node1", 1), host("node2", 3))  # the first one stays as it is
    assert on_hosts(made, ["node0", "node1", "node2"]) == made
    with pytest.raises(ValueError, match=r"^no host is left to run the job on$"):
        on_hosts(made, ["node9"])


def test_a_script_without_a_trainer_gets_its_own_arguments_only() -> None:
    made = plan(host("node0", 2))
    assert run_files.script_arguments({**JOB, "trainer": False}, STACK, made) == ["--seed", "1"]
    assert "--use_cpu" in run_files.script_arguments(JOB, STACK, made)
