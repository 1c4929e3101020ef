"""The smoke job by torchrun, and by MPI collectives: on three hosts, and a rank is killed on the way."""

from __future__ import annotations

from typing import Any

import yaml
from journeys.smoke import SCRIPTS, continued_from
from support.checkout import ROOT
from support.cluster import (
    CONTAINERS,
    HEAD,
    attempts,
    directory,
    job_file,
    on,
    orphans,
    read_json,
    status,
    train,
    until,
)
from support.journeys import check

SAVE_STEPS = 5
# By a signal that is not the out-of-memory killer's: another scenario on the same kernel may be about that just then.
# The rank itself, and not its data loaders or the launcher: it is the one that the launcher started.
KILL_RANK = """
for process in /proc/[0-9]*; do
    if tr '\\0' '\\n' < $process/environ 2> /dev/null | grep -qx AMX_CLUSTER_JOB={directory} &&
        tr '\\0' '\\n' < $process/cmdline | grep -qx {program}; then
        kill -SEGV ${{process#/proc/}} && exit
    fi
done
exit 1
"""


def torchrun_goes_on_after_a_killed_rank() -> list[str]:
    """torchrun starts a rank on each host, and the job continues from its checkpoint when one is killed."""
    found = _train("torchrun", launcher="torchrun")
    # torchrun cannot start ranks with MPI, which is what the stack would take.
    check(found["backend"] == "gloo", f"backend {found['backend']}")
    return [f"smoke job started by torchrun on 3 hosts, rank 1 killed: {_told(found)}"]


def mpi_goes_on_after_a_killed_rank() -> list[str]:
    """The ranks exchange gradients through Intel MPI, and the job continues from its checkpoint when one is killed."""
    found = _train("collectives", backend="mpi", gradient_compression="bf16")
    check(found["backend"] == "mpi", f"backend {found['backend']}")
    return [f"smoke job with backend mpi and compressed gradients on 3 hosts, rank 1 killed: {_told(found)}"]


def _told(found: dict[str, Any]) -> str:
    before, after = (found["metrics"][name] for name in ("eval_before_accuracy", "eval_accuracy"))
    return f"continued from step {found['source']}, accuracy {before:.3f} -> {after:.3f}"


def _train(name: str, **fields: Any) -> dict[str, Any]:
    """Train the smoke job under that name, kill a rank after its first checkpoint; return the results and `source`."""
    job = yaml.safe_load((ROOT / "jobs/smoke.yml").read_text(encoding="utf-8"))
    job["script"] = str(SCRIPTS / "train_text.py")
    job["prepare"]["script"] = str(SCRIPTS / "generated_pairs.py")
    del job["args"]["save_strategy"]
    job["args"]["num_train_epochs"] = 6  # so that it is still training when the rank is killed
    return train_and_kill({**job, "name": name, **fields}, "train_text.py")


def train_and_kill(job: dict[str, Any], program: str) -> dict[str, Any]:
    """Train a job on three hosts, kill a rank after the first checkpoint; return the results and `source`.

    program: the script as the ranks' command line names it.
    """
    name = job["name"]
    play = train(job_file({**job, "restarts": 1, "checkpoints": {"steps": SAVE_STEPS}}))
    complete = f"{directory(name)}/output/checkpoint-{SAVE_STEPS}/complete.json"
    saved = until(lambda: (status(name).get("state") == "running" and on(HEAD, f"ls {complete} 2>&-")) or play.ended())
    check(saved and not play.ended(), f"it never came to its first checkpoint:\n{play.output()[-3000:]}")
    victim = list(CONTAINERS)[1]
    on(victim, KILL_RANK.format(directory=directory(name), program=program), user="root", fails=False)
    play.succeed()
    left = orphans(name)
    check(not left, f"left behind: {left}")
    reasons = [attempt["reason"] for attempt in attempts(name)]
    check(reasons == [f"rank 1 on {victim} was ended by signal 11 (SIGSEGV)", ""], f"attempts: {reasons}")
    found = {**read_json(name, "results.json"), "source": continued_from(name)}
    check((found["hosts"], found["ranks"]) == (3, 3), f"hosts, ranks: {found['hosts']}, {found['ranks']}")
    return found
