# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Batch predictions on the control node: the request, and prediction.json among the results."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.amx.cluster.plugins.module_utils import _yaml
from ansible_collections.amx.cluster.plugins.module_utils._data import contents, file_set
from ansible_collections.amx.cluster.plugins.module_utils._data.records import Record
from ansible_collections.amx.cluster.plugins.module_utils._documents import Document
from ansible_collections.amx.cluster.plugins.module_utils._forms import Place
from ansible_collections.amx.cluster.plugins.module_utils._io import read_json, write_text
from ansible_collections.amx.cluster.plugins.module_utils._jobs import prediction_files, predictions
from ansible_collections.amx.cluster.plugins.module_utils._jobs.inference_requests import HEAD, PREDICTION, on_head
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import FIELDS, load
from ansible_collections.amx.cluster.plugins.module_utils._jobs.requests import choose_hosts
from ansible_collections.amx.cluster.plugins.module_utils._text import words
from ansible_collections.amx.cluster.plugins.plugin_utils import requested

# Of the actions that check which model is asked, besides the options of their commands.
ARGUMENTS: dict[str, Any] = {
    "hosts": {"type": "list", "elements": "str", "required": True},
    "results": {"type": "path", "required": True},
}


@dataclass(frozen=True)
class WantedModel(Document):
    """A model that is to be asked.

    name: of the job that asks it. trained_by: the job whose model it is; empty where that is in `model`, a directory
    (head:PATH for one on the head). hosts: of the job that asks it. directory: that of its results.
    """

    name: str
    trained_by: str
    model: str
    setting: dict[str, Any]
    columns: list[str]
    hosts: list[str]
    directory: Path

    def model_name(self) -> str:
        """Return what the model is called in messages."""
        return f"job {self.trained_by}" if self.trained_by else self.model

    @property
    def job_file(self) -> Path:
        """The path of the job file of the job that asks it."""
        return self.directory / "job.yml"

    def write_job(self, about: str, fields: Mapping[str, Any]) -> None:
        """Write the job file. about: its first lines. Raises OSError."""
        self.directory.mkdir(parents=True, exist_ok=True)
        write_text(self.job_file, about + yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=120))

    def source(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Return the model as a source of a job file. facts: what the module prediction_find has found of it."""
        is_on_head = self.trained_by or on_head(self.model)
        return {"directory": facts["directory"], **({"at": "head"} if is_on_head else {})}

    def model_found(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is known of the model, as prediction_files.of_job has it. Raises OSError, ValueError.

        facts: what the module prediction_find has found of it; empty for a directory on the control node.
        """
        return dict(facts) or prediction_files.of_directory(Path(self.model), Record())


@dataclass(frozen=True)
class Wanted(WantedModel):
    """A prediction that was requested.

    data: a file on the control node, or head:PATH. found: what is known of the data and the model so far, in the form
    of predictions.compared.
    """

    data: str
    described: dict[str, Any]
    found: dict[str, Any]
    output_file: Path | None

    @property
    def path(self) -> Path:
        """The path of prediction.json."""
        return self.directory / predictions.FILE

    def earlier(self) -> dict[str, Any] | None:
        """Return the prediction of this name that there is already."""
        return read_json(self.path)


def read_model(options: Mapping[str, Any], suffix: str, this: str, default: int | None = None) -> WantedModel:
    """Check which model is to be asked, and how. Raises ValueError and OSError.

    options: those of the command, and ARGUMENTS. suffix: as of predictions.job_name. this: its name in
    messages. default: how many hosts it has where the user has not said; None for all.
    """
    trained_by, model = _model(options, this)
    setting, where = _setting(options["setting"])
    other = predictions.other_model(setting, trained_by, model)
    if other:
        used = f"job {trained_by}" if trained_by else model
        raise ValueError(
            f"{where} is a setting of model {other}, and this {this} is made with {used}: name the setting that "
            f"playbooks/infer.yml wrote for it, or leave it out"
        )
    given = str(options[f"{suffix}_name"]).removesuffix(f"-{suffix}")
    name = predictions.job_name(given or _short(trained_by, model), suffix)
    hosts = _hosts(name, options, default)
    directory = Path(options["results"]).expanduser().absolute() / name
    setting = {**setting, **_task(options, setting)}
    return WantedModel(name, trained_by, model, setting, words(options["columns"]), hosts, directory)


def read(options: Mapping[str, Any]) -> Wanted:
    """Check the request as far as that needs no host. Raises ValueError and OSError.

    options: those of the action prediction_check.
    """
    wanted = read_model(options, predictions.SUFFIX, "prediction")
    data = options["data"]
    if not data:
        raise ValueError("no data were named: add -e data=FILE, a CSV, JSON lines or Parquet file")
    described: dict[str, Any] = {}
    facts: dict[str, Any] = {"data": {}, "model": {}}
    if wanted.columns:
        facts["columns"] = wanted.columns
    if not data.startswith(HEAD):
        path = Path(data).expanduser().absolute()
        described = describe(path)
        facts["data"] = {"name": path.name, "sha256": file_set.sha256(path)}
        data = str(path)
    elif not data.removeprefix(HEAD).startswith("/"):
        raise ValueError(f"data: {data} is not head:/PATH with an absolute path on the head")
    output_file = Path(options["output_file"]).expanduser().absolute() if options["output_file"] else None
    return Wanted(**vars(wanted), data=data, described=described, found=facts, output_file=output_file)


def _model(options: Mapping[str, Any], this: str) -> tuple[str, str]:
    job, model = options["job"], options["model"]
    if bool(job) == bool(model):
        raise ValueError(
            "no model was named: add -e job=NAME, a job that playbooks/train.yml ran, or -e model=DIRECTORY"
            if not job
            else f"job and model were both named: a {this} is made with one of them"
        )
    if job:
        return (load(Path(job)).name if job.endswith((".yml", ".yaml")) else job), ""
    if model.startswith(HEAD):
        if not model.removeprefix(HEAD).startswith("/"):
            raise ValueError(f"model: {model} is not head:/PATH with an absolute path on the head")
        return "", model.rstrip("/")
    place = Path(model).expanduser().absolute()
    problem = contents.lacks(path.name for path in place.iterdir()) if place.is_dir() else "is not there"
    if problem:
        raise ValueError(f"model: {place} {problem}: name a directory on the control node as save_pretrained writes it")
    return "", str(place)


def _short(trained_by: str, model: str) -> str:
    """Return what a prediction is called where the user has not said."""
    return trained_by or Path(model.removeprefix(HEAD)).name.lower()


def _setting(given: object) -> tuple[dict[str, Any], str]:
    """Return the setting, and what it is called in messages."""
    if not given:
        return {}, "setting"
    if isinstance(given, Mapping):
        return predictions.read_setting(requested.plain(given), "setting"), "setting"
    path = Path(str(given)).expanduser().absolute()
    try:
        document = _yaml.load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"setting: there is no file {path}: playbooks/infer.yml writes such a file") from None
    except yaml.YAMLError as error:
        raise ValueError(f"setting: {path}: {_yaml.problem(error)}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"setting: {path} cannot be read: {error}") from None
    return predictions.read_setting(document, str(path)), str(path)


def _task(options: Mapping[str, Any], setting: Mapping[str, Any]) -> dict[str, Any]:
    given, of_setting = options["task"], setting.get("task")
    if given and of_setting and given != of_setting:
        raise ValueError(f"task is {given}, and the setting is for {of_setting}: leave one of them out")
    return {"task": given} if given else {}


def _hosts(name: str, options: Mapping[str, Any], default: int | None) -> list[str]:
    """Return the hosts of the override's field; by default so many, None for all."""
    override = requested.plain(options["override"]) or {}
    if not isinstance(override, dict):
        raise ValueError("override is no mapping of fields, as with -e '{override: {hosts: 2}}'")
    wanted = FIELDS["hosts"].form.check(override["hosts"], Place()) if "hosts" in override else default
    job = Job(file=Path("override"), name=name, script=PREDICTION, hosts=wanted)
    return choose_hosts(job, options["hosts"])


def describe(path: Path) -> dict[str, Any]:
    """Return what prediction_files.describe does of a file here. Raises ValueError with what is wrong with it."""
    try:
        return prediction_files.describe(Path(sys.executable), path)
    except ValueError as error:
        hint = ": install pyarrow there, or put the file on the head and name it with -e data=head:/PATH"
        raise ValueError(f"data: {error}{hint if 'has no pyarrow' in str(error) else ''}") from None


def refusal(wanted: Wanted, again: bool, now: Mapping[str, Any] | None = None) -> str:
    """Return why the prediction cannot begin, or go on, for what is among the results; empty when it can.

    now: the request in full; what is known of it before a host was asked, where it is left out.
    """
    file = wanted.output_file
    if file and file.is_dir():
        return f"output_file: {file} is a directory: name a file"
    if file and not file.parent.is_dir():
        return f"output_file: there is no directory {file.parent} on the control node"
    if file and file.exists():
        return f"output_file: {file} exists already: remove it, or name another file"
    if again or not wanted.path.exists():
        return ""
    earlier = wanted.earlier()
    if earlier is None:
        return f"{wanted.path} is not complete JSON: add -e again=true to start anew; it is moved aside"
    differences = predictions.differences(earlier["request"], now or wanted.found)
    name = "give this prediction another name with -e predict_name=NAME, or add -e again=true to make it in its place"
    if differences:
        lines = "\n".join(f"- {line}" for line in differences)
        return (
            f"{wanted.path} is of another prediction, and rows of both cannot be mixed:\n{lines}\n"
            f"Undo the change to go on with that one, {name}; the other is moved aside."
        )
    removed = [entry["file"] for entry in earlier.get("files", []) if not (wanted.directory / entry["file"]).exists()]
    if earlier["state"] == "complete" and not removed:
        return (
            f"{wanted.directory} has the output of this prediction already, made {earlier['ended']}: {name}; what is "
            "there is moved aside."
        )
    return ""
