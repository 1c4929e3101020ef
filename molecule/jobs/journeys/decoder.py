"""A decoder learns from instructions on three hosts: by LoRA, with a rank killed on the way, merged, and predicted."""

from __future__ import annotations

import json
import shutil
from typing import Any

import yaml
from support.checkout import ROOT
from support.cluster import EPHEMERAL, Play, directory, job_file, read_json, train
from support.journeys import check
from support.smoke_job import train_and_kill

RESULTS = EPHEMERAL / "results"
PROJECT = EPHEMERAL / "decoder"
# Makes the decoder on the head, where torch is, once, and then prepares the job's data as jobs/lora.yml does.
PREPARE = """
import shutil
import sys
from pathlib import Path

from prepare_decoder import main
from small_decoder import make

made, making = Path("/tmp/small_decoder"), Path("/tmp/small_decoder.making")
if not made.exists():
    shutil.rmtree(making, ignore_errors=True)
    make(making)
    making.rename(made)
shutil.copytree(made, "data", dirs_exist_ok=True)
sys.exit(main())
"""
ASKED = ("csv.reader", "shutil.copyfile", "calendar.monthrange", "textwrap.wrap")
ASKED_OF = {"before": "data/model", "after": "output"}


def _job(shipped: str, **args: Any) -> dict[str, Any]:
    """Return a shipped job, with a decoder that the head makes."""
    if not PROJECT.exists():
        shutil.copytree(ROOT / "jobs/scripts", PROJECT)
        shutil.copy(ROOT / "tests/support/small_decoder.py", PROJECT)
        (PROJECT / "make_and_prepare.py").write_text(PREPARE, encoding="utf-8")
    job: dict[str, Any] = yaml.safe_load((ROOT / f"jobs/{shipped}.yml").read_text(encoding="utf-8"))
    del job["models"], job["data"]
    job["project"] = str(PROJECT)
    job["prepare"]["script"] = "make_and_prepare.py"
    small = {"max_length": 256, "gradient_accumulation_steps": 1, "logging_steps": 5, "num_train_epochs": 2}
    job["args"].update(model_name_or_path="data/model", train_file="data/own/train.jsonl", **small, **args)
    return {**job, "ranks_per_node": 1}


def _told(metrics: dict[str, Any]) -> str:
    before, after = (metrics[name] for name in ("eval_before_loss", "eval_loss"))
    check(after < before - 0.1, f"loss {before:.3f} -> {after:.3f}")
    return f"loss {before:.2f} -> {after:.2f}"


def _answers(name: str, model: str) -> list[str]:
    rows = EPHEMERAL / "asked.jsonl"
    prompts = [f"<|user|>What is {asked} for?<|end|><|assistant|>" for asked in ASKED]
    rows.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts), encoding="utf-8")
    options = {
        "model": f"head:{model}",
        "data": str(rows),
        "predict_name": name,
        "predict_results": str(RESULTS),
        "again": True,
    }
    Play("predict", "-e", json.dumps({**options, "override": {"hosts": 1}})).succeed()
    found = (RESULTS / f"{name}-predict/predictions.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(row)["generated_text"] for row in found]


def lora_goes_on_after_a_killed_rank_and_is_merged() -> list[str]:
    """jobs/lora.yml on three hosts; the merged model answers differently from the one before."""
    job = _job("lora", learning_rate=1e-2, lora_r=8)
    found = train_and_kill(job, "train_decoder.py")
    before, after = (_answers(f"lora-{name}", f"{directory('lora')}/{place}") for name, place in ASKED_OF.items())
    check(len(after) == len(ASKED) and after != before, f"before: {before}, after: {after}")
    lines = [f"LoRA on 3 hosts, rank 1 killed: continued from step {found['source']}, {_told(found['metrics'])}"]
    return [*lines, f"before: {before[0]!r}", f"after: {after[0]!r}"]


def all_weights_learn_on_three_hosts() -> list[str]:
    """jobs/sft.yml on three hosts."""
    train(job_file(_job("sft", learning_rate=1e-3))).succeed()
    found = read_json("sft", "results.json")
    check((found["hosts"], found["ranks"]) == (3, 3), f"hosts, ranks: {found['hosts']}, {found['ranks']}")
    return [f"all weights on 3 hosts: {_told(found['metrics'])}"]
