# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a job's objects on Kubernetes are derived from, as arguments of actions."""

from __future__ import annotations

from typing import Any

NO_JOB = "no job was named: add -e job=FILE, such as -e job=jobs/demo.yml"
ARGUMENTS: dict[str, Any] = {
    "job": {"type": "str", "default": ""},
    "override": {"type": "raw"},
    "kubernetes": {"type": "raw", "required": True},
    "stack": {"type": "dict", "required": True},
    "backend": {"type": "str", "default": "auto"},
    "job_env": {"type": "raw", "default": {}, "no_log": True},
}
