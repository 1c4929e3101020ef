# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stacks: sets of versions that fit together, and the wheels that they are made of."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import re
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._data import file_set
from ansible_collections.amx.cluster.plugins.module_utils._stacks import arguments

MANIFEST = "manifest.json"
IPEX = "intel-extension-for-pytorch"
BINDINGS = "oneccl-bind-pt"
# The modules that register ccl: the first since 1.12, the second before.
BINDING_MODULES = ("oneccl_bindings_for_pytorch", "torch_ccl")


def choose(
    catalogue: Mapping[str, Any], name: str, python: Iterable[str], known_good: Iterable[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """Return the stack `name` of the catalogue, with its name, `interpreter` (the hosts' Python) and its arguments.

    python: the minor versions ("3.11") on the hosts, which must be one and the same and one of the stack's. known_good:
    as misfits() takes it. arguments: as arguments.spelling() has them, unless the catalogue has its own.
    Raises ValueError naming what was asked and what there is.
    """
    if name not in catalogue:
        raise ValueError(f"cluster_stack: there is no stack {name!r}; the catalogue has {', '.join(sorted(catalogue))}")
    stack = {"name": name, **catalogue[name]}
    lacking = [key for key in ("python", "backend", "packages") if not stack.get(key)]
    if lacking:
        raise ValueError(f"stack {name} of the catalogue has no {', '.join(lacking)}")
    wrong = misfits(stack, known_good)
    if wrong:
        raise ValueError("\n  ".join([f"stack {name} cannot work:", *wrong]))
    versions = sorted(set(python))
    if len(versions) > 1:
        raise ValueError(
            f"the hosts have different Pythons ({', '.join(versions)}): ranks of one job need the same, "
            "set ansible_python_interpreter"
        )
    unfit = [version for version in versions if version not in stack["python"]]
    if unfit:
        raise ValueError(
            f"stack {name} has wheels for Python {', '.join(stack['python'])} and the hosts have Python {unfit[0]}: "
            "set ansible_python_interpreter to one that fits"
        )
    stack["interpreter"] = versions[0] if versions else stack["python"][0]
    transformers = versions_of(stack).get("transformers")
    if transformers:
        spelt = arguments.spelling(transformers, stack["backend"], IPEX in versions_of(stack))
        stack["arguments"] = {**spelt, **stack.get("arguments", {})}
    return stack


def versions_of(stack: Mapping[str, Any]) -> dict[str, str]:
    """Return {name as indexes spell it: pinned version} of the stack's packages."""
    return {canonical(package): str(version) for package, version in stack["packages"].items()}


def misfits(stack: Mapping[str, Any], known_good: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return why the versions of a stack cannot work together, naming both and the one that fits.

    known_good: sets that are known to fit, each {torch, ipex, oneccl: versions, * for any; python: [first, last] minor
    version with wheels of all three}. Of versions that no set names only the first two numbers must agree.
    """
    found = []
    have = versions_of(stack)
    sets = list(known_good)
    torch = have.get("torch", "").partition("+")[0]
    for package, key, title in ((IPEX, "ipex", "intel-extension-for-pytorch"), (BINDINGS, "oneccl", "oneccl-bind-pt")):
        version = have.get(package, "").partition("+")[0]
        if not version:
            continue
        if not torch:
            found.append(f"{title} {version} needs torch, which is not among the packages")
            continue
        right = next((row[key] for row in sets if _same(torch, row["torch"])), None)
        of_it = next((row["torch"] for row in sets if _same(version, row[key])), None)
        if (
            (right and not _same(version, right))
            or (of_it and not _same(torch, of_it))
            or (torch and _minor(torch) != _minor(version))
        ):
            hint = f"with torch {torch} goes {title} {right}" if right else ""
            other = f"{title} {version} goes with torch {of_it}" if of_it else ""
            fits = "; ".join(filter(None, [hint, other])) or (
                f"with torch {torch} goes {title} {'.'.join(map(str, _minor(torch)))}.x"
            )
            found.append(f"torch {torch} and {title} {version} do not fit: {fits}")
    row = next((row for row in sets if _same(torch, row["torch"])), None)
    if row and (IPEX in have or BINDINGS in have):
        first, last = (_minor(limit) for limit in row["python"])
        outside = [version for version in stack["python"] if not first <= _minor(version) <= last]
        if outside:
            found.append(
                f"torch {torch} with its companions has wheels for Python {row['python'][0]} to {row['python'][1]}, "
                f"not for {', '.join(outside)}"
            )
    return found + _backend_misfits(stack, have)


def _backend_misfits(stack: Mapping[str, Any], have: Mapping[str, str]) -> list[str]:
    """Return why the backend of a stack cannot be had from its packages."""
    found = []
    backend = stack["backend"]
    if "transformers" in have:
        try:
            arguments.spelling(have["transformers"], backend, IPEX in have)
        except ValueError as error:
            found.append(str(error))
    if backend == "ccl":
        if stack.get("bindings") not in BINDING_MODULES:
            found.append(f"backend ccl needs bindings: one of {', '.join(BINDING_MODULES)}")
        if not {BINDINGS, "torch-ccl"} & set(have):
            found.append("backend ccl is not available without oneccl-bind-pt: add it, or take backend gloo")
        accelerate = have.get("accelerate")
        if accelerate and arguments.number(accelerate) >= arguments.ACCELERATE_CCL_GONE:
            found.append(f"accelerate {accelerate} does not know the backend ccl: 1.12.0 is the last version that does")
    return found


def _same(version: str, pattern: str) -> bool:
    """Whether a version is the one of a known-good set: 1.13 and 1.13.0 are, and * stands for anything."""
    return fnmatch.fnmatchcase(version, str(pattern)) or fnmatch.fnmatchcase(f"{version}.0", str(pattern))


def _minor(version: str) -> tuple[int, ...]:
    return arguments.number(version)[:2]


def requirements(packages: Mapping[str, str]) -> list[str]:
    """Return pip's pinned requirements ("NAME==VERSION"), sorted, of the packages {name: version}."""
    return sorted(f"{name}=={version}" for name, version in packages.items())


def platforms(glibc: str) -> list[str]:
    """Return the wheel platforms that an x86-64 host with this glibc ("2.36") can use, the newest first.

    pip expands no manylinux tag by itself (PEP 600 tags are exact), so each older one is named.
    """
    major, minor = (int(part) for part in glibc.split(".")[:2])
    if major != 2:
        raise ValueError(f"glibc {glibc} is not known: 2.x is expected")
    legacy = {17: "manylinux2014_x86_64", 12: "manylinux2010_x86_64", 5: "manylinux1_x86_64"}
    names = []
    for number in range(minor, 4, -1):
        names.append(f"manylinux_2_{number}_x86_64")
        if number in legacy:
            names.append(legacy[number])
    return [*names, "linux_x86_64"]


def oldest(versions: Iterable[str]) -> str:
    """Return the oldest of these versions of dotted numbers.

    Raises ValueError where there is none, or one is not such a version.
    """
    try:
        return min(versions, key=lambda version: [int(part) for part in version.split(".")])
    except ValueError:
        raise ValueError(f"{list(versions)} are not versions of the GNU C library such as 2.36") from None


def wheelhouse_key(wanted: Iterable[str], constraints: str, python: str, glibc: str) -> str:
    """Return the name of the folder that holds the wheels of this request: it changes when anything in it does."""
    content = json.dumps([sorted(wanted), constraints, python, glibc])
    return f"cp{python.replace('.', '')}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"


def pip_arguments(python: str, glibc: str) -> list[str]:
    """Return the arguments that make pip choose wheels for a host's Python and C library instead of its own."""
    names = [argument for name in platforms(glibc) for argument in ("--platform", name)]
    abi = f"cp{python.replace('.', '')}"
    return [
        "--only-binary=:all:", "--implementation=cp", f"--python-version={python}", f"--abi={abi}", "--abi=abi3",
        "--abi=none", *names,
    ]  # fmt: skip


# pip takes a wheel's tags and Python from its arguments, but evaluates `; python_version < "3.10"` and its like for the
# Python that it runs on itself. Arguments: the hosts' minor version, then pip's own.
PIP_FOR_HOSTS = """
import sys
from pip._vendor.packaging import markers
python, sys.argv[1:] = sys.argv[1], sys.argv[2:]
own = markers.default_environment
hosts = {
    "python_version": python, "python_full_version": python + ".0", "implementation_version": python + ".0",
    "os_name": "posix", "sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64",
    "implementation_name": "cpython", "platform_python_implementation": "CPython",
}
markers.default_environment = lambda: {**own(), **hosts}
from pip._internal.cli.main import main
sys.exit(main())
"""


def check_resolution(report: Mapping[str, Any]) -> dict[str, str]:
    """Return {name: version} of what pip would install, from the report of `pip install --dry-run --report`.

    Raises ValueError when a CUDA package is among it: then a resolver took the CUDA build of torch.
    """
    found = {item["metadata"]["name"]: item["metadata"]["version"] for item in report["install"]}
    cuda = sorted(name for name in found if name.lower().startswith(("nvidia-", "nvidia_", "cuda-", "triton")))
    if cuda:
        torch = found.get("torch", "which is not among them")
        raise ValueError(
            f"torch {torch} is a CUDA build: it would bring {', '.join(cuda)} onto hosts without a GPU. Pin torch as "
            f"{torch.partition('+')[0]}+cpu and make the index with CPU builds reachable, or bring its wheel along"
        )
    return found


def manifest(folder: Path) -> dict[str, Any]:
    """Describe the wheels in `folder`: {"wheels": [{file, name, version, sha256, bytes, unpacked}]}, sorted by file.

    bytes, unpacked: the size of the wheel, and of what is in it. Raises ValueError for a file that is no whole wheel.
    """
    wheels = []
    for path in sorted(folder.glob("*.whl")):
        name, version = path.name.split("-")[:2]
        try:
            with zipfile.ZipFile(path) as content:
                unpacked = sum(item.file_size for item in content.infolist())
        except zipfile.BadZipFile as error:
            raise ValueError(f"{path} is not a whole wheel ({error}): remove it and run again") from error
        wheels.append(
            {
                "file": path.name,
                "name": canonical(name),
                "version": version,
                "sha256": file_set.sha256(path),
                "bytes": path.stat().st_size,
                "unpacked": unpacked,
            }
        )
    return {"wheels": wheels}


def locked(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return [{file, name, version, sha256}] of what pip would install, from its report, without downloading it.

    Raises ValueError when an index gives no SHA-256 of a wheel: then nobody could verify it.
    """
    wheels = []
    for item in report["install"]:
        archive = item["download_info"].get("archive_info", {})
        digest = archive.get("hashes", {}).get("sha256") or archive.get("hash", "").partition("sha256=")[2]
        file = item["download_info"]["url"].rpartition("/")[2].replace("%2B", "+")
        if not digest:
            raise ValueError(
                f"the index gives no SHA-256 for {file}, so hosts could not verify it: "
                "set torch_stack_source to wheelhouse"
            )
        wheels.append(
            {
                "file": file,
                "name": canonical(item["metadata"]["name"]),
                "version": item["metadata"]["version"],
                "sha256": digest,
            }
        )
    return sorted(wheels, key=lambda wheel: str(wheel["file"]))


def unfit_wheels(wheels: Iterable[Mapping[str, Any]], python: str, glibc: str) -> list[str]:
    """Return the files of wheels that an x86-64 host with this Python ("3.11") and glibc ("2.36") cannot use."""
    own = f"cp{python.replace('.', '')}"
    number = [int(part) for part in python.split(".")]
    usable = {"any", *platforms(glibc)}
    unfit = []
    for wheel in wheels:
        pythons, abis, names = (part.split(".") for part in wheel["file"][: -len(".whl")].rsplit("-", 3)[1:])
        # abi3: built for this version of Python or any later one.
        stable = "abi3" in abis and any(
            [int(tag[2:3]), int(tag[3:] or 0)] <= number for tag in pythons if tag.startswith("cp")
        )
        plain = "none" in abis and any(tag in (own, "py3", f"py{number[0]}{number[1]}") for tag in pythons)
        if not (plain or stable or (own in pythons and own in abis)) or not usable & set(names):
            unfit.append(str(wheel["file"]))
    return unfit


def check_archive(brought: Mapping[str, Any], wanted: Iterable[str], python: str, glibc: str) -> None:
    """Raise ValueError when wheels that were brought along are not what was asked for, or not for these hosts.

    brought: a manifest. wanted: requirements, pinned. python, glibc: the hosts'.
    """
    have = wheel_versions(brought["wheels"])
    lacking = []
    for requirement in wanted:
        name, _sep, version = requirement.partition("==")
        found = have.get(canonical(name))
        # As pip sees it: a pin without a local version (+cpu) takes any.
        if found is None or version not in (found, found.partition("+")[0]):
            lacking.append(f"{requirement} (it has {found or 'none'})")
    if lacking:
        raise ValueError(f"the archive lacks {', '.join(lacking)}: collect it again for this stack")
    unfit = unfit_wheels(brought["wheels"], python, glibc)
    if unfit:
        raise ValueError(
            f"the archive was collected for other hosts: these have Python {python} and glibc {glibc}, which "
            f"cannot use {', '.join(unfit)}"
        )


def masked(text: str) -> str:
    """Return text without the user names and passwords of the URLs in it."""
    return re.sub(r"(?<=://)[^/@\s]+@", "***@", text)


def locked_requirements(manifest: Mapping[str, Any]) -> str:
    """Return a requirements file that names every wheel of the manifest with its hash, for pip --require-hashes."""
    return "".join(
        f"{wheel['name']}=={wheel['version']} --hash=sha256:{wheel['sha256']}\n" for wheel in manifest["wheels"]
    )


def canonical(name: str) -> str:
    """Return a package's name as indexes spell it (PEP 503): lower case, with single dashes."""
    return re.sub(r"[-_.]+", "-", name).lower()


def lacking(requirements: Iterable[str], versions: Mapping[str, str]) -> dict[str, list[str]]:
    """Say what of a requirements file's lines an environment of these versions ({name: version}) does not meet.

    Returns {"lacking": names and versions of packages that it lacks altogether, "wrong": why others cannot be met: they
    would move a package that it has, or are no names and versions}.
    """
    from packaging.requirements import InvalidRequirement, Requirement  # the control machine has it, with Ansible

    here = {canonical(name): version for name, version in versions.items()}
    found, wrong = [], []
    for line in requirements:
        words = line.partition("#")[0].strip()
        if not words or words.startswith("-"):
            continue
        try:
            wanted = Requirement(words)
        except InvalidRequirement:
            wanted = None
        if wanted is None or wanted.url:
            wrong.append(f"{words} is not a name and versions: pin it as NAME==VERSION")
            continue
        if wanted.marker and not wanted.marker.evaluate():
            continue
        have = here.get(canonical(wanted.name))
        if have is None:
            found.append(words)
        elif not wanted.specifier.contains(have, prereleases=True):
            wrong.append(f"{words} would move {canonical(wanted.name)} from {have}, which the stack pins")
    return {"lacking": found, "wrong": wrong}


def wheel_versions(wheels: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return {name: version} of a manifest's wheels, or of what `pip list` tells."""
    return {wheel["name"]: wheel["version"] for wheel in wheels}


def environment_problems(result: Mapping[str, Any]) -> list[str]:
    """Return what check_environment.py found wrong, from the result of the task that ran it.

    A check that did not come to its end is a problem too, told with its last words.
    """
    lines = [line for line in str(result.get("stdout", "")).splitlines() if line.strip()]
    try:
        return list(json.loads(lines[-1])["problems"])
    except (IndexError, ValueError, TypeError, KeyError):
        words = " ".join(str(result.get("stderr") or result.get("msg") or "it said nothing").split())[-600:]
        return [f"its check did not come to an end (exit code {result.get('rc')}): {words}"]
