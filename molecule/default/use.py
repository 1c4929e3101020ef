"""Use the cluster that site.yml has made: train, lose a rank, restart, and take everything away.

Called by verify.yml, see tests/support/cluster.py. Exits with 1 when something was not as it should be.
"""

from __future__ import annotations

import sys

from support.cluster import CONTAINERS, HEAD, PREFIX, Play, directory, on, read_json
from support.journeys import check, make
from support.smoke_job import continuation, smoke_and_kill

JOB = "collectives"


def mpi_goes_on_after_a_killed_rank() -> list[str]:
    """Train on three hosts with equal CPUs by Intel MPI; kill a rank, and continue from the last checkpoint."""
    results = smoke_and_kill(JOB, backend="mpi", gradient_compression="bf16", ranks_per_node=1)
    hosts = sorted(CONTAINERS)
    check(results["backend"] == "mpi", f"backend {results['backend']}")
    # Gathered by the script itself, through the process group that trained.
    metrics = results["metrics"]
    check((metrics["world_size"], sorted(metrics["rank_hosts"])) == (3, hosts), f"{metrics}")
    check(metrics["eval_loss"] < metrics["eval_before_loss"], f"{metrics}")
    ranks = read_json(JOB, "world.json")["ranks"]
    check([rank["rank"] for rank in ranks] == [0, 1, 2] and sorted(rank["host"] for rank in ranks) == hosts, f"{ranks}")
    for library in ("libtcmalloc", "libiomp5"):
        missing = [rank["host"] for rank in ranks if not any(f"/{library}" in path for path in rank["libraries"])]
        check(not missing, f"ranks without {library} in memory: {missing}")
    started = on(HEAD, f"grep '^exec ' {directory(JOB)}/launch.sh")
    check(started.startswith("exec mpirun -f hostfile -n 3 -ppn 1 "), started)
    return [f"smoke job by {started.split(' -genv')[0]}, rank 1 killed: {continuation(results)}"]


# What the collection makes has its name.
TRACES = """
find /etc /home /opt /var/lib /root -xdev -name '*amx*' ! -path '/var/lib/systemd/*' | sort
nft list tables | grep amx
grep -c . /home/train/.ssh/authorized_keys
"""


def everything_is_taken_away() -> list[str]:
    """Remove all: nothing of the collection is left on a host, and whoever could log in before still can."""
    before = {host: on(host, TRACES, "root").split() for host in CONTAINERS}
    check(all(len(traces) > 3 for traces in before.values()), f"{before}")
    Play("reset", "-e", "reset=all,results").succeed()
    after = {host: on(host, TRACES, "root").split() for host in CONTAINERS}
    check(all(traces == ["1"] for traces in after.values()), f"left in {PREFIX} and elsewhere: {after}")
    return [f"reset: {len(before[HEAD])} traces on {HEAD} before, none after"]


if __name__ == "__main__":
    sys.exit(make([[mpi_goes_on_after_a_killed_rank], [everything_is_taken_away]]))
