# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

from ansible_collections.amx.cluster.plugins.module_utils._jobs import mlflow_run
from ansible_collections.amx.cluster.plugins.plugin_utils import screen
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction

TARGETS = ("mlflow", "wandb")


def wandb() -> str:
    """Return the program of Weights & Biases, that of this Python first. Raises ValueError where there is none."""
    program = shutil.which("wandb", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if not program:
        raise ValueError(
            f"upload=wandb: the package wandb is missing on the control node: run {sys.executable} -m pip install wandb"
        )
    return program


class ActionModule(ControlNodeAction):
    """Uploads fetched results from the control node, to what keeps the runs of many people. No host is contacted."""

    ARGUMENTS: ClassVar[dict[str, Any]] = {
        "target": {"type": "str", "required": True},
        "job": {"type": "str", "default": ""},
        "results": {"type": "path", "default": "results"},
        # Whether to check only that it can be done.
        "check": {"type": "bool", "default": False},
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        target = options["target"]
        if target not in TARGETS:
            raise ValueError(f"upload: {target!r} is not one of {', '.join(TARGETS)}")
        results = Path(options["results"]).expanduser().absolute() / options["job"]
        if target == "mlflow":
            server = mlflow_run.check(os.environ)
            return {} if options["check"] or self._task.check_mode else self.mlflow(server, results)
        program = wandb()
        return {} if options["check"] or self._task.check_mode else self.wandb(program, results)

    def mlflow(self, server: mlflow_run.Server, results: Path) -> dict[str, Any]:
        done = mlflow_run.upload(server, results, os.environ.get(mlflow_run.EXPERIMENT, ""))
        screen.show(f"{'Uploaded' if done.made else 'Was uploaded before'}: {done.url}")
        return {"changed": done.made, "run": done.run, "url": done.url}

    def wandb(self, program: str, results: Path) -> dict[str, Any]:
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
        return {"changed": True}
