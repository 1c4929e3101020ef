# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check of a job by the rules of the collection's own training scripts, on the control node before files are copied.

Only where the script is the collection's, byte for byte: what another one takes is not known. The scripts check the
same once more, and what lies on the head or in the hub is checked by them alone.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._data import row_checks
from ansible_collections.amx.cluster.plugins.module_utils._data.rows import DataError
from ansible_collections.amx.cluster.plugins.module_utils._jobs.batches import AT_ONCE, PER_DEVICE
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._stacks.arguments import is_on

SCRIPTS = Path(__file__).parents[3] / "jobs/scripts"
# Scripts that train, and the one whose class Arguments has their arguments.
EMBEDDINGS = "train_embeddings.py"
ARGUMENTS = {"train_text.py": "train_text.py", "train_decoder.py": "prepare_decoder.py", EMBEDDINGS: EMBEDDINGS}
FILES = {"train": "train_file", "validation": "validation_file"}
# Those of transformers' TrainingArguments that job files set most; all others are left to the script.
USUAL = (
    *("learning_rate", "num_train_epochs", "max_steps", "per_device_train_batch_size", "per_device_eval_batch_size"),
    *("gradient_accumulation_steps", "weight_decay", "warmup_steps", "warmup_ratio", "lr_scheduler_type"),
    *("logging_steps", "save_strategy", "save_steps", "eval_strategy", "eval_steps", "output_dir", "seed"),
)
# Files above so many bytes are left to the script.
MOST = 32 << 20


def problems(job: Job) -> list[str]:
    """Return what is wrong with the arguments and files of a job with one of the scripts; empty for another job."""
    name = job.script.name
    ours = SCRIPTS / name
    if name not in ARGUMENTS or not (job.script.is_file() and ours.is_file()):
        return []
    if job.script.read_bytes() != ours.read_bytes():
        return []
    args = job.named_args()
    paths = {split: _path(job, args[key]) for split, key in FILES.items() if args.get(key)}
    problems = [*_misspelt(args, SCRIPTS / ARGUMENTS[name]), *_absent(job, args, paths)]
    if not problems and name != "train_decoder.py":
        problems += _refused(args, paths, name == EMBEDDINGS)
    return problems


def _path(job: Job, argument: Any) -> Path | None:
    """Return where a file of datasets/ is on this machine; None where that is not known."""
    parts = Path(str(argument)).parts
    source = job.data.get(parts[1]) if len(parts) > 2 and parts[0] == "datasets" else None
    if source is None or not source.directory or source.at != "control" or ".." in parts or "*" in str(argument):
        return None
    return Path(source.directory).joinpath(*parts[2:]) if Path(source.directory).is_dir() else None


def _misspelt(args: Mapping[str, Any], script: Path) -> list[str]:
    """Return the messages about arguments that are nearly those of a script."""
    tree = ast.parse(script.read_text(encoding="utf-8"))
    fields = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Arguments").body
    own = [node.target.id for node in fields if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)]
    known = (*own, *USUAL)
    problems = []
    for name in args:
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.9) if name not in known else []
        if near and not name.startswith("per_gpu_"):
            problems.append(f"args: {name}: the script has no such argument: did you mean {near[0]}?")
    return problems


def _absent(job: Job, args: Mapping[str, Any], paths: Mapping[str, Path | None]) -> list[str]:
    problems = [
        f"args: {FILES[split]}: there is no file {path}" for split, path in paths.items() if path and not path.is_file()
    ]
    # Without --do_train and --do_eval, train_text.py evaluates as well.
    elsewhere = any(args.get(name) for name in ("dataset_name", "task_name", "validation_split_percentage"))
    if "validation" not in paths and "train" in paths and not elsewhere and not args.get("do_train"):
        problems.append("args: there are no validation data: set validation_file, or do_train to train without them")
    return problems


def _refused(args: Mapping[str, Any], paths: Mapping[str, Path | None], related: bool) -> list[str]:
    files = {split: path for split, path in paths.items() if path is not None}
    if (
        not files
        or len(files) < len(paths)
        or args.get("task_name")
        or sum(_size(path) for path in files.values()) > MOST
    ):
        return []
    given = {"train": args.get("max_train_samples") or 0, "validation": args.get("max_eval_samples") or 0}
    task = args.get("task", row_checks.AUTO)
    try:
        most = {name: int(value) for name, value in given.items()}
        for split, path in files.items() if related else ():
            texts = row_checks.related_texts(path, most[split])
            if split == "train" and not is_on(args.get("reranker")):
                settings = args.get("batch_sampler") == "no_duplicates", is_on(args.get("gather_across_devices"))
                problem = row_checks.batch_problem(texts, int(args.get(PER_DEVICE, AT_ONCE)), *settings)
                if problem:
                    return [f"args: {problem}"]
        if not related:
            row_checks.training_tables(files, str(task), most=most)
    except DataError as error:
        return [] if "has no pyarrow" in str(error) else [f"args: {error}"]
    except (TypeError, ValueError):
        pass  # an argument that is no number, which the script refuses
    return []


def _size(path: Path) -> int:
    return path.stat().st_size
