from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.launcher import Killed
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.mpirun import LAUNCHER
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Plan
from ansible_collections.amx.cluster.plugins.module_utils._stacks import intel_mpi
from support.fabrics import facts
from support.runs import CCL_STACK, STACK, host, plan, planned, run


def test_environment_of_a_stack_with_bindings() -> None:
    stack = {**STACK, "backend": "ccl", "bindings": "oneccl_bindings_for_pytorch", "interpreter": "3.10"}
    made = plan(host("node0", 1), stack=stack)
    root = "/opt/env/lib/python3.10/site-packages/oneccl_bindings_for_pytorch"
    assert made["hosts"][0]["env"]["AMX_CLUSTER_BINDINGS"] == "oneccl_bindings_for_pytorch"
    variables = LAUNCHER.files(Plan.from_json(made), [])["env"].splitlines()
    assert variables[:6] == [
        f"CCL_ROOT={root}",
        f"I_MPI_ROOT={root}",
        f"PATH={root}/bin:/opt/env/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        f"LD_LIBRARY_PATH={root}/lib:/opt/env/lib",
        f"FI_PROVIDER_PATH={root}/lib/prov",
        "FI_PROVIDER=tcp",
    ]
    assert intel_mpi.bindings_folder({**stack, "bindings": "torch_ccl"}) == "lib/python3.10/site-packages/torch_ccl"


def test_environment_that_the_bindings_set() -> None:
    mpi = {"PATH": "/opt/env/opt/mpi/bin:/bin", "I_MPI_ROOT": "/opt/env/opt/mpi", "FI_PROVIDER": "tcp"}
    stack = {**STACK, "backend": "ccl", "bindings": "oneccl_bindings_for_pytorch", "interpreter": "3.10", "mpi": mpi}
    variables = LAUNCHER.files(Plan.from_json(plan(host("node0", 1), stack=stack)), [])["env"].splitlines()
    assert variables[:3] == [f"{name}={value}" for name, value in mpi.items()]


def test_hostfile_and_environment_file() -> None:
    made = plan(host("node0", 1), host("node1", 1))
    files = LAUNCHER.files(Plan.from_json(made), [])
    assert files["hostfile"] == "node0\nnode1\n"
    sourced = subprocess.run(["bash", "-c", f"set -a\n{files['env']}\nenv -0"], capture_output=True, env={}, check=True)
    found = dict(line.split("=", 1) for line in sourced.stdout.decode().split("\0") if line)
    expected = {
        **intel_mpi.mpi_environment("/opt/env"),
        "I_MPI_HYDRA_IFACE": "eth0",
        "I_MPI_HYDRA_BOOTSTRAP": "ssh",
        "MASTER_ADDR": "10.0.0.1",
    }
    assert {name: found[name] for name in expected} == expected


def test_a_fabric() -> None:
    hosts = [{**host(f"node{number}", 1), "fabric": facts("infiniband_hdr")} for number in range(2)]
    made = plan(*hosts, stack={**CCL_STACK, "mpi": {"PATH": "/bin", "FI_PROVIDER": "tcp"}})
    files = LAUNCHER.files(Plan.from_json(made), [])
    assert files["env"].splitlines()[:3] == ["PATH=/bin", "FI_PROVIDER=mlx", "I_MPI_OFI_PROVIDER=mlx"]
    assert (
        "exec mpirun -f hostfile -n 2 -ppn 1 \\\n  /opt/env/bin/python /opt/runtime/0123 exchange\n"
        in files["exchange.sh"]
    )
    subprocess.run(["bash", "-n"], input=files["exchange.sh"], text=True, check=True)
    plain = LAUNCHER.files(Plan.from_json(plan(host("node0", 1), host("node1", 1))), [])
    assert set(files) - set(plain) == {"exchange.sh"}
    assert "exchange.sh" not in LAUNCHER.files(Plan.from_json(plan(hosts[0], stack=CCL_STACK)), [])


