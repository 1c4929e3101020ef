# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalogue of stacks: sets of versions that work together."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._stacks import arguments, indexes, pythons
from ansible_collections.amx.cluster.plugins.module_utils._stacks.requirements import canonical

BINDINGS = "oneccl-bind-pt"
# Their versions in a known-good set.
KEYS = {arguments.IPEX: "ipex", BINDINGS: "oneccl"}
# oneCCL's bindings before TORCHRUN_BINDINGS do not read torchrun's variables: see backend_key.
CCL_BY_MPIRUN = "ccl by mpirun"
TORCHRUN_BINDINGS = (2, 3, 100)
# The backends that a job can choose with a stack of each backend_key, the stack's own first.
BACKENDS = {"mpi": ("mpi", "gloo"), "ccl": ("ccl", "gloo"), CCL_BY_MPIRUN: ("ccl", "gloo"), "gloo": ("gloo",)}
MPI4PY = "mpi4py"
# The modules that register ccl: the first since 1.12, the second before.
BINDING_MODULES = ("oneccl_bindings_for_pytorch", "torch_ccl")


def backend_key(stack: Mapping[str, Any]) -> str:
    """Return the key of a stack in BACKENDS: its backend, or CCL_BY_MPIRUN where its ccl needs that launcher.

    stack: an entry of the catalogue, or empty. Since version 2.3.100 the bindings take their place on the host from
    LOCAL_RANK and LOCAL_WORLD_SIZE, which torchrun sets (ProcessGroupCCL.cpp); before, oneCCL looks for its launcher.
    """
    backend = str(stack.get("backend", "gloo"))
    if backend != "ccl":
        return backend
    version = versions_of(stack).get(BINDINGS, "0")
    return "ccl" if arguments.number(version) >= TORCHRUN_BINDINGS else CCL_BY_MPIRUN


def choose(
    catalogue: Mapping[str, Any],
    name: str,
    hosts: Mapping[str, pythons.Host],
    known_good: Iterable[Mapping[str, Any]] = (),
    install: bool = False,
    cuda_build: bool = False,
    engine: str = "",
) -> tuple[dict[str, Any], dict[str, pythons.Choice]]:
    """Return the stack `name` of the catalogue and the Python of each host.

    hosts: what each host has of Python; without any, the first Python of the stack is taken. install: whether hosts
    may install packages. known_good: as misfits() takes it. cuda_build: see without_cpu_build(). engine: of `amx
    serve` whose stack it is to be; empty for one that trains. The stack has its name, `interpreter` (the hosts'
    Python), the packages for this Python and its arguments, as arguments.by_version() has them unless the catalogue
    has its own. URLs of indexes are without users and passwords: a stack is shown, and written into virtual
    environments. Raises ValueError naming what was requested and what there is.
    """
    if engine and name not in catalogue:
        there = sorted(stack["serves"] for stack in catalogue.values() if stack.get("serves"))
        raise ValueError(f"cluster_serving_engines names {engine!r}, which is not one of {', '.join(there)}")
    if name not in catalogue:
        raise ValueError(
            f"cluster_stack is {name!r}, which is not in the catalogue: set it to one of {', '.join(sorted(catalogue))}"
        )
    serves = catalogue[name].get("serves", "")
    if serves != engine:
        raise ValueError(
            f"stack {name} is that of {serves or 'jobs'}, and cannot be used for {engine or 'jobs'}: name an engine "
            "that serves in cluster_serving_engines, and a stack that trains in cluster_stack"
        )
    stack = {"name": name, **indexes.without_logins(catalogue[name])}
    missing = [key for key in ("python", "backend", "packages") if not stack.get(key)]
    if missing:
        raise ValueError(f"stack {name} has no {', '.join(missing)}: set them in torch_stack_catalogue")
    interpreter, choices = str(stack["python"][0]), dict[str, pythons.Choice]()
    if hosts:
        try:
            interpreter, choices = pythons.choose(hosts, stack["python"], install)
        except ValueError as error:
            raise ValueError(f"stack {name} cannot be installed, nothing was changed:\n{error}") from None
    stack = for_python(stack, interpreter)
    if cuda_build:
        stack = without_cpu_build(stack)
    wrong = misfits(stack, known_good)
    if wrong:
        raise ValueError("\n  ".join([f"stack {name} cannot work:", *wrong]))
    if "transformers" in versions_of(stack):
        names = arguments.by_version(versions_of(stack), stack["backend"])
        stack["arguments"] = {**names, **stack.get("arguments", {})}
    return stack, choices


