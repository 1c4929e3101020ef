"""Mark the checkpoints that a rank has saved: module_utils/_jobs/checkpoints.py resumes from complete ones only."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from typing import Any

from amx_cluster.observer.rank import Rank, read, replace
from ansible_collections.amx.cluster.plugins.module_utils._jobs.wire import COMPLETE, PART, SAVED

# Files of a part that are named to the supervisor: one would do to know that there is a part.
MOST_FILES = 64


def load_to_numbered_cpus(serialization: Any) -> None:
    """Make torch.load take a device such as `cpu:0`, of which it knows the name `cpu` alone.

    With backend ccl, accelerate names the Trainer's device so, and the Trainer loads its checkpoints to that device.
    serialization: torch.serialization.
    """
    serialization.register_package(
        50, lambda _storage: None, lambda storage, location: storage if location.startswith("cpu:") else None
    )


def mark_saved(rank: Rank, directory: str) -> None:
    """Leave this rank's mark in a checkpoint, now that it has saved its part, and the job's if it is the last to do so.

    Other ranks that write to the same directory may be at their parts still. Whoever finds all their marks there has
    found all files as they will be: of two who find them at once each writes the same.
    """
    if not rank.speaks() or not os.path.isdir(directory):
        return
    attempt = rank.attempt()
    replace(os.path.join(directory, f"{SAVED}{rank.number}"), attempt)
    marks = [os.path.join(directory, f"{SAVED}{number}") for number in rank.together]
    # A mark of an earlier start is no mark: a checkpoint is written over where the job went on from an older one.
    with contextlib.suppress(FileNotFoundError):
        if all(read(mark) == attempt for mark in marks):
            mark_complete(directory, COMPLETE if 0 in rank.together else PART)
            for mark in marks:
                os.unlink(mark)


def mark_complete(directory: str, mark: str) -> None:
    """Write into a checkpoint which files it has and how large they are: without that it is not resumed from.

    They are on the disk by then: after a power cut no mark is there without the files that it lists.
    """
    sizes = {}
    for place, _directories, names in os.walk(directory):
        for name in names:
            # Of a checkpoint that is written over, the last mark is still there.
            if name not in (COMPLETE, PART) and not name.startswith((f".{COMPLETE}", f".{PART}", SAVED)):
                path = os.path.join(place, name)
                sizes[os.path.relpath(path, directory)] = os.path.getsize(path)
                keep(path)
        keep(place)
    replace(os.path.join(directory, mark), json.dumps(sizes))


def keep(path: str) -> None:
    """Wait until a file, or the names in a directory, are on the disk; a file system that cannot tell has them."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def newest_part(rank: Rank) -> dict[str, list[str]]:
    """Return {checkpoint: files} of the newest checkpoint of which this host has a part and rank 0 does not write here.

    One rank of a host tells. Should the host be lost, the supervisor knows that its part is missing.
    """
    if 0 in rank.together or [rank.number] != sorted(rank.together)[:1]:
        return {}
    output = os.path.join(rank.job, "output")
    newest = max(
        (name for name in os.listdir(output) if name.startswith("checkpoint-") and name[11:].isdigit()),
        key=lambda name: int(name[11:]),
        default="",
    )
    directory = os.path.join(output, newest)
    files = [
        os.path.relpath(os.path.join(place, name), directory)
        for place, _directories, names in os.walk(directory)
        for name in names
    ]
    return {newest: files[:MOST_FILES]} if newest and files else {}
