"""A model that is too large for the memory of each of three hosts: refused, out of memory, and trained in shards."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from typing import Any

import yaml
from support.checkout import ROOT
from support.cluster import (
    CONTAINERS,
    EPHEMERAL,
    HEAD,
    PREFIX,
    attempts,
    directory,
    docker,
    job_file,
    on,
    orphans,
    read_json,
    status,
    train,
    until,
    words,
)
from support.journeys import check
from support.smoke_job import KILL_RANK, come_to

# Of a host, for a Llama of 53 million weights in fp32: 1.7 GiB are forecast without sharding, 1.2 GiB with it.
MEMORY = "1380m"
SIZES = "hidden_size=640 intermediate_size=1728 num_hidden_layers=12 num_attention_heads=8"
SAVE_STEPS = 3
MODEL = EPHEMERAL / "large"
LOADED = """
import sys, torch
from datasets import Dataset
from transformers import AutoModelForCausalLM
model, found = AutoModelForCausalLM.from_pretrained(sys.argv[1] + "/output", output_loading_info=True)
assert not any(found.values()), found
rows = Dataset.from_file(sys.argv[1] + "/data/validation.arrow")
losses = [model(**{name: torch.tensor([row[name]]) for name in ("input_ids", "labels")}).loss.item() for row in rows]
print(model.num_parameters(), sum(losses) / len(losses))
"""


@contextlib.contextmanager
def small_hosts() -> Iterator[None]:
    """Give every host less memory than the model needs without sharding."""
    try:
        for container in CONTAINERS.values():
            docker("update", "--memory", MEMORY, "--memory-swap", MEMORY, container)
        yield
    finally:
        for container in CONTAINERS.values():
            # The engine cannot take a limit away.
            docker("update", "--memory", "1024g", "--memory-swap", "1024g", container)


def large_job(name: str, steps: int, **fields: Any) -> dict[str, Any]:
    """Return jobs/sft.yml with a large decoder that is made of its configuration, one rank on each host."""
    if not MODEL.exists():
        on(HEAD, "rm -rf /tmp/large && mkdir /tmp/large", fails=False)
        docker("cp", str(ROOT / "tests/support/small_decoder.py"), f"{CONTAINERS[HEAD]}:/tmp/small_decoder.py")
        on(HEAD, f"{PREFIX}/env/bin/python /tmp/small_decoder.py /tmp/large {SIZES}", fails=False)
        docker("cp", f"{CONTAINERS[HEAD]}:/tmp/large", str(MODEL))
    job: dict[str, Any] = yaml.safe_load((ROOT / "jobs/sft.yml").read_text(encoding="utf-8"))
    args = {"from_scratch": True, "max_length": 128, "packing": False, "gradient_accumulation_steps": 1}
    job["args"].update(args, learning_rate=1e-3, warmup_steps=0, max_steps=steps, logging_steps=1)
    # What is in a row is as long as it is: steps are short.
    job["args"].update(max_train_samples=60, max_eval_samples=12)
    places = {
        "models": {"decoder": {"directory": str(MODEL / "model")}},
        "data": {"own": {"directory": str(MODEL / "own")}},
    }
    own = {"project": str(ROOT / "jobs/scripts"), "precision": "fp32", "ranks_per_node": 1}
    return {**job, **places, **own, "name": name, "checkpoints": {"steps": SAVE_STEPS, "keep": 2}, **fields}


def what_does_not_fit_is_refused() -> list[str]:
    """Without sharding, the forecast refuses the job; a script that it does not know runs out of memory."""
    with small_hosts():
        said = train(job_file(large_job("too-large", SAVE_STEPS))).fail()
        refusal = said[said.index("Job too-large does not fit") :].partition("\nOrigin: ")[0]
        changes = [line.strip() for line in refusal.splitlines() if line.strip().startswith("- ")]
        check("does not fit into memory: node0, node1, node2: " in words(refusal), refusal)
        check(len(changes) == 3 and all("iB with " in one for one in changes), refusal)
        check(any("with the field sharding: full" in one and "not fit" not in one for one in changes), refusal)
        there = on(HEAD, f"ls -d {directory('too-large')} 2>/dev/null")
        check(not there, f"there is {there}")
        project = EPHEMERAL / "own_decoder"
        shutil.copytree(ROOT / "jobs/scripts", project, dirs_exist_ok=True)
        (project / "train_decoder.py").rename(project / "own_decoder.py")
        forced = large_job("forced", SAVE_STEPS, project=str(project), script="own_decoder.py", restarts=0)
        train(job_file(forced)).fail()
        reason = status("forced").get("reason", "")
        check("out of memory" in reason, f"reason: {reason}")
    return [refusal, f"forced: {reason.splitlines()[0]}"]


def shards_go_on_on_three_hosts_and_on_two() -> list[str]:
    """A rank is killed, then a host: its shards go on from a complete checkpoint on as many ranks, then on fewer."""
    return _trained("sharded", 3 * SAVE_STEPS, backend="gloo", restarts=2, min_hosts=2)


def shards_go_on_with_mpi() -> list[str]:
    """The same with a rank that is killed, and collectives of MPI."""
    return _trained("sharded-mpi", SAVE_STEPS + 2, backend="mpi", restarts=1)


def _trained(name: str, steps: int, **fields: Any) -> list[str]:
    play = None
    victim, lost = list(CONTAINERS)[1:3]
    with small_hosts():
        try:
            play = train(job_file(large_job(name, steps, sharding="full", **fields)))
            # All ranks have saved a checkpoint when they make the step after it.
            come_to(SAVE_STEPS + 1, name, play)
            killing = KILL_RANK.format(directory=directory(name), program="train_decoder.py")
            on(victim, killing, user="root", fails=False)
            if "min_hosts" in fields:
                # Then the newest checkpoint has parts that are on the lost host alone.
                come_to(2 * SAVE_STEPS + 1, name, play)
                docker("kill", CONTAINERS[lost])
            play.succeed()
        finally:
            if play and not play.ended():
                play.kill()
            docker("start", CONTAINERS[lost])
        made = attempts(name)
        hosts = 3 - ("min_hosts" in fields)
        found = read_json(name, "results.json")
        metrics = found["metrics"]
        check([one["from"] for one in made[1:]] == [f"checkpoint-{SAVE_STEPS}"] * (len(made) - 1), f"attempts: {made}")
        check(len(made) == 1 + fields["restarts"], f"attempts: {made}")
        reason = made[0]["reason"]  # ends with the last line of the log, if there is one
        check(reason.startswith(f"rank 1 on {victim} was ended by signal 11 (SIGSEGV)"), reason)
        check(hosts == 3 or lost in made[1]["reason"], f"attempts: {made}")
        check((found["hosts"], found["ranks"]) == (hosts, hosts), f"hosts, ranks: {found['hosts']}, {found['ranks']}")
        check(metrics["eval_loss"] < metrics["eval_before_loss"] - 0.3, f"metrics: {metrics}")
        files = on(HEAD, f"cd {directory(name)}/output && ls *.safetensors").split()
        check(files == ["model.safetensors"], f"files: {files}")
        said = on(HEAD, f"{PREFIX}/env/bin/python -c '{LOADED}' {directory(name)}", fails=False).split()
        weights, loss = int(said[0]), float(said[1])
        # It is the mean of rows, and the other of batches.
        check(abs(loss - metrics["eval_loss"]) < 0.2, f"loaded: loss {loss}, evaluated: {metrics['eval_loss']}")
        left = until(lambda: not orphans(name), 120) or orphans(name)
        check(left is True, f"left behind: {left}")
    ends = [f"from {one['from']}: {one['reason'].partition(chr(10))[0] or 'ended'}" for one in made]
    return [
        f"{weights} weights in shards, {MEMORY} on each host, backend {found['backend']}; {'; '.join(ends)}",
        f"loss {metrics['eval_before_loss']:.2f} -> {metrics['eval_loss']:.2f}, of the loaded model {loss:.2f}",
        f"utilization: {json.dumps(found.get('utilization'))[:500]}",
    ]
