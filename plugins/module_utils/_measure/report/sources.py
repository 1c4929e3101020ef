# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measured results, read from their directories: jobs, sweeps, tuning, inference, loads and networks.

Files are read as they are: a part that is missing, or is not what it should be, is left out of the report.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _io
from ansible_collections.amx.cluster.plugins.module_utils._io import read_json
from ansible_collections.amx.cluster.plugins.module_utils._text import names

# What a directory of results has, by the file in it.
KINDS = {
    "results.json": "job",
    "sweep.json": "sweep",
    "tune.json": "tuning",
    "inference.json": "inference",
    "load.json": "load",
    "network.json": "network",
}
WORDS = {kind: kind for kind in KINDS.values()} | {"network": "network measurement"}
# Kinds that are not compared with training, each a job of its own.
APART = ("inference", "load")
# Bytes of a log that are searched for losses: the last ones.
SEARCHED = 16 << 20


def number(value: Any) -> float | None:
    """Return a finite number as it is, anything else as None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return value


def figure_or_name(value: Any) -> float | str | None:
    """Return a number as it is, one that is not finite by its name (nan, inf), anything else as None."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return number(value)


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a mapping as it is, anything else as an empty one."""
    return value if isinstance(value, Mapping) else {}


def entries(value: Any) -> list[Mapping[str, Any]]:
    """Return the mappings in a list; of anything else none."""
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []


def text(value: Any) -> str:
    """Return a string, or a number as one; anything else as an empty one."""
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return str(value)
    return ""


@dataclass(frozen=True)
class Source:
    """A result. kind: a value of KINDS. content: the file that makes it this kind. label: its name in the report."""

    kind: str
    path: Path
    content: Mapping[str, Any]
    label: str = ""
    # Of a job: files beside results.json; empty where they are missing.
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    launch: str = ""
    losses: Sequence[Mapping[str, Any]] = ()
    # Of a sweep: the jobs of its runs, of which results lie in the directory.
    runs: Sequence[Source] = ()

    @property
    def job(self) -> str:
        return text(self.content.get("job"))

    @property
    def model(self) -> str:
        if self.kind in APART:
            each = self.content.get("cells" if self.kind == "inference" else "runs")
            models = dict.fromkeys(text(entry.get("model")) for entry in entries(each))
            return names([model for model in models if model], 4)
        return text(self.content.get("model")) or _model(mapping(self.files.get("job.json")).get("job"))

    @property
    def stack(self) -> str:
        return text(self.content.get("stack"))

    @property
    def cpu(self) -> str:
        """Return the CPU's model name, where the results have it."""
        return text(self.content.get("cpu"))

    @property
    def isa(self) -> str:
        """Return the instruction sets of the job's hosts."""
        isas = self.content.get("isas")
        return ", ".join(map(text, isas)) if isinstance(isas, list) else ""

    @property
    def processor(self) -> str:
        """Return what tells results on different machines apart."""
        return short_cpu(self.cpu) or self.isa


@dataclass(frozen=True)
class Sources:
    """All that a report is about, in the order in which it was named."""

    all: tuple[Source, ...]

    def of(self, kind: str) -> list[Source]:
        return [source for source in self.all if source.kind == kind]


def of_job(name: str, results: Path) -> list[Path]:
    """Return the directories of a job's results: its own, those of its measurements, the network's if of it.

    results: the directory into which results are fetched. Raises ValueError when none is there.
    """
    directories = [results / f"{name}{suffix}" for suffix in ("", "-scale", "-tune", "-inference", "-load")]
    directories = [path for path in directories if _kinds(path)]
    network = read_json(results / "network" / "network.json") or {}
    if network.get("job") == name:
        directories.append(results / "network")
    if not directories:
        raise ValueError(
            f"there are no results of job {name} in {results}: fetch them with playbooks/results.yml -e job={name}"
        )
    return directories


def read(paths: Iterable[Path], mixed: bool = False) -> Sources:
    """Return what is in these directories. mixed: whether they may be of different jobs, models and stacks.

    Raises ValueError naming each directory that has no results, or what is mixed.
    """
    directories = list(dict.fromkeys(Path(path) for path in paths))
    if not directories:
        raise ValueError("a report of nothing: add -e job=NAME, or -e of=DIRECTORY,... with results")
    errors, sources = [], list[Source]()
    for path in directories:
        kinds = _kinds(path)
        if not kinds:
            errors.append(_none(path))
        for name in kinds:
            document = read_json(path / name)
            if document is None:
                errors.append(f"{path / name} is not JSON: fetch or measure it again")
            else:
                sources.append(_source(KINDS[name], path, document))
    if errors:
        raise ValueError("\n".join(errors))
    refused = "" if mixed else _mixed(sources)
    if refused:
        raise ValueError(refused)
    return Sources(_labelled(sources))


def _kinds(path: Path) -> list[str]:
    return [name for name in KINDS if (path / name).is_file()]


def _none(path: Path) -> str:
    if not path.is_dir():
        return f"{path}: there is no such directory"
    return f"{path} has no results: none of {', '.join(KINDS)} is in it"


def _mixed(sources: Sequence[Source]) -> str:
    """Return what differs among results that are to be of the same work; an empty string when nothing does."""
    others = [source for source in sources if source.kind not in APART]
    return next(
        filter(None, map(_differing, [others, *([s for s in sources if s.kind == kind] for kind in APART)])), ""
    )


