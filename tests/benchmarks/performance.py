"""Measure what the collection adds and what it takes: `performance.py [PART ...] [--rounds 3] [--write PAGE]`.

Parts, by default all:

- training: DistributedDataParallel on two hosts beside two ranks that train at the same time without being connected,
  which is the ceiling of a machine whose hosts share its memory and caches; and one host;
- launch: the same script on two hosts, started by launch.sh, by a bare `mpirun -n`, and by `torchrun`;
- threads: the same script with two ranks on one host of two cores, started in the same ways, and in two that leave
  every rank all cores;
- sites: site.yml where nothing has to change, on 3 and on 6 hosts;
- start: from the command to the first line of the script, by train.yml and by `bash launch.sh`, on three hosts;
- collectives: between two hosts, with backend mpi and with gloo;
- links: training on two hosts whose link is limited by `tc`, by backend, beside the bound of a step, which is the
  longer one of computing and moving the gradients;
- crosswise: the same where each host computes on one core and communicates on the other one's;
- steps: steps of models as PyTorch computes them, with `optimize: auto`, with torch.compile and with ipex.optimize, one
  rank on one core and on two; with --other-python also by another PyTorch, and what is slower than with that. It needs
  no hosts, but the virtual environment of `make demo`, or AMX_CLUSTER_ENV.

Hosts are containers with one core each, as the molecule scenarios have them, but they keep no bytecode of Ansible's
modules, as users' hosts do not. What is compared takes turns, and medians are printed. Nothing is asserted. Prints
Markdown tables, and writes them between the markers of --write; results.json, and what ran, are in
.cache/benchmarks/performance/. Takes a Docker engine for what runs on hosts; nothing else should run on the machine
meanwhile.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import re
import resource
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from run import ENGINE_SCRIPT
from support.benchmark_hosts import Hosts, processor
from support.checkout import ROOT

MARKERS = ("<!-- performance: begin -->", "<!-- performance: end -->")
PREFIX = "/opt/amx-cluster"
PYTHON = f"{PREFIX}/env/bin/python"
SCRIPT, STEPS = HERE / "scripts" / "ddp_steps.py", HERE / "scripts" / "optimized_steps.py"
CLUSTERS = {
    "three": ["a0", "a1", "a2"],
    "six": ["b0", "b1", "b2", "b3", "b4", "b5"],
    "wide": ["c0"],
    "both": ["d0", "d1"],
}
# The clusters of parts that need others than `three`.
# What `tc` limits a link to, "" not at all.
RATES = ("", "2gbit", "1gbit", "500mbit")
NEEDS = {"threads": ["wide"], "sites": ["three", "six"], "crosswise": ["both"]}
# What any use of Intel MPI's wheel needs to run at all; nothing of this is about cores, threads or networks.
MPI = {"PATH": f"{PREFIX}/env/bin:/usr/bin:/bin", "I_MPI_ROOT": f"{PREFIX}/env", "LD_LIBRARY_PATH": f"{PREFIX}/env/lib"}
MPI["FI_PROVIDER_PATH"] = MPI["LD_LIBRARY_PATH"]
PORT = 29517


def settled(**words: str) -> list[str]:
    """Return the command that sets environment variables for the words after it."""
    return ["env", *(f"{name}={value}" for name, value in words.items())]


class Bench:
    """The hosts, and how the parts use them."""

    def __init__(self, hosts: Hosts, rounds: int) -> None:
        self.hosts, self.rounds = hosts, rounds

    def train(self, cluster: str, job: dict[str, Any] | str, **override: Any) -> float:
        """Run train.yml; return when it began. job: the fields of a job file, or the path of one."""
        path = str(job)
        if isinstance(job, dict):
            file = self.hosts.work / "jobs" / f"{job['name']}.yml"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(job), encoding="utf-8")
            path = str(file)
        began = time.time()
        options = ["-e", f"job={path}", "-e", json.dumps({"override": override})]
        self.hosts.play(ROOT / "playbooks/train.yml", *options, cluster=cluster)
        return began

    def launch(self, cluster: str, job: str) -> str:
        """Run a job's launch.sh on its head, as a person may; return what it prints."""
        return self.hosts.ask(CLUSTERS[cluster][0], "bash", f"{PREFIX}/jobs/{job}/launch.sh")

    def log(self, cluster: str, job: str) -> str:
        return self.hosts.ask(CLUSTERS[cluster][0], "cat", f"{PREFIX}/jobs/{job}/log")

    def take_turns(self, ways: dict[str, Callable[[], Any]]) -> dict[str, list[Any]]:
        """Do each of the ways once in every round; return what they returned."""
        found: dict[str, list[Any]] = {name: [] for name in ways}
        for number in range(self.rounds):
            for name, way in ways.items():
                found[name].append(way())
                print(f"  round {number + 1}, {name}: {shown(found[name][-1])}", file=sys.stderr, flush=True)
        return found


