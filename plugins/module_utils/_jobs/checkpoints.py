# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checkpoints that may be resumed from: those of which every rank has written its part to the end.

Where hosts do not share the job directory, each host has the part of a checkpoint that its own ranks wrote. That of
rank 0 is marked by COMPLETE, that of every other host by PART, by the observer of its ranks or the script.
docs/faults_and_restarts.md has the rules.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import zipfile
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.amx.cluster.plugins.module_utils._data import contents
from ansible_collections.amx.cluster.plugins.module_utils._documents import Document
from ansible_collections.amx.cluster.plugins.module_utils._jobs.wire import COMPLETE, PART, SAVED

NAME = re.compile(r"checkpoint-([0-9]+)")
# Marks, also those that are being written, and those of single ranks.
MARKS = re.compile(rf"\.?({re.escape(COMPLETE)}|{re.escape(PART)})(\..*)?|{re.escape(SAVED)}.*")
# The state of one rank's random numbers (transformers, accelerate): a rank without it goes on with other ones.
RANDOM = re.compile(r"(rng_state|random_states)(_[0-9]+)?\.(pth|pkl)")
# What a Trainer leaves besides the model, under the names of one process, of FSDP and of DeepSpeed (which has its own
# scheduler). Without optimizer and scheduler, a run would go on with another learning rate and without moments.
TRAINER = "trainer_state.json"
OPTIMIZER, SCHEDULER = (
    re.compile(r"optimizer[^/]*(/.*)?|global_step\d+/.*"),
    re.compile(r"scheduler[^/]*|global_step\d+/.*"),
)
# Files that are never empty, whatever is in them.
NEVER_EMPTY = (".bin", ".distcp", ".json", ".pkl", ".pt", ".pth", ".safetensors")
# What torch.distributed.checkpoint writes last, by one rank when all have written. It is a pickle with the names of all
# ranks' files, and is not loaded here.
METADATA, SHARD = ".metadata", re.compile(rb"__[0-9]+_[0-9]+\.distcp")


@dataclass(frozen=True)
class Part(Document):
    """Part of a checkpoint that one host has.

    files: {path: bytes}, without marks and the state of random numbers. leads: whether COMPLETE is there, and every
    file that it lists has the size it had then. finished: the files that such a mark lists. named: those that the
    metadata of torch.distributed.checkpoint name, on whatever host they are. refusal: why it does not lead although
    COMPLETE is there.
    """

    files: dict[str, int]
    leads: bool
    finished: list[str]
    named: list[str]
    refusal: str = ""


@dataclass(frozen=True)
class Choice:
    """The newest checkpoint that can be resumed from, and what has to be done for it.

    name: empty where there is none. sources: {host: what it has of it that the first host does not have}. files: all of
    it. refused: {checkpoint: why it is not used} of newer ones. gone: the hosts without which one of these cannot be.
    """

    name: str
    sources: dict[str, list[str]]
    files: dict[str, int]
    refused: dict[str, str]
    gone: list[str]


def part(directory: Path) -> Part:
    """Return what there is of a checkpoint in `directory`. Raises OSError."""
    files: dict[str, int] = {}
    named: set[str] = set()
    for place, _directories, names in os.walk(directory):
        for name in names:
            path = Path(place, name)
            relative = path.relative_to(directory)
            if MARKS.fullmatch(name):
                continue
            if not is_sound(path):
                continue
            if name == METADATA:
                shards = SHARD.findall(path.read_bytes())
                named |= {str(relative.with_name(shard.decode())) for shard in shards}
            if not RANDOM.fullmatch(name):
                files[str(relative)] = path.stat().st_size
    complete, other = marked(directory, COMPLETE), marked(directory, PART)
    return Part(files, bool(complete), sorted({*complete, *other}), sorted(named), refusal(directory))


def parts(output: Path) -> dict[str, Part]:
    """Return what there is of every checkpoint in `output`: {its name: the part}."""
    parts = {}
    for directory in directories(output):
        with contextlib.suppress(OSError):  # it is being removed
            parts[directory.name] = part(directory)
    return parts


def marked(directory: Path, mark: str) -> dict[str, int]:
    """Return the files that a mark lists; none unless every one is as it was then, and the state is all there."""
    files = _listed(directory, mark)
    return files if files and not _damage(directory, files) and not (mark == COMPLETE and stateless(files)) else {}


