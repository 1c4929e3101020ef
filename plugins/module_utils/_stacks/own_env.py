# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An environment of the user's own that is there already (torch_stack_env): what it has, and the stack that this makes.

Nothing is written into it. PREFIX/envs/NAME is a view: a directory of the collection with a link to each entry of the
environment, and the marker; so jobs, checks and a reset find what they find of one that was installed.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._stacks import arguments, catalogue, venv
from ansible_collections.amx.cluster.plugins.module_utils._stacks.requirements import canonical

NAME = "own"
# What a stack pins, of which jobs, arguments and checks depend.
PACKAGES = (
    "torch", "transformers", "accelerate", "datasets", "evaluate", "peft", "scikit-learn", "numpy", "mpi4py", "impi-rt",
    "intel-openmp", arguments.IPEX, catalogue.BINDINGS, "torch-ccl", "tbb", "pip", "setuptools",
)  # fmt: skip
NEEDED = ("torch", "transformers", "accelerate")
OPENMP = "lib/libiomp5.so"
ENVIRONMENT = "environment"
PROGRAM = f"""
import importlib.metadata, importlib.util, json, sys
found = {{}}
for each in importlib.metadata.distributions():
    name = each.metadata["Name"]
    if name:
        found.setdefault(name, each.version)
bindings = [name for name in {catalogue.BINDING_MODULES} if importlib.util.find_spec(name)]
print(json.dumps(["%d.%d" % sys.version_info[:2], bindings, found]))
"""