def shown(value: Any) -> str:
    if isinstance(value, dict):
        rate = value.get("samples_per_second")
        return f"{rate:.2f} samples/s" if rate else f"{value['seconds']:.2f} s"
    return f"{value:.2f} s"


def last_json(text: str) -> dict[str, Any]:
    """Return the last line of JSON in a program's output."""
    lines = [line for line in text.splitlines() if line.startswith("{")]
    if not lines:
        sys.exit(f"no result in:\n{text[-3000:]}")
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def training(bench: Bench) -> dict[str, Any]:
    """Return the medians of jobs/training.yml, in samples/s, on two hosts and on one."""
    job = str(ROOT / "jobs/training.yml")
    found = {}
    for count in (1, 2):
        bench.train("three", job, hosts=count, ranks_per_node=1)
        found[count] = last_json(bench.log("three", "training"))
    return {"one": found[1]["samples_per_second"], "two": found[2]["samples_per_second"], "rounds": found[2]["rounds"]}


def ddp_job(name: str, backend: str, **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "script": str(SCRIPT),
        "kind": "torch",
        "backend": backend,
        "env": {"AMX_BENCHMARK_BACKEND": backend},
        "watch": {"gradients": False},
        **fields,
    }


def ours(bench: Bench, cluster: str, backend: str, **fields: Any) -> Callable[[], Any]:
    """Return the way that starts the script by launch.sh; its job directory is made first."""
    name = f"ddp-{backend}-{cluster}"
    bench.train(cluster, ddp_job(name, backend, **fields))
    return lambda: last_json(bench.launch(cluster, name))


def launch(bench: Bench) -> dict[str, Any]:
    """Return what the script reports on two hosts, {way: [report, ...]}."""
    names = CLUSTERS["three"][:2]
    head = bench.hosts.addresses[names[0]]["cluster"]
    for name in names:
        bench.hosts.copy(name, SCRIPT, SCRIPT.name)
    place = {"MASTER_ADDR": head, "MASTER_PORT": str(PORT)}

    def mpirun() -> Any:
        command = ["mpirun", "-n", "2", "-ppn", "1", "-hosts", ",".join(names), PYTHON, SCRIPT.name]
        return last_json(bench.hosts.ask(names[0], *settled(**MPI, **place, AMX_BENCHMARK_BACKEND="gloo"), *command))

    def torchrun() -> Any:
        return by_torchrun(bench, names, 1, head)

    return bench.take_turns(
        {
            "launch.sh, backend mpi": ours(bench, "three", "mpi", hosts=2, ranks_per_node=1),
            "launch.sh, backend gloo": ours(bench, "three", "gloo", hosts=2, ranks_per_node=1),
            "mpirun -n 2 -ppn 1": mpirun,
            "torchrun --nproc-per-node 1": torchrun,
        }
    )


def by_torchrun(bench: Bench, names: Sequence[str], ranks: int, head: str) -> dict[str, Any]:
    def on(number: int) -> str:
        where = ["--nnodes", str(len(names)), "--node-rank", str(number), "--nproc-per-node", str(ranks)]
        where += ["--master-addr", head, "--master-port", str(PORT)]
        command = [*settled(AMX_BENCHMARK_BACKEND="gloo"), f"{PREFIX}/env/bin/torchrun", *where, SCRIPT.name]
        return bench.hosts.ask(names[number], *command)

    with ThreadPoolExecutor(len(names)) as pool:
        return last_json("\n".join(pool.map(on, range(len(names)))))


