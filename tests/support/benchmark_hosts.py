"""The hosts that a benchmark makes, as the molecule scenarios have them: containers, from create to destroy."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from support.checkout import ROOT, environment


class Hosts:
    """Hosts of one or more clusters. addresses: each host's by network, once they run."""

    def __init__(
        self,
        name: str,
        clusters: Mapping[str, Sequence[str]],
        variables: Mapping[str, Any],
        own: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """Describe hosts. name: the benchmark, of which containers are named. clusters: {cluster: its hosts,
        the head first}. variables: of all hosts, own: of one ({host: {name: value}}), as molecule/shared/inventory
        has them."""
        self.work = ROOT / ".cache" / "benchmarks" / name
        self.name = name
        self.folder = self.work / "hosts"
        self.config = self.folder / "ssh_config"
        self.clusters = {cluster: list(hosts) for cluster, hosts in clusters.items()}
        self.names = list(dict.fromkeys(host for hosts in self.clusters.values() for host in hosts))
        self.variables, self.own = variables, own or {}
        self.addresses: dict[str, dict[str, str]] = {}

    def __enter__(self) -> Hosts:
        self.destroy()
        self.folder.joinpath("inventory").mkdir(parents=True)
        for cluster, hosts in self.clusters.items():
            groups = {"head": hosts[:1], "workers": hosts[1:]}
            inventory = {
                "all": {"vars": self.variables, "hosts": {name: self.own.get(name, {}) for name in self.names}},
                "cluster": {
                    "children": {name: {"hosts": {host: {} for host in members}} for name, members in groups.items()}
                },
            }
            (self.folder / f"{cluster}.json").write_text(json.dumps(inventory), encoding="utf-8")
        try:
            self.play(ROOT / "molecule/shared/create.yml")
            self._note_how_they_are_reached()
        except BaseException:
            self.destroy()
            raise
        return self

    def __exit__(self, *_raised: object) -> None:
        self.destroy()

    def destroy(self) -> None:
        """Remove what there is of them, also what an interrupted run left."""
        self.play(ROOT / "molecule/shared/destroy.yml")
        shutil.rmtree(self.folder, ignore_errors=True)

    def play(self, playbook: Path, *options: str, cluster: str = "", settings: Mapping[str, str] | None = None) -> Path:
        """Run a playbook on the hosts of a cluster, by default the first; return the file with its output. settings:
        environment variables. Exits with the end of the output when the playbook fails."""
        chosen = cluster or next(iter(self.clusters))
        files = [ROOT / "molecule/shared/inventory", self.folder / f"{chosen}.json", self.folder / "inventory"]
        inventories = [f"--inventory={path}" for path in files if path.exists()]
        command = ["ansible-playbook", str(playbook), *inventories, *options]
        variables = {
            # What molecule would tell molecule/shared.
            "MOLECULE_PROJECT_DIRECTORY": str(ROOT),
            "MOLECULE_EPHEMERAL_DIRECTORY": str(self.folder),
            "MOLECULE_SCENARIO_NAME": f"bench-{self.name}",
            **(settings or {}),
        }
        return run(self.work / f"{playbook.stem}.log", command, variables)

    def _note_how_they_are_reached(self) -> None:
        written = yaml.safe_load((self.folder / "inventory" / "containers.yml").read_text(encoding="utf-8"))["all"]
        self.addresses = {name: host["node_addresses"] for name, host in written["hosts"].items()}
        network = next(iter(next(iter(self.addresses.values()))))
        lines = [
            f"User {written['vars']['ansible_user']}",
            f"IdentityFile {written['vars']['ansible_ssh_private_key_file']}",
            f"UserKnownHostsFile {self.folder / 'known_hosts'}",
            "IdentitiesOnly yes",
            "BatchMode yes",
        ]
        for name, address in self.addresses.items():
            lines += [f"Host {name}", f"  HostName {address[network]}"]
        self.config.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def ask(self, host: str, *command: str) -> str:
        """Return what a command prints on a host. Raises CalledProcessError when it fails."""
        ssh = ["ssh", "-F", str(self.config), host, shlex.join(command)]
        return subprocess.run(ssh, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True).stdout

    def copy(self, host: str, source: Path, name: str) -> None:
        """Copy a file to a host, to a path that is relative to the user's home directory. Raises CalledProcessError."""
        subprocess.run(["scp", "-q", "-F", str(self.config), str(source), f"{host}:{name}"], check=True)


def run(log: Path, command: Sequence[str], settings: Mapping[str, str]) -> Path:
    """Run a command, its output going to a log, and return that. Exits with the end of it when the command fails."""
    log.parent.mkdir(parents=True, exist_ok=True)
    env = {**environment(), "ANSIBLE_CALLBACKS_ENABLED": "ansible.posix.profile_tasks", **settings}
    with log.open("wb") as stream:
        ran = subprocess.run(
            command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, check=False
        )
    if ran.returncode:
        output = log.read_text(encoding="utf-8", errors="replace")
        sys.exit(f"{output[-4000:]}\n{shlex.join(command)} ended with {ran.returncode}; all it said is in {log}")
    return log


def processor() -> str:
    """Return this machine's processor and how many of its CPUs there are."""
    match = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.M)
    return f"{os.cpu_count()} CPUs ({match[1] if match else 'of unknown model'})"
