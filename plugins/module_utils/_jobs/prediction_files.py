# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of batch predictions on hosts: trained models, chunks of earlier starts, and the output of all hosts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._data import (
    contents,
    file_set,
    rows,
    sentence_models,
)
from ansible_collections.amx.cluster.plugins.module_utils._data.records import Record
from ansible_collections.amx.cluster.plugins.module_utils._io import disk_problem, read_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import (
    adapters,
    directory,
    inference_requests,
    model_shape,
    transfers,
)

# Beside the model in a job's output: what a prediction does not need.
LEFT_OUT = ("optimizer", "scheduler", "rng_state", "trainer_state", "training_args", "predictions", "prediction.json")
LEFT_OUT_ENDS = ("_results.json", ".md", ".lock", ".log")
# Below the prefix on the head: models and data of predictions, by their content.
CACHE = "cache/predictions"
# From where Python imports this collection here, the archive of a module perhaps.
LIBRARY = Path(str(rows.__file__)).parents[6]
# Arguments of training scripts that name a file of training data.
TRAINING_FILES = ("train_file", "dataset_file", "validation_file")


def of_job(jobs: Path, name: str, record: Record, *, adapter: bool = False) -> dict[str, Any]:
    """Return what a job has trained: {directory, files, sha256, weights, config, args, trained_on}.

    jobs: the directory of the job directories. The directory is the job's output, with other files beside the model's.
    adapter: whether it is an adapter, which has `shapes` and `base`, see adapters.check. weights: the hashes of its
    files of weights. Raises OSError, ValueError.
    """
    path = jobs / name
    if not (path / "status.json").is_file():
        there = sorted(
            path.parents[1].name for path in jobs.glob("*/output/config.json") if ".2" not in path.parents[1].name
        )
        hint = f"; {', '.join(there)} left a model" if there else ""
        raise ValueError(
            f"there is no job {name} in {jobs}{hint}: train it with playbooks/train.yml -e job=FILE, or name a "
            "directory with -e model=DIRECTORY"
        )
    status = directory.look(path, limit=0)["status"]
    if status["state"] != "succeeded":
        raise ValueError(
            f"job {name} {'is running' if status['state'] == 'running' else 'has not succeeded: it ' + status['state']}"
            f"{': ' + status['reason'] if status.get('reason') else ''}, so its model is not complete: wait for its "
            f"end (playbooks/status.yml -e job={name}), or train it again (playbooks/train.yml)"
        )
    output = path / "output"
    files = [path for path in _files(output) if _is_of_model(path.name)]
    job = (read_json(path / "job.json") or {"job": {}})["job"]
    length, default = model_shape.SCRIPTS.get(Path(job.get("script", "")).name, ("", 0))
    # transformers' parser takes hyphens, too.
    args = {key.replace("-", "_"): value for key, value in job.get("args", {}).items()}
    args = {**({length: default} if length else {}), **args}
    model = _read(output, files, record, f"job {name}", adapter)
    if adapter:
        base = path / str(model["config"].get("base_model_name_or_path", ""))
        model["base"] = [
            file_set.recorded_sha256(file, record) for file in sorted(base.glob(f"*{contents.SAFETENSORS}"))
        ]
    return {**model, "args": args, "trained_on": trained_on(path, args)}


def keep(
    jobs: Path, name: str, cache: Path, record: Record, *, dry: bool = False, adapter: bool = False
) -> tuple[dict[str, Any], bool]:
    """Return what of_job does, and whether the model was copied into the cache, which outlives the job's directory.

    dry: whether nothing is copied. Raises OSError, ValueError.
    """
    model = of_job(jobs, name, record, adapter=adapter)
    target = cache / "models" / model["sha256"]
    is_new = not _has(target, model, record)
    if is_new and not dry:
        copy(Path(model["directory"]), model["files"], target)
    return {**model, "directory": str(target)}, is_new


def _is_of_model(name: str) -> bool:
    return not name.startswith((".", *LEFT_OUT)) and not name.endswith(LEFT_OUT_ENDS)


def of_directory(path: Path, record: Record, *, adapter: bool = False) -> dict[str, Any]:
    """Return what of_job does for a directory with a model, or an adapter. Raises OSError, ValueError."""
    if not path.is_dir():
        raise ValueError(f"there is no directory {path}: name one with a model, with -e model=DIRECTORY")
    files = [file for file in _files(path) if not file.name.startswith(".")]
    return {**_read(path, files, record, str(path), adapter), "args": {}, "trained_on": []}


def _files(place: Path) -> list[Path]:
    """Return the files of a model's directory."""
    return [*(path for path in sorted(place.glob("*")) if path.is_file()), *sentence_models.files(place)]


