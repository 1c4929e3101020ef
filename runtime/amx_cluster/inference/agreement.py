"""Agreement of the answers of a variant of a model with those of the model in fp32 as it was loaded."""

from __future__ import annotations

import csv
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from amx_cluster.inference import tasks
from amx_cluster.inference.loaded import Loaded, Unavailable
from amx_cluster.inference.tasks import Inputs

# How many samples are compared at most: of random inputs, and of evaluation data.
RANDOM, EVALUATED = 64, 256
RANDOM_INPUTS, EVALUATION_DATA = "random inputs", "evaluation data"
SEED = 1000
# Of the standard deviation of fp32's outputs: how much the single logit of a model may differ.
TOLERANCE = 0.05


def samples(loaded: Loaded, cell: Mapping[str, Any]) -> tuple[list[Inputs], str]:
    """Return batches of inputs to compare, and what they are; raises Unavailable, or OSError for a file it cannot read.

    All have the cell's shape: its evaluation data (a CSV file with the columns of the task, cells of text tasks only),
    or random inputs where it has none.
    """
    size, length = int(cell["batch_size"]), cell.get("sequence_length")
    if not cell.get("evaluation"):
        batches = max(1, RANDOM // size)
        return [tasks.synthetic(loaded, size, length, SEED + number) for number in range(batches)], RANDOM_INPUTS
    path = Path(os.environ.get("AMX_CLUSTER_JOB", "."), cell["evaluation"])
    with path.open(encoding="utf-8-sig", newline="") as stream:
        rows = [row for row, _number in zip(csv.DictReader(stream), range(max(EVALUATED, size)))]
    rows = rows[: len(rows) // size * size] or (rows * size)[:size]
    if not rows:
        raise Unavailable(f"{path} has no rows to compare predictions of")
    try:
        columns = tasks.choose_columns(loaded.task, list(rows[0]))
        encoded = tasks.encode(loaded, rows, columns, length, fixed=True)
    except ValueError as error:
        raise Unavailable(f"{path}: {error}") from error
    entries = encoded.entries() // size * size
    parts = [range(begin, begin + size) for begin in range(0, entries, size)]
    return [Inputs({name: tensor[part.start : part.stop] for name, tensor in encoded.items()}) for part in parts], (
        EVALUATION_DATA
    )


def answers(
    call: Callable[[Inputs], Mapping[str, Any]], batches: Sequence[Inputs], seconds: float
) -> list[dict[str, Any]]:
    """Return the outputs for each batch, as many as can be had in so many seconds, at least one."""
    end = time.monotonic() + seconds
    answered: list[dict[str, Any]] = []
    for batch in batches:
        answered.append({name: tensor.float().clone() for name, tensor in call(batch).items()})
        if time.monotonic() > end:
            break
    return answered


def compare(
    task: str, reference: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]]
) -> dict[str, float | None]:
    """Return {equal: share of equal predictions, largest_difference: of any logit, samples, tolerance}; see tasks.

    A prediction is the label of the largest logit, the first and last token of an answer, or each new token (after one
    that differs, the rest of that text mostly does too). One logit is a value, or by its sign one of two labels: it is
    equal where it has the same sign and differs by at most TOLERANCE of the standard deviation of the reference's.
    So is a vector whose distance is at most so much of that of the reference's vectors from their mean.
    Where these are all the same, nothing can be compared: `equal` is None. tolerance: None for labels and tokens.
    """
    equal, count, largest = 0.0, 0, 0.0
    near = _tolerances(task, reference)
    for first, other in zip(reference, others):
        same: Any = None
        for name, expected in first.items():
            tensor = other[name].float()
            if task == "text-generation":
                hits = (tensor == expected).float().mean(dim=1)
            else:
                largest = max(largest, float((tensor - expected).abs().max()))
                if name == "embedding":
                    hits = ((tensor - expected).norm(dim=1) <= near[name]).float()
                elif name in near:
                    close = ((tensor - expected).abs() <= near[name]) & ((tensor > 0) == (expected > 0))
                    hits = close[:, 0].float()
                else:
                    hits = (tensor.argmax(dim=1) == expected.argmax(dim=1)).float()
            same = hits if same is None else same * hits
        equal += float(same.sum())
        count += len(same)
    return {
        "equal": equal / count if count and all(near.values()) else None,
        "largest_difference": None if task == "text-generation" else largest,
        "samples": count,
        "tolerance": TOLERANCE if near else None,
    }


def _tolerances(task: str, reference: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return how much the outputs of one logit may differ, by their name; 0 where they are all the same."""
    if task == "text-generation":
        return {}
    import torch

    figures = {}
    for name in reference[0] if reference else ():
        if name == "embedding":
            vectors = torch.cat([batch[name] for batch in reference])
            spread, largest = float(vectors.var(dim=0, correction=0).sum().sqrt()), float(vectors.norm(dim=1).max())
            figures[name] = TOLERANCE * spread if spread > 1e-6 * largest else 0.0
            continue
        values = [float(value) for batch in reference for value in batch[name].flatten()]
        if all(batch[name].shape[1] == 1 for batch in reference):
            # What rounding alone makes of equal outputs is no spread.
            spread = statistics.pstdev(values)
            figures[name] = TOLERANCE * spread if spread > 1e-6 * max(map(abs, values)) else 0.0
    return figures