def threads(bench: Bench) -> dict[str, Any]:
    """Return what the script reports with two ranks on a host of two cores, {way: [report, ...]}."""
    (name,) = CLUSTERS["wide"]
    bench.hosts.copy(name, SCRIPT, SCRIPT.name)
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(PORT), "AMX_BENCHMARK_BACKEND": "gloo"}

    def mpirun(**more: str) -> Callable[[], Any]:
        command = ["mpirun", "-n", "2", PYTHON, SCRIPT.name]
        return lambda: last_json(bench.hosts.ask(name, *settled(**MPI, **place, **more), *command))

    def spawn() -> Any:
        return last_json(bench.hosts.ask(name, *settled(**place), PYTHON, SCRIPT.name, "--processes", "2"))

    return bench.take_turns(
        {
            "launch.sh, backend mpi": ours(bench, "wide", "mpi", ranks_per_node=2),
            "launch.sh, backend gloo": ours(bench, "wide", "gloo", ranks_per_node=2),
            "mpirun -n 2": mpirun(),
            "mpirun -n 2, I_MPI_PIN=off": mpirun(I_MPI_PIN="off"),
            "torchrun --nproc-per-node 2": lambda: by_torchrun(bench, [name], 2, "127.0.0.1"),
            "torch.multiprocessing.spawn": spawn,
        }
    )


def sites(bench: Bench) -> dict[str, Any]:
    """Return what site.yml takes with everything in place, {hosts: [{seconds, control_node_seconds}, ...]}: wall-clock
    time, and the CPU time of the control node."""

    def site(cluster: str) -> Callable[[], dict[str, float]]:
        def way() -> dict[str, float]:
            began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
            bench.hosts.play(ROOT / "site.yml", cluster=cluster)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            own = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            return {"seconds": time.monotonic() - began, "control_node_seconds": own}

        way()  # so that everything is in place
        return way

    return bench.take_turns({"3": site("three"), "6": site("six")})


def start(bench: Bench) -> dict[str, Any]:
    """Return the seconds from the command to the first line of the script on three hosts, {way: [seconds, ...]}."""
    model = bench.hosts.work / "model"
    model.mkdir(parents=True, exist_ok=True)
    (model / "weights").write_bytes(bytes(10_000_000))
    job = {
        "name": "stamped",
        "script": str(ROOT / "molecule/jobs/jobs/stamp.py"),
        "kind": "torch",
        "ranks_per_node": 1,
        "models": {"some": {"directory": str(model)}},
    }
    folder = f"{PREFIX}/jobs/stamped"

    def first() -> float:
        found = [bench.hosts.ask(host, "sh", "-c", f"cat {folder}/main-*").split() for host in CLUSTERS["three"]]
        return min(float(one) for host in found for one in host)

    def by_play() -> float:
        began = bench.train("three", job)
        return first() - began

    def by_hand() -> float:
        for host in CLUSTERS["three"]:
            bench.hosts.ask(host, "sh", "-c", f"rm -f {folder}/main-*")
        began = time.time()
        bench.launch("three", "stamped")
        return first() - began

    by_play()  # so that everything is in place
    return bench.take_turns({"train.yml": by_play, "bash launch.sh": by_hand})


def collectives(bench: Bench) -> dict[str, Any]:
    """Return what jobs/collectives.yml reports on two hosts."""
    bench.train("three", str(ROOT / "jobs/collectives.yml"), hosts=2, ranks_per_node=1)
    return last_json(bench.log("three", "collectives"))


def limit(bench: Bench, cluster: str, rate: str) -> None:
    """Limit what the first two hosts of a cluster send on its network; an empty rate ends it."""
    for name in CLUSTERS[cluster][:2]:
        address = bench.hosts.addresses[name]["cluster"]
        device = bench.hosts.ask(name, "ip", "-o", "addr", "show", "to", address).split()[1]
        shape = f"tc qdisc replace dev {device} root tbf rate {rate} burst 512kb latency 100ms"
        bench.hosts.ask(name, "sudo", "sh", "-c", shape if rate else f"tc qdisc del dev {device} root || true")


