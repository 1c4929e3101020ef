# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`amx init DIRECTORY`: a directory of one's own with an inventory, a job and settings of Ansible, to be edited."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command.arguments import UsageError

# What is copied, from where it is in the collection.
COPIED = {
    "inventories/example": "inventory",
    "jobs/csv.yml": "jobs/csv.yml",
    "jobs/job.schema.json": "jobs/job.schema.json",
    "jobs/messages": "jobs/messages",
    "jobs/scripts/train_text.py": "jobs/scripts/train_text.py",
}
# Settings of the checkout's ansible.cfg that are about the checkout.
LEFT_OUT = ("collections_path", "roles_path")


def make(collection: Path, words: Sequence[str], here: Path) -> str:
    """Make the directory, and return what to do next. Raises UsageError where it is not new or empty."""
    if len(words) != 1 or words[0].startswith("-"):
        raise UsageError("amx init: name one new directory; usage: amx init DIRECTORY")
    made = here / words[0]
    try:
        if made.exists() and any(made.iterdir()):
            raise UsageError(f"amx init: {words[0]} is not empty, and is not changed")
        for source, target in COPIED.items():
            path = made / target
            path.parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (collection / source).is_dir() else shutil.copyfile
            copy(collection / source, path)
        (made / "ansible.cfg").write_text(settings(collection), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"amx init: {words[0]} cannot be made: {error}") from error
    return (
        f"Made {words[0]}. Name your servers in its inventory/hosts.yml, set inventory/group_vars/cluster.yml, then:\n"
        f"  cd {shlex.quote(words[0])}\n  amx preflight           # changes nothing\n"
        "  amx site\n  amx train jobs/csv.yml"
    )


def settings(collection: Path) -> str:
    """Return the ansible.cfg of the collection for such a directory."""
    lines = (collection / "ansible.cfg").read_text(encoding="utf-8").splitlines(keepends=True)
    kept = (line for line in lines if not line.startswith(LEFT_OUT))
    return "".join("inventory = inventory\n" if line.startswith("inventory ") else line for line in kept)
