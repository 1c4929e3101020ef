"""Classify random texts with a model as anybody would, with nothing set, and report the speed.

    plain_inference.py --model DIRECTORY [--precision bf16] [--batch 16] [--length 128] [--seconds 4]
    plain_inference.py --make DIRECTORY --tokenizer DIRECTORY --rows FILE [--count 3000]

Prints a line of JSON, {samples_per_second, threads, cpus}. With --make it writes a DistilBERT of full size with random
weights and that tokenizer, and a CSV file of texts that are longer than 128 tokens.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import sys
import time
from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, DistilBertConfig


def make(model: Path, tokenizer: Path, rows: Path, count: int) -> None:
    torch.manual_seed(1)
    AutoModelForSequenceClassification.from_config(DistilBertConfig()).save_pretrained(model)
    words = AutoTokenizer.from_pretrained(tokenizer)
    words.save_pretrained(model)
    whole = [word for word in words.get_vocab() if word.isalpha() and len(word) > 3]
    chosen = random.Random(1)
    with rows.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["text"])
        writer.writerows([" ".join(chosen.choices(whole, k=140))] for _row in range(count))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--make", type=Path)
    parser.add_argument("--tokenizer", type=Path)
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="bf16")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=4)
    options = parser.parse_args()
    if options.make:
        make(options.make, options.tokenizer, options.rows, options.count)
        return
    model = AutoModelForSequenceClassification.from_pretrained(options.model).eval()
    if options.precision == "bf16":
        model = model.to(torch.bfloat16)
    texts = torch.randint(1000, 30000, (options.batch, options.length))
    batch = {"input_ids": texts, "attention_mask": torch.ones_like(texts)}
    with torch.inference_mode():
        for _warmup in range(3):
            model(**batch)
        began, count = time.perf_counter(), 0
        while time.perf_counter() - began < options.seconds:
            model(**batch)
            count += 1
        rate = count * options.batch / (time.perf_counter() - began)
    found = {"samples_per_second": rate, "threads": torch.get_num_threads(), "cpus": len(os.sched_getaffinity(0))}
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