def by_rate(bench: Bench, cluster: str, **override: Any) -> dict[str, Any]:
    """Return what jobs/training.yml reports on two hosts of a cluster, {rate of the link in Mbit/s or "none": ...}."""
    found = {}
    try:
        for rate in RATES:
            limit(bench, cluster, rate)
            bench.train(cluster, str(ROOT / "jobs/training.yml"), hosts=2, ranks_per_node=1, **override)
            found[rate.replace("gbit", "000").replace("mbit", "") or "none"] = last_json(bench.log(cluster, "training"))
    finally:
        limit(bench, cluster, "")
    return found


def of_this_machine() -> dict[str, Any]:
    """Return arguments of jobs/training.yml with which a step takes about as long as with bf16 in hardware."""
    has_bf16 = re.search(r"\b(avx512_bf16|amx_bf16)\b", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return {} if has_bf16 else {"precision": "fp32", "batch": 8}


def links(bench: Bench) -> dict[str, Any]:
    return by_rate(bench, "three", args={"rounds": bench.rounds, **of_this_machine()})


def crosswise(bench: Bench) -> dict[str, Any]:
    """The hosts have both cores of the machine. With one communication core each, both would compute on the same."""
    begin, measure = HERE / "scripts/crosswise.py", ROOT / "jobs/scripts/measure_training.py"
    script = bench.hosts.work / "crosswise.py"
    future = "from __future__ import annotations\n"
    script.write_text(begin.read_text() + measure.read_text().replace(future, ""), encoding="utf-8")
    return by_rate(bench, "both", comm_cores=1, script=str(script), args={"rounds": bench.rounds, **of_this_machine()})


def steps(rounds: int, models: Sequence[str], other_python: str | None) -> dict[str, Any]:
    """Return what optimized_steps.py reports on one core and on two, {number of cores: report}."""
    prefix = Path(os.environ.get("AMX_CLUSTER_ENV") or ROOT / ".cluster/env")
    python = prefix / "bin/python"
    if not python.exists():
        sys.exit(f"{prefix} (AMX_CLUSTER_ENV) has no Python: make demo installs one")
    env = {
        **os.environ,
        "LD_PRELOAD": f"{prefix}/lib/libiomp5.so",
        "TOKENIZERS_PARALLELISM": "false",
    }  # as ranks have it
    cpus = sorted(os.sched_getaffinity(0))
    precision = "fp32" if of_this_machine() else "bf16"
    found = {}
    for cores in (1, 2):
        if cores > len(cpus):
            print(f"  {cores} cores are left out: there are {len(cpus)}", file=sys.stderr, flush=True)
            continue
        command = [
            "taskset",
            "--cpu-list",
            ",".join(map(str, cpus[:cores])),
            str(python),
            str(STEPS),
            "--threads",
            str(cores),
        ]
        command += [
            "--rounds",
            str(rounds),
            "--precision",
            precision,
            "--ways",
            "auto",
            "torch.compile",
            "ipex.optimize",
        ]
        command += ["--models", *models] if models else []
        command += ["--other-python", other_python] if other_python else []
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
        print(done.stdout, file=sys.stderr, flush=True)
        found[str(cores)] = last_json(done.stdout)
    return found


HERE_PARTS = ("steps",)
"""The parts that need no hosts."""

PARTS: dict[str, Callable[[Bench], dict[str, Any]]] = {
    "training": training,
    "launch": launch,
    "threads": threads,
    "sites": sites,
    "start": start,
    "collectives": collectives,
    "links": links,
    "crosswise": crosswise,
}


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [titles, ["---"] * len(titles), *rows])


def spread(values: Sequence[float], digits: int = 1) -> list[str]:
    """Return the median of values, and the smallest and largest."""
    return [f"{statistics.median(values):.{digits}f}", f"{min(values):.{digits}f} to {max(values):.{digits}f}"]


def speeds(found: dict[str, list[dict[str, Any]]]) -> str:
    """Return the table of ways to start a script: each compared with ours on the same backend, gloo."""
    base = statistics.median(one["samples_per_second"] for one in found["launch.sh, backend gloo"])
    rows = []
    for way, reports in found.items():
        rates = [one["samples_per_second"] for one in reports]
        of = reports[0]
        rows.append(
            [
                way,
                *spread(rates),
                f"{base / statistics.median(rates):.2f}",
                " + ".join(map(str, of["threads"])),
                " + ".join(map(str, of["cpus"])),
            ]
        )
    titles = [
        "started by",
        "samples/s",
        "lowest to highest",
        "launch.sh with gloo / this",
        "threads of each rank",
        "CPUs of each rank",
    ]
    return table(titles, rows)