def test_what_the_job_sets_mpirun_to() -> None:
    made = plan(host("node0", 1), env_launcher={"I_MPI_HYDRA_DEBUG": "it's on"})
    files = LAUNCHER.files(Plan.from_json(made), [])
    assert files["env"].splitlines()[-1] == "I_MPI_HYDRA_DEBUG='it'\"'\"'s on'"
    assert "I_MPI_HYDRA_DEBUG" not in made["hosts"][0]["env"]


def run_launch_script(folder: Path, made: dict[str, Any], arguments: list[str]) -> list[str]:
    """Run launch.sh as it is with a program mpirun that shows how it was called; returns the words."""
    made = {**made, "environment": str(folder / "my env")}
    (folder / "my env/bin").mkdir(parents=True)
    (folder / "my env/bin/python").symlink_to(sys.executable)
    mpirun = folder / "my env/bin/mpirun"
    mpirun.write_text('#!/bin/bash\n[[ $MASTER_PORT -gt 1023 ]] || exit 3\nprintf "%s\\0" "$PWD" "$@"\n')
    mpirun.chmod(0o755)
    for name, content in LAUNCHER.files(Plan.from_json(made), ["train it.py", *arguments]).items():
        (folder / name).write_text(content)
    ran = subprocess.run(["bash", str(folder / "launch.sh")], capture_output=True, check=True, cwd="/")
    return ran.stdout.decode().split("\0")[:-1]


RANK = ["-S", "/opt/runtime/0123", "rank", "train it.py", "--text", "it's $HOME", "--list", "1", "-2"]


def test_launch_script_of_like_hosts(tmp_path: Path) -> None:
    made = plan(host("node0", 2), host("node1", 2))
    python = str(tmp_path / "my env/bin/python")
    assert run_launch_script(tmp_path, made, RANK[4:]) == [
        str(tmp_path),
        *shlex.split("-f hostfile -n 4 -ppn 2 -genv I_MPI_PIN_DOMAIN [3,c]"),
        *[python, *RANK],
    ]


def test_launch_script_of_unlike_hosts(tmp_path: Path) -> None:
    made = plan(host("node0", 2), host("node1", 1, domain="[f]"))
    python = str(tmp_path / "my env/bin/python")
    assert run_launch_script(tmp_path, made, RANK[4:]) == [
        str(tmp_path),
        *shlex.split("-n 2 -host node0 -env I_MPI_PIN_DOMAIN [3,c]"),
        *[python, *RANK, ":"],
        *shlex.split("-n 1 -host node1 -env I_MPI_PIN_DOMAIN [f]"),
        *[python, *RANK],
    ]


def test_the_port_is_free_on_the_host_of_rank_0() -> None:
    made = {**plan(host("node1", 1)), "head": "node0"}
    assert "MASTER_PORT=$(ssh -o BatchMode=yes node1 " in LAUNCHER.files(Plan.from_json(made), [])["launch.sh"]


REPORT = "=   RANK {rank} PID 1{rank} RUNNING AT node{rank}\n=   KILLED BY SIGNAL: {signal} (Killed)\n"


@pytest.mark.parametrize(
    ("signals", "ended", "first"),
    [
        ((9, 9, 9), [2, 0, 1], 2),  # Hydra ends the others by the same signal
        ((9, 11, 9), [0, 1, 2], 1),  # and sends no other
        ((9, 9, 9), [], 0),
        ((9, 9, 9), [1], 1),
    ],
)
def test_the_rank_that_was_killed_first(signals: Sequence[int], ended: list[int], first: int) -> None:
    log = "\n".join(REPORT.format(rank=rank, signal=number) for rank, number in enumerate(signals))
    made = plan(*(host(f"node{rank}", 1) for rank in range(3)))
    assert LAUNCHER.killed(log, Plan.from_json(made), ended) == Killed(first, f"node{first}", signals[first])
    assert LAUNCHER.killed("=   EXIT CODE: 1", Plan.from_json(made)) is None


def test_mpirun_uses_the_interface_of_the_head_also_where_others_call_theirs_something_else() -> None:
    made = planned(run({"head_interface": "ens1"}), STACK, [{**host("node1", 1), "interface": "eth1"}])
    assert "I_MPI_HYDRA_IFACE=ens1\n" in LAUNCHER.files(Plan.from_json(made), ["train.py"])["env"]
