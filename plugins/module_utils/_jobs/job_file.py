# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The job file: what a user requests, checked completely before anything happens."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _yaml
from ansible_collections.amx.cluster.plugins.module_utils._cores import memory as memory_policy
from ansible_collections.amx.cluster.plugins.module_utils._forms import (
    SWITCH,
    Place,
    check_fields,
    one_of,
    text,
    type_name,
    whole,
)
from ansible_collections.amx.cluster.plugins.module_utils._jobs import (
    contradictions,
    inference_field,
    inference_requests,
    job_fields,
    kinds,
    on_end,
    secret_env,
)
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_fields import JobField, row
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers import known
from ansible_collections.amx.cluster.plugins.module_utils._jobs.slurm import fields

_ONLY_INFERENCE = dict.fromkeys(
    (name for name in kinds.IN_JOB_FILES if name != kinds.INFERENCE.name), "set kind: inference, or leave it out"
)
_ITS_OWN = {name: "the script saves its own" for name, kind in kinds.KINDS.items() if not kind.can_resume}

_WITHOUT_TRAINER = [name for name, kind in kinds.KINDS.items() if not kind.takes_trainer_arguments]
_SHARDS_ITSELF = dict.fromkeys(_WITHOUT_TRAINER, "the script shards its own model, if at all")


