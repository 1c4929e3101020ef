"""The scripts of zoo.py without and with the parts of optimize: their losses must agree.

judge_zoo.py OBSERVE [--write FILE] [NAME...]: a line for each script, with the largest relative difference of its
losses and the calls of each part that acted. Exits with 1 if losses differ by more than rounding does, or are not
finite at other steps; with all scripts also if a part acts in few of them. --write: the file that `make docs` makes the
table of docs/faster_steps.md from.

A script with dropout is compared to one with the same masks, so with the part `dropout` alone; without any part its
losses must be about the same, as those of several seeds are.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
import transformers  # once for all sides
import zoo
from judge_programs import ALL, Side
from records import Record

# Scripts in which parts must act. Those with dropout run without `padding`, whose states have masks of other shapes.
LEAST = {"padding": 6}
SEEDS = 12


def run(record: Record, asked: dict[str, Any]) -> None:
    """Run one script. What Side calls of an area."""
    torch.manual_seed(asked["seed"])
    began = time.process_time()
    losses = [float(loss) for loss in zoo.SCRIPTS[asked["name"]].run()]
    record.note("losses", "are", losses)
    record.note("processor", "took", time.process_time() - began)


def differ(one: list[float], other: list[float]) -> float:
    """Return the largest relative difference of losses; infinity if they are not finite at the same steps."""
    if len(one) != len(other) or [*map(math.isfinite, one)] != [*map(math.isfinite, other)]:
        return math.inf
    largest = max((abs(each) for each in one if math.isfinite(each)), default=0.0)
    return max((abs(a - b) / max(abs(a), largest / 100) for a, b in zip(one, other) if math.isfinite(a)), default=0.0)


def statistics(stock: Side, mine: Side) -> bool:
    """Tell whether the losses at the end of a script with dropout are about the same over several seeds."""
    ends: list[list[float]] = [[], []]
    for seed in range(SEEDS):
        for side, found in zip((stock, mine), ends):
            side.ask("judge_zoo", {"name": "transformer_encoder", "seed": seed})
            found.append(side.answer()[0][0][2][-1])
    means = [sum(each) / SEEDS for each in ends]
    spreads = [sum((each - mean) ** 2 for each in found) / (SEEDS - 1) for found, mean in zip(ends, means)]
    far = abs(means[0] - means[1]) / math.sqrt(sum(spreads) / SEEDS)
    print(
        f"{'ok' if far < 4 else 'FALSE'} {SEEDS} seeds: {means[0]:.4f} and {means[1]:.4f}, {far:.1f} deviations apart"
    )
    return far < 4


def main() -> int:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("observe")
    given.add_argument("names", nargs="*")
    given.add_argument("--write", type=Path)
    asked = given.parse_args()
    transformers.logging.set_verbosity_error()
    parts: tuple[list[str], ...] = ([], ["dropout"], ALL, [part for part in ALL if part != "padding"])
    stock, masks, mine, padded = (Side(asked.observe, each) for each in parts)
    rows: list[dict[str, Any]] = []
    wrong = 0
    for name in asked.names or zoo.SCRIPTS:
        script = zoo.SCRIPTS[name]
        sides = (masks, padded) if script.dropout else (stock, mine)
        for side in sides:
            side.ask("judge_zoo", {"name": name, "seed": 0})
        (theirs, _none), (ours, acted) = (side.answer() for side in sides)
        ends: list[Any] = [each[0][2] if each[0][0] == "losses" else str(each[:2]) for each in (theirs, ours)]
        if any(isinstance(each, str) for each in ends):
            print("FALSE", name, *(each for each in ends if isinstance(each, str)), flush=True)
            wrong += 1
            continue
        far = differ(*ends)
        is_right = far <= script.near and sum(map(math.isfinite, ends[0])) in (script.finite, script.finite + 1)
        wrong += not is_right
        counts = ", ".join(f"{part} {acted[part]}" for part in ALL if acted[part])
        took = ours[1][2]
        print(
            f"{'ok' if is_right else 'FALSE'} {name}: {far:.1e} ({script.precision}), {counts}; {took:.1f} s",
            flush=True,
        )
        rows.append({"script": name, "difference": float(f"{far:.1e}"), "acted": [part for part in ALL if acted[part]]})
        if not is_right:
            print(f"   {[round(each, 5) for each in ends[0]]}\n   {[round(each, 5) for each in ends[1]]}")
    if asked.names:
        return bool(wrong)
    wrong += not statistics(stock, mine)
    acting = Counter(part for row in rows for part in row["acted"])
    for part in ALL:
        is_enough = acting[part] >= LEAST.get(part, 12)
        wrong += not is_enough
        print(f"{'ok' if is_enough else 'FALSE'} {part} acted in {acting[part]} of {len(rows)} scripts")
    if asked.write:
        lines = ",\n".join(json.dumps(row) for row in rows)
        today = datetime.date.today().isoformat()
        asked.write.write_text(f'{{"date": "{today}", "rows": [\n{lines}\n]}}\n', encoding="utf-8")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
