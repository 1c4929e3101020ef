"""Become one rank of a job: every starter (mpirun, and whatever follows it) runs this on a host, once for each rank.

    python -S rank.py SCRIPT [ARGUMENT ...]        in the job directory

What a rank is told - its place in the group, its cores, its environment - stands in the job directory's plan.json; this
host's name in that plan stands in the file `host`. The script then takes this process's place. It ends with the starter
that started it, and holds the host for its job as long as it lives.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import glob
import json
import os
import signal
import sys

# rank, size, local rank: how each starter numbers what it starts.
STARTERS = (
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),  # Intel MPI's Hydra
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),  # Open MPI
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),  # srun
)


def place(environ: dict[str, str]) -> tuple[int, int, int]:
    """Return (rank, size, local rank) as the starter tells them; raises ValueError when none does."""
    for names in STARTERS:
        if all(name in environ for name in names):
            rank, size, local = (int(environ[name]) for name in names)
            return rank, size, local
    known = " or ".join(names[0] for names in STARTERS)
    raise ValueError(f"no starter numbered this process ({known} is not set): start it with launch.sh")


def told(plan: dict, name: str, environ: dict[str, str]) -> dict[str, str]:
    """Return what this rank is told besides what its environment has.

    plan: the content of plan.json. name: this host's name in it. Raises ValueError when the starter did not make the
    group that was planned.
    """
    rank, size, local = place(environ)
    if size != plan["world_size"]:
        raise ValueError(
            f"{size} rank(s) were started and the plan is for {plan['world_size']}: start the job with launch.sh"
        )
    host = next((entry for entry in plan["hosts"] if entry["host"] == name), None)
    if host is None:
        raise ValueError(f"{name} is not a host of the plan")
    if local >= len(host["ranks"]):
        raise ValueError(f"{local + 1} ranks were started on {name} and the plan has {len(host['ranks'])} there")
    mine = host["ranks"][local]
    if mine["rank"] != rank:
        raise ValueError(
            f"rank {rank} was started on {name} where the plan has rank {mine['rank']}: the host file was changed"
        )
    here = os.getcwd()
    return {
        **host["env"],
        **mine.get("env", {}),
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": str(local),
        "LOCAL_WORLD_SIZE": str(len(host["ranks"])),
        # What the job requires besides the environment lies in packages/.
        "PYTHONPATH": os.pathsep.join(filter(None, [f"{here}/observe", f"{here}/packages", environ.get("PYTHONPATH")])),
        "AMX_CLUSTER_JOB": here,
        "AMX_CLUSTER_HOST": name,
    }


def hold(local: int) -> None:
    """Hold this host for the job in the working directory until this process, and all that it starts, have ended.

    A lock on a file of the job (flock(2)), which no rank has to give back. Raises ValueError when another job's rank
    holds the host.
    """
    mine = os.open(f"hold.{local}", os.O_RDWR | os.O_CREAT, 0o644)
    os.set_inheritable(mine, True)
    fcntl.flock(mine, fcntl.LOCK_EX)
    for path in glob.glob("../*/hold.*"):
        if os.path.dirname(os.path.realpath(path)) == os.getcwd():
            continue
        with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as other:
            try:
                fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(f"job {os.path.basename(os.path.dirname(path))} holds this host") from None


def end_with_starter() -> None:
    """Have the kernel end this process when the one that started it ends: no rank outlives its job (prctl(2))."""
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        sys.exit("rank.py: the starter has ended meanwhile")


def main() -> None:
    end_with_starter()
    try:
        with open("plan.json", encoding="utf-8") as stream:
            plan = json.load(stream)
        with open("host", encoding="utf-8") as stream:
            name = stream.read().strip()
        environ = {**os.environ, **told(plan, name, dict(os.environ))}
        hold(int(environ["LOCAL_RANK"]))
    except (OSError, ValueError) as error:
        sys.exit(f"rank.py: {error}")
    os.execve(sys.executable, [sys.executable, *sys.argv[1:]], environ)


if __name__ == "__main__":
    main()