HEADINGS_OF_LINKS = {
    "links": "Two hosts by the speed of their link",
    "crosswise": "The same with a communication core",
}


def by_link(found: dict[str, Any]) -> str:
    """Return the table of links: samples/s, and of each backend its share of the bound at that rate.

    The bound of a step is the longer one of computing (the unconnected ranks' step) and of sending the bytes of a ring
    all_reduce at the rate of the link.
    """
    ways = list(next(iter(found.values()))["samples_per_second"])
    rows = []
    for rate, of in found.items():
        speeds = of["samples_per_second"]
        computing = of["ranks"] * of["batch"] / speeds["unconnected"]
        moving = 0.0 if rate == "none" else of["sent_bytes"] * 8 / (float(rate) * 1e6)
        bound = of["ranks"] * of["batch"] / max(computing, moving)
        # bf16 gradients are half as many bytes.
        halved = of["ranks"] * of["batch"] / max(computing, moving / 2)
        cells = [f"{speeds[way]:.1f} ({speeds[way] / (halved if 'bf16' in way else bound):.2f})" for way in ways[1:]]
        limit = "none" if rate == "none" else f"{int(rate) / 1000:g} Gbit/s"
        rows.append([limit, f"{speeds['unconnected']:.1f}", f"{bound:.1f}", *cells])
    return table(["limit", "unconnected", "bound", *(way.removeprefix("unconnected, and ") for way in ways[1:])], rows)


def by_way(found: dict[str, Any]) -> str:
    """Return the tables of steps, one for each number of cores, and what is slower or left out."""
    texts = []
    for cores, of in found.items():
        rows = []
        for model, ways in of["steps"].items():
            plain = ways["as it is"]
            for way, seconds in ways.items():
                ratio = statistics.median(one / other for one, other in zip(plain, seconds))
                rows.append([model, way, *spread(seconds, 3), f"{ratio:.2f}"])
        heading = f"One rank, {cores} core{'s' if cores != '1' else ''}, {of['precision']}"
        titles = ["model", "way", "seconds of a step", "lowest to highest", "as it is / this"]
        reasons = [f"- {line}" for line in of["slower"]]
        reasons += [f"- {way} is left out: {reason}" for way, reason in of["left_out"].items()]
        texts.append("\n\n".join([f"#### {heading}", table(titles, rows), *filter(None, ["\n".join(reasons)])]))
    return "\n\n".join(texts)


def section(part: str, found: dict[str, Any]) -> str:
    """Return a part's heading and table."""
    if part == "steps":
        return f"### Steps by way to compute them\n\n{by_way(found)}"
    if part == "training":
        ceiling = found["two"]["unconnected"]
        rows = [["one host", f"{found['one']['unconnected']:.1f}", ""]]
        rows += [[f"two hosts, {name}", f"{rate:.1f}", f"{rate / ceiling:.3f}"] for name, rate in found["two"].items()]
        return "### Two hosts and one\n\n" + table(["", "samples/s", "of unconnected"], rows)
    if part in ("launch", "threads"):
        heading = "Two hosts of one core" if part == "launch" else "One host of two cores, two ranks"
        return f"### {heading}\n\n{speeds(found)}"
    if part == "sites":
        kinds = ("seconds", "control_node_seconds")
        taken = {hosts: [[run[kind] for run in runs] for kind in kinds] for hosts, runs in found.items()}
        rows = [[hosts, *spread(seconds), spread(own)[0]] for hosts, (seconds, own) in taken.items()]
        ratios = [statistics.median(six) / statistics.median(three) for six, three in zip(taken["6"], taken["3"])]
        return (
            "### site.yml with nothing to change\n\n"
            + table(["hosts", "seconds", "lowest to highest", "CPU seconds of the control node"], rows)
            + f"\n\n6 hosts / 3 hosts: {ratios[0]:.2f}, the control node's CPU time {ratios[1]:.2f}"
        )
    if part == "start":
        rows = [[way, *spread(seconds)] for way, seconds in found.items()]
        added = statistics.median(found["train.yml"]) - statistics.median(found["bash launch.sh"])
        return (
            "### Start of a job on three hosts\n\n"
            + table(["by", "seconds to the script's first line", "lowest to highest"], rows)
            + f"\n\ntrain.yml adds {added:.1f} s"
        )
    if part in HEADINGS_OF_LINKS:
        return f"### {HEADINGS_OF_LINKS[part]}\n\n{by_link(found)}"
    rows = [
        [
            row["operation"],
            str(row["bytes"]),
            f"{row['mpi']:.3f}",
            f"{row['gloo']:.3f}",
            f"{row['mpi'] / row['gloo']:.2f}",
        ]
        for row in found["rows"]
    ]
    titles = ["operation", "bytes", "mpi, ms", "gloo, ms", "mpi / gloo"]
    return "### Collectives between two hosts\n\n" + table(titles, rows)


