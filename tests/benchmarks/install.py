"""Measure the time from bare hosts to a ready cluster, beside installing by hand: `install.py [HOSTS ...]`.

HOSTS are numbers of hosts, by default 1 3 6. For each of them, hosts as the molecule scenarios have them (Docker
containers without a way out) are made twice, bare both times, and get the stack `native`

- by hand (install_by_hand.sh): the same pip commands on each host, one host after another; every host downloads the
  wheels from this machine, and the first one is then let in on all;
- by site.yml, the whole of it.

The wheels are on this machine before either starts, and have just been read. Afterwards every host must have every
wheel's version in an environment that imports, and the head must be let in on every host; else there is no result. What
a host received from this machine is read from its interface to it: the head passes wheels on over another network.

Prints a Markdown table; what ran, and how long each of Ansible's tasks took, is in .cache/benchmarks/install/. Takes a
Docker engine and 3 GB of disk for each host.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import http.server
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from run import ENGINE_SCRIPT
from support.benchmark_hosts import Hosts, processor, run
from support.checkout import ROOT

WORK = ROOT / ".cache" / "benchmarks" / "install"
# Ansible and the wheels come by the one, what hosts pass to each other goes by the other: so bytes can be told apart.
NETWORKS = ("management", "cluster")
# As molecule/shared/inventory has it.
PREFIX = "/opt/amx-cluster"
CHECK = """
import importlib.metadata, sys
import accelerate, datasets, torch, transformers
pins = (pin.split("==") for pin in sys.argv[1:])
wrong = [f"{name} {version}" for name, version in pins if importlib.metadata.version(name) != version]
sys.exit(f"not installed: {', '.join(wrong)}" if wrong else 0)
"""


@dataclass(frozen=True)
class Measured:
    """One way on one set of hosts: seconds until they were ready, and bytes that this machine sent to them."""

    seconds: float
    sent: int


@dataclass(frozen=True)
class Stack:
    """What is installed: the packages asked for, all wheels that they come to, and the folder these lie in."""

    packages: tuple[str, ...]
    wheels: tuple[str, ...]
    path: Path
    size: int


def bare(count: int) -> Hosts:
    """Return so many bare hosts, which get Ansible and wheels by one network and talk to each other by another one."""
    return Hosts(
        WORK.name,
        {"hosts": [f"node{number}" for number in range(count)]},
        {
            "node_networks": NETWORKS,
            "node_network_options": {name: {"internal": True} for name in NETWORKS},
        },
    )


def received(hosts: Hosts) -> int:
    """Return the bytes that all hosts have received from this machine since they were made."""
    total = 0
    for name, address in hosts.addresses.items():
        links = json.loads(hosts.ask(name, "ip", "-json", "-stats", "address"))
        total += next(
            int(link["stats64"]["rx"]["bytes"])
            for link in links
            if any(entry["local"] == address["management"] for entry in link["addr_info"])
        )
    return total


def check(hosts: Hosts, stack: Stack, python: str) -> None:
    """See that every host has the stack and lets the head in. Raises CalledProcessError when one does not."""
    for name in hosts.names:
        hosts.ask(name, python, "-c", CHECK, *stack.wheels)
        if len(hosts.names) > 1:
            hosts.ask(hosts.names[0], "ssh", "-o", "BatchMode=yes", name, "true")


def collected(hosts: Hosts) -> Stack:
    """Have the wheels on this machine, and in its memory."""
    noted = WORK / "stack.json"
    hosts.play(HERE / "playbooks" / "collect.yml", "-e", json.dumps({"benchmark_stack_file": str(noted)}))
    stack: dict[str, Any] = json.loads(noted.read_text(encoding="utf-8"))
    path = Path(stack["path"])
    size = sum(len((path / wheel["file"]).read_bytes()) for wheel in stack["wheels"])
    return Stack(
        packages=tuple(f"{name}=={version}" for name, version in stack["packages"].items()),
        wheels=tuple(f"{wheel['name']}=={wheel['version']}" for wheel in stack["wheels"]),
        path=path,
        size=size,
    )


class Index(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, quietly and over connections that stay open, as package indexes do."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextlib.contextmanager
def served(folder: Path, address: str) -> Iterator[str]:
    """Serve a folder on one of this machine's addresses; yields the URL."""
    handler = functools.partial(Index, directory=str(folder))
    with http.server.ThreadingHTTPServer((address, 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://{address}:{server.server_port}"
        finally:
            server.shutdown()


@contextlib.contextmanager
def measuring(hosts: Hosts, results: list[Measured]) -> Iterator[None]:
    """Add what happens inside to the results."""
    # What was written before must not be on its way to the disk still.
    os.sync()
    before, started = received(hosts), time.monotonic()
    yield
    seconds = time.monotonic() - started
    results.append(Measured(seconds, received(hosts) - before))


def compare(count: int) -> tuple[Stack, Measured, Measured]:
    """Return the stack, and what it took to install it on `count` bare hosts by site.yml, and by hand."""
    results: list[Measured] = []
    with bare(count) as hosts:
        stack = collected(hosts)
        # The address under which hosts know this machine.
        control = hosts.ask(hosts.names[0], "printenv", "SSH_CONNECTION").split()[0]
        pairs = [f"{name}={address['cluster']}" for name, address in hosts.addresses.items()]
        with served(stack.path, control) as url, measuring(hosts, results):
            script = str(HERE / "install_by_hand.sh")
            run(WORK / "by_hand.log", [script, str(hosts.config), url, " ".join(stack.packages), *pairs], {})
        check(hosts, stack, "cluster_env/bin/python")
    with bare(count) as hosts:
        with measuring(hosts, results):
            hosts.play(ROOT / "site.yml")
        check(hosts, stack, f"{PREFIX}/env/bin/python")
    by_hand, ours = results
    return stack, ours, by_hand


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hosts", nargs="*", type=int, default=[1, 3, 6], help="numbers of hosts")
    counts = parser.parse_args().hosts
    print(f"On {processor()}, load {os.getloadavg()[0]:.1f} before\n", flush=True)
    subprocess.run([ENGINE_SCRIPT, "start"], cwd=ROOT, check=True)
    try:
        for number, count in enumerate(counts):
            stack, ours, by_hand = compare(count)
            if number == 0:
                columns = [
                    "hosts",
                    "site.yml, s",
                    "by hand, s",
                    "by hand / site.yml",
                    "MB sent for site.yml",
                    "MB sent by hand",
                ]
                print(f"{len(stack.wheels)} wheels, {stack.size / 1e6:.1f} MB\n")
                print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
            sent = (f"{way.sent / 1e6:.1f} ({way.sent / stack.size:.2f} x the wheels)" for way in (ours, by_hand))
            times = (f"{ours.seconds:.0f}", f"{by_hand.seconds:.0f}", f"{by_hand.seconds / ours.seconds:.2f}")
            print(f"| {count} | {' | '.join((*times, *sent))} |", flush=True)
    finally:
        subprocess.run([ENGINE_SCRIPT, "stop"], cwd=ROOT, check=False)


if __name__ == "__main__":
    main()
