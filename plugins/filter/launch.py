# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible.utils.color import ANSIBLE_COLOR
from ansible_collections.amx.cluster.plugins.module_utils._jobs import (
    plan_text,
    provided,
    run_files,
    status,
    verification,
)
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import load
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import make_plan


def _make_plan(job: dict[str, Any], stack: dict[str, Any], env: str, hosts: list[dict[str, Any]]) -> dict[str, Any]:
    try:
        return make_plan(job, stack, env, hosts)
    except ValueError as error:
        raise AnsibleFilterError(str(error)) from error


def _launch_files(plan: dict[str, Any], job: dict[str, Any], stack: dict[str, Any], host: str) -> dict[str, str]:
    arguments = run_files.script_arguments(job, stack, plan)
    return {
        "host": f"{host}\n",
        "plan.json": json.dumps(plan, indent=1) + "\n",
        "job.json": json.dumps(job, indent=1) + "\n",
        "hostfile": run_files.hostfile(plan),
        "env": run_files.environment_file(plan),
        "launch.sh": run_files.launch_script(plan, run_files.script_path(job), arguments),
    }


def _job_error(path: str, override: Any = None) -> str:
    if not path:
        return "no job was named: add -e job=FILE, such as -e job=jobs/demo.yml"
    try:
        load(Path(path), override)
    except ValueError as error:
        return str(error)
    return ""


def _library_files() -> dict[str, str]:
    """Return the logic of jobs and all that it builds on, as files for a directory on sys.path."""
    root = Path(__file__).parents[1] / "module_utils"
    inside = Path("lib/ansible_collections/amx/cluster/plugins/module_utils")
    return {str(inside / path.relative_to(root)): path.read_text(encoding="utf-8") for path in root.rglob("*.py")}


class FilterModule:
    """From a job and the hosts' allocations to the files of a job directory."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "job_error": _job_error,
            "launch_plan": _make_plan,
            "launch_files": _launch_files,
            "job_sources": provided.sources,
            "job_links": provided.links,
            "library_files": lambda _names: _library_files(),
            "command_arguments": run_files.render_arguments,
            "file_content": lambda path: Path(path).read_text(encoding="utf-8"),
            "jobs_overview": status.overview,
            "job_details": status.details,
            "plan_text": lambda plan: plan_text.render(plan, colour=ANSIBLE_COLOR),
            "plan_drawings": plan_text.drawings,
            "verification": verification.verification,
            "verify_table": verification.table,
            "verify_differences": verification.differences,
        }
