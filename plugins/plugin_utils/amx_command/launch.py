# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start ansible-playbook for `amx`: of a checkout from any directory, and of an installed collection."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from stat import S_IWOTH

from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command.arguments import UsageError

COLLECTION = "amx.cluster"
# Set to the command while its playbook runs: messages then recommend commands of `amx`.
STARTED_BY = "AMX_COMMAND"
PATHS = "ANSIBLE_COLLECTIONS_PATH"
DEFAULT_PATHS = "~/.ansible/collections:/usr/share/ansible/collections"


@dataclass(frozen=True)
class Place:
    """Location of the collection. collection: its directory. here, home: the current directory and that of the user."""

    collection: Path
    here: Path
    home: Path
    system: Path = Path("/etc/ansible/ansible.cfg")

    @property
    def is_installed(self) -> bool:
        """Return whether Ansible knows the playbooks by their names, and not by their paths."""
        return self.collection.parts[-3:] == ("ansible_collections", *COLLECTION.split("."))

    @property
    def root(self) -> Path:
        """The directory of a collections path with this collection."""
        return self.collection.parents[2] if self.is_installed else self.collection / ".collections"

    def playbook(self, name: str) -> str:
        """Return a playbook as ansible-playbook takes it."""
        if self.is_installed:
            return f"{COLLECTION}.{name}"
        path = self.collection / "playbooks" / f"{name}.yml"
        return str(path.relative_to(self.here) if path.is_relative_to(self.here) else path)

    def config(self, env: Mapping[str, str]) -> Path | None:
        """Return the configuration file that Ansible finds."""
        named = Path(env["ANSIBLE_CONFIG"]) if env.get("ANSIBLE_CONFIG") else None
        if named:
            return named / "ansible.cfg" if named.is_dir() else named
        places = (self.here / "ansible.cfg", self.home / ".ansible.cfg", self.system)
        return next((path for path in places if path.is_file()), None)

    def environment(self, env: Mapping[str, str], command: str) -> dict[str, str]:
        """Return the environment variables that are set for ansible-playbook.

        A configuration file of the user's stays in use. Without one, that of the checkout is; with an installed
        collection, its own output. Raises UsageError for one that Ansible ignores.
        """
        own, of_checkout = self.config(env), self.collection / "ansible.cfg"
        variables = {STARTED_BY: command}
        if not self.is_installed and own in (None, of_checkout):
            # Named, because Ansible ignores that of a directory that everybody may write to.
            own = of_checkout
            variables["ANSIBLE_CONFIG"] = str(of_checkout)
        elif own == self.here / "ansible.cfg" and not env.get("ANSIBLE_CONFIG") and self.here.stat().st_mode & S_IWOTH:
            raise UsageError(
                f"amx: Ansible ignores ansible.cfg in a directory that everybody may write to: chmod o-w {self.here}"
            )
        elif own is None and not env.get("ANSIBLE_STDOUT_CALLBACK"):
            variables["ANSIBLE_STDOUT_CALLBACK"] = f"{COLLECTION}.compact"
        paths = env.get(PATHS) or _configured_paths(own) or DEFAULT_PATHS
        if self.root not in [Path(path).expanduser() for path in paths.split(":")]:
            variables[PATHS] = f"{self.root}:{paths}"
        return variables

    def version(self) -> str:
        """Return the version of the collection."""
        text = "".join(
            path.read_text(encoding="utf-8")
            for path in (self.collection / "MANIFEST.json", self.collection / "galaxy.yml")
            if path.exists()
        )
        version = re.search(r'^\s*"?version"?: "?([^",\s]+)', text, re.MULTILINE)
        return version[1] if version else "unknown"


def _configured_paths(config: Path | None) -> str:
    """Return the collections path of a configuration file, with absolute paths; nothing where it has none."""
    parser = configparser.ConfigParser(interpolation=None, inline_comment_prefixes=(";",), strict=False)
    try:
        parser.read([config] if config else [], encoding="utf-8")
        paths = parser.get("defaults", "collections_path", fallback="")
    except (configparser.Error, UnicodeDecodeError):  # Ansible says what is wrong with it
        return ""
    beside = config.parent if config else Path()
    return ":".join(path if path.startswith("~") else str(beside / path) for path in paths.split(":") if path)


def ansible_playbook(python: Path) -> str:
    """Return the ansible-playbook beside a Python, else that on PATH. Raises FileNotFoundError."""
    beside = python.parent / "ansible-playbook"
    program = str(beside) if beside.is_file() else shutil.which("ansible-playbook")
    if not program:
        raise FileNotFoundError(f"ansible-playbook is not beside {python}, and not on PATH: install ansible-core")
    return program


def versions(place: Place) -> str:
    """Return the versions of the collection, of ansible-core and of Python, a line each."""
    try:
        core = metadata.version("ansible-core")
    except metadata.PackageNotFoundError:
        core = "unknown"
    python = ".".join(map(str, sys.version_info[:3]))
    return (
        f"{COLLECTION} {place.version()} ({place.collection})\nansible-core {core}\nPython {python} ({sys.executable})"
    )


def stdout_for_document() -> str:
    """Keep stdout for a JSON document, and have everything else printed on stderr; return the path of stdout."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.set_inheritable(kept, True)
    os.dup2(2, 1)
    return f"/dev/fd/{kept}"
