"""Plan and verify jobs on hosts of different size, and count which network carries what.

Called by verify.yml, see tests/support/cluster.py. The journeys build on each other: the plan that is altered is
the one that was verified before.
"""

from __future__ import annotations

import json
import re
import sys

from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Plan
from ansible_collections.amx.cluster.plugins.module_utils._jobs.verification import differences
from support.cluster import CONTAINERS, HEAD, SCENARIO, Play, addresses, directory, on, read_json, words
from support.journeys import check, make

NETWORKS = ("management", "cluster")
# What the gradients of some twenty steps come to at least, and what a launcher and heartbeats come to at most.
GRADIENTS, OTHERS = 1_000_000, 20_000


def play(name: str, job: str) -> Play:
    return Play(name, "-e", f"job={SCENARIO / 'jobs' / job}.yml")


def unchanged(output: str) -> bool:
    """Return whether a play changed nothing, on two hosts and the control node."""
    return len(re.findall("changed=0 ", output)) == 3


def site_has_verified_a_plan_for_each_host() -> list[str]:
    names = on(HEAD, f"getent ahostsv4 {' '.join(CONTAINERS)}").splitlines()
    resolved = {line.split()[0] for line in names}
    check(resolved == set(addresses("management").values()), f"names resolve to {resolved}")
    threads = [host["threads_per_rank"] for host in read_json("+verify", "verified.json")["hosts"]]
    check(threads == [1, 2], f"threads of the verified plan: {threads}")
    return [f"site.yml has verified a plan with {threads} threads"]


def a_plan_that_does_not_fit_is_refused() -> list[str]:
    output = play("train", "two").fail()
    refusals = re.findall("fatal: .*", output)
    check(len(refusals) == 1 and "node0" in refusals[0], f"refused by {refusals}:\n{output[-3000:]}")
    for part in (
        "ranks_per_node=2, comm_cores=0 and reserved_cores=0 ",
        "This node has 1 usable core",
        "The nearest request that fits: ranks_per_node=1",
    ):
        check(part in words(output), f"{part!r} is missing:\n{output[-3000:]}")
    check(unchanged(output), f"something was changed:\n{output[-3000:]}")
    left = [host for host in CONTAINERS if on(host, f"ls -d {directory('two')} 2>/dev/null").strip()]
    check(not left, f"the refused job has a directory on {left}")
    return [refusals[0][:120]]


def a_plan_is_shown_for_each_host() -> list[str]:
    output = play("plan", "up_to_two").succeed()
    for part in (
        "Job up_to_two: 3 ranks on 2 hosts",
        "node0 (rank 0): 1 rank, with 1 thread",
        "node1 (ranks 1-2): 2 ranks, each with 1 thread",
    ):
        check(part in output, f"{part!r} is missing:\n{output[-3000:]}")
    check("<svg" not in output and unchanged(output), f"drawings or changes:\n{output[-3000:]}")
    return []


def what_does_not_follow_the_plan_is_found() -> list[str]:
    """Verify a job whose own environment undoes its plan."""
    output = words(play("verify", "spoilt").fail())
    found = [
        r"node0, rank 0, OpenMP run time. planned \S+/lib/libiomp5.so, observed \S+/libgomp\S*",
        r"node1, rank 1, OpenMP run time. planned \S+/lib/libiomp5.so, observed \S+/libgomp\S*",
        r"node0, rank 0, OpenMP threads. planned 1, observed .*OMP_NUM_THREADS=4",
        r"node1, rank 1, OpenMP threads. planned 2, observed .*OMP_NUM_THREADS=4",
        r"node1, rank 1, allowed on. planned 0-1, observed [24] x 0-1",
    ]
    missed = [pattern for pattern in found if not re.search(pattern, output)]
    check(not missed, f"not found: {missed} in\n{output[-3000:]}")
    return [f"{len(found)} differences of a spoilt job found"]


def what_follows_the_plan_passes() -> list[str]:
    output = play("verify", "up_to_two").succeed()
    for rank, host in enumerate(("node0", "node1", "node1")):
        seen = re.search(rf"\n{host} +{rank} .* yes\n", output)
        check(seen, f"rank {rank} on {host} was not seen to follow the plan:\n{output[-3000:]}")
    check(unchanged(output), f"a verification counts as a change:\n{output[-3000:]}")
    return []


