"""The job scripts are programs, not modules of a package: load them by path."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).resolve().parents[3] / "jobs" / "scripts"


@pytest.fixture(scope="session")
def load_script() -> Callable[[str], ModuleType]:
    """Load a job script by its name without .py."""

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"job_script_{name}", SCRIPTS / f"{name}.py")
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # dataclasses looks its module up there.
        spec.loader.exec_module(module)
        return module

    return load
