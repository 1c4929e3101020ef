# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values derived from a job, its stack and cluster_kubernetes, before any pod is there."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs import batches, oneccl, provided
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers import kubernetes
from ansible_collections.amx.cluster.plugins.module_utils._jobs.requests import inventory_optimize
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes import interface
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import kinds, quantities, resources
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.refusals import refusals
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.resources import Resources
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.settings import BF16_LABELS, Settings
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.interface import JOB
from ansible_collections.amx.cluster.plugins.module_utils._stacks import catalogue
from ansible_collections.amx.cluster.plugins.module_utils._text import names

# Names of pods are their object's and up to so many characters.
LONGEST_NAME = 48
PORT = 29500
"""At which the first pod waits for the others: torchrun's usual one."""

NAME = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")


@dataclass(frozen=True)
class Derived:
    """A job on Kubernetes. run: as the pods read it, without a path of the control node. name: of its objects.

    pods, least_pods: how many it starts with, and with how many it goes on. ranks: of each pod, as its object declares
    them. optimized: the parts of a step that are computed faster than PyTorch does. notes: what a person should know.
    """

    run: Run
    settings: Settings
    stack: str
    name: str
    pods: int
    least_pods: int
    ranks: int
    resources: Resources
    backend: str
    optimized: list[str]
    notes: tuple[str, ...] = ()

    @property
    def first_pod(self) -> str:
        """The host name at which the pods meet."""
        return kinds.TRAINING[self.settings.kind].first_pod.format(name=self.name)

    @property
    def secret(self) -> str:
        """The name of its Secret; empty for a job without secrets."""
        job = self.run.job
        return f"{self.name}-env" if job.env_from or job.secrets else ""

    @property
    def is_prepared(self) -> bool:
        """Return whether something must be on the volume before ranks can start."""
        job = self.run.job
        return bool(job.prepare or any(getattr(job, kind) for kind in provided.CACHED))

    def for_pods(self) -> dict[str, Any]:
        """Return what pods need to know besides the run, as kubernetes.json in the ConfigMap has it."""
        return {
            "version": 1,
            "interface": interface.VERSION,
            "programs": interface.digest(),
            "name": self.name,
            "kind": self.settings.kind,
            "stack": self.stack,
            "backend": self.backend,
            "pods": self.pods,
            "least_pods": self.least_pods,
            "ranks": self.ranks,
            "restarts": self.run.job.restarts,
            "first_pod": self.first_pod,
            "port": PORT,
            "prepared": self.is_prepared,
        }


def object_name(job: str) -> str:
    """Return the name of a job's objects, a DNS label. Raises ValueError where there is none."""
    name = re.sub(r"[^a-z0-9-]+", "-", job).strip("-")
    name = name if name[:1].isalpha() else f"job-{name}"
    if len(name) > LONGEST_NAME or not NAME.fullmatch(name):
        raise ValueError(
            f"name: {job} gives no name for pods, which has at most {LONGEST_NAME} characters and begins with a "
            "letter: shorten it"
        )
    return name


def precision(wanted: str, settings: Settings) -> str:
    """Return the precision of a job: "auto" is bf16 where the node selector requires CPUs that multiply bfloat16."""
    if wanted != "auto":
        return wanted
    return "bf16" if any(settings.node_selector.get(label) == "true" for label in BF16_LABELS) else "fp32"


def declared_ranks(job: Job, settings: Settings, cpus: int) -> int:
    """Return how many ranks a pod's object declares: a pod starts as many unless its CPUs are of other NUMA nodes.

    Raises ValueError for one per socket, since a pod's sockets are known in the pod alone.
    """
    if job.ranks_per_node == "auto":
        return min(settings.numa_nodes, cpus)
    if job.ranks_per_node == "socket":
        raise ValueError(
            "ranks_per_node: socket: the sockets of a pod's CPUs are not known before it starts: set a number of ranks"
        )
    most = int(str(job.ranks_per_node).replace("<=", ""))
    return min(most, cpus) if str(job.ranks_per_node).startswith("<=") else most


def portable(job: Job) -> Job:
    """Return the job with its paths as pods have them: no path of the control node leaves it."""
    base = Path(JOB)

    def inside(path: Path) -> Path:
        if job.project:
            return base / "project" / path.relative_to(job.project)
        return base / path.name if path.is_absolute() else path

    sources: dict[str, Any] = {
        kind: {
            name: replace(source, directory=Path(source.directory).name) if source.directory else source
            for name, source in getattr(job, kind).items()
        }
        for kind in provided.CACHED
    }
    return replace(
        job,
        file=base / "job.yml",
        script=inside(job.script),
        project=base / "project" if job.project else None,
        prepare=replace(job.prepare, script=inside(job.prepare.script)) if job.prepare else None,
        **sources,
    )


def scripts_digest(job: Job) -> str:
    """Return the digest of the scripts that the job file names; those of a project are in its own."""
    scripts = [job.script, *([job.prepare.script] if job.prepare else [])]
    contents = [script.read_bytes() for script in scripts if script.is_absolute() and not job.project]
    return hashlib.sha256(b"\0".join(contents)).hexdigest()


