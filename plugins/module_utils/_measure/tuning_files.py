# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The winner of a tuning in the job file, or in the variables of an inventory: the diff, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _io
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import load
from ansible_collections.amx.cluster.plugins.module_utils._jobs.requests import CORES
from ansible_collections.amx.cluster.plugins.module_utils._measure import job_text, tuning
from ansible_collections.amx.cluster.plugins.module_utils._measure.tuning_request import VARIED

# The variables of the group cluster, in the directory of an inventory.
VARIABLES = Path("group_vars", "cluster.yml")


@dataclass(frozen=True)
class Change:
    """Change of a file: the diff, and its text after it. name: of the file in the diff."""

    path: Path
    name: str
    diff: str
    after: str


def diff(state: tuning.Tuning, job: Job) -> str:
    """Return the diff that makes the winner of a job file; empty where there is none. Raises as changes() does."""
    return "".join(change.diff for change in changes(state, job))


def changes(state: tuning.Tuning, job: Job, variables: Path | None = None) -> list[Change]:
    """Return how the files are to be changed that make the winner of a job; none where nothing was faster.

    variables: the inventory's file, if its settings are to be there; what keeps the global batch stays in the job
    file. Raises OSError, and ValueError where a file cannot be changed by lines.
    """
    fields = tuning.changes(state, job)
    changed = []
    if variables is not None:
        of_inventory = tuning.variables(fields)
        fields = {name: value for name, value in fields.items() if name not in VARIED}
        changed.append(_change(variables, f"{variables.parent.name}/{variables.name}", of_inventory))
    return [change for change in (*changed, of_job(job, fields)) if change.diff]


def of_job(job: Job, fields: Mapping[str, Any]) -> Change:
    """Return how the job file is to be changed for these fields. Raises as changes() does."""
    return _change(job.file, job.file.name, fields)


def refuse_changed(now: str, then: str, job: Job, path: Path) -> None:
    """Raise ValueError where the job file is another one than the tuning in `path` was of. now, then: the diffs."""
    if now != then:
        raise ValueError(f"{job.file} has been changed since it was tuned: apply the diff in {path} yourself")


def write(changes: Sequence[Change], job: Job, dry: bool) -> str:
    """Write the files, unless it is a dry run, and return their names. Raises OSError; ValueError if no job is left."""
    if changes and not dry:
        for change in changes:
            _io.write_text(change.path, change.after, change.path.stat().st_mode & 0o777)
        load(job.file)  # it must still be one
    return ", ".join(str(change.path) for change in changes)


def _change(path: Path, name: str, fields: Mapping[str, Any]) -> Change:
    if not fields:
        return Change(path, name, "", "")
    before = path.read_text(encoding="utf-8")
    try:
        after = job_text.changed(before, fields)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return Change(path, name, job_text.diff(before, after, name), after)


def variables_file(sources: Sequence[str]) -> Path:
    """Return group_vars/cluster.yml of the inventory. sources: ansible_inventory_sources. Raises ValueError."""
    places = [Path(source).expanduser().absolute() for source in sources if "," not in source]
    places = [(place if place.is_dir() else place.parent) / VARIABLES for place in places]
    for place in dict.fromkeys(places):
        if place.is_file():
            return place
    looked = f"there is no {', '.join(map(str, dict.fromkeys(places)))}" if places else "the inventory is no file"
    raise ValueError(
        f"write_to: inventory: {looked}: make that file for the variables of the group cluster, see "
        "inventories/example/group_vars/cluster.yml, or leave write_to=inventory out"
    )


def unheeded(job: Job, vary: Sequence[str]) -> str:
    """Return why the settings of an inventory would not reach a job; an empty string where they do."""
    own = [name for name in CORES if getattr(job, name) != Job.__dataclass_fields__[name].default]
    own = own if any(name in vary for name in CORES) else []
    own += ["backend"] if job.backend != "auto" and "backend" in vary else []
    own += ["optimize"] if job.optimize is not None and "optimize" in vary else []
    if not own:
        return ""
    return (
        f"write_to: inventory: {job.file} sets {', '.join(own)}, and a job that does takes none of these from the "
        f"inventory: remove {'them' if own[1:] else 'it'} there, add -e vary=... with other settings, or leave "
        "write_to=inventory out"
    )
