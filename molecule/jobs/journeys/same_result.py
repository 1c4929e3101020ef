"""The same training comes to the same result: on any number of hosts, a second time, and after mpirun was killed."""

from __future__ import annotations

import itertools
import math
import time

from support.cluster import HEAD, attempts, directory, log, on, orphans, train, until
from support.journeys import check
from support.smoke_job import GLOBAL_BATCH, VALIDATION_PAIRS, continued_from, metrics, moved_aside, smoke, sums

# The smoke job learns its task completely within seconds, and comparing perfect results says little. With these it
# ends where both accuracy and loss still depend on every step.
HALF_LEARNT = {"learning_rate": 2.0e-4, "num_train_epochs": 1, "seed": 2}
STEPS = 1200 // GLOBAL_BATCH
SAVE_STEPS = 5
# Of a loss, between runs that should only differ in the order in which numbers are added.
ROUNDING = 0.01
PAPER = "the only copy"


def on_one_host() -> list[str]:
    """Train on the head, where somebody else keeps results under the job's name."""
    on(HEAD, f"mkdir -p {directory('on-1')}/output && echo '{PAPER}' > {directory('on-1')}/output/paper.txt")
    train(smoke("on-1", 1, 1, HALF_LEARNT)).succeed()
    return []


def on_two_hosts() -> list[str]:
    """Train on the workers; the head only supervises."""
    train(smoke("on-2", 2, ["node1", "node2"], HALF_LEARNT)).succeed()
    return []


def a_second_time() -> list[str]:
    """Train on one host again: the same to the last digit, and nothing of before is lost."""
    first, before = metrics("on-1"), sums(directory("on-1"))
    train(smoke("on-1", 1, 1, HALF_LEARNT)).succeed()
    second = metrics("on-1")
    check(first["train_loss"] == second["train_loss"], f"train_loss {first['train_loss']}, then {second['train_loss']}")
    aside = moved_aside("on-1")
    check(len(aside) == 2, f"moved aside: {aside}")
    check(on(HEAD, f"cat {aside[0]}/output/paper.txt").strip() == PAPER, f"{aside[0]} is not what it was")
    kept = sums(aside[1])
    check(before and kept == before, f"{aside[1]} is not what it was: {set(kept.items()) ^ set(before.items())}")
    return [
        f"seeded job of one rank, twice: train_loss {first['train_loss']} and {second['train_loss']}",
        f"earlier directories under its name: both moved aside, {len(kept)} files of the first run as they were",
    ]


def killed_on_two_hosts() -> list[str]:
    """Kill mpirun as soon as there is a checkpoint from which to continue."""
    saved = {**HALF_LEARNT, "save_strategy": "steps", "save_steps": SAVE_STEPS, "logging_steps": 1}
    play = train(smoke("killed", 2, 2, saved, restarts=1))
    # On the head itself, because a step takes only a fraction of a second; no other job has an mpirun there meanwhile.
    complete = f"{directory('killed')}/output/checkpoint-{2 * SAVE_STEPS}/complete.json"
    on(HEAD, f"until [ -e {complete} ]; do sleep 0.02; done; pkill -KILL -x mpiexec.hydra", user="root")
    began = time.monotonic()
    check(until(lambda: len(attempts("killed")) > 1 or play.ended()), "it was not started again")
    again = time.monotonic() - began
    play.succeed()
    left = orphans("killed")
    check(not left, f"left behind: {left}")
    check(len(attempts("killed")) == 2, f"attempts: {attempts('killed')}")
    source = continued_from("killed")
    # The Trainer logs every step of either attempt, once on each host.
    logged = [line for line in log("killed").splitlines() if line.startswith("{'loss': ")]
    lost = len([line for line, _hosts in itertools.groupby(logged)]) - STEPS
    check(source >= 2 * SAVE_STEPS and 0 <= lost <= SAVE_STEPS, f"{lost} steps lost, continued from step {source}")
    return [f"mpirun killed: started again after {again:.0f} s, continued from step {source}, {lost} steps lost"]


def on_three_hosts_and_compared() -> list[str]:
    """Train on three hosts, and compare all results."""
    train(smoke("on-3", 3, 3, HALF_LEARNT)).succeed()
    found = {name: metrics(name) for name in ("on-1", "on-2", "on-3", "killed")}
    worlds = [int(one["world_size"]) for one in found.values()]
    check(worlds == [1, 2, 3, 2], f"trained by {worlds} ranks")
    accuracies = [float(one["eval_accuracy"]) for one in found.values()]
    losses = [float(one["eval_loss"]) for one in found.values()]
    # What an accuracy measured on so many samples is known to: three standard errors of the difference of two.
    # (Laplace's estimate, which is not 0 where all are right.)
    count = len(accuracies)
    likely = (sum(accuracies) * VALIDATION_PAIRS + 1) / (count * VALIDATION_PAIRS + 2)
    noise = 3 * math.sqrt(2 * likely * (1 - likely) / VALIDATION_PAIRS)
    apart, relative = max(accuracies) - min(accuracies), max(losses) / min(losses) - 1
    said = (
        f"smoke job on 1, 2 and 3 hosts, and on 2 with mpirun killed: accuracy "
        f"{' '.join(f'{one:.3f}' for one in accuracies)} (at most {noise:.3f} apart is noise of {VALIDATION_PAIRS} "
        f"samples), evaluation loss {' '.join(f'{one:.5f}' for one in losses)}"
    )
    check(apart <= noise and relative <= ROUNDING, said)
    return [said]
