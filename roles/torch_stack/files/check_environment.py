"""Check an environment from within: run by its own interpreter, with the versions it should have as JSON.

Prints one JSON object on the last line: {"problems": ["what; what to do", ...]}.
"""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path


def wrong_versions(wanted: dict[str, str]) -> list[str]:
    """Compare what is installed with `wanted` ({name: version})."""
    problems = []
    for name, version in sorted(wanted.items()):
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            problems.append(f"{name} {version} is not installed; run site.yml again")
            continue
        if found != version:
            problems.append(
                f"{name} is {found} and should be {version}; another package replaced it, run site.yml again"
            )
    names = (distribution.metadata["Name"] or "" for distribution in importlib.metadata.distributions())
    cuda = sorted(name for name in names if name.lower().startswith("nvidia"))
    if cuda:
        problems.append(
            f"CUDA packages are installed ({', '.join(cuda)}); torch must be pinned to its CPU build (+cpu)"
        )
    return problems


def broken_torch() -> list[str]:
    """Import what a rank imports, and multiply two matrices in bfloat16."""
    try:
        import torch
        import torch.distributed
        from transformers import Trainer  # noqa: F401  transformers imports little until a name is taken from it

        if not torch.distributed.is_gloo_available():
            return [f"torch {torch.__version__} has no gloo backend; take a build that has it"]
        product = torch.ones(64, 64, dtype=torch.bfloat16) @ torch.ones(64, 64, dtype=torch.bfloat16)
        if product.float().sum().item() != 64.0**3:
            return [f"torch {torch.__version__} multiplies bfloat16 matrices wrongly on this CPU"]
    except Exception as error:  # whatever an import raises is what the user must be told
        return [f"torch and transformers do not work: {type(error).__name__}: {error}"]
    return []


def broken_tools(prefix: Path) -> list[str]:
    """Look for Intel's OpenMP run time, and start two processes with Intel MPI."""
    problems = []
    if not (prefix / "lib" / "libiomp5.so").exists():
        problems.append(
            f"{prefix}/lib/libiomp5.so is missing; KMP_* variables mean nothing without Intel's OpenMP run time"
        )
    command = [
        str(prefix / "bin" / "mpirun"),
        "-n",
        "2",
        "-hosts",
        "localhost",
        str(prefix / "bin" / "python"),
        "-S",
        "-c",
    ]
    command.append("import os; print(os.environ['PMI_RANK'], os.environ['PMI_SIZE'])")
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [*problems, f"Intel MPI's mpirun does not start: {error}"]
    if sorted(ran.stdout.split("\n")) != ["", "0 2", "1 2"]:
        said = " ".join((ran.stderr or ran.stdout).split())[-400:]
        problems.append(
            f"Intel MPI's mpirun did not start two processes on this host (exit code {ran.returncode}): {said}"
        )
    return problems


if __name__ == "__main__":
    found = wrong_versions(json.loads(sys.argv[1])) + broken_torch() + broken_tools(Path(sys.prefix))
    print(json.dumps({"problems": found}))
