"""Programs of jobs and roles: they are not modules of a package, and are loaded by their path."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def load(path: Path) -> ModuleType:
    """Return a program as a module of its own, whether or not it was loaded before.

    runpy takes a path in a collection for an archive once Ansible's import hooks are installed, as in ansible-test.
    """
    spec = importlib.util.spec_from_file_location(f"script_{path.stem}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses looks its module up there.
    spec.loader.exec_module(module)
    return module
