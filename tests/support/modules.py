"""Modules of the collection, run as programs and compared with their documentation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import ModuleType
from typing import Any

import yaml
from support.checkout import ROOT


def run(module: ModuleType, **options: Any) -> dict[str, Any]:
    """Return what a module answers when it is run as a program, as Ansible does."""
    done = subprocess.run(
        [sys.executable, "-m", module.__name__],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": options}),
        env={**os.environ, "PYTHONPATH": str(ROOT / ".collections")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def documented(module: ModuleType) -> dict[str, Any]:
    """Return the documentation of what a module returns."""
    returned: dict[str, Any] = yaml.safe_load(module.RETURN)
    return returned
