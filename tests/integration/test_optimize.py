"""optimize: what its parts promise, with the torch of the stack."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from support.checkout import ROOT


def test_the_parts_do_what_they_promise(environment: Path) -> None:
    command = [environment / "bin/python", ROOT / "tests/integration/optimize/judge_parts.py"]
    done = subprocess.run(
        [*command, ROOT / "roles/job/files/observe"],
        env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "OMP_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert done.stdout.count("ok ") > 100
