# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Submit a job on a login host: write its directory, which all nodes share, and hand its script to sbatch."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _io, _ownership
from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory, placing
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Plan
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run
from ansible_collections.amx.cluster.plugins.module_utils._jobs.slurm import queue, script
from ansible_collections.amx.cluster.plugins.module_utils._text import now

# Seconds in which Slurm is asked whether it has accepted a job, where it did not say so; and how long it has answered
# without one until it has not.
UNSURE, SETTLED = 60.0, 10.0
LOST_ANSWER = re.compile("timed out|Zero Bytes|Unexpected message|reset by peer", re.IGNORECASE)
# The option by which a job begins after another one, which it continues.
AFTER = "--dependency=afterany:"
# In the job directory: what the plan is made from in the allocation, see start_request.Start.
PLANNING = "slurm.json"


def files(run: Run, planning: Mapping[str, Any], directory: str) -> dict[str, str]:
    """Return the files of a job that is submitted, by name. directory: of the job. planning: as Start has it."""
    plan = Plan(job=run.job.name, environment=planning["environment"], runtime=planning["runtime"])
    request = script.requested(run.settings.slurm or {}, run.job)
    return {
        "job.json": json.dumps(run.to_json(), indent=1) + "\n",
        PLANNING: json.dumps({**planning, "signal": script.signal_seconds(request)}, indent=1) + "\n",
        # By which others know what the job needs until it has a plan.
        "plan.json": json.dumps(plan.to_json(), indent=1) + "\n",
        script.NAME: script.batch_script(
            request, run.job, directory, planning["environment"], planning["runtime"], run.settings.start
        ),
    }


def submit(placement: placing.Placement, run: Run, umask: int) -> dict[str, Any]:
    """Submit a job; return {path, moved_to: where the previous run is now, id: of its Slurm job}.

    umask: the one with which scripts run. Raises ValueError where Slurm does not accept it; then all is as it was.
    """
    path = Path(placement.path)
    moved = placing.place(placement, placement.head, keep_replaced=True)
    os.umask(umask)
    try:
        job = sbatch(path, run)
    except BaseException:  # also Ctrl-C
        directory.restore(path, placement.start)
        raise
    new = path / ".status.json"
    _io.write_json(new, first_status(run, job), 0o600)
    with contextlib.suppress(FileExistsError):  # its supervisor was faster
        os.link(new, path / "status.json")
    new.unlink()
    moved_to = moved["moved_to"]
    if moved_to and not placement.keep_previous and directory.is_derived(Path(moved_to)):
        with contextlib.suppress(OSError):  # the job is submitted
            _ownership.remove(Path(moved_to))
        moved_to = ""
    return {"path": str(path), "moved_to": moved_to, "id": job}


def first_status(run: Run, job: str) -> dict[str, Any]:
    """Return the status of a job that has not begun. job: the id of its Slurm job."""
    return {
        "job": run.job.name,
        "state": "running",
        "reason": "",
        "pid": 0,
        "started": now(),
        "hosts": script.nodes(run.job),
        "ranks": "",
        "attempts": [],
        "notes": [],
        "slurm": {"id": job},
    }


def sbatch(path: Path, run: Run, *options: str, umask: int = -1) -> str:
    """Submit the script in a job directory; return the id of the Slurm job. Raises ValueError.

    umask: with which the script is to run, by default this process's.
    """
    # In a job, sbatch would take options from the variables of that job.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "SBATCH_"))}
    kept.update({name: value for name, value in os.environ.items() if name == "SLURM_CONF"})
    # What follows the script tells a job that continues another one, whose time is short: it asks nothing before.
    after = [option.rpartition(":")[2] for option in options if option.startswith(AFTER)]
    before = {*after, *_known(path), *((not after and queue.jobs_of(run.job.name, path)) or ())}
    code, output, errors = queue.run(
        "sbatch", "--parsable", *options, str(path / script.NAME), *after, env=kept, cwd=path, umask=umask
    )
    lines = [re.fullmatch(r"(\d+)(;.*)?", line.strip()) for line in output.splitlines()]
    ids = [match[1] for match in lines if match]  # the site's own sbatch may print more
    if not code and ids:
        return ids[-1]
    if code and not LOST_ANSWER.search(errors):
        raise ValueError(script.refusal(errors, run.job))
    job = _accepted(path, run.job.name, before)
    if not job:
        raise ValueError(script.refusal(errors if code else f"sbatch printed no id of a job: {output[-200:]}", run.job))
    return job


def _known(path: Path) -> set[str]:
    """Return the ids of Slurm jobs that the statuses of a job and of its previous runs name."""
    known = set()
    for status in (path / "status.json", *path.parent.glob(f"{path.name}.*/status.json")):
        with contextlib.suppress(OSError):  # another user's
            document = _io.read_json(status) or {}
            known |= {queue.id_of(document), *queue.earlier(document)}
    return known


def _accepted(path: Path, name: str, before: set[str]) -> str:
    """Return the id of the Slurm job that was submitted just now, though Slurm did not say so; empty for none.

    before: the ids that there were. Raises ValueError where Slurm does not answer.
    """
    end, quiet = time.monotonic() + UNSURE, time.monotonic() + SETTLED
    while True:
        jobs = queue.jobs_of(name, path)
        new = [job for job in jobs or [] if job not in before]
        if new or (jobs is not None and time.monotonic() > quiet):
            return max(new, key=lambda job: (len(job), job), default="")
        if time.monotonic() > end:
            raise ValueError(
                f"Slurm has not said whether it accepted job {name}. If squeue --name={name} shows one later, it ends "
                "at its begin without a change; start the job again then"
            )
        time.sleep(1)
