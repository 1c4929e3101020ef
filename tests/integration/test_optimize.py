"""optimize: what its parts promise, with the torch of the stack."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from support.checkout import ROOT


def judged(environment: Path, judge: str, *options: str, threads: int = 1) -> str:
    """Run a judge of tests/integration/optimize, which must find nothing. Returns what it has printed."""
    command = [environment / "bin/python", ROOT / "tests/integration/optimize" / judge]
    done = subprocess.run(
        [*command, ROOT / "runtime", *options],
        env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "OMP_NUM_THREADS": str(threads)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_the_parts_do_what_they_promise(environment: Path) -> None:
    assert judged(environment, "judge_parts.py", threads=2).count("ok ") > 100


def test_random_programs_do_the_same_with_and_without_the_parts(environment: Path) -> None:
    printed = judged(environment, "judge_programs.py", "--programs", "1500", "--seed", "1")
    acted = {area: int(times) for area, times in re.findall(r"(\w+): .*, the part acted in (\d+)", printed)}
    assert min(acted["attention"], acted["dropout"], acted["optimizer"], acted["loss"], acted["padding"]) > 20, printed


def test_training_scripts_have_the_same_losses_with_and_without_the_parts(environment: Path) -> None:
    assert judged(environment, "judge_zoo.py").count("ok ") > 60
