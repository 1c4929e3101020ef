"""The scripts of tests/integration/zoo as jobs of two ranks on this machine, with the real mpirun."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support import real_jobs
from support.checkout import ROOT

ZOO = ROOT / "tests/integration/zoo"
STALL_SECONDS = 5


@dataclass
class Case:
    """A script of zoo/, the job that it is run as, files of that job, what comes of it, and its ranks' variables."""

    script: str
    job: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    expect: dict[str, float] = field(default_factory=dict)
    reason: str = ""
    rank_env: dict[str, str] = field(default_factory=dict)


def run(case: Case, directory: Path, environment: Path) -> tuple[dict[str, Any], str]:
    """Run a case as a job of two ranks on this machine; return its status and its log."""
    # A directory of jobs for each: ranks of one job refuse a host where another one's are.
    place = directory / "jobs" / case.script
    given = {"name": case.script.replace("_", "-"), "stall_seconds": STALL_SECONDS, "expect": case.expect}
    # What torch.compile has made in an earlier run is not found.
    env = {"TORCHINDUCTOR_CACHE_DIR": str(directory / "compiled"), **case.job.get("env", {})}
    real_jobs.start(
        {"localhost": place},
        ZOO / f"{case.script}.py",
        environment.resolve(),
        [case.rank_env] * 2,
        case.files,
        **{**given, **case.job, "env": env},
    )
    return real_jobs.ended(place)
