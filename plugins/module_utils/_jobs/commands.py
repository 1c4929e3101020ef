# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands of the runtime about jobs, for a person on the head and for Ansible: JSON in, JSON out."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory, session


def start(words: Sequence[str]) -> dict[str, Any]:
    """Start the job that the standard input describes, as start_request.Start has it. words: its directory."""
    session.stay([sys.executable, "-S", str(Path(sys.argv[0]).resolve()), "start", *words])
    umask = os.umask(0o077)
    os.umask(umask)
    from ansible_collections.amx.cluster.plugins.module_utils._jobs import start_request, starting

    request = start_request.Start.from_json(json.load(sys.stdin))
    if [str(request.folder)] != list(words):
        raise ValueError(f"start {request.folder} is the command for this job, instead of start {' '.join(words)}")
    return starting.start(request, umask)


def place(words: Sequence[str]) -> dict[str, Any]:
    """Write the job directory that the standard input describes, as placing.Placement has it. words: this host."""
    from ansible_collections.amx.cluster.plugins.module_utils._jobs import placing

    return placing.place(placing.Placement.from_json(json.load(sys.stdin)), words[0])


def restore(words: Sequence[str]) -> dict[str, Any]:
    """Put back what a start has replaced that never began. words: the job directory, and that start."""
    return {"changed": directory.restore(Path(words[0]), words[1])}


COMMANDS: dict[str, Callable[[Sequence[str]], dict[str, Any]]] = {
    command.__name__: command for command in (start, place, restore)
}


def main(words: Sequence[str]) -> None:
    """Run a command, and print what it returns; {failed, msg} where it cannot be done."""
    try:
        answer = COMMANDS[words[0]](words[1:])
    except (OSError, ValueError) as error:
        answer = {"failed": True, "msg": str(error)}
    sys.stdout.write(f"{json.dumps(answer)}\n")