def _read(place: Path, files: Sequence[Path], record: Record, label: str, adapter: bool) -> dict[str, Any]:
    names = [str(path.relative_to(place)) for path in files]
    lacks = (adapters if adapter else contents).lacks(names)
    if lacks:
        raise ValueError(f"{label} left no {'adapter' if adapter else 'model'}: {place} {lacks}")
    if adapter:
        names = [adapters.CONFIG, adapters.WEIGHTS]
    contents.check(place, names, of_model=True)
    if adapter and (tensor := contents.not_finite(place / adapters.WEIGHTS)):
        raise ValueError(f"{label} left weights that are not finite, such as {tensor}: train it again")
    of_it = adapters.CONFIG if adapter else "config.json"
    config = read_json(place / of_it)
    if not isinstance(config, dict):
        raise ValueError(f"{place}/{of_it} is not a JSON object: copy the model again")
    if not adapter:
        config = {**config, sentence_models.ENTRY: sentence_models.described(place, config)}
    listed = [{"file": name, "sha256": file_set.recorded_sha256(place / name, record)} for name in names]
    return {
        "directory": str(place),
        "files": [entry["file"] for entry in listed],
        "sha256": file_set.key(listed),
        "weights": [entry["sha256"] for entry in listed if entry["file"].endswith(contents.SAFETENSORS)],
        "config": config,
        **({"shapes": adapters.shapes(place), "base": []} if adapter else {}),
    }


def trained_on(path: Path, args: Mapping[str, Any]) -> list[str]:
    """Return the columns of the training data of the job in `path`; empty where no file of it tells."""
    for name in TRAINING_FILES:
        if not isinstance(args.get(name), str):
            continue
        for place in (path / args[name], path / "project" / args[name]):
            try:
                return rows.open_data(place).columns
            except (OSError, ValueError):
                continue
    return []


