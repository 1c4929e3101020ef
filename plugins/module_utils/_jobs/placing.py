# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the directory of a job on one host, complete or not at all, beside the one that it replaces."""

from __future__ import annotations

import contextlib
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._documents import Document
from ansible_collections.amx.cluster.plugins.module_utils._io import disk_problem
from ansible_collections.amx.cluster.plugins.module_utils._jobs import checkpoints, directory
from ansible_collections.amx.cluster.plugins.module_utils._jobs.slurm import queue


@dataclass(frozen=True)
class Placement(Document):
    """Contents of the directory of a job on every host.

    path: of the directory. head, start: of the run. files: {path in it: content}. links: {path in it: target} of the
    hosts that are not in links_of, which has those of single ones. project: as project.Project.to_json returns it;
    store: the directory with the contents of its files. secrets: {variable: value}. keep_previous: whether the
    directory of the previous run is moved aside; that of a derived job is replaced otherwise. resume: whether the run
    resumes from a checkpoint of it. data_of: the job directory whose prepared data are linked. predicts: whether the
    job is a prediction, of which the chunks of earlier starts are linked. served: whether a server that runs in it
    takes this version. known: the jobs of the head, as
    directory.jobs returns them. undone: the start that never began, by what the head has found.
    """

    path: str
    head: str
    start: str
    files: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    links_of: dict[str, dict[str, str]] = field(default_factory=dict)
    project: dict[str, Any] = field(default_factory=dict)
    store: str = ""
    secrets: dict[str, str] = field(default_factory=dict)
    keep_previous: bool = True
    resume: bool = False
    data_of: str = ""
    predicts: bool = False
    served: bool = False
    known: list[Any] = field(default_factory=list)
    undone: str = ""


def place(placement: Placement, host: str, keep_replaced: bool = False) -> dict[str, Any]:
    """Write the directory on this host; return {moved_to: of the previous run, chunks: numbers of those linked,
    undone: the start that never began and was undone before}.

    host: this host's name in the inventory. keep_replaced: whether that of a derived job is only moved aside, too.
    Raises ValueError where that cannot be; then nothing is changed.
    """
    path = Path(placement.path)
    if not placement.served:
        check_unused(path, host)
    # Secrets stay where a host did not answer at the end of its job: the head knows at once that it has ended.
    with contextlib.suppress(OSError):
        directory.remove_ended_secrets(path.parent, host, placement.known)
    start = placement.start if placement.keep_previous else ""
    try:
        with directory.replacing(path, host, start, placement.undone, placement.served) as undone:
            if placement.resume and host == placement.head:
                _check_checkpoints(path)
            aside = _write(placement, path, host, keep_replaced)
    except OSError as error:
        with contextlib.suppress(OSError):
            directory.restore(path, placement.start)
        full = disk_problem(str(error), host, str(path.parent))
        raise ValueError(
            f"the job directory {path} cannot be created: {full or _ownership.denied(error) or error}"
        ) from None
    try:
        linked = _link_earlier(placement, path)
    except (OSError, ValueError) as error:
        directory.restore(path, placement.start)
        raise ValueError(str(error)) from None
    return {"moved_to": str(aside) if aside else "", "chunks": linked, "undone": undone}


def check_unused(path: Path, host: str) -> None:
    """Raise ValueError where the job in a directory runs, or has left processes on this host."""
    status = directory.running(path)
    if status:
        job = queue.id_of(status)
        where = f"Slurm job {job}" if job else f"process {status['pid']} on its head"
        raise ValueError(
            f"the job {status['job']} is running since {status['started']} ({where}): "
            f"follow it with playbooks/logs.yml -e job={path.name}, wait for its end, or give this job another name"
        )
    if directory.is_in_use(path, host):
        raise ValueError(
            f"orphaned processes of the previous run in {path} are on this host: end them with "
            f"playbooks/stop.yml -e job={path.name}, or give this job another name"
        )


def _check_checkpoints(path: Path) -> None:
    """Raise ValueError where no run can be resumed in a job directory."""
    if checkpoints.last_marked(path / "output"):
        return
    refused = [(saved.name, checkpoints.refusal(saved)) for saved in checkpoints.directories(path / "output")]
    why = "".join(f" ({name}: {reason})" for name, reason in refused[:1] if reason)
    raise ValueError(
        f"{path} has no complete checkpoint to resume from{why}: start the job from the beginning, without resume"
    )


def _write(placement: Placement, path: Path, host: str, keep_replaced: bool) -> Path | None:
    """Write the directory; return where the previous run was moved to. Raises OSError and ValueError."""
    replaced = not keep_replaced and not placement.keep_previous and directory.is_derived(path)
    aside = directory.set_aside(path)
    links = placement.links_of.get(host, placement.links)
    if placement.served and aside and directory.running(path):
        # Until the server takes this version, its status is found under the job's name all the same.
        links = {**links, "status.json": f"../{aside.name}/status.json"}
    directory.create(
        path,
        {**placement.files, "host": f"{host}\n"},
        links,
        checkpoints.directories(path / "output") if aside and placement.resume else [],
        placement.secrets,
        (placement.project, Path(placement.store)) if placement.project else None,
        directory.JOB if placement.keep_previous else directory.DERIVED,
        aside,
    )
    if aside and replaced:
        _ownership.remove(aside)
        return None
    if aside and _ownership.is_own(aside):
        directory.close(aside)
    return aside


def _link_earlier(placement: Placement, path: Path) -> list[int]:
    """Link what earlier runs have made; return the numbers of the chunks among it. Raises OSError and ValueError."""
    if placement.data_of:
        if (path / "data").is_symlink():
            (path / "data").unlink()
        options = ["--archive", "--link", "--remove-destination", "--no-target-directory"]
        words = ["cp", *options, f"{placement.data_of}/data", f"{path}/data"]
        copied = subprocess.run(words, capture_output=True, text=True, check=False)
        if copied.returncode:
            raise ValueError(f"the prepared data of {placement.data_of} cannot be linked: {copied.stderr.strip()}")
    if not placement.predicts:
        return []
    from ansible_collections.amx.cluster.plugins.module_utils._jobs import (  # slow to import
        inference_requests,
        prediction_files,
    )

    try:
        return prediction_files.carry_over(path, inference_requests.of_job(path).get("digest", ""))
    except (OSError, ValueError) as error:
        raise ValueError(f"the chunks of {path} cannot be linked: {error}") from None
