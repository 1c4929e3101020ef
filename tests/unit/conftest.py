"""Make the collection, and what the tests share, importable from a plain checkout."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for folder in (ROOT / "tests", ROOT / ".collections"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
