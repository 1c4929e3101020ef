# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts of ansible-core beyond its interface for plugins that the collection uses: all of them, and nowhere else.

tests/unit/plugins/plugin_utils/test_ansible_core.py asks the ansible-core that is installed for it; the workflow of the
tests does so with every one that meta/runtime.yml admits.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

COLLECTION = "amx.cluster"


class Outcome:
    """A task's result on a host."""

    def __init__(self, result: Any) -> None:
        self.task = result.task
        self.host = str(result.host.get_name())
        self.result: dict[str, Any] = result.result
        self.looped = self.task.loop is not None and "results" in self.result


def key(task: Any) -> str:
    """Return what is the same for a task on all hosts and in all callbacks, and for no other task."""
    return str(task._uuid)


def name(task: Any) -> str:
    return str(task.name or task.action).strip()


def role(task: Any) -> str:
    """Return the name of the role that a task is of, without its collection's, or nothing."""
    return _short(task._role) if task._role else ""


def outermost_role(task: Any) -> str:
    """Return the name of the role by which the role came that a task is of, or nothing."""
    role = task._role
    while role and role.get_parents():
        role = role.get_parents()[0]
    return _short(role) if role else ""


def _short(role: Any) -> str:
    return str(role.get_name()).rpartition(".")[2]


def delegate(task: Any) -> str:
    """Return the host that a task is delegated to, or nothing: also where its template could not be evaluated."""
    host = str(task.delegate_to or "")
    return "" if "{{" in host or "{%" in host else host


def is_ours(task: Any) -> bool:
    """Return whether a task is of a role of this collection."""
    return getattr(task._role, "_role_collection", None) == COLLECTION


def place(task: Any) -> str:
    """Return the file and line of a task, from the working directory on where it lies there."""
    path = task.get_path() or ""
    try:
        return str(Path(path).resolve().relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)


def is_rescued(task: Any) -> bool:
    """Return whether a block around a task has a rescue section for it."""
    child, parent = task, task._parent
    while parent is not None:
        rescue = getattr(parent, "rescue", None)
        if rescue and any(key(each) == key(child) for each in parent.block):
            return True
        child, parent = parent, parent._parent
    return False


def replace_output(
    display: Any, output: Callable[..., None], around_prompt: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> None:
    """Send all that Ansible prints through `output`, and its prompts through what `around_prompt` makes of them."""
    display.display = output
    for prompt in ("prompt", "prompt_until"):
        setattr(display, prompt, around_prompt(getattr(display, prompt)))