def copy(source: Path, names: Sequence[str], target: Path) -> None:
    """Copy files into a directory that no other user can read, all or none. Raises OSError.

    Files of their own, as the job's may be written again in place; blocks are shared where the file system can.
    """
    part = target.with_name(f".{target.name}.{os.getpid()}")
    target.parent.mkdir(parents=True, exist_ok=True)
    part.mkdir(mode=0o700)
    try:
        command = ["cp", "--parents", "--reflink=auto", "--preserve=timestamps", "--", *names, str(part)]
        ran = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
        if ran.returncode:
            raise OSError(ran.stderr.strip())
        shutil.rmtree(target, ignore_errors=True)
        part.replace(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _has(target: Path, model: Mapping[str, Any], record: Record) -> bool:
    """Return whether a copy of a model is what it was, and private."""
    try:
        target.chmod(0o700)
        listed = [{"file": name, "sha256": file_set.recorded_sha256(target / name, record)} for name in model["files"]]
        linked = any((target / name).stat().st_nlink > 1 for name in model["files"])  # by an earlier release
    except OSError:
        return False
    return not linked and file_set.key(listed) == model["sha256"]


def find(
    prefix: Path,
    name: str,
    trained_by: str,
    model: str,
    data: str,
    named: Mapping[str, str] = MappingProxyType({}),
    *,
    dry: bool = False,
) -> tuple[dict[str, Any], bool]:
    """Return {model, data, previous} of a prediction, as far as they are on the head, and whether the head was changed.

    prefix: cluster_prefix. name: of the job of the prediction. trained_by: the job that trained the model; empty where
    `model` is a directory. model, data: head:PATH, or paths on the control node. previous: as `previous` returns it.
    named: {name: source} of adapters, see adapters.read; they are in `adapters`. dry: whether nothing is
    changed. Raises OSError, ValueError.
    """
    jobs, cache = prefix / "jobs", prefix / CACHE
    facts: dict[str, Any] = {"model": {}, "data": {}, "previous": previous(jobs / name), "adapters": {}}
    on_head = inference_requests.on_head
    directory_there, file_there = on_head(model), on_head(data)
    here = {key: source for key, source in named.items() if adapters.is_job(source) or on_head(source)}
    if not (trained_by or directory_there or file_there or here):
        return facts, False
    changed = not cache.is_dir()
    if not dry:
        _ownership.claim(cache, "directory")
    record = Record(cache / "models.read.json")
    if trained_by:
        facts["model"], copied = keep(jobs, trained_by, cache, record, dry=dry)
        changed = changed or copied
    elif directory_there:
        facts["model"] = of_directory(Path(directory_there), record)
    if file_there:
        facts["data"] = of_data(Path(file_there), prefix, record, dry=dry)
    for key, source in here.items():
        try:
            if adapters.is_job(source):
                facts["adapters"][key], copied = keep(jobs, source, cache, record, dry=dry, adapter=True)
                changed = changed or copied
            else:
                facts["adapters"][key] = of_directory(Path(on_head(source)), record, adapter=True)
        except ValueError as error:
            raise ValueError(f"serve_adapters: {key}: {error}") from None
    if named and facts["model"]:
        facts["model"]["shapes"] = adapters.shapes(Path(facts["model"]["directory"]))
    if not dry:
        record.save()
    return facts, changed


def of_data(path: Path, prefix: Path, record: Record, *, dry: bool = False) -> dict[str, Any]:
    """Return what a prediction needs of a file on the head: {name, sha256, directory, described}.

    directory: one with the file alone. described: as `describe` does; empty where dry. Raises OSError, ValueError.
    """
    if not path.is_file():
        raise ValueError(f"data: there is no file {path} on the head")
    sha256, cache = file_set.recorded_sha256(path, record), prefix / CACHE
    copy = cache / "data" / sha256[:16]
    data = {"name": path.name, "sha256": sha256, "directory": str(copy), "described": {}}
    if dry:
        return data
    try:
        described = describe(prefix / "env/bin/python", path)
    except ValueError as error:
        raise ValueError(f"data: {error} (on the head)") from None
    copy.mkdir(mode=0o700, parents=True, exist_ok=True)
    target = copy / path.name
    if not target.is_symlink() or target.readlink() != path:
        target.unlink(missing_ok=True)
        target.symlink_to(path)
    return {**data, "described": described}


def describe(python: Path, path: Path) -> dict[str, Any]:
    """Return what rows.describe does of a file, by a Python that may have pyarrow. Raises OSError, ValueError."""
    if path.is_file():
        contents.check(path.parent, [path.name])
    ran = subprocess.run(
        [python, "-B", "-m", rows.__name__, path],
        cwd="/",
        env={**os.environ, "PYTHONPATH": str(LIBRARY)},
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        raise ValueError((ran.stderr.strip().splitlines() or ["the data cannot be described"])[-1])
    described: dict[str, Any] = json.loads(ran.stdout)
    return described


def previous(path: Path) -> dict[str, str]:
    """Return what became of the previous start in a job directory: {state, started, digest}; empty without one."""
    try:
        status = directory.look(path, limit=0)["status"]
    except ValueError:
        return {}
    return {
        **{key: status.get(key, "") for key in ("state", "started")},
        "digest": inference_requests.of_job(path).get("digest", ""),
    }


def carry_over(job_directory: Path, digest: str) -> list[int]:
    """Link the chunks of earlier starts of a prediction into its new job directory; return the numbers of all there.

    Earlier starts are those that were moved aside and have the same digest. A damaged chunk is left out, so that it is
    computed anew. Raises OSError, and ValueError where the chunks cannot be read.
    """
    with directory.privately():
        (job_directory / inference_requests.CHUNKS).mkdir(parents=True, exist_ok=True)
    there: list[int] = _run_shards(job_directory, "--list")
    for earlier in sorted(job_directory.parent.glob(f"{job_directory.name}.2*"), reverse=True):
        if inference_requests.of_job(earlier).get("digest") != digest:
            continue
        for path in inference_requests.chunks(earlier):
            target = job_directory / inference_requests.CHUNKS / path.name
            if not target.exists():
                os.link(path, target)
        # Removes damaged ones: an older start may have left a sound one.
        there = _run_shards(job_directory, "--list")
    return there


def collect(path: Path, here: str, shared: bool) -> dict[str, Any]:
    """Copy the chunks of all hosts of the plan to this one, the head, and join them; return the summary.

    Raises OSError, and ValueError where a host's chunks cannot be had, or some are missing.
    """
    plan = read_json(path / "plan.json") or {}
    if not plan.get("hosts"):
        raise ValueError(f"{path} has no plan.json")
    for host in plan["hosts"]:
        if host["host"] != here and not shared:
            # As if another host had written what is here: the chunks of all are kept.
            problem = transfers.fetch(host["host"], path / inference_requests.CHUNKS, lambda: False, before=here)
            if problem:
                raise ValueError(problem)
    try:
        summary: dict[str, Any] = _run_shards(path)
    except (OSError, ValueError) as error:
        raise ValueError(disk_problem(str(error), here, str(path)) or str(error)) from None
    return summary


def _run_shards(path: Path, *options: str) -> Any:
    """Return what shards.py of a prediction prints about its job directory. Raises OSError, ValueError as it does."""
    plan = read_json(path / "plan.json") or {}
    with directory.privately():
        ran = subprocess.run(
            [f"{plan['environment']}/bin/python", "-m", "amx_cluster.inference.shards", *options, str(path)],
            cwd=plan["runtime"],
            env={**os.environ, "PYTHONPATH": plan["runtime"]},
            capture_output=True,
            text=True,
            check=False,
        )
    if ran.returncode:
        raise ValueError((ran.stderr.strip().splitlines() or ["it ended without a message"])[-1])
    return json.loads(ran.stdout.splitlines()[-1])
