# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The virtual environments on a host: PREFIX/envs/NAME, and the link PREFIX/env to the active one.

Those of engines that serve lie beside the one that trains, each with a link of its own (PREFIX/vllm).

A virtual environment has passed its checks when the file MARKER is in it; the file's time is when the virtual
environment was last active.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._io import is_same, read_json, write_json
from ansible_collections.amx.cluster.plugins.module_utils._stacks import indexes, intel_mpi, wheels
from ansible_collections.amx.cluster.plugins.module_utils._text import masked, size

# The stack of a virtual environment, written into it once it has passed its checks.
MARKER = "amx-cluster.json"
# The link to the active one that trains.
LINK = "env"
# The role's link to transformers' examples lies beside that to the active one.
PLACES = _ownership.Places("environments", ("envs",), links=(LINK, "examples", "vllm"))
# Errors of pip, and what they mean on a host.
CAUSES = (
    ("No space left on device", "there is no space left under {prefix}: free some, or set cluster_prefix elsewhere"),
    ("Disk quota exceeded", "the user's quota under {prefix} is used up: raise it, or set cluster_prefix elsewhere"),
    (
        "THESE PACKAGES DO NOT MATCH THE HASHES",
        "a wheel is not the one that was locked: it was damaged in transfer, or the index has another of that name",
    ),
    ("is not a supported wheel on this platform", "a wheel is for another Python, architecture or C library"),
    (
        "No matching distribution found",
        "no index that this host reaches has that version for it: set torch_stack_source to wheelhouse",
    ),
    ("Read-only file system", "{prefix} is on a read-only file system: set cluster_prefix elsewhere"),
    ("Permission denied", "this user may not write under {prefix}: set cluster_prefix elsewhere"),
)


def link_of(stack: Mapping[str, Any] | None) -> str:
    """Return the name of the link to the active virtual environment of a stack's kind."""
    return str((stack or {}).get("serves") or LINK)


def active(prefix: Path, name: str = LINK) -> str:
    """Return the name of the virtual environment that the link PREFIX/NAME points to, or an empty string."""
    link = prefix / name
    return link.readlink().name if link.is_symlink() else ""


def active_stack(prefix: Path) -> tuple[str, dict[str, Any]]:
    """Return the path of the active virtual environment and its stack as installed, both empty if there is none."""
    link = prefix / "env"
    stack = read_json(link / MARKER) if link.is_symlink() else None
    return ("", {}) if stack is None else (str(link.readlink()), stack)


def installed(prefix: Path, link: str = "") -> list[str]:
    """Return the names of the virtual environments that have passed their checks, the last active one first.

    link: of whose kind they are; empty for all.
    """
    marks = [
        (path.stat().st_mtime, path.parent.name)
        for path in (prefix / "envs").glob(f"*/{MARKER}")
        if link in ("", link_of(read_json(path)))
    ]
    return [name for _time, name in sorted(marks, reverse=True)]


def find(prefix: Path, wanted: str) -> str:
    """Return the name of the installed virtual environment that `wanted` means: a name, its end, or "previous".

    Raises ValueError when there is none, naming those that there are.
    """
    names, now = installed(prefix, LINK), active(prefix)
    there = f"{prefix} has {', '.join(names) or 'none'}" + (f", and {now} is active" if now else "")
    if wanted == "previous":
        others = [name for name in names if name != now]
        if not others:
            raise ValueError(f"torch_stack_use is previous, and there is no previous virtual environment: {there}")
        return others[0]
    matches = [name for name in names if name == wanted] or [name for name in names if name.endswith("-" + wanted)]
    if len(matches) != 1:
        raise ValueError(f"torch_stack_use is {wanted!r}, and there is no such virtual environment: {there}")
    return matches[0]


