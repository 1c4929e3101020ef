"""The demo job with torchrun for its launcher: on three hosts, and a rank is killed on the way."""

from __future__ import annotations

import yaml
from journeys.smoke import SCRIPTS, continued_from
from support.checkout import ROOT
from support.cluster import CONTAINERS, HEAD, attempts, directory, job_file, on, orphans, read_json, train, until
from support.journeys import check

SAVE_STEPS = 5
# Of the demo job's 4000 and 600: three hosts share few cores here, and train twice.
PAIRS = {"train_pairs": 960, "validation_pairs": 200}
# By a signal that is not the out-of-memory killer's: another scenario on the same kernel may be about that just then.
# The rank itself, and not its data loaders or the launcher: it is the one that the launcher started.
KILL_RANK = """
for process in /proc/[0-9]*; do
    if tr '\\0' '\\n' < $process/environ 2> /dev/null | grep -qx AMX_CLUSTER_JOB={directory} &&
        tr '\\0' '\\n' < $process/cmdline | grep -qx train_text.py; then
        kill -SEGV ${{process#/proc/}} && exit
    fi
done
exit 1
"""


def torchrun_trains_the_demo_job() -> list[str]:
    """torchrun starts a rank on each host, and the job continues from its checkpoint when one is killed."""
    job = yaml.safe_load((ROOT / "jobs/demo.yml").read_text(encoding="utf-8"))
    job["script"] = str(SCRIPTS / "train_text.py")
    job["prepare"]["script"] = str(SCRIPTS / "docstring_pairs.py")
    job["prepare"]["args"].update(PAIRS)
    del job["args"]["save_strategy"], job["expect"]
    job.update(name="torchrun", launcher="torchrun", restarts=1, checkpoints={"steps": SAVE_STEPS})
    play = train(job_file(job))
    complete = f"{directory('torchrun')}/output/checkpoint-{SAVE_STEPS}/complete.json"
    saved = until(lambda: on(HEAD, f"ls {complete} 2>/dev/null").strip() or play.ended())
    check(saved and not play.ended(), f"it never came to its first checkpoint:\n{play.output()[-3000:]}")
    victim = list(CONTAINERS)[1]
    on(victim, KILL_RANK.format(directory=directory("torchrun")), user="root", fails=False)
    play.succeed()
    left = orphans("torchrun")
    check(not left, f"left behind: {left}")
    reasons = [attempt["reason"] for attempt in attempts("torchrun")]
    check(reasons == [f"rank 1 on {victim} was ended by signal 11 from outside", ""], f"attempts: {reasons}")
    source = continued_from("torchrun")
    found = read_json("torchrun", "results.json")
    check((found["hosts"], found["ranks"]) == (3, 3), f"hosts, ranks: {found['hosts']}, {found['ranks']}")
    return [
        f"demo job started by torchrun on 3 hosts, rank 1 killed: continued from step {source}, accuracy "
        f"{found['metrics']['eval_before_accuracy']:.3f} -> {found['metrics']['eval_accuracy']:.3f}"
    ]
