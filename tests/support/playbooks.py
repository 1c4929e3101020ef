"""Playbooks as a person starts them: from a directory that has an inventory, hosts.yml."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from support import checkout

PLAYBOOK = str(checkout.BIN / "ansible-playbook")
LOCAL = {"ansible_connection": "local"}


def write_inventory(
    directory: Path, prefix: Path, head: Mapping[str, Any], workers: Mapping[str, Any] | None = None, **variables: Any
) -> None:
    """Write hosts.yml: a cluster without become, whose hosts are this machine (LOCAL) or say what they are.

    prefix: cluster_prefix. head, workers: the variables of each host. variables: of all hosts, beside the usual ones.
    """
    common = {
        "cluster_prefix": str(prefix),
        "cluster_become": False,
        "cluster_network": "127.0.0.0/8",
        "cluster_stack": "native",
        "cluster_unknown_os": "allow",  # whatever this machine has
        "ansible_python_interpreter": sys.executable,
    }
    groups = {"head": {"hosts": dict(head)}, "workers": {"hosts": dict(workers or {})}}
    inventory = {"cluster": {"vars": {**common, **variables}, "children": groups}}
    (directory / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")


def play(
    directory: Path, playbook: Path | str, *options: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a playbook to its end; `stdout` has all that it prints. env: checkout.environment() by default."""
    return subprocess.run(
        [PLAYBOOK, "-i", "hosts.yml", *options, str(playbook)],
        cwd=directory,
        env={**(env or checkout.environment()), "PWD": str(directory)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,  # of use when it hangs
        check=False,
    )