FIELDS: dict[str, JobField] = {
    "name": row(job_fields.NAMED, "name of the job directory, `<cluster_prefix>/jobs/<name>`"),
    "script": row(
        job_fields.SCRIPT,
        "what every [rank](glossary.md) runs in the job directory; the second form is an [example of "
        "transformers](#example-jobs)",
        inference="leave it out",
    ),
    "description": row(text(0), "for people", compared=False),
    "project": row(
        job_fields.PROJECT,
        "[directory](own_project.md) with the script and all that it imports and reads, copied to every host; "
        "`script` and `prepare` are paths in it",
        inference="leave it out",
        of_script=True,
    ),
    "project_max_mb": row(whole(1), "largest size of the project in MB (10^6 bytes), without ignored files"),
    "args": row(
        job_fields.ARGUMENTS,
        "arguments of the script without dashes: `true` is the bare flag, `false` is `--flag false`, a list is the "
        "flag and its items",
        inference="leave it out",
        of_script=True,
        tried=True,
    ),
    "request": row(
        job_fields.REQUEST,
        "what a program of the collection computes, as playbooks/predict.yml, serve.yml and infer.yml write it",
        inference="leave it out",
        of_script=True,
        tried=True,
        compared=False,
    ),
    "prepare": row(
        job_fields.PREPARE,
        "script that the head runs once in the job directory, before the ranks; its `data/` is copied to every host; "
        "`job_args: true` adds the job's `args`",
        inference="leave it out",
        of_script=True,
    ),
    "models": row(job_fields.PROVIDED, "[models](models_and_datasets.md) copied to every host", of_script=True),
    "data": row(job_fields.PROVIDED, "[datasets](models_and_datasets.md) copied to every host", of_script=True),
    "metrics": row(job_fields.METRICS, "[metrics](models_and_datasets.md) copied to every host", of_script=True),
    "requirements": row(job_fields.REQUIREMENTS, "[packages](#additional-packages) besides the stack", of_script=True),
    "wheels": row(
        job_fields.WHEELS,
        "[wheels](#additional-packages) of your own packages on the control node",
        of_script=True,
        hosts_only="are installed on hosts: build the image with them (image_packages of playbooks/image.yml)",
    ),
    "precision": row(
        one_of("auto", *inference_requests.PRECISIONS),
        "`auto` is bf16 if every host has it in hardware ([AMX](amx.md) or avx512_bf16), else fp32; elsewhere `bf16` "
        "is emulated, and the plan warns; `int8` and `fp16` name what a script of kind `ranks` runs",
        inference="set precisions under inference",
    ),
    "hosts": row(job_fields.HOSTS, "how many, from the top of the inventory, the head first; or which", tried=True),
    "ranks_per_node": row(
        job_fields.RANKS,
        '`auto` is one for each NUMA node with CPUs, `socket` one for each socket; `"<=N"` is N, or as many as '
        "[fit](core_allocation.md). Jobs without this and the next three take `cluster_cores` of the inventory",
        inference="set instances_per_node under inference",
        of_cores=True,
        tried=True,
    ),
    "comm_cores": row(
        job_fields.CORES, "cores of each rank for communication", inference="leave it out", of_cores=True, tried=True
    ),
    "reserved_cores": row(job_fields.CORES, "cores of each host for the system", of_cores=True, tried=True),
    "threads_per_core": row(
        job_fields.THREADS,
        "OpenMP threads on each compute core; 2 needs two hardware threads",
        of_cores=True,
        tried=True,
    ),
    "memory": row(
        one_of(*memory_policy.VALUES),
        "where a rank's [memory](core_allocation.md#memory) is allocated: `local`, on the nodes of its cores; "
        "`interleave`, on all with CPUs; `hbm`, the nearest HBM; `any`, the kernel's choice",
    ),
    "env": row(job_fields.ENV, "additional environment variables of the ranks", tried=True),
    "env_launcher": row(
        job_fields.ENV_LAUNCHER,
        "environment variables of the [launcher](#launchers)",
        hosts_only="is for mpirun and torchrun on hosts: leave it out, or write the variables under env",
    ),
    "env_from": row(
        job_fields.ENV_FROM,
        "environment variables of the ranks with [secret](#secrets) values in the inventory",
        of_script=True,
    ),
    "kind": row(one_of(*kinds.IN_JOB_FILES), "what the script [needs](#kinds-of-job)"),
    "backend": row(
        one_of("auto", "mpi", "gloo", "ccl"),
        "how ranks [communicate](collectives.md); `auto` is `cluster_backend` of the inventory, else the stack's own "
        "if the launcher has it, else gloo",
        inference="leave it out",
        tried=True,
    ),
    "gradient_compression": row(
        one_of("none", "bf16"),
        "[format](collectives.md#gradient-compression) in which DistributedDataParallel sends gradients; backend mpi "
        "only",
        inference="leave it out",
        hosts_only="needs backend mpi, and pods have gloo: leave it out",
    ),
    "sharding": row(
        one_of("none", "optimizer", "full"),
        "what the Trainer [divides](sharding.md) among the ranks: `optimizer` is gradients and optimizer states, "
        "`full` also parameters",
        not_for=_SHARDS_ITSELF,
        inference="leave it out",
        of_script=True,
    ),
    "optimize": row(
        job_fields.OPTIMIZE,
        "parts of a step that are [faster](faster_steps.md) than PyTorch's; `auto` is all in jobs that train; "
        "default: `cluster_optimize` of the inventory, else `auto`",
        inference="leave it out",
        tried=True,
    ),
    "launcher": row(one_of(*known.LAUNCHERS), "what [starts the ranks](#launchers)"),
    "slurm": row(
        fields.FORM,
        "what the job requests of [Slurm](slurm.md); it wins over `cluster_slurm` of the inventory, field by "
        "field, `extra` as a whole",
        compared=False,
    ),
    "checkpoints": row(
        job_fields.CHECKPOINTS,
        "after how many steps the Trainer saves a checkpoint, and how many it keeps (default all)",
        not_for=_ITS_OWN,
        inference="leave it out",
        of_script=True,
    ),
    "restarts": row(
        whole(0),
        "how often the job is restarted after a [fault](faults_and_restarts.md)",
        inference="leave it out",
        compared=False,
    ),
    "min_hosts": row(
        whole(1),
        "fewest reachable hosts with which a job may restart (default all)",
        inference="leave it out",
        compared=False,
    ),
    "replace": row(
        SWITCH,
        "whether the job ends after a checkpoint when a host is [taken back](cloud.md#spot-hosts), to continue with "
        "a replacement",
        inference="leave it out",
        compared=False,
        hosts_only="is for hosts that are rented: leave it out",
    ),
    "global_batch": row(
        job_fields.GLOBAL_BATCH,
        'samples of a step over all ranks, the [same on any number of hosts](#global-batch); `"<=N"` is N, or '
        "somewhat less if the ranks do not divide it",
        not_for=dict.fromkeys(_WITHOUT_TRAINER, "the script divides its own batches"),
        inference="leave it out",
        of_script=True,
    ),
    "keep_global_batch": row(
        SWITCH,
        "whether a restart on fewer hosts keeps the global batch size; `global_batch` implies it",
        inference="leave it out",
        hosts_only="is not available in pods, which continue with the batch of a rank: leave it out",
    ),
    "stall_seconds": row(
        whole(0), "seconds without [progress](watching.md) of any rank after which the job is ended; 0 is never"
    ),
    "watch": row(job_fields.WATCH, "[checks of a running job](watching.md), each `true` (default) or `false`"),
    "measure": row(
        job_fields.MEASURE,
        "whether steps are [timed](where_the_time_goes.md), and how many at the beginning do not count; `split` "
        "divides them into computing, communication and input; `profile` is the number of steps whose operations are "
        "timed",
        inference="leave it out",
        compared=False,
    ),
    "inference": row(
        inference_field.FORM,
        "what kind `inference` [measures](inference.md#request)",
        not_for=_ONLY_INFERENCE,
        of_script=True,
    ),
    "wait": row(
        SWITCH,
        "whether to wait in the [queue](job_status.md#queue) for hosts that another job has locked",
        compared=False,
        hosts_only="is for hosts that another job has locked; Kubernetes queues pods by itself: leave it out",
    ),
    "priority": row(
        whole(-1000, 1000),
        "place of a job that waits: before those with a lower one",
        compared=False,
        hosts_only="is for jobs that wait for hosts; Kubernetes queues pods by itself: leave it out",
    ),
    "expect": row(
        job_fields.EXPECT,
        "smallest allowed metrics in `all_results.json`, such as `{eval_accuracy: 0.72}`; below, the job has failed",
        inference="leave it out",
        of_script=True,
        compared=False,
    ),
    "on_end": row(
        job_fields.ON_END,
        "what the head does at the [end of the job](#the-end-of-a-job)",
        inference="leave it out",
        of_script=True,
        compared=False,
        hosts_only="is done by the supervisor on the head, and pods have none: leave it out, and watch the object of "
        "the job",
    ),
}
"""The fields of job files by name, in the order in which the docs have them: for each its check, its JSON Schema
(jobs/job.schema.json), its row in docs/job_files.md, and the jobs in which it is refused."""