def activate(prefix: Path, name: str, link: str = LINK) -> None:
    """Point a link to a virtual environment, at once: everyone sees the previous one or the new one.

    Raises ValueError when the link is not the collection's, and OSError.
    """
    before = active(prefix, link)
    if before and before != name and (prefix / "envs" / before / MARKER).exists():
        (prefix / "envs" / before / MARKER).touch()
    _ownership.link(prefix / link, prefix / "envs" / name)


def marker(env: Path) -> dict[str, Any]:
    """Return the stack in a virtual environment's marker. Raises ValueError when it has not passed its checks."""
    stack = read_json(env / MARKER)
    if stack is None:
        raise ValueError(f"{env} has not passed its checks: run site.yml, which installs it again")
    return stack


def mark(env: Path, stack: Mapping[str, Any]) -> None:
    """Record that a virtual environment with this stack has passed its checks; everyone on the host can read it."""
    write_json(env / MARKER, indexes.without_logins(stack))


def with_mpi(env: Path, stack: Mapping[str, Any], mpi: Mapping[str, str] | None) -> dict[str, Any]:
    """Return the stack with the variables of Intel MPI; without any, with those that are recorded, if there are."""
    variables = mpi or (read_json(env / MARKER) or {}).get("mpi")
    return {**stack, "mpi": dict(variables)} if variables else dict(stack)


def remove(env: Path) -> None:
    """Remove a virtual environment, its marker first: half of one must not pass for a complete one."""
    if _ownership.is_own(env):
        (env / MARKER).unlink(missing_ok=True)
        _ownership.remove(env)


def begin(env: Path) -> None:
    """Make the directory of a virtual environment anew. Raises ValueError for one that is another's, and OSError."""
    remove(env)
    _ownership.claim(env, "virtual environment")


def check(env: Path, stack: Mapping[str, Any], versions: Mapping[str, str]) -> dict[str, Any]:
    """Check a virtual environment in a process of its own interpreter: {problems, found}, see venv_check, and mpi.

    stack: {backend, bindings, interpreter, cuda_build}, see catalogue.choose, {path, mpi_script}, see own_env.stack.
    versions: {package: version} that must be installed. mpi: the variables of Intel MPI with which it was checked and
    jobs run, where bindings or a script of oneAPI bring it; see intel_mpi.
    """
    options = {
        "versions": dict(versions),
        "backend": stack["backend"],
        "bindings": stack.get("bindings", ""),
        "cuda_build": stack.get("cuda_build", False),
        "own": bool(stack.get("path")),
    }
    bindings = intel_mpi.bindings_folder(stack)
    mpi = intel_mpi.sourced(env, bindings) if bindings else {}
    if stack.get("mpi_script"):
        mpi = intel_mpi.of_script(Path(stack["mpi_script"]), str(env))
    variables = dict(mpi or intel_mpi.mpi_environment(str(env)))
    if stack.get("path"):  # nothing is written into an environment of the user's own
        variables["PYTHONDONTWRITEBYTECODE"] = "1"
    return {**_run_checks(env, options, variables), "mpi": mpi}


