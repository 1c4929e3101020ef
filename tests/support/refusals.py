"""A control node with an inventory and a job, for runs of playbooks that must refuse and change nothing."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from support import checkout, playbooks


def digest(directory: Path) -> str:
    """Return a digest of the names, kinds and contents of all that is in a directory."""
    total = hashlib.sha256()
    for path in sorted(directory.rglob("*")):
        total.update(repr((str(path), path.is_symlink(), path.lstat().st_mtime_ns)).encode())
        if path.is_file():
            total.update(path.read_bytes())
    return total.hexdigest()


class Cluster:
    """A control node's directory with an inventory and a job; its hosts are this machine, their prefix is prefix/."""

    def __init__(self, directory: Path) -> None:
        self.folder = directory
        self.prefix = directory / "prefix"
        self.inventory(head=["node0"], workers=[])

    def inventory(self, workers: list[str], head: list[str], **hosts: dict[str, Any]) -> None:
        """Write the inventory; hosts: the variables of those that are not this machine."""
        groups = ({name: hosts.get(name, playbooks.LOCAL) for name in names} for names in (head, workers))
        playbooks.write_inventory(self.folder, self.prefix, *groups)

    def job(self, text: str) -> None:
        (self.folder / "script.py").touch()
        (self.folder / "job.yml").write_text(text)

    def environment(self, prefix: Path, name: str) -> None:
        """Leave behind as much of an installed environment as planning a job looks at."""
        installed = prefix / "envs" / name
        _ownership.make(installed, "virtual environment")
        (installed / "amx-cluster.json").write_text(json.dumps({"name": "native", "backend": "gloo"}))
        _ownership.link(prefix / "env", installed)

    def refusal(self, playbook: str, *options: str) -> str:
        """Run a playbook, which must fail and change nothing. Returns its output without colours."""
        before = digest(self.folder)
        env = {**checkout.environment(), "ANSIBLE_SSH_TIMEOUT": "5"}
        ran = playbooks.play(self.folder, checkout.ROOT / "playbooks" / playbook, *options, env=env)
        assert ran.returncode == 2, ran.stdout
        assert digest(self.folder) == before
        assert not re.search(r"changed=[1-9]", ran.stdout), ran.stdout
        assert "Traceback" not in ran.stdout
        return ran.stdout

    def refusal_without_hosts(self, playbook: str, *options: str) -> str:
        """Run a playbook, which must fail without asking a host. Returns its output on one line."""
        output = self.refusal(playbook, *options)
        assert "node0]" not in output, "a host was asked"
        assert not self.prefix.exists()
        return " ".join(output.split())  # Ansible breaks and indents messages