def refusal(directory: Path) -> str:
    """Return why a checkpoint that rank 0 has marked is not used; an empty string where it is, or has no mark."""
    files = _listed(directory, COMPLETE)
    return _damage(directory, files) or stateless(files) if files else ""


def _listed(directory: Path, mark: str) -> dict[str, int]:
    try:
        files = json.loads((directory / mark).read_text(encoding="utf-8"))
        return {str(name): int(size) for name, size in files.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def _damage(directory: Path, files: Mapping[str, int]) -> str:
    """Return which of these files is not as it was written, if any."""
    for name, size in files.items():
        path = directory / name
        try:
            there = path.stat().st_size
        except OSError:
            return f"{name} is missing"
        if there != size:
            return f"{name} has {there} bytes instead of {size}"
        if not RANDOM.fullmatch(path.name) and not is_sound(path):
            return f"{name} is damaged"
    return ""


def stateless(files: Iterable[str]) -> str:
    """Return what a Trainer's checkpoint of these files lacks, if anything."""
    if TRAINER not in files:
        return ""
    lacks = [
        state
        for state, form in (("optimizer", OPTIMIZER), ("learning rate schedule", SCHEDULER))
        if not any(map(form.fullmatch, files))
    ]
    return f"it has no state of the {' and '.join(lacks)} (save_only_model)" if lacks else ""


def is_sound(path: Path) -> bool:
    """Return whether a file can be what its writer made: a full disk or a power cut leaves it empty, short or of zeros.

    Its size and format are looked at, not all of its content.
    """
    try:
        if not path.stat().st_size:
            return path.suffix not in NEVER_EMPTY
        with path.open("rb") as stream:
            first = stream.read(16)
        if path.suffix == contents.SAFETENSORS:
            contents.header(path)
            return True
        if path.suffix == ".json":
            json.loads(path.read_bytes())
        # Each file of torch.distributed.checkpoint is several archives, one after another.
        if first.startswith(b"PK\3\4") and path.suffix != ".distcp":
            with zipfile.ZipFile(path):  # its directory is at the end
                return True
        return path.suffix not in NEVER_EMPTY or (any(first) and not b"PK\3\4".startswith(first))
    except (OSError, ValueError, zipfile.BadZipFile):
        return False


def is_complete(directory: Path) -> bool:
    """Return whether a checkpoint was written to its end and is here: every file with the size it had then."""
    try:
        return bool(marked(directory, COMPLETE)) and not _absent(part(directory))
    except OSError:
        return False


def _absent(part: Part) -> list[str]:
    return [name for name in part.named if name not in part.files]


def step(directory: Path) -> int:
    """Return the step in the name of a checkpoint; -1 for another directory."""
    match = NAME.fullmatch(directory.name)
    return int(match[1]) if match else -1


def directories(output: Path) -> list[Path]:
    """Return the checkpoints in `output`, the newest first; this host may have a part of each only."""
    return sorted(
        (directory for directory in output.glob("checkpoint-*") if step(directory) >= 0), key=step, reverse=True
    )


def last_complete(output: Path) -> Path | None:
    """Return the newest complete checkpoint in `output`, or None. A half-written one is passed over."""
    return next(iter(complete(output)), None)


def complete(output: Path) -> list[Path]:
    """Return the complete checkpoints in `output`, the newest first."""
    return list(filter(is_complete, directories(output)))


def last_marked(output: Path) -> Path | None:
    """Return the newest checkpoint in `output` that rank 0 finished, or None. Other hosts may have parts of it."""
    return next((directory for directory in directories(output) if marked(directory, COMPLETE)), None)


def unmark(output: Path, after: int) -> None:
    """Take the marks from the checkpoints of later steps than `after`: they will be written anew. Raises OSError."""
    for directory in directories(output):
        if step(directory) > after:
            for mark in (COMPLETE, PART):
                (directory / mark).unlink(missing_ok=True)
            for path in directory.rglob("*"):
                if path.is_file() and path.stat().st_nlink > 1:
                    path.unlink()  # of an earlier run, which would be written over there, too


def remove_damaged_random(output: Path) -> None:
    """Remove states of random numbers that were not written to their end: ranks go on without, but fail on such.

    Raises OSError.
    """
    for directory in directories(output):
        for path in directory.rglob("*"):
            if RANDOM.fullmatch(path.name) and not is_sound(path):
                path.unlink()


def mark(directory: Path, files: Mapping[str, int]) -> None:
    """Mark a checkpoint as complete, with these files. Raises OSError."""
    part_of_it = directory / f".{COMPLETE}.{os.getpid()}"
    part_of_it.write_text(json.dumps(dict(files)), encoding="utf-8")
    part_of_it.replace(directory / COMPLETE)


def choose(
    parts: Mapping[str, Mapping[str, Part]],
    first: str,
    gone: Mapping[str, str],
    reported: Mapping[str, Mapping[str, list[str]]],
    failed: Collection[str] = (),
) -> Choice:
    """Return the newest checkpoint of which every part is on one of these hosts.

    failed: checkpoints from which the job could not go on, which are taken only where there is no other.
    parts: {host: its parts}. first: the host whose directory has what rank 0 wrote. gone: {host: why its parts cannot
    be had}. reported: {host: {checkpoint: the files that its ranks were seen to write}}.
    """
    lead = parts[first]
    refused: dict[str, str] = {}
    missing: set[str] = set()
    again = ""
    for name in sorted(lead, key=lambda name: -step(Path(name))):
        if not lead[name].leads:
            if lead[name].refusal:
                refused[name] = f"{lead[name].refusal}, on {first}"
            continue
        why, hosts = _problem(name, parts, first, gone, reported)
        if not why and name not in failed:
            return Choice(name, *_union(name, parts, first), refused, sorted(missing))
        again = again or ("" if why else name)
        refused[name] = why or "the job failed before its first step from it"
        missing |= hosts
    if again:
        later = {name: why for name, why in refused.items() if step(Path(name)) > step(Path(again))}
        return Choice(again, *_union(again, parts, first), later, sorted(missing))
    return Choice("", {}, {}, refused, sorted(missing))


def _problem(
    name: str,
    parts: Mapping[str, Mapping[str, Part]],
    first: str,
    gone: Mapping[str, str],
    reported: Mapping[str, Mapping[str, list[str]]],
) -> tuple[str, set[str]]:
    """Return why a checkpoint is torn, and the hosts without which it is; an empty string where it is not."""
    lead = parts[first][name]
    there = {host: of_host[name] for host, of_host in parts.items() if name in of_host}
    named = {shard for part in there.values() for shard in part.named}
    for host, part in there.items():
        begun = [file for file in part.files if host != first and file not in {*part.finished, *named, *lead.files}]
        if begun:
            return f"{host} did not finish writing its {begun[0]} ({PART} does not list it)", set()
    for host, why in gone.items():
        own = _of_its_own(host, name, parts[first], reported)
        if own:
            return f"{own[0]} is on {host}, {why}", {host}
    files = {file for part in there.values() for file in part.files}
    lost = [file for file in sorted(named) if file not in files]
    for host in set(reported) - set(gone):
        its = there.get(host)
        if its and its.finished:
            continue  # its mark lists what belongs to it, and it is there
        lost += [file for file in needed(reported[host].get(name, [])) if file not in files]
    if lost and gone:
        return f"{lost[0]} is on no host that answers, and {', '.join(gone)} is away", set(gone)
    return (f"{lost[0]} is on no host of the job", set()) if lost else ("", set())


def _of_its_own(
    host: str, name: str, lead: Mapping[str, Part], reported: Mapping[str, Mapping[str, list[str]]]
) -> list[str]:
    """Return the files of a checkpoint that only a host which is away has, as far as its ranks were seen to write them.

    If they were not seen at this one, it is as with others.
    """
    seen = reported.get(host, {})
    shards = {
        other: [file for file in needed(files) if file not in lead[other].files]
        for other, files in seen.items()
        if other in lead
    }
    return shards.get(name, ["its part"] if any(shards.values()) else [])


def needed(files: list[str]) -> list[str]:
    """Return those of these files without which the state is not the one that was saved."""
    names = {file: file.rpartition("/")[2] for file in files}
    return [file for file, name in names.items() if not MARKS.fullmatch(name) and not RANDOM.fullmatch(name)]


def _union(
    name: str, parts: Mapping[str, Mapping[str, Part]], first: str
) -> tuple[dict[str, list[str]], dict[str, int]]:
    """Return which host has what the first one does not have, and all files of the checkpoint."""
    files = dict(parts[first][name].files)
    sources: dict[str, list[str]] = {}
    for host, of_host in parts.items():
        for file, size in of_host[name].files.items() if name in of_host else ():
            if file not in files:
                files[file] = size
                sources.setdefault(host, []).append(file)
    return sources, files