def compared(job: Job, *varied: str) -> dict[str, Any]:
    """Return the fields, as JSON can hold them, that jobs share whose measurements can be compared.

    varied: those that the measurement itself varies.
    """
    known = {name for name, row in FIELDS.items() if row.compared and name not in varied}
    return {name: value for name, value in job.to_json().items() if name in known}


class JobFileError(ValueError):
    """Everything that is wrong with a job file, in one message: a line for each error."""

    def __init__(self, path: Path, errors: list[str]) -> None:
        self.errors = errors
        super().__init__(f"{path}: " + ("\n  ".join(["this job cannot be run:", *errors]) if errors[1:] else errors[0]))


def _job_files(directory: Path) -> dict[Path, str]:
    """Return the job files in a directory and in jobs/ below it, each with its name; other YAML is left out.

    They are not parsed: a job file with an error in it is found by its name as well.
    """
    files = {}
    for path in (path for place in ("", "jobs") for path in sorted((directory / place).glob("*.y*ml"))):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            text = path.read_text(encoding="utf-8")
            if re.search(r"^(kind|script|ranks_per_node)[ \t]*:", text, re.MULTILINE):
                name = re.search(r"""^name[ \t]*:[ \t]*["']?([\w.-]+)""", text, re.MULTILINE)
                files[path] = name[1] if name and name[1] != "null" else path.stem
    return files