def _differing(sources: Sequence[Source]) -> str:
    for attribute in ("job", "model", "stack"):
        by_value: dict[str, list[str]] = {}
        for source in sources:
            # The model as the job's end has recorded it: a name read elsewhere may be written otherwise.
            value = text(source.content.get(attribute))
            if value:
                by_value.setdefault(value, []).append(str(source.path))
        if len(by_value) > 1:
            described = "; ".join(f"{value} ({names(paths)})" for value, paths in by_value.items())
            return (
                f"these results are of different {attribute}s and cannot be compared as they are: {described}. Make a "
                "report of each, or add -e mixed=true"
            )
    return ""


def _labelled(sources: Sequence[Source]) -> tuple[Source, ...]:
    """Return the sources with labels that tell them apart: by CPU, where that differs, or by directory."""
    made = []
    for source in sources:
        same = [other for other in sources if other.kind == source.kind]
        cpus = {other.processor for other in same}
        jobs = {other.job for other in same}
        parts = [source.job or source.path.name] if len(jobs) > 1 or len(cpus) == 1 or not source.processor else []
        parts += [source.processor] if len(cpus) > 1 and source.processor else []
        made.append((source, ", ".join(parts)))
    labels = [(source.kind, label) for source, label in made]
    return tuple(
        replace(
            source,
            label=label if labels.count((source.kind, label)) == 1 else _told_apart(label, source, made),
        )
        for source, label in made
    )


def _told_apart(label: str, source: Source, made: Sequence[tuple[Source, str]]) -> str:
    same = [other.path for other, used in made if used == label and other.kind == source.kind]
    directory = source.path.name if len({path.name for path in same}) == len(same) else str(source.path)
    return f"{label} ({directory})"


def short_cpu(name: str) -> str:
    """Return a CPU's model name without what all have."""
    for word in ("(R)", "(TM)", "Intel", "CPU", "Processor"):
        name = name.replace(word, " ")
    return " ".join(name.split("@")[0].split())


def _model(job: Any) -> str:
    """Return the name of the model in a job file: that of the hub or the package, or the script's argument."""
    models = list(mapping(mapping(job).get("models")).values())
    if len(models) == 1:
        model = mapping(models[0])
        return text(model.get("hub")) or text(model.get("package")) or text(model.get("directory"))
    return text(mapping(mapping(job).get("args")).get("model_name_or_path"))


def _source(kind: str, path: Path, document: Mapping[str, Any]) -> Source:
    if kind == "sweep":
        runs = [text(run.get("job")) for run in entries(document.get("runs"))]
        places = [place / name for name in runs if name for place in (path, path.parent)]
        there = {place: read_json(place / "results.json") for place in dict.fromkeys(places)}
        jobs = [_source("job", place, result) for place, result in there.items() if result is not None]
        return Source(kind, path, document, runs=tuple(jobs))
    if kind != "job":
        return Source(kind, path, document)
    beside = ("plan.json", "status.json", "progress.json", "job.json", "utilization.json", "stack.json")
    files = {name: read_json(path / name) or {} for name in beside}
    launch = path / "launch.sh"
    return Source(
        kind,
        path,
        document,
        files=files,
        launch=launch.read_text(encoding="utf-8", errors="replace") if launch.is_file() else "",
        losses=tuple(_losses(path, document)),
    )


def _losses(path: Path, results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return {step, epoch, loss, eval_loss} by step, from the Trainer's state, or from what it printed.

    not_finite: the name of a loss that is no finite number, where there was one at that step.

    The Trainer writes its state at the end if the script asks for that, and into every checkpoint.
    """
    states = [path / "output" / "trainer_state.json"]
    states += sorted(
        (path / "output").glob("checkpoint-*/trainer_state.json"),
        key=lambda state: state.stat().st_mtime,
        reverse=True,
    )
    for state in states:
        logged = entries((read_json(state) or {}).get("log_history"))
        if logged:
            return _points(logged)
    printed = _printed(path / "log")
    steps, last = number(results.get("steps")), number(mapping(results.get("metrics")).get("epoch"))
    if steps and last:
        printed = [{**entry, "step": round(entry["epoch"] / last * steps)} for entry in printed if "epoch" in entry]
    return _points(printed)


def _points(logged: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the losses among the entries of a Trainer's history; of steps that were made again, the last."""
    points: dict[tuple[Any, Any], dict[str, Any]] = {}
    for entry in logged:
        point: dict[str, Any] = {key: number(entry.get(key)) for key in ("step", "epoch", "loss", "eval_loss")}
        losses = (figure_or_name(entry.get(key)) for key in ("loss", "eval_loss"))
        bad = next((loss for loss in losses if isinstance(loss, str)), None)
        if bad is not None:
            point["not_finite"] = bad
        before = number(entry.get("eval_before_loss"))
        if before is not None and point["eval_loss"] is None:
            point.update(eval_loss=before, step=0)
        if point["loss"] is None and point["eval_loss"] is None and bad is None:
            continue
        if point["step"] is None and point["epoch"] is None:
            continue
        key = (point["step"], point["epoch"])
        kept = points.setdefault(key, point)
        kept.update({name: value for name, value in point.items() if value is not None})
    return sorted(points.values(), key=lambda point: (point["step"] or 0, point["epoch"] or 0))


def _printed(log: Path) -> list[dict[str, float]]:
    """Return what the Trainer printed into a log: a line for each, a dictionary with figures as strings."""
    if not log.is_file():
        return []
    entries = []
    for line in _io.tail(log, 0, SEARCHED).splitlines():
        if not line.startswith("{'") or "loss'" not in line:
            continue
        try:
            entry = ast.literal_eval(line)
            entries.append({key: float(value) for key, value in entry.items()})
        except (ValueError, SyntaxError, TypeError, AttributeError, MemoryError, RecursionError):
            continue
    return entries
