"""Modules of the collection, run as programs and compared with their documentation, and its actions."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import yaml
from ansible.module_utils.ansible_release import __version__
from support.checkout import importing

# Since 2.21 a module returns its options only when it is asked to, as Ansible does with -vvv.
SHOWN = {"_ansible_inject_invocation": True} if tuple(map(int, __version__.split(".")[:2])) >= (2, 21) else {}


def run(module: ModuleType, **options: Any) -> dict[str, Any]:
    """Return what a module answers when it is run as a program, as Ansible does, and its options."""
    done = subprocess.run(
        [sys.executable, "-m", module.__name__],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": {**SHOWN, **options}}),
        env=importing(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def run_action(
    action: ModuleType,
    options: dict[str, Any],
    execute_module: Callable[..., dict[str, Any]] | None = None,
    check: bool = False,
    variables: dict[str, Any] | None = None,
    execute_command: Callable[..., dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """Return what an action returns for these options, without Ansible's task queue.

    execute_module, execute_command: what it calls to have its module, or a command, run on the host. check: whether it
    runs in check mode. variables: those of the task, none of which is a template.
    """
    task = SimpleNamespace(
        args=copy.deepcopy(options),
        async_val=0,
        check_mode=check,
        diff=False,
        action=action.__name__,
        environment=None,
    )
    plugin = action.ActionModule(
        task=task,
        connection=SimpleNamespace(_shell=SimpleNamespace(tmpdir=None, env_prefix=lambda: "")),
        play_context=None,
        loader=None,
        templar=SimpleNamespace(template=lambda value: value),
        shared_loader_obj=None,
    )
    if execute_module:
        plugin._execute_module = execute_module
    if execute_command:
        plugin._low_level_execute_command = execute_command
    answer: dict[str, Any] = plugin.run(task_vars={"inventory_hostname": "node0", **(variables or {})})
    return answer


def documented(module: ModuleType) -> dict[str, Any]:
    """Return the documentation of what a module returns."""
    returned: dict[str, Any] = yaml.safe_load(module.RETURN)
    return returned