def for_python(stack: Mapping[str, Any], python: str) -> dict[str, Any]:
    """Return a stack for a minor version of Python.

    `by_python` has {minor version: {packages, constraints}}: pins that differ from the stack's there, for packages
    whose pinned version has no wheel for that Python, and another file of constraints. A version null removes a
    package.
    """
    own = (stack.get("by_python") or {}).get(python, {})
    made = {key: value for key, value in stack.items() if key != "by_python"}
    packages = {**stack["packages"], **own.get("packages", {})}
    made["packages"] = {package: version for package, version in packages.items() if version}
    if "constraints" in own:
        made["constraints"] = own["constraints"]
    return {**made, "interpreter": python}


def without_cpu_build(stack: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stack whose pin of torch is met by the CUDA build, too.

    The CPU build is still taken where an index has it: 2.13.0+cpu is newer than 2.13.0 for a resolver.
    """
    packages = {
        package: str(version).partition("+")[0] if canonical(package) == "torch" else version
        for package, version in stack["packages"].items()
    }
    return {**stack, "packages": packages, "cuda_build": True}


def versions_of(stack: Mapping[str, Any]) -> dict[str, str]:
    """Return {name as indexes write it: pinned version} of the stack's packages."""
    return {canonical(package): str(version) for package, version in (stack.get("packages") or {}).items()}


def misfits(stack: Mapping[str, Any], known_good: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return why the versions of a stack cannot work together, naming both and the one that is needed.

    known_good: compatible versions, each {torch, ipex, oneccl: versions, * for any; python: [first, last] minor version
    with wheels of all three}. Of versions that none of them names only the first two numbers must agree.
    """
    problems = []
    have = versions_of(stack)
    sets = list(known_good)
    torch = have.get("torch", "").partition("+")[0]
    for package, key in KEYS.items():
        version = have.get(package, "").partition("+")[0]
        if not version:
            continue
        if not torch:
            problems.append(f"{package} {version} needs torch, which is not among the packages")
            continue
        right = [row[key] for row in sets if _same(torch, row["torch"])]
        of_it = [row["torch"] for row in sets if _same(version, row[key])]
        if (
            (right and not any(_same(version, known) for known in right))
            or (of_it and not any(_same(torch, known) for known in of_it))
            or _minor(torch) != _minor(version)
        ):
            hint = f"torch {torch} needs {package} {' or '.join(right)}" if right else ""
            other = f"{package} {version} needs torch {' or '.join(dict.fromkeys(of_it))}" if of_it else ""
            fits = "; ".join(filter(None, [hint, other])) or (
                f"torch {torch} needs {package} {'.'.join(map(str, _minor(torch)))}.x"
            )
            problems.append(f"torch {torch} and {package} {version} are incompatible: {fits}")
    rows = [
        row
        for row in sets
        if _same(torch, row["torch"])
        and any(_same(have.get(package, "").partition("+")[0], row[key]) for package, key in KEYS.items())
    ]
    if rows:  # of a mixture of two sets, both must have wheels
        first = max((row["python"][0] for row in rows), key=_minor)
        last = min((row["python"][1] for row in rows), key=_minor)
        outside = [version for version in stack["python"] if not _minor(first) <= _minor(version) <= _minor(last)]
        if outside:
            problems.append(
                f"torch {torch}, {arguments.IPEX} and {BINDINGS} have wheels for Python {first} to {last}, not for "
                f"{', '.join(outside)}"
            )
    return problems + _backend_misfits(stack, have)


def _backend_misfits(stack: Mapping[str, Any], have: Mapping[str, str]) -> list[str]:
    """Return why the packages of a stack do not provide its backend."""
    problems = []
    backend = stack["backend"]
    if "transformers" in have:
        try:
            arguments.by_version(have, backend)
        except ValueError as error:
            problems.append(str(error))
    # An environment of one's own may use Intel MPI of oneAPI.
    if backend == "mpi" and (MPI4PY not in have or ("impi-rt" not in have and not stack.get("path"))):
        problems.append("backend mpi is not available without mpi4py and impi-rt: add them, or take backend gloo")
    if backend == "ccl":
        if stack.get("bindings") not in BINDING_MODULES:
            problems.append(f"backend ccl needs bindings: one of {', '.join(BINDING_MODULES)}")
        if not {BINDINGS, "torch-ccl"} & set(have):
            problems.append("backend ccl is not available without oneccl-bind-pt: add it, or take backend gloo")
        accelerate = have.get("accelerate")
        if accelerate and arguments.number(accelerate) >= arguments.ACCELERATE_CCL_GONE:
            problems.append(
                f"accelerate {accelerate} does not have the backend ccl: 1.12.0 is the last version that does"
            )
    return problems


def _same(version: str, pattern: str) -> bool:
    """Return whether a version is the one of a known-good set: 1.13 is 1.13.0, and * stands for anything."""
    return fnmatch.fnmatchcase(version, str(pattern)) or fnmatch.fnmatchcase(f"{version}.0", str(pattern))


def _minor(version: str) -> tuple[int, ...]:
    return arguments.number(version)[:2]
