"""Playbooks as a person starts them: from a directory that has an inventory, hosts.yml."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from support import checkout

PLAYBOOK = str(checkout.BIN / "ansible-playbook")


def play(
    folder: Path, playbook: Path | str, *options: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a playbook to its end; `stdout` has all that it prints. env: checkout.environment() by default."""
    return subprocess.run(
        [PLAYBOOK, "-i", "hosts.yml", *options, str(playbook)],
        cwd=folder,
        env={**(env or checkout.environment()), "PWD": str(folder)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,  # of use when it hangs
        check=False,
    )
