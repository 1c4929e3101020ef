# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quantize a trained model to int8, and compare it with fp32 over all rows of a file (jobs/int8.yml).

The model in output_dir is what playbooks/predict.yml runs. all_results.json there has eval_agreement, the share of rows
with the prediction of fp32, and where the file has labels (text-classification), eval_accuracy and fp32_eval_accuracy.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from amx_cluster.inference import engines, int8, isa, models, precision, tasks
from amx_cluster.inference.instance import problem_of
from amx_cluster.inference.loaded import Loaded
from ansible_collections.amx.cluster.plugins.module_utils._data import rows
from ansible_collections.amx.cluster.plugins.module_utils._jobs import known_models

# Rows that static int8 is calibrated with, at most.
CALIBRATION = 256
LABEL = "label"


def read(path: Path, columns: Sequence[str], task: str) -> list[Mapping[str, Any]]:
    """Return all rows of a file that can be predicted on. Raises OSError, ValueError."""
    data = rows.open_data(path)
    records = [record for place in data.places(10_000) for record in data.read(place)]
    values = [record.values for record in records if not problem_of(record, columns, task)]
    if not values:
        raise ValueError(f"{path} has no row with a text in {' and '.join(columns)}")
    return values


def predict(prepared: engines.Prepared, loaded: Loaded, inputs: Any, data: Any, columns: Any, size: int) -> Any:
    """Return (what is predicted of each row, rows a second)."""
    with torch.inference_mode():
        prepared(tasks.Inputs({name: tensor[:size] for name, tensor in inputs.items()}))
        began = time.perf_counter()
        outputs = tasks.in_batches(prepared, inputs, size)
        speed = len(data) / (time.perf_counter() - began)
    decoded = tasks.decode(loaded, outputs, inputs, data, columns)
    return [next(iter(answer.values())) for answer in decoded], speed


def accuracy(predicted: Sequence[Any], data: Sequence[Mapping[str, Any]], names: Mapping[int, str]) -> float | None:
    """Return the share of rows whose label is the predicted one. names: id2label; labels may be names or numbers.

    None where there are rows without a label that the model has.
    """
    known = {**{str(number): name for number, name in names.items()}, **{name: name for name in names.values()}}
    labels = [known.get(str(row.get(LABEL))) for row in data]
    if None in labels:
        return None
    return sum(answer == label for answer, label in zip(predicted, labels)) / len(data)


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Quantize, compare and save; return the metrics. Raises OSError, ValueError."""
    cell = {
        **{"model": Path(options.model_name_or_path).name, "path": options.model_name_or_path, "precision": "fp32"},
        **{"engine": "eager", "sequence_length": options.max_seq_length, "batch_size": options.batch_size},
        **{"new_tokens": 32, "stop_at_end": True, "emulation": options.emulation, "int8": options.inputs},
    }
    precision.check("int8", options.emulation, precision.cpu_flags())
    cell["task"] = models.task_of(cell)
    if cell["task"] == known_models.EMBEDDING:
        raise ValueError(f"{cell['path']} makes embeddings: leave it as it is, and set precision: int8 where it is run")
    loaded = models.load(cell)
    if loaded.int8:
        raise ValueError(f"{cell['path']} has int8 weights: name the model that it was made of")
    file = Path(options.validation_file)
    columns = options.columns or tasks.choose_columns(loaded.task, rows.open_data(file).columns)
    data = read(file, columns, loaded.task)
    size = options.batch_size
    inputs = tasks.encode(loaded, data, columns, options.max_seq_length)
    calibration = []
    if options.inputs == "static":
        some = read(Path(options.calibration_file or file), columns, loaded.task)[:CALIBRATION]
        parts = [some[first : first + size] for first in range(0, len(some), size)]
        calibration = [tasks.encode(loaded, part, columns, options.max_seq_length) for part in parts]
    plain = engines.prepare(loaded, cell, inputs)
    expected, before = predict(plain, loaded, inputs, data, columns, size)
    cell["precision"] = "int8"
    route = engines.prepare(loaded, cell, inputs, calibration).int8_route
    target = Path(options.output_dir)
    int8.save(loaded, target)
    # What is compared is what others will load.
    saved = models.load({**cell, "path": str(target.resolve())})
    prepared = engines.prepare(saved, cell, inputs)
    answers, after = predict(prepared, saved, inputs, data, columns, size)
    with torch.inference_mode():
        first = tasks.Inputs({name: tensor[:size] for name, tensor in inputs.items()})
        print(f"{route}; {isa.probe(lambda: prepared(first))}", flush=True)
    metrics: dict[str, Any] = {
        "eval_samples": len(data),
        "eval_agreement": sum(answer == other for answer, other in zip(answers, expected)) / len(data),
        "eval_samples_per_second": after,
        "fp32_eval_samples_per_second": before,
    }
    if loaded.task == "text-classification":
        names = loaded.config.id2label
        shares = {
            "eval_accuracy": accuracy(answers, data, names),
            "fp32_eval_accuracy": accuracy(expected, data, names),
        }
        metrics |= {name: value for name, value in shares.items() if value is not None}
    metrics = {name: round(value, 6) for name, value in metrics.items()}
    (target / "all_results.json").write_text(json.dumps(metrics, indent=2) + "\n", encoding="utf-8")
    return metrics


def main() -> None:
    parser = argparse.ArgumentParser(description="quantize a trained model to int8, and compare it with fp32")
    parser.add_argument("--model_name_or_path", required=True, help="the directory of the model")
    parser.add_argument("--validation_file", required=True, help="CSV, JSON lines or Parquet, all rows are compared")
    parser.add_argument("--calibration_file", help="of static int8, by default the validation file")
    parser.add_argument("--columns", nargs="+", help="columns with texts, by default the usual ones of the task")
    parser.add_argument("--inputs", choices=("dynamic", "static"), default="dynamic", help="how inputs are quantized")
    parser.add_argument("--max_seq_length", type=int, default=128)
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--emulation", action="store_true", help="also on a CPU without instructions for int8")
    parser.add_argument("--output_dir", default="output")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        sys.exit("quantize.py is for one rank: set hosts: 1 and ranks_per_node: 1")
    try:
        metrics = run(parser.parse_args())
    except (OSError, ValueError) as error:
        sys.exit(str(error))
    print(json.dumps(metrics), flush=True)


if __name__ == "__main__":
    main()
