"""What all unit tests share: the collection is importable in a plain checkout, and caches lie in .cache."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# `ansible_collections.amx.cluster` is this checkout, through a link.
sys.path.insert(0, str(ROOT / ".collections"))
os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(ROOT / ".cache" / "hypothesis"))
