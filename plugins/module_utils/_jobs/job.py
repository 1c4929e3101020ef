# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A job as plain data. What its file may say, and what each field means, is in job_file.py."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._cores.memory import LOCAL
from ansible_collections.amx.cluster.plugins.module_utils._documents import Document, defaults
from ansible_collections.amx.cluster.plugins.module_utils._jobs import kinds, on_end, secret_env


@dataclass(frozen=True)
class Prepare:
    """Script that the head runs once, before any rank, in the job directory. What it leaves in data/ is passed to
    every host. job_args: whether it gets the arguments of the job's script too, before its own."""

    script: Path
    args: dict[str, Any] = field(default_factory=dict)
    job_args: bool = False


@dataclass(frozen=True)
class Checkpoints:
    """Interval at which the Trainer saves checkpoints, in steps, and how many it keeps (None: all)."""

    steps: int
    keep: int | None = None


@dataclass(frozen=True)
class Watch:
    """Faults that a running job is watched for: see docs/watching.md."""

    gradients: bool = True
    stall: bool = True
    group: bool = True


@dataclass(frozen=True)
class Measure:
    """Timing of the steps of a job: see docs/where_the_time_goes.md.

    warmup_steps: steps at the beginning that do not count. split: whether each step is divided into computing,
    communication and input. profile: how many steps after those are profiled by kind of operation, None for none.
    """

    warmup_steps: int = 5
    split: bool = True
    profile: int | None = None


@dataclass(frozen=True)
class Source:
    """Source of a model or dataset: one of package (with path), directory (with at) and hub.

    package, path: a Python package that carries it, pinned, and its directory in it. directory, at: a directory on the
    "control" machine or the "head". hub, revision, files, at: a repository of the Hugging Face hub, patterns of its
    files (none: all), and where it is fetched.
    """

    package: str = ""
    path: str = ""
    directory: str = ""
    hub: str = ""
    revision: str = "main"
    files: list[str] = field(default_factory=list)
    at: str = "control"


@dataclass(frozen=True)
class Inference(Document):
    """Matrix of an inference measurement: every combination of these lists that a model has a use for.

    models: names in the job's `models`, of known_models, or job:NAME. tasks: of models whose task is not known
    otherwise. autocast: whether weights become bf16 or fp16 in each call; channels_last: whether images are laid out
    so; None tries both. instances_per_node: numbers, "auto" (one for each NUMA node) and "cores" (one for each core).
    rates: requests per second and instance of the open loop. seconds: of the closed loop, after `warmup` requests.
    p99_ms: limit of the recommended setting. budget: minutes.
    agreement: the least share of predictions equal to fp32's that a recommended setting has. evaluation: a CSV file of
    the job's `data`, by model. emulation: whether precisions run that the CPU only emulates.
    """

    models: list[str]
    tasks: dict[str, str] = field(default_factory=dict)
    precisions: list[str] = field(default_factory=lambda: ["fp32", "bf16", "int8"])
    engines: list[str] = field(default_factory=lambda: ["eager"])
    int8: list[str] = field(default_factory=lambda: ["dynamic"])
    autocast: bool | None = False
    channels_last: bool | None = None
    batch_sizes: list[int] = field(default_factory=lambda: [1, 16])
    sequence_lengths: list[int] = field(default_factory=lambda: [128])
    new_tokens: int = 16
    instances_per_node: list[int | str] = field(default_factory=lambda: [1, "auto", "cores"])
    threads_per_instance: list[int] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    seconds: float = 3.0
    warmup: int = 3
    p99_ms: float | None = None
    budget: float = 30.0
    agreement: float = 0.98
    emulation: bool = False
    evaluation: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Job(Document):
    """A valid job. Paths are absolute, on the control node; scripts of the transformers examples and of the collection
    are relative.

    project: the directory that its scripts are in, where there is one. request: what a program of the collection does,
    which it reads from job.json. slurm: what it requests of Slurm, by the names of slurm/fields.py.
    secrets: what was in `env` and looks like a secret. Only their names leave this object as JSON or text.
    """

    file: Path
    name: str
    script: Path
    description: str = ""
    project: Path | None = None
    project_max_mb: int = 200
    args: dict[str, Any] = field(default_factory=dict)
    request: dict[str, Any] = field(default_factory=dict)
    prepare: Prepare | None = None
    models: dict[str, Source] = field(default_factory=dict)
    data: dict[str, Source] = field(default_factory=dict)
    metrics: dict[str, Source] = field(default_factory=dict)
    requirements: list[str] = field(default_factory=list)
    wheels: list[Path] = field(default_factory=list)
    precision: str = "auto"
    hosts: int | list[str] | None = None
    ranks_per_node: int | str = "auto"
    comm_cores: int | str = "auto"
    reserved_cores: int | str = "auto"
    threads_per_core: int | str = 1
    memory: str = LOCAL
    env: dict[str, str] = field(default_factory=dict)
    env_launcher: dict[str, str] = field(default_factory=dict)
    env_from: list[str] = field(default_factory=list)
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    kind: str = kinds.TRAINER.name
    backend: str = "auto"
    gradient_compression: str = "none"
    sharding: str = "none"
    optimize: str | list[str] | None = None
    launcher: str = "mpirun"
    slurm: dict[str, Any] = field(default_factory=dict)
    checkpoints: Checkpoints | None = None
    restarts: int = 0
    min_hosts: int | None = None
    replace: bool = False
    global_batch: int | str | None = None
    keep_global_batch: bool = False
    stall_seconds: int = 600
    watch: Watch = field(default_factory=Watch)
    measure: Measure | None = None
    inference: Inference | None = None
    wait: bool = False
    priority: int = 0
    expect: dict[str, float] = field(default_factory=dict)
    on_end: on_end.OnEnd | None = None

    def __post_init__(self) -> None:
        if self.on_end and self.on_end.url and not self.on_end.url.endswith(on_end.HIDDEN):
            object.__setattr__(self, "secrets", {**self.secrets, on_end.SECRET: self.on_end.url})
            object.__setattr__(self, "on_end", replace(self.on_end, url=on_end.hidden(self.on_end.url)))
        variables = secret_env.found_in(self.env)
        if variables:
            public = {name: value for name, value in self.env.items() if name not in variables}
            object.__setattr__(self, "env", public)
            object.__setattr__(self, "secrets", {**self.secrets, **variables})

    def to_json(self) -> dict[str, Any]:
        """Return the job as JSON can hold it, without the values of its secrets."""
        return {**super().to_json(), "secrets": dict.fromkeys(self.secrets, secret_env.MASK)}

    def sets(self, name: str) -> bool:
        """Return whether a field has another value than its default."""
        return bool(getattr(self, name) != DEFAULTS[name])

    def model(self) -> str | None:
        """Return the hub repository, or else the name, of the model that is trained; None where it is not known."""
        given = next((self.args[name] for name in ("model_name_or_path", "config_name") if name in self.args), None)
        if isinstance(given, str):
            name = given[len("models/") :].rstrip("/") if given.startswith("models/") else given
        elif len(self.models) == 1:
            name = next(iter(self.models))
        else:
            return None
        source = self.models.get(name)
        return source.hub or name if source else name

    def named_args(self) -> dict[str, Any]:
        """Return the arguments by the names that transformers' parser gives them, with underscores for dashes."""
        return {name.replace("-", "_"): value for name, value in self.args.items()}

    def of_kind(self) -> kinds.Kind:
        """Return what is true of jobs of this kind."""
        return kinds.KINDS[self.kind]


DEFAULTS = defaults(Job)