def described(rounds: int) -> str:
    """Return where and how the tables were measured, in a sentence."""
    model = re.sub(r"\((.*) Processor\)", r"(\1)", processor())
    turns = f"{rounds} rounds in which the rows of a table took turns"
    return f"Measured on {date.today().isoformat()} on one machine with {model}, {turns}."


def write_between(page: Path, tables: str) -> None:
    """Write tables between the markers of a page."""
    before, rest = page.read_text(encoding="utf-8").split(MARKERS[0])
    after = rest.split(MARKERS[1])[1]
    page.write_text(f"{before}{MARKERS[0]}\n\n{tables}\n\n{MARKERS[1]}{after}", encoding="utf-8")


def ready(hosts: Hosts) -> None:
    """Make the hosts clusters, and have them keep no bytecode of Ansible's modules."""
    for name in hosts.names:
        hosts.ask(name, "sudo", "sh", "-c", "rm -f /usr/lib/python3/dist-packages/kept_bytecode.pth")
    for cluster in hosts.clusters:
        print(f"making {cluster} a cluster", file=sys.stderr, flush=True)
        hosts.play(ROOT / "molecule/shared/installed.yml", cluster=cluster)


def made_for(parts: Sequence[str]) -> Hosts:
    """Return the hosts that parts need, after the start of a Docker engine."""
    subprocess.run([ENGINE_SCRIPT, "start"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    cpus = ",".join(map(str, range(min(2, os.cpu_count() or 1))))
    clusters = {
        name: hosts for name, hosts in CLUSTERS.items() if any(name in NEEDS.get(part, ["three"]) for part in parts)
    }
    own = {name: {"node_cpuset": cpus} for name in ("c0", "d0", "d1")}
    return Hosts("performance", clusters, {"node_image": "installed"}, own)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, *HERE_PARTS, []], default=[], help="parts to measure")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--models", nargs="+", default=[], help="of steps, by the beginning of their names")
    parser.add_argument("--other-python", help="of steps: a Python with another PyTorch, as optimized_steps.py has it")
    parser.add_argument("--write", type=Path, help="the page that gets the tables")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"On {processor()}, load {load:.1f} before", file=sys.stderr, flush=True)
    found: dict[str, Any] = {"machine": processor(), "date": date.today().isoformat(), "load_before": load}
    parts = options.parts or [*PARTS, *HERE_PARTS]
    results = ROOT / ".cache/benchmarks/performance/results.json"
    results.parent.mkdir(parents=True, exist_ok=True)
    sections = []

    def measure(part: str, way: Callable[[], dict[str, Any]]) -> None:
        print(part, file=sys.stderr, flush=True)
        found[part] = way()
        results.write_text(json.dumps(found, indent=1), encoding="utf-8")
        sections.append(section(part, found[part]))
        print(f"{sections[-1]}\n", flush=True)

    on_hosts = [part for part in parts if part in PARTS]
    if on_hosts:
        with made_for(on_hosts) as hosts:
            ready(hosts)
            bench = Bench(hosts, options.rounds)
            for part in on_hosts:
                measure(part, functools.partial(PARTS[part], bench))
    if "steps" in parts:
        measure("steps", lambda: steps(options.rounds, options.models, options.other_python))
    if options.write:
        write_between(options.write, "\n\n".join([described(options.rounds), *sections]))
        print(f"{shlex.quote(str(options.write))} has these tables now", file=sys.stderr)


if __name__ == "__main__":
    main()