def derive(run: Run, stack: Mapping[str, Any], settings: Settings, creates_secret: bool = False) -> Derived:
    """Return what follows from a run, an entry of the catalogue and the settings.

    creates_secret: whether the job's Secret is created with the other objects.

    Whatever launcher the job names, it is started by this one. Raises ValueError, with a line for each reason, where
    the job cannot run on Kubernetes.
    """
    own = replace(run.job, launcher=kubernetes.LAUNCHER.name)
    errors = refusals(own, settings)
    values: dict[str, Any] = {}

    def attempt(key: str, call: Any) -> None:
        try:
            values[key] = call()
        except ValueError as error:
            errors.append(str(error))

    attempt("name", lambda: object_name(own.name))
    attempt("backend", lambda: Run(own, run.settings).backend(catalogue.backend_key(stack)))
    if values.get("backend") == "ccl":
        errors += filter(None, [oneccl.refusal(own.env, False, 2, own.comm_cores != 0)])
    attempt("inventory", lambda: inventory_optimize(run.settings.optimize))
    attempt("optimized", lambda: Run(own, run.settings).optimized(stack))
    attempt("resources", lambda: _resources(own, settings))
    if errors:
        lines = "".join(f"\n- {error}" for error in errors)
        raise ValueError(f"Job {own.name} ({run.job.file}) cannot run on Kubernetes:{lines}")
    requested: Resources = values["resources"]
    ranks = declared_ranks(own, settings, requested.cpus)
    pods = own.hosts if isinstance(own.hosts, int) else settings.workers
    undivided = batches.refusal(own.global_batch, [ranks] * pods)
    if undivided:
        raise ValueError(f"Job {own.name} ({run.job.file}) cannot run on Kubernetes: {undivided}")
    chosen = replace(portable(own), precision=precision(own.precision, settings))
    brought = dict(run.settings.project)
    if brought:
        brought["directory"] = Path(brought["directory"]).name
    inside = Run(chosen, replace(run.settings, project=brought))
    nodes = asdict(replace(settings, context="", kubeconfig=""))
    text = json.dumps([inside.to_json(), nodes, stack["name"], scripts_digest(own)], sort_keys=True)
    start = hashlib.sha256(text.encode()).hexdigest()[:12]
    return Derived(
        Run(chosen, replace(inside.settings, start=run.settings.start or start)),
        settings,
        stack["name"],
        values["name"],
        pods,
        own.min_hosts or pods,
        ranks,
        requested,
        values["backend"],
        values["optimized"],
        tuple(_notes(own, settings, chosen.precision, ranks, creates_secret)),
    )


def _resources(job: Job, settings: Settings) -> Resources:
    kept_cpus = resources.reserved_cpus(settings.cpus) if settings.reserved_cpus is None else settings.reserved_cpus
    kept = resources.reserved_memory(settings.memory) if settings.reserved_memory is None else settings.reserved_memory
    first = resources.of_pod(settings.cpus, settings.memory, kept_cpus, kept, 0)
    workers = job.args.get("dataloader_num_workers", 0)
    workers = workers if isinstance(workers, int) and not isinstance(workers, bool) else 0
    ranks = declared_ranks(job, settings, first.cpus)
    if ranks > first.cpus:
        raise ValueError(f"ranks_per_node: {ranks} ranks in a pod of {first.cpus} CPUs: set it to at most {first.cpus}")
    shm = resources.shm_of_job(ranks, workers, first.memory) if settings.shm is None else settings.shm
    return resources.of_pod(settings.cpus, settings.memory, kept_cpus, kept, shm)


def _notes(job: Job, settings: Settings, chosen: str, ranks_per_pod: int, creates_secret: bool) -> list[str]:
    notes = []
    if job.ranks_per_node == "auto":
        notes.append(
            f"ranks_per_node is auto: objects declare {ranks_per_pod}, for CPUs of {settings.numa_nodes} NUMA node(s) "
            "(numa_nodes); each pod starts one rank for each NUMA node that its CPUs are of"
        )
    if job.precision == "auto":
        notes.append(f"precision is auto: {chosen}, by the node selector ({_selector(settings)})")
    for kind in provided.CACHED:
        for name, source in getattr(job, kind).items():
            if source.directory:
                notes.append(
                    f"{kind}: {name}: copy {source.directory} to {provided.CACHED[kind]}/{name} on the volume before "
                    "the pods start"
                )
    if (job.env_from or job.secrets) and not creates_secret:
        names = ", ".join([*job.env_from, *job.secrets])
        notes.append(f"the Secret with {names} is not among the files: create it, or add -e with_secret=true")
    return notes


def _selector(settings: Settings) -> str:
    return ", ".join(f"{key}={value}" for key, value in settings.node_selector.items()) or "none"


def describe(derived: Derived) -> str:
    """Return the derived figures as lines for a person."""
    amounts, settings, job = derived.resources, derived.settings, derived.run.job
    elastic = f", going on with {derived.least_pods}" if derived.least_pods < derived.pods else ""
    lines = [
        f"Job {job.name} as {settings.kind} {derived.name} in namespace {settings.namespace}",
        f"  {derived.pods} pod(s){elastic}, {derived.ranks} rank(s) each, {job.restarts} restart(s)",
        f"  each pod: {amounts.cpus} of {settings.cpus} CPUs, {quantities.memory(amounts.memory)} of "
        f"{quantities.memory(settings.memory)}, /dev/shm {quantities.memory(amounts.shm)}; requests = limits",
        f"  image {settings.image}, stack {derived.stack}, {derived.backend}, {job.precision}",
        *([f"  optimized steps: {names(derived.optimized)}"] if derived.optimized else []),
        f"  nodes with {_selector(settings)}; volume {settings.claim}",
    ]
    return "\n".join([*lines, *(f"  note: {note}" for note in derived.notes)])