def load(path: Path, override: object = None) -> Job:
    """Read and check the job file at `path`; a relative one is taken from the current directory.

    A path without a file may be the name of a job whose file is there, or in jobs/.
    override: a mapping of fields that win over the file's; a mapping in it is merged with the file's.
    Raises JobFileError, whose message names the file and every error in it with what was expected.
    """
    path = path.expanduser().absolute()
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, IsADirectoryError) as error:
        # By their full paths: a bare site.yml would be taken for the playbook.
        near = _job_files(path.parent)
        named = [file for file, name in near.items() if name == path.name]
        if len(named) == 1:
            return load(named[0], override)
        if path.is_dir():
            raise JobFileError(path, [f"cannot be read: {error}"]) from error
        listed = [str(file) for file in named or near][:10]
        there = f"; {'those of this name' if named else 'job files'} are {', '.join(listed)}" if listed else ""
        raise JobFileError(path, [f"there is no such job file{there}"]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise JobFileError(path, [f"cannot be read: {error}"]) from error
    import yaml  # only here: the control node has it, while modules may bring this file to hosts that do not

    try:
        data = _yaml.load(text)
    except yaml.YAMLError as error:
        # Without the lines that a parser's message quotes, which may have a secret; so neither has its traceback.
        raise JobFileError(path, [_yaml.problem(error)]) from None
    if override:
        if not isinstance(override, dict):
            hint = "as with -e '{override: {hosts: 2}}'"
            raise JobFileError(
                path, [f"override is {type_name(override)} where a mapping of fields is expected, {hint}"]
            )
        if isinstance(data, dict):
            data = {**data, **{key: _merged(data.get(key), value) for key, value in override.items()}}
    return parse(data, path)


def without_secrets(path: Path) -> str:
    """Return the text of a valid job file; where `env` in it has secrets, the same fields with these masked."""
    text = path.read_text(encoding="utf-8")
    import yaml  # as in load

    data = _yaml.load(text)
    if not isinstance(data, dict):
        return text
    env, ending = data.get("env", {}), data.get(on_end.FIELD)
    hidden = secret_env.found_in(env) if isinstance(env, dict) else {}
    shown = {**data, "env": {**env, **dict.fromkeys(hidden, secret_env.MASK)}} if hidden else data
    if isinstance(ending, dict) and "url" in ending:
        shown = {**shown, on_end.FIELD: {**ending, "url": on_end.hidden(str(ending["url"]))}}
    if shown is data:
        return text
    return str(yaml.safe_dump(shown, sort_keys=False, allow_unicode=True))


def _merged(own: object, other: object) -> object:
    return {**own, **other} if isinstance(own, dict) and isinstance(other, dict) else other


def parse(data: object, path: Path) -> Job:
    """Check the parsed content of the job file at `path`; relative paths in it are relative to its directory.

    Raises JobFileError as `load` does.
    """
    if not isinstance(data, dict):
        raise JobFileError(
            path, [f"holds {type_name(data)} where a mapping of fields such as name and script is expected"]
        )
    if isinstance(data.get("trainer"), bool) and "kind" not in data:  # what kind was before there were three
        kind = kinds.TRAINER if data["trainer"] else kinds.TORCH
        data = {**{key: value for key, value in data.items() if key != "trainer"}, "kind": kind.name}
    kind = kinds.KINDS.get(str(data.get("kind")), kinds.TRAINER)
    foreign = {
        name: row.not_for[kind.name] for name, row in FIELDS.items() if name in data and kind.name in row.not_for
    }
    given = {name: value for name, value in data.items() if name not in foreign}
    place = Place(path.parent)
    missing = tuple(name for name in ("name", *kind.required) if name not in data)
    if "project" in given:
        try:
            place = Place(path.parent, FIELDS["project"].form.check(given["project"], place))
        except ValueError:  # reported below; where its scripts would be is not known
            given = {name: value for name, value in given.items() if name not in ("script", "prepare")}
    values, errors = check_fields(FIELDS, given, place, missing)
    errors = [f"{name}: is not for kind {kind.name}: {remedy}" for name, remedy in foreign.items()] + errors
    if "project_max_mb" in data and "project" not in data:
        errors.append("project_max_mb: is the size of a project, and there is none: leave it out")
    if not errors:
        if kind.program:
            values["script"] = kind.program
        job = Job(file=path, **values)
        errors = contradictions.of_job(job)
    if errors:
        raise JobFileError(path, errors)
    return job


def of_inventory(job: Job, job_env: object) -> dict[str, str]:
    """Return {variable: value} of those secrets of a job that are the inventory's. Raises ValueError as `secrets`."""
    values = secret_env.from_inventory(job.env_from, job_env, job.name, job.file)
    if job.on_end and job.on_end.url_from:
        name = job.on_end.url_from
        url = secret_env.from_inventory([name], job_env, job.name, job.file, f"{on_end.FIELD}.url_from")[name]
        try:
            values[on_end.SECRET] = on_end.checked_url(url)
        except ValueError as error:
            raise ValueError(f"Job {job.name} cannot be started: {name} in job_env of the inventory {error}.") from None
    return values


def secrets(job: Job, job_env: object, override: object = None) -> dict[str, str]:
    """Return {variable: value} of a job's secrets, which none of its files has.

    job_env: the inventory's. override: as the job file was read with. It is read once more: a job that comes from JSON
    has the names only. Raises ValueError when job_env or the job file does not have one of them.
    """
    values = of_inventory(job, job_env)
    if job.secrets:
        own = load(job.file, override).secrets
        gone = [name for name in job.secrets if name not in own]
        if gone:
            raise ValueError(f"{job.file} has been changed since it was read, it has no {gone[0]} any more: run again")
        values.update({name: own[name] for name in job.secrets})
    return values