def without_paths() -> dict[str, str]:
    """Return this process's environment without what would have an interpreter import other packages."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}


def _run_checks(env: Path, options: Mapping[str, Any], variables: Mapping[str, str]) -> dict[str, Any]:
    # From standard input, so that nothing of this process' library path is in that one.
    from ansible_collections.amx.cluster.plugins.module_utils._stacks import venv_check  # slow to import

    program = inspect.getsource(venv_check)
    try:
        ran = subprocess.run(
            [str(env / "bin" / "python"), "-", json.dumps(options)],
            input=program,
            cwd=env,  # where nothing can be imported from
            env={**without_paths(), **variables},
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:
        return {"problems": [f"the checks did not start: {error}"], "found": {}}
    return result_of_check(ran.returncode, ran.stdout, ran.stderr)


def result_of_check(code: int, output: str, errors: str) -> dict[str, Any]:
    """Return what venv_check printed; when it did not finish, that is the problem, with its last words."""
    lines = [line for line in output.splitlines() if line.strip()]
    with contextlib.suppress(IndexError, ValueError, TypeError, KeyError):
        result = json.loads(lines[-1])
        return {"problems": list(result["problems"]), "found": dict(result["found"])}
    words = " ".join(errors.split())[-600:] or "it printed nothing"
    return {"problems": [f"the checks did not finish (exit code {code}): {words}"], "found": {}}


def surplus(
    prefix: Path, keep: int, in_use: Iterable[str] = (), proc: Path = Path("/proc"), link: str = LINK
) -> list[str]:
    """Return the virtual environments to remove: all of a link's kind that the collection has made but the active one,
    the `keep` previous ones, and busy ones.

    in_use: those of running jobs, none of whose processes need be on this host at the moment.
    """
    now = active(prefix, link)
    old = [name for name in installed(prefix, link) if name != now]
    used = set(in_use)
    removable = [name for name in old[keep:] if _ownership.is_own(prefix / "envs" / name)]
    return [name for name in removable if name not in used and not busy(prefix / "envs" / name, proc)]


def busy(env: Path, proc: Path = Path("/proc")) -> bool:
    """Return whether a process on this host was started from a virtual environment, as far as this user may see."""
    name = os.fsencode(f"{os.sep}{env.name}{os.sep}")
    for path in proc.glob("[0-9]*/cmdline"):
        try:
            for word in path.read_bytes().split(b"\0"):
                base, separator, _rest = word.partition(name)
                if separator and word.startswith(b"/") and is_same(Path(os.fsdecode(base)) / env.name, env):
                    return True
        except OSError:  # it has ended, or is another user's
            continue
    return False


def needed_bytes(needed: Iterable[Mapping[str, Any]], copied: bool) -> int:
    """Return the bytes that an installation takes: what is in the wheels, and the wheels if they are copied."""
    return sum(wheel.get("unpacked", 0) + (wheel.get("bytes", 0) if copied else 0) for wheel in needed)


def problems(
    prefix: Path, needed: list[Mapping[str, Any]], copied: bool, machine: str, python: str, glibc: str
) -> list[str]:
    """Return why a virtual environment of these wheels cannot be installed under `prefix`, each with what to do.

    copied: whether the wheels are copied to this host, too. machine, python ("3.11"), glibc ("2.36"): this host's.
    """
    if machine != "x86_64":
        return [f"this host is {machine} and the wheels are for x86_64: remove it from the inventory"]
    problems = []
    unfit = wheels.unfit(needed, python, glibc)
    if unfit:
        problems.append(
            f"this host has Python {python} and glibc {glibc}, which cannot use {', '.join(unfit)}: "
            "set torch_stack_python, or use a host with a newer system"
        )
    directory = next(path for path in (prefix, *prefix.parents) if path.exists())
    free, need = shutil.disk_usage(directory).free, needed_bytes(needed, copied)
    if free < need:
        problems.append(
            f"{directory} has {size(free)} free and the installation takes {size(need)}: free some, or set "
            "cluster_prefix elsewhere"
        )
    return problems


def remove_incomplete(env: Path) -> list[str]:
    """Remove the metadata of packages that an interrupted pip has not finished, so that it installs them again.

    pip writes INSTALLER after a package's files. Returns the names of the metadata directories.
    """
    incomplete = [
        path for path in env.glob("lib/python*/site-packages/*.dist-info") if not (path / "INSTALLER").exists()
    ]
    for path in incomplete:
        shutil.rmtree(path)
    return [path.name for path in incomplete]


def explain(output: str, prefix: Path) -> str:
    """Return pip's last lines with the cause and the remedy in front of them."""
    lines = [line.strip() for line in masked(output).splitlines() if line.strip()]
    cause = next((cause.format(prefix=prefix) for sign, cause in CAUSES if sign in output), "pip failed")
    return "\n".join([cause, *lines[-8:]])
