# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Paths in a pod, and the contents of its image and its ConfigMap."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._data import project
from ansible_collections.amx.cluster.plugins.module_utils._io import read_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import provided
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.kubernetes import POD
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes import interface
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.interface import JOB, PREFIX, SCRATCH, STORAGE
from ansible_collections.amx.cluster.plugins.module_utils._stacks import requirements, venv

OUTCOME = 3000  # bytes of a termination message at most


@dataclass(frozen=True)
class Places:
    """Paths in a pod."""

    prefix: Path = Path(PREFIX)
    job: Path = Path(JOB)
    storage: Path = Path(STORAGE)
    scratch: Path = Path(SCRATCH)
    termination: Path = Path("/dev/termination-log")

    @property
    def env(self) -> Path:
        return self.prefix / "env"

    @property
    def programs(self) -> Path:
        return self.prefix / "programs"

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Places:
        """Return the places that AMX_CLUSTER_PLACES names, with colons between, else the usual ones."""
        given = environ.get("AMX_CLUSTER_PLACES", "")
        return cls(*map(Path, given.split(":"))) if given else cls()


@dataclass(frozen=True)
class Job:
    """Contents of the ConfigMap: the run, and what was derived for its pods (Derived.for_pods)."""

    run: Run
    derived: dict[str, Any]

    @classmethod
    def read(cls, directory: Path) -> Job:
        """Return the job in a directory. Raises ValueError where it is not complete."""
        run, derived = (read_json(directory / name) for name in ("job.json", "kubernetes.json"))
        if run is None or derived is None:
            raise ValueError(
                f"{directory} has no job.json and kubernetes.json: the pod has no ConfigMap of a job there"
            )
        return cls(Run.from_json(run), derived)

    @property
    def directory(self) -> str:
        """The name of its directory on the volume: another job file, or another start, gives another one."""
        return f"{self.derived['name']}-{self.run.settings.start}"

    def kept(self, places: Places) -> Path:
        """Return its directory on the volume."""
        return places.storage / "jobs" / self.directory


def say(text: str) -> None:
    sys.stdout.write(f"amx.cluster: {text}\n")
    sys.stdout.flush()


def stack_of_image(places: Places, job: Job) -> dict[str, Any]:
    """Return the stack in the image. Raises ValueError for an image without it, or with another one."""
    try:
        stack = venv.marker(places.env)
    except ValueError:
        raise ValueError(
            f"this image has no virtual environment of the collection at {places.env}: build one with "
            "playbooks/image.yml, and name it in cluster_kubernetes"
        ) from None
    warning = interface.skew(job.derived)
    if warning:
        say(f"warning: {warning}")
    if stack["name"] != job.derived["stack"]:
        raise ValueError(
            f"this image has stack {stack['name']} and the job was rendered for {job.derived['stack']}: build the "
            "image again with playbooks/image.yml, or set cluster_stack and render the job again"
        )
    missing = missing_packages(places.env, job.run.job.requirements)
    if missing:
        raise ValueError(
            f"this image does not have {', '.join(missing)}, which the job requires: build it with image_packages, "
            "see docs/kubernetes.md"
        )
    return stack


def missing_packages(env: Path, wanted: Sequence[str]) -> list[str]:
    """Return those of NAME==VERSION that a virtual environment does not have."""
    path = [str(directory) for directory in env.glob("lib/python3*/site-packages")]
    have = {
        requirements.canonical(distribution.metadata["Name"] or ""): distribution.version
        for distribution in importlib.metadata.distributions(path=path)
    }
    pins = ((text, *text.partition("==")[::2]) for text in wanted)
    return [text for text, name, version in pins if have.get(requirements.canonical(name.partition("[")[0])) != version]


def make_directory(places: Places, job: Job) -> Path:
    """Make the directory in which a pod's ranks run: its own on SCRATCH, with links to what is shared. Returns it."""
    kept = job.kept(places)
    (kept / "output").mkdir(parents=True, exist_ok=True)
    (kept / "data").mkdir(exist_ok=True)
    here = places.scratch / "jobs" / job.derived["name"]
    shutil.rmtree(here, ignore_errors=True)
    here.mkdir(parents=True)
    links = {
        **{name: kept / name for name in project.WRITTEN},
        **{path: places.storage / name for path, name in of_volume(job.run).items()},
        "transformers": places.prefix / "transformers",
    }
    shown = job.derived.get("project") or {}
    for path in places.job.iterdir():
        if path.name not in (project.DIRECTORY, *links) and not path.name.startswith("."):
            links[path.name] = path
    if shown:
        shutil.copytree(places.job / project.DIRECTORY, here / project.DIRECTORY)
        for path in shown.get("executable", ()):
            (here / project.DIRECTORY / path).chmod(0o700)
        for path, target in shown.get("links", {}).items():
            link = here / project.DIRECTORY / path
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(target)
        links.update({f"{project.DIRECTORY}/{name}": here / name for name in shown["shared"]})
    for name, target in links.items():
        link = here / name
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink() and not link.exists():
            link.symlink_to(target)
    return here


def of_volume(run: Run) -> dict[str, str]:
    """Return {path in the job directory: path on the volume} of a job's models, data and metrics."""
    return provided.paths(run.to_json()["job"])


def write_outcome(places: Places, state: str, reason: str, environ: Mapping[str, str]) -> None:
    """Write how this pod has ended to where Kubernetes reads its termination message (at most 4096 bytes)."""
    outcome = {
        "version": 1,
        "state": state,
        "reason": reason,
        "pod": environ.get(POD, ""),
        "node": environ.get("AMX_CLUSTER_NODE", ""),
    }
    text = json.dumps(outcome)
    if len(text) > OUTCOME:
        text = json.dumps({**outcome, "reason": reason.encode("ascii", "replace").decode()[: OUTCOME // 2] + " ..."})
    with contextlib.suppress(OSError):
        places.termination.write_text(text, encoding="utf-8")
