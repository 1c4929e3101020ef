"""A cluster of this machine alone, as a user has it: an inventory, job files, playbooks started from its directory.

STAND-IN: its virtual environment is this Python, with an mpirun that starts one rank here.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.amx.cluster.plugins.module_utils._stacks import venv
from support import checkout, playbooks

MPIRUN = """#!/bin/bash
while [ "$1" != -genv ]; do shift; done
shift 3
export PMI_RANK=0 PMI_SIZE=1 MPI_LOCALRANKID=0
"$@"
"""


def installed_here(directory: Path, **variables: Any) -> Path:
    """Write `hosts.yml`, an inventory of this machine alone with the environment that site.yml installed in .cluster.

    variables: further ones of the inventory. Returns its cluster_prefix.
    """
    prefix = directory / "prefix"
    prefix.mkdir()
    (prefix / "envs").symlink_to(checkout.ROOT / ".cluster/envs")
    (prefix / "env").symlink_to(prefix / "envs" / (checkout.ROOT / ".cluster/env").resolve().name)
    given = {"cluster_cache": str(directory / "cache"), "ansible_connection": "local", **variables}
    playbooks.write_inventory(directory, prefix, {"localhost": {}}, **given)
    return prefix


class LocalCluster:
    """The control node's directory; node0 is this machine, `workers` are further hosts of the inventory."""

    def __init__(
        self, directory: Path, variables: Mapping[str, Any] | None = None, workers: Mapping[str, Any] | None = None
    ) -> None:
        self.folder = directory
        self.prefix = directory / "prefix"
        env = self.prefix / "envs" / "native-1"
        venv.begin(env)  # as the module venv does
        (env / "bin").mkdir()
        (env / "amx-cluster.json").write_text(json.dumps({"name": "native", "backend": "gloo"}))
        (env / "bin" / "python").symlink_to(sys.executable)
        (env / "bin" / "mpirun").write_text(MPIRUN)
        (env / "bin" / "mpirun").chmod(0o755)
        venv.activate(self.prefix, env.name)
        playbooks.write_inventory(directory, self.prefix, {"node0": playbooks.LOCAL}, workers, **(variables or {}))

    def directory(self, job: str) -> Path:
        return self.prefix / "jobs" / job

    def write_job(self, name: str, script: str, **fields: Any) -> str:
        """Write the file of a job with one rank, and its script; return the file's name."""
        (self.folder / f"{name}.py").write_text(script)
        job = {"name": name, "script": f"{name}.py", "kind": "ranks", "ranks_per_node": 1, **fields}
        (self.folder / f"{name}.yml").write_text(yaml.safe_dump(job))
        return f"{name}.yml"

    def play(self, name: str, *options: str, output: str = "") -> subprocess.Popen[str]:
        """Start a playbook with its output in the file OUTPUT.out, by default NAME.out."""
        with (self.folder / f"{output or name}.out").open("w") as stream:
            return subprocess.Popen(
                [playbooks.PLAYBOOK, "-i", "hosts.yml", *options, str(checkout.ROOT / "playbooks" / f"{name}.yml")],
                cwd=self.folder,
                env={**checkout.environment(), "PWD": str(self.folder)},
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def output(self, name: str) -> str:
        return (self.folder / f"{name}.out").read_text()

    def succeed(self, name: str, play: subprocess.Popen[str]) -> None:
        assert play.wait(300) == 0, self.output(name)[-8000:]
