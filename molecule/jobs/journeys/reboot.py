"""The head is rebooted while a job runs; the job is continued, stopped, and continued with fewer hosts."""

from __future__ import annotations

import time

from support.cluster import CONTAINERS, HEAD, Play, directory, docker, on, orphans, status, train, until, words
from support.journeys import check
from support.smoke_job import come_to, continued_from, moved_aside, smoke, step, sums

NAME = "reboot"
SAVE_STEPS = 10
# Steps of a fraction of a second, each in the log, a checkpoint every ten; far more than there is time for.
LONG = {
    "learning_rate": 2.0e-5,
    "gradient_accumulation_steps": 8,
    "max_steps": 2000,
    "logging_steps": 1,
    "save_strategy": "steps",
    "save_steps": SAVE_STEPS,
    "save_total_limit": 2,
}


def lost_steps(died_at: int) -> int:
    """Return how many steps a job that came to `died_at` makes again, after it was continued from a checkpoint."""
    lost = died_at - continued_from(NAME)
    check(0 <= lost <= SAVE_STEPS, f"{NAME} lost {lost} steps, with a checkpoint every {SAVE_STEPS}")
    return lost


def reboot() -> list[str]:
    """Reboot the head in mid-run, continue, stop, and continue with fewer hosts."""
    found = []
    play = train(smoke(NAME, 3, 3, LONG))
    come_to(25, NAME, play)
    before = sums(directory(NAME) + "/output")
    began = time.monotonic()
    docker("restart", "--time", "30", CONTAINERS[HEAD])
    died_at = step(NAME)
    check(until(lambda: not orphans(NAME), 120), f"left behind: {orphans(NAME)}")
    quiet = time.monotonic() - began
    check(until(lambda: on(HEAD, "systemctl is-system-running").strip() in ("running", "degraded")), "no boot")
    output = play.fail()
    shown = Play("status", "-e", f"job={NAME}").succeed()
    check(f"job {NAME}: lost" in shown and "-e job_resume=true resumes it from" in shown, shown[-2000:])
    # Its connection breaks, or it sees the end of the job before that.
    ends = ("shows its status", "-e job_resume=true resumes it from")
    check(any(end in words(output) for end in ends), f"train.yml says:\n{output[-2000:]}")

    play = train(smoke(NAME, 3, 3, LONG), "-e", "job_resume=true")
    come_to(died_at + 5, NAME, play)
    found.append(
        f"head rebooted at step {died_at}: nothing left of the job anywhere {quiet:.0f} s later, status.yml says lost; "
        f"continued from step {continued_from(NAME)}, {lost_steps(died_at)} steps lost"
    )
    aside = moved_aside(NAME)[-1]
    kept = sums(aside + "/output")
    check(before.items() <= kept.items(), f"{aside} is not what it was: {set(before.items()) - set(kept.items())}")

    began = time.monotonic()
    stopped = Play("stop", "-e", f"job={NAME}").succeed()
    left, seconds = orphans(NAME), time.monotonic() - began
    stopped_at = step(NAME)
    check(not left, f"stop.yml left behind: {left}")
    check("was stopped" in stopped and status(NAME)["state"] == "stopped", f"stop.yml says:\n{stopped[-2000:]}")
    output = play.fail()
    check("it was stopped on request" in output, f"train.yml says:\n{output[-2000:]}")
    found.append(f"stopped at step {stopped_at}: ended on every host within {seconds:.0f} s, no orphaned processes")

    fewer = smoke(NAME, 3, 2, {**LONG, "max_steps": stopped_at + 5})
    output = words(train(fewer, "-e", "job_resume=true").succeed())
    lost = lost_steps(stopped_at)
    notes = " ".join(status(NAME)["notes"])
    check("2 instead of 3 ranks" in notes and "2/3" in notes and "2 instead of 3 ranks" in output, f"notes: {notes}")
    found.append(f"checkpoint of 3 ranks continued by 2: {lost} steps lost, and said: {notes}")
    return found
