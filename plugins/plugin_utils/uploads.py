# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Upload fetched results from the control node to what keeps the runs of many people. No host is contacted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ansible_collections.amx.cluster.plugins.module_utils._jobs import mlflow_run
from ansible_collections.amx.cluster.plugins.plugin_utils import screen

TARGETS = ("mlflow", "wandb")


def wandb() -> str:
    """Return the program of Weights & Biases, that of this Python first. Raises ValueError where there is none."""
    program = shutil.which("wandb", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if not program:
        raise ValueError(
            f"upload=wandb: the package wandb is missing on the control node: run {sys.executable} -m pip install wandb"
        )
    return program


def of(target: str) -> Callable[[Path], bool]:
    """Return what uploads the results of a job, which it takes the directory of; it returns whether it sent anything.

    target: one of TARGETS; empty for no upload. Raises ValueError where the upload cannot be made, and so does what is
    returned.
    """
    if not target:
        return lambda _results: False
    if target not in TARGETS:
        raise ValueError(f"upload: {target!r} is not one of {', '.join(TARGETS)}")
    if target == "mlflow":
        return partial(_to_mlflow, mlflow_run.check(os.environ))
    return partial(_to_wandb, wandb())


def _to_mlflow(server: mlflow_run.Server, results: Path) -> bool:
    done = mlflow_run.upload(server, results, os.environ.get(mlflow_run.EXPERIMENT, ""))
    screen.show(f"{'Uploaded' if done.made else 'Was uploaded before'}: {done.url}")
    return done.made


def _to_wandb(program: str, results: Path) -> bool:
    """Run `wandb sync` on offline runs; synced runs are marked."""
    runs = sorted(map(str, (results / "output/wandb").glob("offline-run-*")))
    if not runs:
        raise ValueError(
            f"upload=wandb: {results / 'output/wandb'} has no offline run: set report_to: wandb under args, and "
            "wandb==VERSION under requirements, in the job file (docs/curves.md)"
        )
    ran = subprocess.run(
        [program, "sync", *runs],
        cwd=results,  # it writes a log of its own there
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if ran.returncode:
        raise ValueError(
            f"upload=wandb: {program} sync failed with exit code {ran.returncode}:\n{ran.stdout.strip()[-2000:]}"
        )
    screen.show(ran.stdout.strip())
    return True
