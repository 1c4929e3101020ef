"""What a login on a host sets does not reach ranks on two hosts, with each launcher; job and doctor name it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from support.cluster import CONTAINERS, EPHEMERAL, Play, job_file, log, on, read_json, words
from support.journeys import check

# As setvars.sh of oneAPI that .bashrc sources, before Debian's line that ends it for shells that are not interactive.
LOGIN = {
    "OMP_NUM_THREADS": "7",  # other than on any host here
    "KMP_AFFINITY": "disabled",
    "KMP_SETTINGS": "1",
    "I_MPI_PIN": "0",
    "I_MPI_ADJUST_ALLREDUCE": "99",
    "FI_PROVIDER": "sockets",
    "PYTHONPATH": "/no/such/packages",
}
SCRIPT = f"""
import json, os, pathlib, torch, torch.distributed as dist
dist.init_process_group()
seen = {{name: os.environ.get(name, "") for name in {list(LOGIN)}}}
seen["threads"] = torch.get_num_threads()
ranks = [None] * dist.get_world_size()
dist.all_gather_object(ranks, seen)
if dist.get_rank() == 0:
    pathlib.Path("output").mkdir(exist_ok=True)
    pathlib.Path("output/all_results.json").write_text(json.dumps({{"ranks": ranks}}))
dist.destroy_process_group()
"""


@contextlib.contextmanager
def logins() -> Iterator[None]:
    """Have every login on every host set LOGIN."""
    exports = " ".join(f"{name}={value}" for name, value in LOGIN.items())
    for host in CONTAINERS:
        on(host, f"cp ~/.bashrc ~/.bashrc.before; sed -i '1i export {exports}' ~/.bashrc")
    try:
        yield
    finally:
        for host in CONTAINERS:
            on(host, "mv ~/.bashrc.before ~/.bashrc")


def what_a_login_sets_does_not_reach_ranks() -> list[str]:
    script = EPHEMERAL / "login.py"
    script.write_text(SCRIPT)
    with logins():
        for launcher, backend in (("mpirun", "mpi"), ("torchrun", "gloo")):
            fields = {"kind": "torch", "launcher": launcher, "backend": backend, "hosts": 2, "ranks_per_node": 1}
            job = job_file({"name": f"login-{launcher}", "script": str(script), **fields})
            Play("train", "-e", f"job={job}").succeed()
            compare(f"login-{launcher}", {"FI_PROVIDER": "tcp"} if launcher == "mpirun" else {})
            Play("verify", "-e", f"job={job}").succeed()
        shown = words(Play("doctor").wait())
        check("OMP_NUM_THREADS=7" in shown and "which jobs ignore" in shown, f"the doctor does not name it:\n{shown}")
    return [f"{len(LOGIN)} variables of .bashrc on two hosts reached no rank of mpirun and torchrun"]


def compare(job: str, of_launcher: dict[str, str]) -> None:
    """Compare what the ranks of a job have seen with its plan, and look for what the log says of each host."""
    plan, ranks, text = read_json(job, "plan.json"), read_json(job, "output/all_results.json")["ranks"], log(job)
    check(len(ranks) == 2, f"{job} had {len(ranks)} ranks")
    for host, seen in zip(plan["hosts"], ranks):
        name, planned = host["host"], {**of_launcher, **host["env"], **host["ranks"][0]["env"]}
        for variable, value in LOGIN.items():
            got, wanted = seen[variable], planned.get(variable, "")
            right = value not in got if variable == "PYTHONPATH" else got == wanted
            check(right, f"{job}: {name} has {variable}={got} instead of {wanted!r}")
        check(seen["threads"] == host["threads_per_rank"], f"{job}: {seen['threads']} threads on {name}")
        told = [line for line in text.splitlines() if "a login" in line and name in line]
        check(any("KMP_AFFINITY=disabled" in line for line in told), f"{job} does not name {name}:\n{text}")
