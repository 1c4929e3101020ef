# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible.utils.color import ANSIBLE_COLOR
from ansible_collections.amx.cluster.plugins.module_utils import _job, _launch, _plan_text, _status, _verify


def _make_plan(job: dict[str, Any], stack: dict[str, Any], env: str, hosts: list[dict[str, Any]]) -> dict[str, Any]:
    try:
        return _launch.make_plan(job, stack, env, hosts)
    except ValueError as error:
        raise AnsibleFilterError(str(error)) from error


def _launch_files(plan: dict[str, Any], job: dict[str, Any], stack: dict[str, Any], host: str) -> dict[str, str]:
    arguments = _launch.script_arguments(job, stack, plan)
    return {
        "host": f"{host}\n",
        "plan.json": json.dumps(plan, indent=1) + "\n",
        "job.json": json.dumps(job, indent=1) + "\n",
        "hostfile": _launch.hostfile(plan),
        "env": _launch.environment_file(plan),
        "launch.sh": _launch.launch_script(plan, _launch.script_path(job), arguments),
    }


def _job_error(path: str, override: Any = None) -> str:
    if not path:
        return "no job was named: add -e job=FILE, such as -e job=jobs/demo.yml"
    try:
        _job.load(Path(path), override)
    except ValueError as error:
        return str(error)
    return ""


def _library_files(names: list[str]) -> dict[str, str]:
    """Return module_utils of the collection, and those that they import, as files for a folder on sys.path."""
    here = "ansible_collections.amx.cluster.plugins.module_utils"
    files: dict[str, str] = {}
    wanted = list(names)
    while wanted:
        name = wanted.pop()
        path = f"lib/{here.replace('.', '/')}/{name}.py"
        if path not in files:
            files[path] = (Path(_launch.__file__).parent / f"{name}.py").read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(files[path])):
                if isinstance(node, ast.ImportFrom) and node.module == here:
                    wanted += [alias.name for alias in node.names]
    return files


class FilterModule:
    """From a job and the hosts' allocations to the files of a job directory."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "job_error": _job_error,
            "launch_plan": _make_plan,
            "launch_files": _launch_files,
            "job_sources": _launch.sources,
            "job_links": _launch.links,
            "library_files": _library_files,
            "command_arguments": _launch.render_arguments,
            "file_content": lambda path: Path(path).read_text(encoding="utf-8"),
            "jobs_overview": _status.overview,
            "job_details": _status.details,
            "plan_text": lambda plan: _plan_text.render(plan, colour=ANSIBLE_COLOR),
            "plan_drawings": _plan_text.drawings,
            "verification": _verify.verification,
            "verify_table": _verify.table,
            "verify_differences": _verify.differences,
        }
