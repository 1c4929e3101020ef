"""What runs on the hosts is not a package: its modules lie next to its scripts, as they do in a job's project."""

from __future__ import annotations

import sys
from pathlib import Path

INFERENCE = str(Path(__file__).resolve().parents[5] / "runtime/amx_cluster/inference")
if INFERENCE not in sys.path:
    sys.path.append(INFERENCE)
