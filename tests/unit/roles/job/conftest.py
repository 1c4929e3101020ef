"""A rank finds the observer's package on its PYTHONPATH."""

from __future__ import annotations

import sys
from pathlib import Path

OBSERVE = str(Path(__file__).resolve().parents[4] / "roles/job/files/observe")
if OBSERVE not in sys.path:
    sys.path.append(OBSERVE)
