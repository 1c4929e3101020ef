# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A user's project as pip installs it, where only its build backend knows its version or where its packages lie.

pip builds it on the control node, in a copy of the files that go to the hosts, with its own configuration there. What
is kept of the wheel is small: symbolic links to the project's files, and the text of those that the build has made.
"""

from __future__ import annotations

import configparser
import contextlib
import functools
import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _io, _ownership
from ansible_collections.amx.cluster.plugins.module_utils._data import project
from ansible_collections.amx.cluster.plugins.module_utils._stacks import (
    answers,
    indexes,
    packaging_files,
    pip,
    project_static,
    wheelhouse,
)
from ansible_collections.amx.cluster.plugins.module_utils._text import masked

CACHE = Path("~/.cache/amx.cluster/projects")
# Where packages lie without any setting of a build backend.
PLAIN = {"", ".", "./", "src", "./src", "src/", "./src/"}
# Where the packages are in the project's directory on the hosts.
INSIDE = PurePosixPath(project.INSTALLED).relative_to(project.DIRECTORY)
# The metadata that importlib.metadata is asked for.
METADATA = ("METADATA", "entry_points.txt", "top_level.txt")
# Variables by which git takes another repository than that of the directory, where a hook of it runs this.
OF_HOOKS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_PREFIX")
WORDS = [
    "install", "--quiet", "--no-input", "--disable-pip-version-check", "--no-deps", "--no-compile", "--no-cache-dir",
    "--ignore-requires-python", "--no-warn-script-location",
]  # fmt: skip


def built_by(directory: Path, files: Collection[str]) -> str:
    """Return the file for which only a build tells what an installation has; empty where the files tell it as well.

    files: the paths of what goes to the hosts. Raises ValueError for a pyproject.toml that cannot be read.
    """
    if "setup.py" in files:
        return "setup.py"
    if packaging_files.PYPROJECT not in files:
        return ""
    pyproject = packaging_files.read_pyproject(directory)
    table = pyproject.get("project", {})
    if not {"project", "build-system"} & set(pyproject) and "name" not in pyproject.get("tool", {}).get("poetry", {}):
        return ""
    is_known = isinstance(table.get("name"), str) and isinstance(table.get("version"), str)
    dynamic = {"version", "scripts", "entry-points"} & set(table.get("dynamic", []))
    if not is_known or dynamic or not _is_plain(pyproject.get("tool", {})):
        return packaging_files.PYPROJECT
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    if "setup.cfg" in files:
        with contextlib.suppress(configparser.Error, UnicodeDecodeError):
            parser.read(directory / "setup.cfg", encoding="utf-8")
    return "setup.cfg" if parser.has_section("options") else ""


def _is_plain(tool: Mapping[str, Any]) -> bool:
    """Return whether no build backend's table puts packages elsewhere than beside pyproject.toml or into src."""
    setuptools = dict(tool.get("setuptools", {}))
    packages = setuptools.get("packages", [])
    where = packages.get("find", {}).get("where", []) if isinstance(packages, dict) else []
    roots = setuptools.get("package-dir", {})
    wheel = dict(tool.get("hatch", {}).get("build", {}).get("targets", {}).get("wheel", {}))
    of_hatch = [str(PurePosixPath(path).parent) for path in wheel.pop("packages", [])]
    of_poetry = [dict(package) for package in tool.get("poetry", {}).get("packages", [])]
    return (
        {*where, *roots.values(), *of_hatch, *(package.get("from", "") for package in of_poetry)} <= PLAIN
        and set(roots) <= {""}
        and not wheel
        and not any("to" in package for package in of_poetry)
        and not tool.get("hatch", {}).get("build", {}).keys() - {"targets"}
        and not any(tool.get(name) for name in ("maturin", "flit", "scikit-build", "meson-python"))
        and not tool.get("pdm", {}).get("build")
        and not tool.get("uv", {}).get("build-backend")
    )


def read(
    tree: project.Project, run: pip.Run, cache: Path = CACHE, options: Mapping[str, Any] = MappingProxyType({})
) -> tuple[dict[str, str], dict[str, str]]:
    """Return (texts, links) that an installation adds to a project, by their paths in it, most of them below INSIDE.

    A link leads to a path in the project. What a build writes among the project's own files, such as the module of a
    version, is there, too. The result is kept by what went into it. options: of indexes.CHOICE and indexes.ARGUMENTS.
    Raises ValueError where pip cannot install the project, unless it certainly works without, and OSError.
    """
    commit = _git(tree.directory, "describe", "--always", "--dirty", "--tags", "--long")
    key = hashlib.sha256(json.dumps([tree.digest(), commit, sys.version]).encode()).hexdigest()[:16]
    kept = cache.expanduser() / key / "files.json"
    there = _io.read_json(kept)
    if there is None or not all(isinstance(there.get(part), dict) for part in ("texts", "links")):
        with tempfile.TemporaryDirectory() as scratch:
            target = Path(scratch, "packages")
            try:
                copy = _install(tree, Path(scratch), target, run, options)
            except ValueError:
                files = [entry["file"] for entry in tree.files]
                tool = packaging_files.read_pyproject(tree.directory).get("tool", {})
                if not project_static.is_certain(tree.directory, files, _is_plain(tool)):
                    raise
                return {}, {}
            there = _kept(tree, copy, target)
        with contextlib.suppress(OSError):  # a home that cannot be written to: it is built again
            _ownership.make(kept.parent, "project")
            _io.write_json(kept, there)
    return there["texts"], there["links"]


