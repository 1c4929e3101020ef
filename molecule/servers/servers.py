"""Plan, verify and train on two emulated servers, and compare the plan with what their kernels did.

Called by verify.yml, see tests/support/cluster.py.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import format_cpus
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Plan, Rank
from support import cluster
from support.cluster import CONTAINERS, SCENARIO, Play, directory, on, read_json
from support.journeys import check, make

# Torch is imported in a minute or more, by all ranks at once, and again by each worker that is spawned.
cluster.PATIENCE = 3600.0
JOB = ("-e", f"job={SCENARIO / 'jobs/loaders.yml'}")
WORKERS = 2
# Of the pages of a rank: on its own NUMA nodes. What the kernel and other processes need may push some elsewhere.
OWN = 0.9


def the_plan_has_a_rank_on_each_node_with_cpus() -> list[str]:
    output = Play("plan", *JOB).succeed()
    for part in (
        "Job loaders: 4 ranks on 2 hosts",
        "node1 (ranks 2-3): 2 ranks, each with 3 threads and 1 CPU for",
    ):
        check(part in output, f"{part!r} is missing:\n{output[-3000:]}")
    return output[output.index("Job loaders") :].splitlines()


def ranks_run_as_planned() -> list[str]:
    output = Play("verify", *JOB).succeed()
    rows = [line for line in output.splitlines() if line.startswith("node") and line.endswith(" yes")]
    check(len(rows) == 4, f"{len(rows)} of 4 ranks were seen to follow the plan:\n{output[-3000:]}")
    return rows


def wrong(rank: Rank, kernel: dict[str, Any]) -> Iterator[str]:
    """Yield what a kernel did otherwise than it is planned for a rank."""
    domain, communication = format_cpus(rank.domain_cpus), format_cpus(rank.comm_cpus)
    computing = {str(cpu) for cpu in rank.compute_cpus}
    masks = {cpus for _name, cpus in kernel["tasks"]}
    for name, cpus in kernel["tasks"]:
        if cpus not in (domain, communication, *computing):
            yield f"thread {name} may run on {cpus}"
    for cpus in sorted({communication, *computing} - masks):
        yield f"no thread is bound to {cpus}"
    for context in ("fork", "spawn"):
        workers = kernel[context]
        if len(workers) != WORKERS:
            yield f"{len(workers)} workers by {context}"
        for name, cpus in (thread for worker in workers for thread in worker):
            if cpus != domain:
                yield f"thread {name} of a worker by {context} may run on {cpus} instead of {domain}"
    pages = {int(node): count for node, count in kernel["memory"].items()}
    own = sum(count for node, count in pages.items() if node in rank.numa_nodes)
    if own < OWN * sum(pages.values()):
        yield f"pages by NUMA node: {pages}, and it is on {rank.numa_nodes}"


def kernels_did_what_was_planned() -> list[str]:
    for name in CONTAINERS:
        # Where the page cache fills a node, as after an installation, the kernel takes another one's memory instead.
        on(name, "sync; echo 1 > /proc/sys/vm/drop_caches", user="root", fails=False)
    Play("train", *JOB).succeed()
    lines, differences = [], []
    for host in Plan.from_json(read_json("loaders", "plan.json")).hosts:
        for rank in host.ranks:
            kernel = json.loads(on(host.host, f"cat {directory('loaders')}/output/kernel-{rank.rank}.json"))
            lines += [f"{host.host}, rank {rank.rank}: {json.dumps(kernel)}"]
            differences += [f"{host.host}, rank {rank.rank}: {text}" for text in wrong(rank, kernel)]
    check(not differences, "\n".join([*differences, *lines]))
    return lines


JOURNEYS = (
    the_plan_has_a_rank_on_each_node_with_cpus,
    ranks_run_as_planned,
    kernels_did_what_was_planned,
)

if __name__ == "__main__":
    sys.exit(make([[journey] for journey in JOURNEYS]))