def an_altered_plan_is_found() -> list[str]:
    """Let the worker's ranks use two threads each where one was planned, and run launch.sh as a person would."""
    path = directory("+verify")
    edit = """s/"OMP_NUM_THREADS": "1"/"OMP_NUM_THREADS": "2"/"""
    on("node1", f"sed -i '{edit}' {path}/plan.json && grep -q 'OMP_NUM_THREADS.*2' {path}/plan.json", fails=False)
    on(HEAD, f"bash {path}/launch.sh", fails=False)
    plan = Plan.from_json(read_json("+verify", "verified.json"))
    found = differences(plan, read_json("+verify", "observed.json")["ranks"])
    for rank in (1, 2):
        start = f"node1, rank {rank}, OpenMP threads: planned 1, observed "
        mine = [line for line in found if line.startswith(start) and "OMP_NUM_THREADS=2" in line]
        check(len(mine) == 1, f"not found for rank {rank}: {found}")
    others = [line for line in found if not line.startswith(("node1, rank 1, ", "node1, rank 2, "))]
    check(not others, f"found elsewhere: {others}")
    launch = on(HEAD, f"cat {path}/launch.sh")
    for part in ("-n 1 -host node0 -env I_MPI_PIN_DOMAIN", "-n 2 -host node1 -env I_MPI_PIN_DOMAIN"):
        check(part in launch, f"{part!r} is not in launch.sh:\n{launch}")
    for host in CONTAINERS:
        drawing = on(HEAD, f"cat {path}/plan-{host}.svg")
        check(f"<title>{host}</title>" in drawing, f"plan-{host}.svg:\n{drawing[:300]}")
    return found


def interface(host: str, name: str) -> str:
    """Return a host's interface to a network."""
    lines = on(host, "ip -oneline -4 address", fails=False).splitlines()
    return next(line.split()[1] for line in lines if f" {addresses(name)[host]}/" in line)


def carried() -> dict[str, dict[str, int]]:
    """Run the job as a person would, and return how many bytes each network of each host has carried meanwhile.

    Through the engine: Ansible's own connections, which use the management network, would be counted with it.
    """

    def bytes_of(host: str, name: str) -> int:
        read = on(host, f"cat /sys/class/net/{INTERFACES[host][name]}/statistics/?x_bytes", fails=False)
        return sum(map(int, read.split()))

    def count() -> dict[str, dict[str, int]]:
        return {host: {name: bytes_of(host, name) for name in NETWORKS} for host in CONTAINERS}

    before = count()
    on(HEAD, f"cd {directory('networks')} && bash launch.sh", fails=False)
    after = count()
    return {host: {name: after[host][name] - before[host][name] for name in NETWORKS} for host in CONTAINERS}


INTERFACES = {host: {name: interface(host, name) for name in NETWORKS} for host in CONTAINERS}


def ranks_talk_over_the_cluster_network_only() -> list[str]:
    play("train", "networks").succeed()
    right = carried()
    check(min(one["cluster"] for one in right.values()) > GRADIENTS, f"ranks did not talk: {right}")
    check(max(one["management"] for one in right.values()) < OTHERS, f"over the management network: {right}")
    # Otherwise a count that is always small would prove nothing.
    for host, names in INTERFACES.items():
        wrong = json.dumps({"GLOO_SOCKET_IFNAME": names["management"]})[1:-1]
        edit = f"s/{json.dumps({'GLOO_SOCKET_IFNAME': names['cluster']})[1:-1]}/{wrong}/"
        plan = f"{directory('networks')}/plan.json"
        on(host, f"sed -i '{edit}' {plan} && grep -q '{wrong}' {plan}", fails=False)
    misled = carried()
    check(min(one["management"] for one in misled.values()) > GRADIENTS, f"the wrong interface is not seen: {misled}")
    return [f"bytes of each host: {right}; with the management network's interface in the plan: {misled}"]


JOURNEYS = (
    site_has_verified_a_plan_for_each_host,
    a_plan_that_does_not_fit_is_refused,
    a_plan_is_shown_for_each_host,
    what_does_not_follow_the_plan_is_found,
    what_follows_the_plan_passes,
    an_altered_plan_is_found,
    ranks_talk_over_the_cluster_network_only,
)

if __name__ == "__main__":
    sys.exit(make([[journey] for journey in JOURNEYS]))