def _git(directory: Path, *words: str) -> str:
    """Return what git prints in a directory; empty where it is in no repository, or git is missing."""
    command = ["git", "-C", str(directory), *words]
    with contextlib.suppress(OSError):
        environ = {name: value for name, value in os.environ.items() if name not in OF_HOOKS}
        environ.update(GIT_OPTIONAL_LOCKS="0", GIT_TERMINAL_PROMPT="0")
        ran = subprocess.run(
            command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        return ran.stdout.strip() if ran.returncode == 0 else ""
    return ""


def _install(tree: project.Project, scratch: Path, target: Path, run: pip.Run, options: Mapping[str, Any]) -> Path:
    """Install a copy of the project into the directory `target`, and return the place of the copy.

    It has the commits of the project's repository as well, by which git tells versions.
    """
    copy, top = scratch / "project", _git(tree.directory, "rev-parse", "--show-toplevel")
    inside = copy
    if top:
        _git(Path(top), "clone", "--quiet", "--shared", "--no-checkout", top, str(copy))
        _git(copy, "reset", "--quiet")
        inside = copy / tree.directory.resolve().relative_to(Path(top).resolve())
    for entry in tree.files:
        path = inside / entry["file"]
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(tree.directory / entry["file"], path)
    for name, leads_to in tree.links.items():
        (inside / name).parent.mkdir(parents=True, exist_ok=True)
        (inside / name).symlink_to(leads_to)
    defaults = {name: field.get("default") for name, field in {**indexes.CHOICE, **indexes.ARGUMENTS}.items()}
    # What is built runs here: the hosts' Python and C library do not matter.
    full = {**defaults, "python": "3.11", **options}
    ask = functools.partial(answers.why_silent, timeout=full["index_timeout"])
    variables = {"PIP_RETRIES": "1", **wheelhouse.pip_of(full, scratch, "2.17", run, ask).variables}
    unset = [f"--unset={name}" for name in OF_HOOKS]
    command = ["env", *unset, sys.executable, "-m", "pip", *WORDS, "--target", str(target), str(inside)]
    code, output, errors = run(command, variables)
    if code:
        file = built_by(tree.directory, [entry["file"] for entry in tree.files])
        raise ValueError(
            f"pip cannot install {tree.directory}, so that the job could not import its packages: "
            f"{masked(_reason(errors or output)).replace(str(inside), str(tree.directory))}. `pip install .` there "
            f"shows all of it. If the job imports none, or finds them from the project's directory and its src/, name "
            f"/{file} in .clusterignore"
        )
    return inside


def _reason(errors: str) -> str:
    """Return the line of pip's errors that tells why: the last one of a build backend, or pip's own."""
    lines = [line.strip(" │╰─>") for line in errors.partition("[end of output]")[0].splitlines()]
    others = ("note:", "hint:", "[notice]", "WARNING", "ERROR: Failed to build", "error: subprocess-exited-with-error")
    messages = [line for line in lines if line and not line.startswith(others)] or ["it printed nothing"]
    named = [line for line in messages if re.match(r"[\w.]*(Error|Exception|ERROR|error): ", line)]
    return re.sub(r"^(ERROR|error): ", "", (named or messages)[-1]).rstrip(".")


def _kept(tree: project.Project, copy: Path, target: Path) -> dict[str, dict[str, str]]:
    """Return what of an installed project goes to the hosts: {texts, links}."""
    origins: dict[str, list[str]] = {}
    for entry in tree.files:
        origins.setdefault(entry["sha256"], []).append(entry["file"])
    own = {origin for names in origins.values() for origin in names}
    texts, links = {}, {}
    for path in sorted(target.rglob("*")):
        name = path.relative_to(target).as_posix()
        is_metadata = path.parent.name.endswith(".dist-info")
        if not path.is_file() or name.startswith("bin/") or (is_metadata and path.name not in METADATA):
            continue
        data, place = path.read_bytes(), f"{INSIDE}/{name}"
        same = [] if is_metadata else origins.get(hashlib.sha256(data).hexdigest(), [])
        if same and data:
            links[place] = max(same, key=functools.partial(_common_end, name))
            continue
        with contextlib.suppress(UnicodeDecodeError):  # a compiled extension, which may not fit the hosts
            texts[place] = data.decode("utf-8")
            for root in ("", "src/"):
                beside = f"{root}{name}"
                if beside not in own and (copy / beside).is_file():
                    texts[beside] = texts[place]
    return {"texts": texts, "links": links}


def _common_end(path: str, other: str) -> int:
    pairs = zip(reversed(path.split("/")), reversed(other.split("/")))
    return sum(1 for _pair in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
