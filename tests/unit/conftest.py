"""Make `ansible_collections.amx.cluster` importable in a plain checkout, through the link in .collections."""

from __future__ import annotations

import sys
from pathlib import Path

COLLECTIONS = Path(__file__).resolve().parents[2] / ".collections"
sys.path.insert(0, str(COLLECTIONS))
