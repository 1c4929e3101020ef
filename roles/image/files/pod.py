"""The program of a pod, with the logic that the image brings along (module_utils/_kubernetes/pod/main.py)."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "lib"))
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.pod import main

if __name__ == "__main__":
    main.main(sys.argv[1:])
