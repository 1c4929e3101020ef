# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program `amx`, which cli/amx starts: it becomes ansible-playbook."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command import (
    arguments,
    completion,
    help,
    init,
    launch,
    table,
)


def answer(argv: Sequence[str], place: launch.Place) -> str | arguments.Run:
    """Return what is printed, or the playbook that is run. Raises UsageError."""
    name, rest = arguments.split(argv)
    if not name:
        if "--version" in rest:
            return launch.versions(place)
        if not rest or set(rest) & set(arguments.HELP):
            return help.overview()
        raise arguments.UsageError("amx: no command is named; `amx --help` lists all")
    if name in table.OWN and set(rest) & set(arguments.HELP):
        return help.own(name)
    if name == "version":
        return launch.versions(place)
    if name == "init":
        return init.make(place.collection, rest, place.here)
    if name == "completion":
        if rest not in [[shell] for shell in table.SHELLS]:
            raise arguments.UsageError(f"amx completion: name the shell: {' or '.join(table.SHELLS)}")
        return completion.script(rest[0])
    chosen = arguments.command(name)
    asks = rest[: rest.index("--")] if "--" in rest else rest
    return help.of(chosen) if set(asks) & set(arguments.HELP) else arguments.read(chosen, rest)


def show(text: str) -> None:
    """Print a text, of which `amx --help | head` does not read everything."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the interpreter complains at its end


def main(argv: Sequence[str]) -> NoReturn:
    """Print the answer and end, or become ansible-playbook. The exit code is 2 for arguments that make no sense."""
    place = launch.Place(Path(__file__).resolve().parents[3], Path.cwd(), Path.home())
    try:
        run = answer(argv, place)
        if isinstance(run, str):
            show(run)
            sys.exit()
        program = launch.ansible_playbook(Path(sys.executable))
        environment = place.environment(os.environ, run.command.name)
    except (arguments.UsageError, FileNotFoundError) as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
    words = run.words(place.playbook(run.command.playbook))
    if run.is_verbose:
        sys.stderr.write(f"{shlex.join(['ansible-playbook', *words])}\n")
        sys.stderr.flush()
    if run.prints_json:
        words += ["-e", f"amx_output={launch.stdout_for_document()}"]
    os.execve(program, [program, *words], {**os.environ, **environment})
