# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the checkpoint that a job resumes from, and gather the parts of it that other hosts have on the head."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._io import read_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import checkpoints, directory, remote, transfers
from ansible_collections.amx.cluster.plugins.module_utils._jobs.checkpoints import Part
from ansible_collections.amx.cluster.plugins.module_utils._jobs.wire import COMPLETE

# As directory.PARTS has it.
Told = dict[str, dict[str, list[str]]]


def take(known: Told, messages: Iterable[dict[str, Any]]) -> bool:
    """Take the files of parts out of heartbeats; return whether there is something new."""
    new = False
    for beat in messages:
        part = beat.pop("part", None)
        for name, files in part.items() if isinstance(part, dict) else ():
            of_host = known.setdefault(beat["host"], {})
            # The last listing: what is written under another name first is not there any more.
            if checkpoints.NAME.fullmatch(name) and set(files) != set(of_host.get(name, [])):
                of_host[name] = sorted(files)
                new = True
    return new


def here(path: Path, start: str) -> dict[str, Any]:
    """Return the parts on this host as JSON can hold them, {checkpoint: Part.to_json()}. Raises OSError.

    start: which run's they are to be, where the job has just been started: links to another run's are removed. Those of
    a host on which later runs, whose ranks have never started, had linked them stay.
    """
    output = path / "output"
    if start and start not in (read_json(path / directory.RESUMED) or {}).get("starts", []):
        for linked in output.glob("checkpoint-*"):
            shutil.rmtree(linked)
    checkpoints.remove_damaged_random(output)
    return {name: part.to_json() for name, part in checkpoints.parts(output).items()}


def find(command: list[str], names: Iterable[str], own: str, output: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return ({host: its parts}, {host: why they are not known}). command: prints `here` on a host."""
    checkpoints.remove_damaged_random(output)
    parts = {own: checkpoints.parts(output)}
    unknown = {}
    others = [name for name in names if name != own]
    for host, (code, text) in remote.on_every_host(command, others, own).items():
        try:
            if code:
                raise ValueError(text)
            parts[host] = {name: Part(**part) for name, part in json.loads(text.splitlines()[-1]).items()}
        except (ValueError, IndexError, TypeError, AttributeError):
            unknown[host] = (
                f"which did not show its checkpoints ({' '.join(text.split())[-200:] or f'exit code {code}'})"
            )
    return parts, unknown


def gather(output: Path, choice: checkpoints.Choice, stop: Callable[[], bool]) -> str:
    """Bring to this host what others have of a checkpoint, and mark it as complete; return why that failed."""
    target = output / choice.name
    parts = {host: output / f".{choice.name}.{host}" for host in choice.sources}
    steps = {
        host: [
            transfers.Step(["rm", "-rf", str(part)], f"{part} could not be removed"),
            transfers.Step(
                ["scp", "-rqB", f"{host}:{target}", str(part)],
                f"the part of {choice.name} on {host} could not be fetched to the head",
            ),
        ]
        for host, part in parts.items()
    }
    try:
        problems = transfers.run(steps, stop)
        if problems:
            return "; ".join(problems.values())
        for host, files in choice.sources.items():
            for file in files:
                place = target / file
                place.parent.mkdir(parents=True, exist_ok=True)
                (parts[host] / file).replace(place)
        if parts:
            checkpoints.mark(target, {**checkpoints.marked(target, COMPLETE), **choice.files})
            if not checkpoints.is_complete(target):
                return f"{choice.name} was changed while its parts were gathered in {target}"
    except OSError as error:
        return f"the parts of {choice.name} could not be gathered in {target}: {error.strerror}"
    finally:
        for part in parts.values():
            shutil.rmtree(part, ignore_errors=True)
    return ""


def advice(choice: checkpoints.Choice) -> str:
    """Return why no checkpoint can be resumed from, and what to do; choice: one without a name, with refused ones."""
    name, why = next(iter(choice.refused.items()))
    back = f"bring {', '.join(choice.gone)} back and resume the job (-e job_resume=true), or " if choice.gone else ""
    return f"no checkpoint is complete. {name}: {why}: {back}start it from the beginning, without job_resume"


def notes(choice: checkpoints.Choice) -> list[str]:
    """Return what a job's status is to say of the checkpoints that are not used."""
    return [f"{name} is not used: {why}" for name, why in choice.refused.items()]


def kept(known: Mapping[str, Mapping[str, list[str]]], choice: checkpoints.Choice) -> Told:
    """Return what stays known when a job goes on from its choice: later checkpoints are written anew."""
    last = checkpoints.step(Path(choice.name))
    return {
        host: {name: list(files) for name, files in of_host.items() if checkpoints.step(Path(name)) <= last}
        for host, of_host in known.items()
    }