def describe(path: Path, script: Path) -> dict[str, Any]:
    """Return what the environment at `path` has on this host: {problem, python, bindings, packages, mpi, openmp}.

    problem: why it cannot be read, with what to do; without the others then. python: its minor version. bindings: the
    module of oneCCL, or "". packages: {package: version} of PACKAGES. mpi: where Intel MPI comes from: ENVIRONMENT,
    the script (vars.sh of Intel MPI of oneAPI) or "". openmp: whether Intel's OpenMP runtime is at OPENMP.
    """
    python = path / "bin" / "python"
    if not path.is_dir():
        return {"problem": f"{path} does not exist: create the same environment there as on the other hosts"}
    try:
        ran = subprocess.run(
            [str(python), "-c", PROGRAM],
            cwd=path,
            env={**venv.without_paths(), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        version, bindings, packages = json.loads(ran.stdout)
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"problem": f"{python} does not run ({error}): set torch_stack_env to an environment with bin/python"}
    except ValueError:
        reason = (ran.stderr.strip().splitlines() or [f"exit code {ran.returncode}"])[-1]
        return {"problem": f"{python} does not run ({reason}): repair the environment there"}
    versions = {canonical(name): str(number) for name, number in packages.items()}
    inside = (path / "bin/mpiexec.hydra").exists() or bool(bindings)
    return {
        "problem": "",
        "python": version,
        "bindings": bindings[0] if bindings else "",
        "packages": {name: versions[name] for name in PACKAGES if name in versions},
        "mpi": ENVIRONMENT if inside else (str(script) if script.is_file() else ""),
        "openmp": (path / OPENMP).exists(),
    }


def stack(
    path: str,
    hosts: Mapping[str, Mapping[str, Any]],
    known_good: Iterable[Mapping[str, Any]],
    backend: str = "auto",
) -> dict[str, Any]:
    """Return the stack that an environment makes, in the form of a catalogue's entry that was chosen.

    hosts: what describe returned on each, the head first. known_good: see catalogue.misfits. backend: the one that the
    inventory requests (cluster_backend). Raises ValueError that lists each host, what is missing or differs, and what
    to do.
    """
    wrong = [f"{host}: {env['problem']}" for host, env in hosts.items() if env["problem"]]
    read = {host: env for host, env in hosts.items() if not env["problem"]}
    for host, env in read.items():
        wrong += [f"{host}: {text}" for text in _missing(path, env)]
    if read:
        wrong += _differences(path, read)
    if wrong:
        raise ValueError(_refused(path, wrong))
    first = next(iter(read.values()))
    made = {
        "name": NAME,
        "path": path,
        "python": [first["python"]],
        "interpreter": first["python"],
        "backend": _backend(first),
        "packages": dict(first["packages"]),
        "mpi_script": "" if first["mpi"] == ENVIRONMENT else first["mpi"],
        # A build for GPUs is the user's choice; it computes on CPUs as well.
        "cuda_build": True,
        **({"bindings": first["bindings"]} if first["bindings"] else {}),
    }
    wrong = catalogue.misfits(made, known_good)
    there = catalogue.BACKENDS[made["backend"]]
    if backend not in ("auto", *there):
        wrong.append(
            f"cluster_backend is {backend}, and this environment has {', '.join(there)}: install "
            f"{'oneccl-bind-pt' if backend == 'ccl' else 'mpi4py and impi-rt'} on every host, or change cluster_backend"
        )
    if wrong:
        raise ValueError(_refused(path, wrong))
    made["arguments"] = arguments.by_version(made["packages"], made["backend"])
    # Another one where a package was changed: it is checked anew then.
    digest = hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()[:12]
    made["key"] = f"cp{first['python'].replace('.', '')}-{digest}"
    return made


def _refused(path: str, wrong: Iterable[str]) -> str:
    return "\n- ".join([f"The environment {path} (torch_stack_env) cannot be used; nothing was changed:", *wrong])


def _missing(path: str, env: Mapping[str, Any]) -> list[str]:
    """Return what a host's environment does not have, with what to do."""
    wrong = []
    packages = [name for name in NEEDED if name not in env["packages"]]
    if packages:
        wrong.append(f"{', '.join(packages)} not installed: run {path}/bin/python -m pip install {' '.join(packages)}")
    if not env["openmp"]:
        wrong.append(f"{path}/{OPENMP} (Intel's OpenMP runtime) is missing: install the package intel-openmp there")
    if not env["mpi"]:
        wrong.append(
            "Intel MPI is missing: install the package impi-rt into the environment, or set torch_stack_env_mpi to "
            "vars.sh of Intel MPI on the host"
        )
    return wrong


def _differences(path: str, hosts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return which hosts differ from the first one, in what ranks of one job must have the same."""
    wrong = []
    head, first = next(iter(hosts.items()))
    for host, env in hosts.items():
        pairs = [("Python", first["python"], env["python"])]
        pairs += [
            (name, first["packages"].get(name, "none"), env["packages"].get(name, "none"))
            for name in PACKAGES
            if name != "pip"
        ]
        pairs.append(("Intel MPI", first["mpi"] or "none", env["mpi"] or "none"))
        different = [f"{subject} {there} instead of {usual}" for subject, usual, there in pairs if usual != there]
        if different:
            wrong.append(f"{host} has {', '.join(different)} on {head}: install the same in {path} on both")
    return wrong


def _backend(env: Mapping[str, Any]) -> str:
    """Return the best backend that an environment has, as catalogue.BACKENDS orders them."""
    packages = env["packages"]
    usable = arguments.number(packages["transformers"]) < arguments.CCL_CHOICE_GONE
    usable = usable and arguments.number(packages["accelerate"]) < arguments.ACCELERATE_CCL_GONE
    if env["bindings"] and {catalogue.BINDINGS, "torch-ccl"} & set(packages) and usable:
        return "ccl"
    return "mpi" if catalogue.MPI4PY in packages else "gloo"


def view(env: Path, path: Path, check: bool = False) -> bool:
    """Make the view `env` of the environment at `path`; return whether it was not there as it is to be.

    check: only return that. Raises ValueError when something else is in its place, and OSError.
    """
    wanted = {each.name: str(each) for each in path.iterdir() if each.name not in (venv.MARKER, _ownership.MARK)}
    there = {each.name: str(each.readlink()) for each in env.iterdir() if each.is_symlink()} if env.is_dir() else {}
    if wanted == there and _ownership.is_own(env):
        return False
    if check:
        return True
    _ownership.claim(env, "view of an environment")
    for name in there:
        (env / name).unlink()
    for name, target in wanted.items():
        (env / name).symlink_to(target)
    return True
