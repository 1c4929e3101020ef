# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measurements on the control node: what a user has requested of one, in one mapping."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._measure.kinds import KINDS
from ansible_collections.amx.cluster.plugins.module_utils._measure.measurement import Cluster, Measurement

# What describes a measurement to all of its actions, documented in doc_fragments/measurement.py.
ARGUMENTS: dict[str, Any] = {
    "kind": {"type": "str", "required": True},
    "request": {"type": "dict", "default": {}},
    "hosts": {"type": "list", "elements": "str", "required": True},
    "results": {"type": "path", "default": "results"},
    "prefix": {"type": "path", "default": ""},
    "backend": {"type": "str", "default": "auto"},
    "cores": {"type": "raw", "default": {}},
    "optimize": {"type": "raw", "default": "auto"},
}
# What a user can set with -e for all measurements.
WITH_ALL = ("job", "override", "again")
# Variables of roles of earlier versions, which had a role for each kind: scale_repeats for repeats of a sweep.
EARLIER_ROLES = {"sweep": "scale_", "tuning": "tune_", "inference": "infer_"}
EARLIER_NAMES = {"tune_tune_batch": "tune_batch_sizes"}


def names(kind: str) -> tuple[str, ...]:
    """Return what a user can set with -e for a measurement of this kind. Raises ValueError."""
    if kind not in KINDS:
        raise ValueError(f"kind: {kind!r} is not one of {', '.join(KINDS)}")
    return (*WITH_ALL, *KINDS[kind].OPTIONS)


def requested(
    options: Mapping[str, Any],
    given: Callable[[str], Any],
    variables: Mapping[str, Any],
    template: Callable[[Any], Any],
) -> dict[str, Any]:
    """Return the options of a measurement, see ARGUMENTS, with all that a user has set in `request`.

    What stands on the command line (given: returns an option of it, or None) wins over the task's own request, and that
    over a variable of an earlier version's role. variables: of the task, of which `template` evaluates a value.
    """
    kind = options["kind"]

    def earlier(name: str) -> Any:
        known = f"{EARLIER_ROLES.get(kind, kind + '_')}{name}"
        known = EARLIER_NAMES.get(known, known)
        return template(variables[known]) if known in variables else None

    # The kinds of a playbook share its command, whose options are not all for each.
    known, row = names(kind), KINDS[kind]
    others = [name for other in KINDS.values() if other.PLAYBOOK == row.PLAYBOOK for name in other.OPTIONS]
    unheeded = [name for name in dict.fromkeys(others) if name not in known and given(name) is not None]
    if unheeded:
        raise ValueError(f"{', '.join(unheeded)}: not for {kind}, leave {'them' if unheeded[1:] else 'it'} out")
    request = {name: value for name, value in options["request"].items() if value is not None}
    for name in known:
        setting = given(name)
        if setting is None:
            setting = request.get(name, earlier(name))
        if setting is not None:
            request[name] = setting
    places = {name: setting for name in ("hosts", "results") if (setting := earlier(name)) is not None}
    return {**options, **places, "request": request}


def read(options: Mapping[str, Any], sources: list[str]) -> Measurement:
    """Check the request of a measurement. Raises ValueError and OSError.

    options: as `requested` returns them, as plain data. sources: of the inventory.
    """
    unknown = sorted(set(options["request"]) - set(names(options["kind"])))
    if unknown:
        raise ValueError(f"request: {unknown[0]} is not one of {', '.join(names(options['kind']))}")
    of_inventory = {name: options[name] for name in ("hosts", "prefix", "backend", "cores", "optimize")}
    cluster = Cluster(**of_inventory, inventory=sources)
    return KINDS[options["kind"]](options["request"], cluster, Path(options["results"]))


def reserve(measurement: Measurement, *, begins: bool) -> None:
    """Refuse a measurement that another process of this machine makes, and where it begins, reserve it for this one.

    A second one would take the trial of the first for one that was interrupted, and stop it. It is reserved until this
    ansible-playbook ends. Raises ValueError and OSError.
    """
    directory, own = measurement.path.parent, process(os.getppid())  # actions run in children of ansible-playbook
    file = directory.with_name(f".{directory.name}.process")
    if begins:
        file.parent.mkdir(parents=True, exist_ok=True)
    elif not file.exists():
        return
    with file.open("a+", encoding="utf-8") as stream:
        with contextlib.suppress(OSError):  # some shared file systems have no locks
            fcntl.flock(stream, fcntl.LOCK_EX)
        stream.seek(0)
        number, _, began = stream.read().partition(" ")
        if began and own != f"{number} {began}" == process(number):
            raise ValueError(
                f"process {number} of this machine makes the {measurement.TITLE} of job {measurement.job.name} already "
                f"({directory}): wait for its end, or end it"
            )
        if begins:
            stream.truncate(0)
            stream.write(own)


def process(number: object) -> str:
    """Return a process and when it began: "4242 170553"; "" where there is none, or no /proc."""
    try:
        fields = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace").rpartition(") ")[2].split()
    except OSError:
        return ""
    return f"{number} {fields[19]}" if fields[0] != "Z" else ""
