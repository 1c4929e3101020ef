# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`amx init DIRECTORY [USER@]SERVER...`: a directory of one's own with an inventory, a job and settings of Ansible."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml
from ansible_collections.amx.cluster.plugins.module_utils._text import count
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
# [USER@]SERVER, with ranges of numbers or letters as inventories have them: node[01:16], 192.0.2.[10:13].
SERVER = re.compile(r"(?:([A-Za-z_][\w.-]*)@)?((?:[\w.-]|\[\w+:\w+(?::\d+)?\])+)", re.ASCII)


def make(collection: Path, words: Sequence[str], here: Path) -> str:
    """Make the directory, and return what to do next. Raises UsageError where it is not new or empty."""
    if not words or any(word.startswith("-") for word in words):
        raise UsageError("amx init: name a new directory, then servers; usage: amx init DIRECTORY [USER@]SERVER...")
    name, *given = words
    if re.search(r"[@[]|^\d+(\.\d+){3}$", name) and SERVER.fullmatch(name):
        raise UsageError(f"amx init: {name} is a server: name a new directory before it; ./{name} is a directory")
    user, servers = read(given)
    made = here / name
    try:
        if made.exists() and any(made.iterdir()):
            raise UsageError(f"amx init: {name} is not empty, and is not changed")
        for source, target in COPIED.items():
            path = made / target
            path.parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (collection / source).is_dir() else shutil.copyfile
            copy(collection / source, path)
        (made / "ansible.cfg").write_text(settings(collection), encoding="utf-8")
        if servers:
            (made / "inventory/hosts.yml").write_text(hosts(servers), encoding="utf-8")
            variables = made / "inventory/group_vars/cluster.yml"
            text = variables.read_text(encoding="utf-8")
            line = f"ansible_user: {quoted(user)}" if user else r"# \g<0>"
            variables.write_text(re.sub(r"^ansible_user: .*$", line, text, flags=re.MULTILINE), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"amx init: {name} cannot be made: {error}") from error
    named = f"{name} with {count(len(servers), 'server')}, whose head is {servers[0]}. Next" if servers else name
    edit = "" if servers else ". Name your servers in its inventory/hosts.yml, and their user in group_vars/cluster.yml"
    return (
        f"Made {named}{edit}:\n"
        f"  cd {shlex.quote(name)}\n  amx preflight           # changes nothing\n"
        "  amx site\n  amx train jobs/csv.yml"
    )


def read(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the user, empty where none is named, and the servers, with ranges written out. Raises UsageError."""
    users: dict[str, str] = {}
    servers: list[str] = []
    for word in words:
        match = SERVER.fullmatch(word)
        if not match:
            raise UsageError(
                f"amx init: {word} is not a server, such as ubuntu@192.0.2.10 or node[01:16]; others, "
                "such as those of another port, can be written into inventory/hosts.yml"
            )
        if match[1]:
            users.setdefault(match[1], word)
        named = list(expanded(match[2], word))
        if not named:
            raise UsageError(f"amx init: {word} is an empty range")
        servers += named
    twice = next((server for server in servers if servers.count(server) > 1), None)
    if twice:
        raise UsageError(f"amx init: {twice} is named twice")
    if len(users) > 1:
        raise UsageError(
            f"amx init: {' and '.join(users.values())} have different users: name one, and set ansible_user of the "
            "other servers in inventory/hosts.yml"
        )
    return next(iter(users), ""), servers


def expanded(server: str, word: str) -> Iterator[str]:
    """Yield the servers of a range, as Ansible does. word: of the command line. Raises UsageError."""
    if "[" not in server:
        yield server
        return
    from ansible.errors import AnsibleError  # takes as long as all of this command
    from ansible.plugins.inventory import expand_hostname_range

    try:
        yield from expand_hostname_range(server)
    except (AnsibleError, ValueError) as error:
        raise UsageError(f"amx init: {word} is not a range, such as node[01:16]: {error}") from error


def hosts(servers: Sequence[str]) -> str:
    """Return the inventory's hosts.yml; the first server is the head."""
    head, *workers = (f"        {quoted(server)}:\n" for server in servers)
    return (
        "---\n# The head launches jobs and takes part in training.\ncluster:\n  children:\n"
        f"    head:\n      hosts:\n{head}" + (f"    workers:\n      hosts:\n{''.join(workers)}" if workers else "")
    )


def quoted(name: str) -> str:
    """Return a name as YAML, in which one such as 007 or yes would not be a text."""
    return name if yaml.safe_load(name) == name else json.dumps(name)


def settings(collection: Path) -> str:
    """Return the ansible.cfg of the collection for such a directory, with which ansible-playbook finds a checkout."""
    lines = (collection / "ansible.cfg").read_text(encoding="utf-8").splitlines(keepends=True)
    there = collection / ".collections"
    path = f"collections_path = {there}\n" if there.is_dir() else ""
    kept = (line for line in lines if not line.startswith(LEFT_OUT))
    return "".join(f"inventory = inventory\n{path}" if line.startswith("inventory ") else line for line in kept)
