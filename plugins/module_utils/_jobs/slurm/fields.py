# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Request of a job to Slurm: cluster_slurm of the inventory, and the field slurm of job files, which wins."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._forms import (
    Field,
    Form,
    Place,
    check_fields,
    list_of,
    matching,
    schema_of_fields,
    text,
    type_name,
    whole,
)
from ansible_collections.amx.cluster.plugins.module_utils._hosts.slurm import TIME

EXAMPLE = '{partition: cpu, account: nlp, time: "8:00:00"}'
# Without what the shell-like lines of a script would divide.
OPTION = re.compile(r"--([a-z][a-z-]*)(=[^\s'\"\\#]+)?")
# Options of sbatch that extra cannot have, and what sets them.
SETTLED = {
    **dict.fromkeys(("nodes", "nodelist", "nodefile"), "hosts of the job file"),
    **dict.fromkeys(("partition", "account", "qos", "time"), "the field of that name"),
    **dict.fromkeys(("cpus-per-task", "exclusive", "mincpus"), "cpus; without it the job gets whole nodes"),
    **dict.fromkeys(
        (
            *("ntasks", "ntasks-per-node", "ntasks-per-core", "ntasks-per-socket", "tasks-per-node", "cpu-bind"),
            *("distribution", "hint", "threads-per-core", "cores-per-socket", "sockets-per-node", "extra-node-info"),
            *("overcommit", "oversubscribe"),
        ),
        "the plan, which is made from the CPUs that Slurm gives",
    ),
    **dict.fromkeys(("requeue", "no-requeue"), "restarts of the job file"),
    **dict.fromkeys(("job-name", "output", "error", "open-mode", "chdir", "input"), "the job directory"),
    **dict.fromkeys(
        (
            *("array", "batch", "dependency", "export", "export-file", "kill-on-invalid-dep", "no-kill", "parsable"),
            *("signal", "test-only", "wait", "wrap", "clusters", "version", "help", "usage"),
        ),
        "the collection itself",
    ),
}


def _time(value: object, _place: Place) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):  # YAML reads 1:30:00 as a number
        raise ValueError(f'{value!r} is a number to YAML: write it in quotes, such as "90" (minutes) or "1:30:00"')
    if not isinstance(value, str) or not TIME.fullmatch(value):
        raise ValueError(f'{value!r} is not a time such as "90" (minutes), "1:30:00" or "2-00:00:00"')
    return value


def _option(value: str) -> str:
    match = OPTION.fullmatch(value)
    if not match:
        raise ValueError(
            f"{value!r} is not an option of sbatch such as --mem=64G or --constraint=amx, without blanks, quotes and #"
        )
    # sbatch takes the beginning of a name, too.
    name = match[1] if match[1] in SETTLED else next((each for each in SETTLED if each.startswith(match[1])), "")
    if name:
        raise ValueError(f"--{match[1]} is set by {SETTLED[name]}: leave it out")
    return value


_NAME = matching(re.compile(r"[^\s,=#]+"), "a name")
FIELDS = {
    "partition": Field(_NAME, "partition"),
    "account": Field(_NAME, "account that is charged"),
    "qos": Field(_NAME, "quality of service"),
    "time": Field(
        Form({"type": "string", "pattern": f"^{TIME.pattern}$"}, 'text such as `"1:30:00"`', _time),
        "time limit, in quotes; default: the partition's",
    ),
    "cpus": Field(whole(1), "CPUs of each node, as Slurm counts them; default: whole nodes"),
    "extra": Field(
        list_of(text().then(_option), "a list of options of sbatch", "a list"), "further options of `sbatch`"
    ),
}


def _check(value: object, place: Place) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{type_name(value)} where a mapping such as {EXAMPLE} is expected")
    values, errors = check_fields(FIELDS, value, place)
    if errors:
        raise ValueError("; ".join(errors))
    return values


FORM = Form(schema_of_fields(FIELDS), ", ".join(f"`{name}`" for name in FIELDS), _check)


def is_set(value: object) -> bool:
    """Return whether a value of cluster_slurm makes the head a login host of Slurm; an empty mapping does."""
    return value not in (None, False, "")


def of_inventory(value: object) -> dict[str, Any] | None:
    """Return cluster_slurm of an inventory, None where it is not set. Raises ValueError."""
    if not is_set(value):
        return None
    try:
        checked: dict[str, Any] = FORM.check(value, Place())
    except ValueError as error:
        raise ValueError(f"cluster_slurm: {error}") from None
    return checked
