"""What all unit tests share: the collection is importable in a plain checkout, and caches lie in .cache."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[2]

# The collection is this checkout, through a link in .collections; ranks find the runtime on their
# PYTHONPATH; tests has what tests share; tools are tested, too.
for folder in (ROOT / "tests", ROOT / "tools", ROOT / "runtime", ROOT / ".collections"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(ROOT / ".cache" / "hypothesis"))
# How long an example takes is a matter of what else runs on the machine.
settings.register_profile("any_machine", deadline=None)
settings.load_profile("any_machine")


@pytest.fixture
def as_another_user() -> Iterator[Path]:
    """A directory of a user's own, who is not root, whom nothing is forbidden. Root makes it: /tmp may be root's."""
    with tempfile.TemporaryDirectory() as name:
        root = os.geteuid() == 0
        if root:
            os.chown(name, 65534, 65534)
            os.seteuid(65534)
        try:
            yield Path(name)
        finally:
            if root:
                os.seteuid(0)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: starts processes, waits, or computes for long")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse slow tests that no part of tests/run.py would run: it takes the files in which the mark stands."""
    from run import SLOW_MARK

    marked = {item.path for item in items if item.get_closest_marker("slow")}
    unseen = [str(path) for path in sorted(marked) if SLOW_MARK not in path.read_text(encoding="utf-8")]
    if unseen:
        raise pytest.UsageError(f"write {SLOW_MARK} in {', '.join(unseen)}: else tests/run.py does not find them")
