"""Backend mpi beside gloo in the same run, under real Intel MPI: collectives, ways to train, ways to fail."""

from __future__ import annotations

import os
import re
import subprocess
import textwrap
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
JUDGES = Path(__file__).parent / "collectives"
PACKAGES = ROOT / "roles/job/files/collectives"
# What mpirun gives a rank, as rank.py hands it on.
RANK = 'export RANK=$PMI_RANK WORLD_SIZE=$PMI_SIZE LOCAL_RANK=$MPI_LOCALRANKID; exec "$@"'
PORT = 29600


def run(
    environment: Path, ranks: int, *command: str, env: Mapping[str, str] | None = None, timeout: float = 600
) -> subprocess.CompletedProcess[str]:
    """Run a script with so many ranks on this machine; what they print is in stdout."""
    global PORT
    PORT += 1
    library = f"{environment}/lib"
    return subprocess.run(
        [
            f"{environment}/bin/mpirun",
            "-n",
            str(ranks),
            "bash",
            "-c",
            RANK,
            "rank",
            f"{environment}/bin/python",
            *command,
        ],
        env={
            "PATH": f"{environment}/bin:{os.environ['PATH']}",
            "HOME": os.environ.get("HOME", "/"),
            "I_MPI_ROOT": str(environment),
            "I_MPI_PIN": "0",
            "LD_LIBRARY_PATH": library,
            "FI_PROVIDER_PATH": library,
            "FI_PROVIDER": "tcp",
            "PYTHONPATH": str(PACKAGES),
            "OMP_NUM_THREADS": "1",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(PORT),
            **(env or {}),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )


# Every rank of four would share a core with another one here, and each that waits keeps its core busy.
@pytest.mark.parametrize(
    ("ranks", "parts", "least"),
    [(1, ["the_rest"], 15), (2, ["the_rest", "functional", "movements", "reductions"], 3000), (3, ["the_rest"], 20)],
)
def test_every_collective_agrees_with_gloo(environment: Path, ranks: int, parts: list[str], least: int) -> None:
    done = run(environment, ranks, str(JUDGES / "judge_collectives.py"), *parts)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "DIFFERS" not in done.stdout, done.stdout[:3000]
    checked = [int(number) for number in re.findall(r"checked (\d+)", done.stdout)]
    assert len(checked) == ranks
    assert min(checked) >= least


def test_collectives_on_a_communication_core_agree_with_gloo(environment: Path) -> None:
    cpu = str(max(os.sched_getaffinity(0)))
    env = {"AMX_CLUSTER_MPI_CPUS": cpu}
    done = run(environment, 2, str(JUDGES / "judge_collectives.py"), "the_rest", "functional", env=env)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "DIFFERS" not in done.stdout, done.stdout[:3000]
    assert done.stdout.count("checked ") == 2


def test_every_way_to_train_gives_the_same_losses(environment: Path) -> None:
    done = run(environment, 2, str(JUDGES / "judge_training.py"))
    assert done.returncode == 0, done.stdout[-3000:]
    assert "DIFFERS" not in done.stdout, done.stdout[:3000]
    assert done.stdout.count("same losses") == 2 * 9


FAILS = """
import os, sys, time
from datetime import timedelta
import amx_cluster_mpi, torch, torch.distributed as dist
dist.init_process_group("mpi", timeout=timedelta(seconds=6))
rank = dist.get_rank()
dist.all_reduce(torch.ones(10))
if rank == 1:
    {what}
dist.all_reduce(torch.ones(10))
print("ended")
"""
FAULTS = {
    "a rank that raises": ("raise ValueError('broken')", "ValueError: broken"),
    "a rank that leaves": ("sys.exit(3)", "BAD TERMINATION"),
    "a rank that is killed": ("os.kill(os.getpid(), 9)", "KILLED BY SIGNAL: 9"),
    "a rank that does not come": (
        "time.sleep(100)",
        "rank 0 on .*: all_reduce of 10 float32, number 2 in the group of ranks 0, 1, has not ended within 6 s: rank 1 "
        "has not called it",
    ),
    "a rank that has ended": ("sys.exit(0)", "has not ended within 6 s: rank 1 has not called it"),
    "another collective": (
        "dist.broadcast(torch.ones(5), 0)",
        r"has not ended within 6 s: rank \d is at (broadcast of 5|all_reduce of 10) float32, number 2",
    ),
    "a message that is not sent": (
        "dist.recv(torch.ones(3), 0)",
        "recv from rank 0 in the group of ranks 0, 1 has not ended within 6 s",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_ends_all_ranks_with_a_message(environment: Path, tmp_path: Path, name: str) -> None:
    what, message = FAULTS[name]
    script = tmp_path / "fails.py"
    script.write_text(FAILS.format(what=what))
    began = time.monotonic()
    done = run(environment, 2, str(script), timeout=120)
    assert done.returncode != 0
    assert re.search(message, done.stdout), done.stdout[-3000:]
    assert "ended\n" not in done.stdout
    assert time.monotonic() - began < 60  # the timeout is 6 s, and interpreters are slow to start on a busy machine


DIFFERENT = """
import amx_cluster_mpi, torch, torch.distributed as dist
dist.init_process_group("mpi")
dist.all_reduce(torch.ones(10 + dist.get_rank()))
"""


def test_different_collectives_are_told_in_debug_mode(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "different.py").write_text(DIFFERENT)
    done = run(environment, 2, str(tmp_path / "different.py"), env={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}, timeout=120)
    assert done.returncode != 0
    assert "ranks call different collectives, number 1 of their group" in done.stdout
    assert "rank 1: all_reduce SUM float32[11]" in done.stdout


REFUSED = {
    "a tensor that is not on the CPU": (
        "dist.all_reduce(torch.ones(3, device='meta'))",
        "all_reduce: backend mpi works with CPU tensors, and this one is on meta",
    ),
    "a sparse tensor": ("dist.all_reduce(torch.eye(3).to_sparse())", "backend mpi works with dense tensors"),
    "an average of integers": (
        "dist.all_reduce(torch.ones(3, dtype=torch.int64), dist.ReduceOp.AVG)",
        "backend mpi cannot reduce torch.int64 by AVG",
    ),
    "a forked process": (
        "pid = os.fork()\nif not pid:\n    dist.all_reduce(torch.ones(1))\nos.waitpid(pid, 0); sys.exit(1)",
        "a process that a rank has forked cannot communicate",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_mpi_cannot_do_is_refused(environment: Path, tmp_path: Path, name: str) -> None:
    what, message = REFUSED[name]
    start = "import os, sys, amx_cluster_mpi, torch, torch.distributed as dist\ndist.init_process_group('mpi')\n"
    (tmp_path / "refused.py").write_text(start + what)
    done = run(environment, 1, str(tmp_path / "refused.py"), timeout=120)
    assert done.returncode != 0
    assert message in done.stdout


@pytest.mark.parametrize(
    ("variable", "launcher"), [("TORCHELASTIC_RUN_ID", "torchrun"), ("OMPI_COMM_WORLD_SIZE", "Open MPI's mpirun")]
)
def test_another_launcher_is_refused(environment: Path, variable: str, launcher: str) -> None:
    script = "import amx_cluster_mpi, torch.distributed as dist; dist.init_process_group('mpi')"
    env = {"LD_LIBRARY_PATH": f"{environment}/lib", "PYTHONPATH": str(PACKAGES), variable: "2", "WORLD_SIZE": "2"}
    done = subprocess.run(
        [f"{environment}/bin/python", "-c", script], env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert f"this one was started by {launcher}: set launcher: mpirun, or backend: gloo, in the job file" in done.stderr


def test_a_script_without_a_backend_of_its_own_takes_mpi(environment: Path, tmp_path: Path) -> None:
    """accelerate asks is_mpi_available; what asks for gloo gets gloo, and both may be there at once."""
    (tmp_path / "script.py").write_text(
        textwrap.dedent("""
        import amx_cluster_mpi, torch, torch.distributed as dist
        from accelerate import Accelerator
        accelerator = Accelerator(cpu=True)
        print(dist.get_backend(), dist.is_mpi_available(), accelerator.num_processes)
        beside = dist.new_group(backend="gloo")
        ones = torch.ones(1)
        dist.all_reduce(ones, group=beside)
        print("gloo", ones.item())
        """)
    )
    done = run(environment, 2, str(tmp_path / "script.py"), timeout=120)
    assert done.returncode == 0, done.stdout[-3000:]
    assert done.stdout.count("mpi True 2") == done.stdout.count("gloo 2.0") == 2
    assert "For MPI backend, world_size" not in done.stdout


def test_importing_it_costs_next_to_nothing(environment: Path) -> None:
    """Beside the import of torch in the same process; MPI is loaded with the first group only."""
    script = textwrap.dedent(f"""
        import sys, time
        began = time.perf_counter(); import torch.distributed; torch_took = time.perf_counter() - began
        sys.path.insert(0, {str(PACKAGES)!r})
        began = time.perf_counter(); import amx_cluster_mpi; took = time.perf_counter() - began
        print(took / torch_took, "mpi4py" in sys.modules)
        """)
    done = subprocess.run(
        [f"{environment}/bin/python", "-c", script], capture_output=True, text=True, timeout=120, check=True
    )
    share, is_loaded = done.stdout.split()
    assert float(share) < 0.1
    assert is_loaded == "False"
