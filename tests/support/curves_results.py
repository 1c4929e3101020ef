"""The fetched results of a job with curves. STAND-IN: the figures are made up."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

OUTCOME: dict[str, Any] = {
    **{"job": "demo", "state": "succeeded", "reason": "", "hosts": 2, "ranks": 4, "restarts": 1},
    **{"started": "2026-11-25T06:00:00+00:00", "ended": "2026-11-25T06:10:00+00:00", "seconds": 600.0, "steps": 3},
    **{"precision": "bf16", "stack": "native", "backend": "mpi", "model": None},
    "metrics": {"eval_loss": 1.5, "note": "text"},
}
ARGS = {"learning_rate": 1e-3, "targets": ["q", "v"], "long": "x" * 400}


def write(results: Path, points: int = 3, **outcome: Any) -> Path:
    """Write results with so many points into a directory that is made; return it."""
    results.mkdir(parents=True)
    (results / "results.json").write_text(json.dumps({**OUTCOME, **outcome}))
    (results / "job.json").write_text(json.dumps({"job": {"args": ARGS}, "settings": {"start": "s1"}}))
    lines = [
        {"trainer": 0, "step": step, "time": 1.5 + step, "metrics": {"loss": 4.0 - step, "a (b)": math.nan}}
        for step in range(1, points + 1)
    ]
    (results / "curves.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return results
