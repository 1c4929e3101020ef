"""This checkout: where it is, which files are of it, and the environment in which its tools and playbooks run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
PYTHON = str(BIN / "python")
# The checkout by its name as a collection.
COLLECTION = ".collections/ansible_collections/amx/cluster"


def environment() -> dict[str, str]:
    """Return this process's environment, but with tools and collections of this checkout only, and without colours."""
    env = dict(os.environ)
    env["PATH"] = f"{BIN}{os.pathsep}{env.get('PATH', os.defpath)}"
    env["LC_ALL"] = "C.UTF-8"
    env["ANSIBLE_CONFIG"] = str(ROOT / "ansible.cfg")
    env["ANSIBLE_COLLECTIONS_PATH"] = str(ROOT / ".collections")
    env["ANSIBLE_ROLES_PATH"] = str(ROOT / "roles")
    env["ANSIBLE_NOCOLOR"] = env["NO_COLOR"] = "1"
    # Tests read the counts and tasks that it prints. tests/integration/test_output.py has what users see.
    env["ANSIBLE_STDOUT_CALLBACK"] = "ansible.builtin.default"
    # The checkout stays clean, and torch and transformers are compiled once, not at every import.
    env["PYTHONPYCACHEPREFIX"] = str(ROOT / ".cache" / "pycache")
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    env.pop("PYTHONPATH", None)
    return env


def importing() -> dict[str, str]:
    """Return this process's environment with the collection, and the Ansible of this process, for a Python it starts.

    ansible-test brings the modules' part of Ansible in PYTHONPATH.
    """
    return {**os.environ, "PYTHONPATH": importable(*filter(None, [os.environ.get("PYTHONPATH")]))}


def importable(*places: object) -> str:
    """Return a PYTHONPATH with the collection and these places."""
    return os.pathsep.join([str(ROOT / ".collections"), *map(str, places)])


def git(directory: Path, *arguments: str) -> str:
    """Return the output of a git command in a directory. Raises CalledProcessError."""
    command = ["git", "-c", f"safe.directory={directory}", *arguments]
    return subprocess.run(command, cwd=directory, check=True, capture_output=True, text=True).stdout


def tracked(*patterns: str) -> list[str]:
    """Return the checkout's files that match git pathspecs: tracked or new, without the ignored and the deleted."""
    listing = git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns)
    return sorted({name for name in listing.split("\0") if name and (ROOT / name).is_file()})
