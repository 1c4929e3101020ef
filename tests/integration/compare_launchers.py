"""Compare our plan with what other launchers do, on machines that are made up or captured.

    compare_launchers.py --env PREFIX --ipex-wheel FILE [--tree NAME=FOLDER] [--write docs/launcher_comparison.md]

PREFIX is a Python environment with torch, psutil and Intel MPI (impi-rt); FILE the wheel of
intel-extension-for-pytorch 2.8.0, of which only the launcher is used. Every launcher is run as its users run it, asked
for ranks with one communication core each where it knows such, and told nothing of the machine: `lscpu` reads a tree
(--sysroot), and Intel MPI's Hydra is shown it (HWLOC_FSROOT). What counts is what the launcher hands to numactl or
Hydra, and for Hydra what each rank finds in I_MPI_PIN_INFO. The table goes between the markers in the file of --write.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / ".collections")]

from ansible_collections.amx.cluster.plugins.module_utils._cores.allocation import Request, allocate
from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import Topology, parse_cpus, read
from support.machines import machine

MARKERS = ("<!-- comparison: begin -->", "<!-- comparison: end -->")
IPEX_PARTS = ("cpu/launch/", "cpu/auto_ipex.py", "utils/_logger.py")

MACHINES = [
    ("1 x 32 x 2", machine(1, 32, 2), 2),
    ("1 x 32 x 2", machine(1, 32, 2), 3),
    ("2 x 16 x 2", machine(2, 16, 2), 2),
    ("2 x 16 x 2", machine(2, 16, 2), 3),
    ("2 x 16 x 2, siblings adjacent", machine(2, 16, 2, numbering="siblings adjacent"), 2),
    ("2 x 20 x 2, 4 nodes interleaved", machine(2, 10, 2, nodes_per_socket=2, numbering="interleaved"), 4),
    ("3 x 8 x 2, nodes 0, 2 and 3", machine(3, 8, 2, node_ids=(0, 2, 3)), 3),
    ("2 x 56 x 2, 16 nodes, 8 with CPUs", machine(2, 14, 2, nodes_per_socket=4, memory_nodes=range(8, 16)), 8),
    ("2 x 8 x 2, cores 0 and 1 offline", machine(2, 8, 2).without((0, 1, 16, 17)), 2),
    ("2 x 16 x 1, a cpuset of CPUs 14-19", machine(2, 16).confined(range(14, 20)), 2),
    ("1 x 7 x 1", machine(1, 7), 3),
    ("nodes of 12 and 7 cores x 2", machine(2, (12, 7), 2), 3),
    ("6 large cores x 2 and 8 small", machine(1, 6, 2, numbering="siblings adjacent", small_cores=8), 2),
    ("2 x 128 x 2", machine(2, 128, 2), 4),
]


class Failed(Exception):
    """A launcher that ended without starting the ranks; the text is its last line."""


@dataclass
class Outcome:
    """What a launcher does with a machine: CPUs and OpenMP threads of each rank, and CPUs of oneCCL's workers."""

    domains: list[set[int]] = field(default_factory=list)
    threads: list[int | None] = field(default_factory=list)
    """None if the launcher leaves it to the run time: then one for each core, as MKL has it."""
    workers: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Bench:
    """Where the launchers are, and stand-ins for the commands they call."""

    prefix: Path
    ipex: Path
    folder: Path

    def run(self, command: list[str], tree: Path, env: Mapping[str, str] | None = None) -> list[str]:
        """The lines that the ranks print, which the stand-ins and the rank mark with `rank:`."""
        library = str(self.prefix / "lib")
        done = subprocess.run(
            command,
            env={
                "PATH": f"{self.folder}:{self.prefix / 'bin'}:{os.environ['PATH']}",
                "HOME": str(self.folder),
                "VIRTUAL_ENV": str(self.prefix),
                "PYTHONPATH": str(self.ipex),
                "LD_LIBRARY_PATH": library,
                "I_MPI_ROOT": str(self.prefix),
                "HWLOC_FSROOT": str(tree),
                "HWLOC_COMPONENTS": "-x86",
                "TREE": str(tree),
                **(env or {}),
            },
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        lines = re.findall(r"rank:(.*)", done.stdout)
        if not lines:
            errors = [line for line in done.stderr.splitlines() if re.match(r"\w*(Error|Exception)\b", line)]
            raise Failed((errors or done.stderr.splitlines() or [f"exit code {done.returncode}"])[-1].strip())
        return lines


def _bench(prefix: Path, wheel: Path, folder: Path) -> Bench:
    ipex = folder / "ipex"
    with zipfile.ZipFile(wheel) as archive:
        package = "intel_extension_for_pytorch"
        for name in archive.namelist():
            if name.startswith(tuple(f"{package}/{part}" for part in IPEX_PARTS)):
                archive.extract(name, ipex)
        # The package itself loads torch 2.8; its launcher does without.
        for part in ("", "cpu", "utils"):
            (ipex / package / part / "__init__.py").touch()
    commands = folder / "commands"
    commands.mkdir()
    real = shutil.which("lscpu")
    for name, script in (
        ("lscpu", f'exec {real} --sysroot "$TREE" "$@"'),
        ("numactl", 'case "$*" in *hostname) exit 0;; esac\necho "rank:$2 $OMP_NUM_THREADS"'),
        ("rank", 'echo "rank:$PMI_RANK $I_MPI_PIN_INFO $OMP_NUM_THREADS|$CCL_WORKER_AFFINITY"'),
    ):
        (commands / name).write_text(f"#!/bin/sh\n{script}\n")
        (commands / name).chmod(0o755)
    (commands / "program.py").write_text("")
    return Bench(prefix, ipex, commands)


def _from_ranks(lines: list[str]) -> Outcome:
    """Read what the ranks of an mpirun printed."""
    outcome = Outcome()
    for line in sorted(lines, key=lambda line: int(line.split()[0])):
        told, workers = line.split("|")
        _rank, pinned, *threads = told.split()
        outcome.domains.append(set(parse_cpus(pinned)))
        outcome.threads.append(int(threads[0]) if threads else None)
        outcome.workers = [int(cpu) for cpu in workers.split(",") if cpu]
    return outcome


def ours(bench: Bench, tree: Path, ranks: int) -> Outcome:
    """Our plan for oneCCL, one communication core a rank, none reserved, as Intel MPI carries it out."""
    try:
        plan = allocate(read(str(tree)), Request(ranks, "ccl", 1, 0))
    except ValueError as error:
        raise Failed(f"refused: {error}") from None
    return _from_ranks(bench.run(["mpirun", "-n", str(ranks), "rank"], tree, plan.env))


def run_cpu(bench: Bench, tree: Path, ranks: int) -> Outcome:
    """torch.backends.xeon.run_cpu, which knows no communication cores and starts instances, not ranks."""
    command = [str(bench.prefix / "bin/python"), "-m", "torch.backends.xeon.run_cpu", "--ninstances", str(ranks)]
    outcome = Outcome()
    for line in bench.run([*command, str(bench.folder / "program.py")], tree):
        cpus, threads = line.split()
        outcome.domains.append(set(parse_cpus(cpus)))
        outcome.threads.append(int(threads))
    return outcome


def ipexrun(bench: Bench, tree: Path, ranks: int, *more: str) -> Outcome:
    """ipexrun's distributed launcher with one oneCCL worker a rank."""
    command = [str(bench.prefix / "bin/python"), "-m", "intel_extension_for_pytorch.cpu.launch", "--nnodes", "1"]
    options = ["--nprocs-per-node", str(ranks), "--ccl-worker-count", "1", *more, "--no-python"]
    return _from_ranks(bench.run([*command, *options, "rank"], tree))


def ipexrun_bound(bench: Bench, tree: Path, ranks: int) -> Outcome:
    """The same, told to keep ranks within NUMA nodes."""
    return ipexrun(bench, tree, ranks, "--bind-numa-node")


def intel_mpi(bench: Bench, tree: Path, ranks: int) -> Outcome:
    """Intel MPI's mpirun with nothing said about pinning."""
    return _from_ranks(bench.run(["mpirun", "-n", str(ranks), "rank"], tree))


LAUNCHERS: dict[str, Callable[[Bench, Path, int], Outcome]] = {
    "amx.cluster": ours,
    "run_cpu": run_cpu,
    "ipexrun": ipexrun,
    "ipexrun --bind-numa-node": ipexrun_bound,
    "Intel MPI alone": intel_mpi,
}


def measured(outcome: Outcome, topology: Topology, ranks: int) -> dict[str, str]:
    """The columns of the table for one launcher on one machine."""
    core_of = {cpu: core.number for core in topology.cores for cpu in core.online_cpus}
    node_of = {cpu: core.node for core in topology.cores for cpu in core.online_cpus}
    usable = {cpu for core in topology.cores for cpu in core.cpus}
    load: dict[int, float] = {}
    for domain, threads in zip(outcome.domains, outcome.threads):
        cores = {core_of[cpu] for cpu in domain if cpu in core_of}
        for core in cores:
            load[core] = load.get(core, 0) + (len(cores) if threads is None else threads) / len(cores)
    for cpu in outcome.workers:
        if cpu in core_of:
            load[core_of[cpu]] = load.get(core_of[cpu], 0) + 1
    sizes = [len({core_of.get(cpu, -1) for cpu in domain}) for domain in outcome.domains]
    named = set().union(*outcome.domains, outcome.workers)
    problems = []
    if len(outcome.domains) != ranks:
        problems.append(f"{len(outcome.domains)} ranks for {ranks}")
    pools = len(set(map(frozenset, outcome.domains)))
    if pools < len(outcome.domains):
        problems.append(f"{len(outcome.domains)} ranks in {pools} domains")
    return {
        "cores a rank": "-".join(str(size) for size in sorted({min(sizes), max(sizes)})),
        "cores used": f"{len(load)} of {len(topology.usable_cores)}",
        "oversubscribed": str(sum(value > 1 + 1e-9 for value in load.values())),
        "across NUMA nodes": str(sum(len({node_of.get(cpu) for cpu in domain}) > 1 for domain in outcome.domains)),
        "not allowed": str(len(named - usable)),
        "fails": "; ".join(problems) or "-",
    }


def cell(row: Mapping[str, str]) -> str:
    """What the page shows of one launcher on one machine: cores a rank, and what is not 0."""
    if not row["cores a rank"]:
        return row["fails"]
    used, _of, usable = row["cores used"].split()
    counts = {
        "unused": int(usable) - int(used),
        "oversubscribed": int(row["oversubscribed"]),
        "across nodes": int(row["across NUMA nodes"]),
        "not allowed": int(row["not allowed"]),
    }
    words = [f"{number} {what}" for what, number in counts.items() if number > 0]
    return ", ".join([row["cores a rank"], *words, *([row["fails"]] if row["fails"] != "-" else [])])


def page(results: list[tuple[str, int, list[str]]]) -> str:
    """The table of the machines on which a launcher does badly, in Markdown, and the number of the others.

    results: machine, ranks, and the cell of each launcher.
    """
    lines = [f"| machine, ranks | {' | '.join(LAUNCHERS)} |", "|---" * (len(LAUNCHERS) + 1) + "|"]
    alike = 0
    for name, ranks, cells in results:
        if all(re.fullmatch(r"\d+(, \d+ unused)?", text) for text in cells):
            alike += 1
        else:
            lines.append(f"| {name}, {ranks} | {' | '.join(cells)} |")
    return "\n".join(
        [*lines, "", f"On {alike} further machines, all launchers give equal ranks and make no such fault."]
    )


def compare(bench: Bench, trees: list[tuple[str, Path, int]]) -> str:
    """The text of the page."""
    results = []
    for name, tree, ranks in trees:
        topology = read(str(tree))
        cells = []
        for launch in LAUNCHERS.values():
            try:
                cells.append(cell(measured(launch(bench, tree, ranks), topology, ranks)))
            except Failed as failure:
                cells.append(str(failure).replace("|", r"\|"))
        results.append((name, ranks, cells))
    return page(results)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", type=Path, required=True)
    parser.add_argument("--ipex-wheel", type=Path, required=True)
    parser.add_argument("--tree", action="append", default=[], help="NAME=FOLDER; may be repeated")
    parser.add_argument("--write", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = _bench(args.env.absolute(), args.ipex_wheel, Path(folder))
        trees = []
        for number, (name, made, ranks) in enumerate(MACHINES):
            trees.append((name, made.write(Path(folder) / f"machine{number}"), ranks))
        for text in args.tree:
            name, _colon, tree = text.partition("=")
            nodes = len({core.node for core in read(tree).usable_cores})
            trees.append((name, Path(tree).resolve(), nodes))
        table = compare(bench, trees)
    if args.write:
        before, _mark, rest = args.write.read_text().partition(MARKERS[0])
        _old, _mark, after = rest.partition(MARKERS[1])
        args.write.write_text(f"{before}{MARKERS[0]}\n\n{table}\n\n{MARKERS[1]}{after}")
    else:
        print(table)


if __name__ == "__main__":
    main()
