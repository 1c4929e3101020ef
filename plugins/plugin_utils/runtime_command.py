# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a command of the runtime on the task's host, without a module: one program that is there already."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.amx.cluster.plugins.module_utils._jobs import archive


def run(
    action: ActionBase, python: str, runtime: str, words: Sequence[str], request: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the JSON that a command of the runtime prints on the host; {failed, msg} where it failed.

    python: the host's interpreter of the virtual environment. runtime: the directory of the runtime there, which is
    installed where it is missing or damaged. request: the command's standard input. Raises AnsibleConnectionFailure
    where the host does not answer.
    """
    sent = json.dumps(request or {}).encode()
    answer = execute(action, archive.guarded(python, runtime, *words), sent)
    if answer["rc"] == archive.MISSING:
        packed = archive.pack(archive.of_collection())
        installed = execute(action, archive.installing(python, runtime), packed)
        if installed["rc"]:
            return {"failed": True, "msg": f"the runtime could not be installed in {runtime}: {_errors(installed)}"}
        answer = execute(action, archive.guarded(python, runtime, *words), sent)
    document = _document(answer)
    if document is not None:
        return document
    # Where it was killed, the job may have begun.
    seen = f"playbooks/status.yml -e job={words[1].rpartition('/')[2]} shows whether the job runs"
    return {"failed": True, "msg": f"{' '.join(words)} failed: {_errors(answer)}; {seen}"}


def ask(action: ActionBase, prefix: str, questions: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return what modules of commands.ANSWERS return on the host, {name: result}, from its runtime of this version.

    A module is left out where that runtime is missing, or does not answer: then the module itself returns the reason.
    prefix: cluster_prefix. questions: {name: options}. Raises AnsibleConnectionFailure where the host does not answer.
    """
    runtime = f"{prefix}/{archive.DIRECTORY}/{archive.name(archive.of_collection())}"
    command = [f"{prefix}/env/bin/python", "-S", runtime, "ask"]
    answers = _document(execute(action, command, json.dumps(questions).encode())) or {}
    return {name: answers[name] for name in questions if name in answers}


def _document(answer: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the JSON document that a command has printed in its last line; None where it has not."""
    try:
        document = json.loads(answer["stdout"].splitlines()[-1])
    except (ValueError, IndexError):
        return None
    return document if isinstance(document, dict) and not answer["rc"] else None


def execute(action: ActionBase, command: Sequence[str], sent: bytes) -> dict[str, Any]:
    """Run a command on the task's host with a standard input; return {rc, stdout, stderr}."""
    words = f"{action._compute_environment_string()} {shlex.join(command)}".strip()
    return dict(action._low_level_execute_command(words, in_data=sent))


def _errors(answer: Mapping[str, Any]) -> str:
    lines = f"{answer['stderr']}\n{answer['stdout']}".strip().splitlines()
    return " ".join(lines[-3:]) or f"exit code {answer['rc']}"
