# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs in pods: what happens to them, by the API of the cluster that cluster_kubernetes names. No host is contacted."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from ansible.utils.vars import merge_hash
from ansible_collections.amx.cluster.plugins.module_utils._hosts import inventory
from ansible_collections.amx.cluster.plugins.module_utils._jobs import project_files
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import secrets as values_of
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run, Settings
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import (
    derivation,
    jobs,
    jobs_text,
    log,
    objects,
    settings,
    start,
    stop,
    volume,
)
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.api import Api, ApiError
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.following import Follower, JobFailed
from ansible_collections.amx.cluster.plugins.module_utils._stacks import catalogue
from ansible_collections.amx.cluster.plugins.plugin_utils import following
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes.runtime import (
    NO_NAME,
    Fetched,
    JobEnded,
    Jobs,
    Request,
    Runtime,
    Stopped,
    display,
    packed_json,
)

STACKS = Path(__file__).parents[3] / "roles/torch_stack/vars/stacks.yml"


@contextmanager
def ended() -> Iterator[None]:
    """Raise a job's failure as the interface has it."""
    try:
        yield
    except JobFailed as error:
        raise JobEnded(str(error), error.ended) from None


class Kubernetes(Runtime):
    """Pods of a Job, a PyTorchJob or a TrainJob. Its options are variables of the inventory: docs/kubernetes.md."""

    name = "kubernetes"
    planned: start.Plan | None = None

    # What it has

    def is_configured(self) -> bool:
        return self.variable("cluster_kubernetes") is not None

    @cached_property
    def settings(self) -> settings.Settings:
        return settings.read(self.variable("cluster_kubernetes"))

    @cached_property
    def api(self) -> Api:
        return Api.connect(self.settings.kubeconfig, self.settings.context, self.settings.namespace)

    def has(self, job: str) -> bool:
        """Return whether the cluster has objects of a job. With -e volume=true its volume may have its files alone."""
        return bool(self.find(job)) or self.reads_volume

    def also_has(self, job: str) -> str:
        with suppress(ValueError):
            if self.find(job):
                return jobs_text.duplicate(job, self.settings.namespace)
        return ""

    def missing(self, job: str) -> str:
        return jobs.is_missing(job, self.settings.namespace, jobs.gather(self.api)) if job else NO_NAME

    @property
    def reads_volume(self) -> bool:
        """Return whether the volume is read, also for jobs that the cluster has no objects of."""
        return is_on(self.option("volume"))

    def find(self, job: str) -> jobs.JobInPods | None:
        """Return a job; None where the cluster has no object of it. Raises ValueError."""
        return next(iter(jobs.gather(self.api, object_name(job))), None) if job else None

    def the_job(self, job: str) -> jobs.JobInPods:
        """Return a job. Raises ValueError, with the jobs that are there, where the cluster has no object of it."""
        in_pods = self.find(job)
        if in_pods is None:
            raise ValueError(self.missing(job))
        return in_pods

    # What it does

    @cached_property
    def stack(self) -> dict[str, Any]:
        """The stack of the image, an entry of the catalogue. Raises ValueError."""
        known = yaml.safe_load(STACKS.read_text(encoding="utf-8"))
        stacks = merge_hash(known["__torch_stack_catalogue"], self.variable("torch_stack_catalogue", {}))
        return catalogue.choose(
            stacks, self.variable("cluster_stack") or inventory.STACK, {}, known["__torch_stack_known_good"]
        )[0]

    def derive(self, request: Request, start_of: str) -> tuple[derivation.Derived, dict[str, Any], Run]:
        """Return what follows from a job for a start, the tree of its project, and its run on the control node."""
        job, given = request.run.job, request.run.settings
        tree = project_files.read(job, project_files.build_options(self.variable))["project"]
        own = Settings(
            head="",
            user=given.user,
            since=given.since,
            start=start_of,
            backend=given.backend,
            optimize=given.optimize,
            project=project_files.summary(tree),
        )
        run = Run(job, own)
        return derivation.derive(run, self.stack, self.settings, True), tree, run

    def plan(self, request: Request) -> None:
        """Check the job and the cluster completely, and show what was derived. Nothing is changed in the cluster."""
        first = secrets.token_hex(6)
        derived, _tree, run = self.derive(request, first)
        values_of(run.job, request.env, request.override)
        self.show(derivation.describe(derived))
        self.planned = start.plan(
            self.api,
            request.run.job,
            lambda start_of: self.derive(request, start_of)[:2],
            first,
            display.display,
            resume=request.resume,
            check_nodes=is_on(self.variable("kubernetes_check_nodes", True)),
        )

    def start(self, request: Request) -> dict[str, Any]:
        if self.planned is None:
            self.plan(request)
        planned = self.planned
        if planned is None:
            raise ValueError(f"job {request.run.job.name} was not planned")
        derived = planned.derived
        _derived, _tree, run = self.derive(request, derived.run.settings.start)
        values = values_of(run.job, request.env, request.override)
        secret = objects.secret(derived, values) if derived.secret else None
        follower = Follower(
            self.api,
            run.job.name,
            derived.name,
            derived.settings.kind,
            self.show,
            float(self.variable("kubernetes_start_timeout", 0)),
        )
        start.Transaction(self.api, run.job.name, planned).run(secret, follower)
        return self.watch(follower, shows_results=request.shows_results)

    def follow(self, job: str, *, shows_results: bool = True) -> dict[str, Any]:
        in_pods = self.the_job(job)
        return self.watch(
            Follower(self.api, in_pods.job, in_pods.name, in_pods.kind, self.show), shows_results=shows_results
        )

    def watch(self, follower: Follower, *, shows_results: bool = True) -> dict[str, Any]:
        """Show a job's progress until it ends."""
        self.show(f"Ctrl-C leaves job {follower.job} running. Its log: playbooks/logs.yml -e job={follower.job}")
        with ended(), closing(following.Progress(follower.job)) as progress:
            return follower.until_ended(progress, shows_results=shows_results)

    def log(self, job: str) -> dict[str, Any]:
        """Show the log of the pod -e pod until the job ends; where its pods are gone, that on the volume."""
        in_pods = self.find(job)
        if in_pods is None and not self.reads_volume:
            raise ValueError(self.missing(job))
        try:
            number = int(self.option("pod"))
            with ended():
                status = in_pods and log.follow(self.api, in_pods, number, display.display, self.show)
        except ApiError as error:
            if error.status:
                raise
            raise ValueError(
                f"{error}\nThe job does not need this connection; when the server answers again: playbooks/logs.yml -e "
                f"job={job}"
            ) from None
        if status:
            return {"status": status}
        name = object_name(job)
        with volume.reader(self.api, self.settings, display.display, name) as reader:
            directory = reader.directory(in_pods, name)
            text = reader.log(directory)
        display.display(f"The log on the volume, jobs/{directory}:\n{text.rstrip()}")
        return {"status": jobs.status(in_pods) if in_pods else {}}

    def status(self, job: str, gathered: Mapping[str, Mapping[str, Any]]) -> Jobs:
        listed: Sequence[Mapping[str, Any]] = []
        try:
            name = object_name(job) if job else ""
            in_pods = jobs.gather(self.api, name)
            missing = "" if in_pods or not job else self.missing(job)
            entries = [jobs.entry(jobs.with_report(self.api, item)) for item in in_pods]
            if self.reads_volume:
                with volume.reader(self.api, self.settings, display.display) as reader:
                    listed = [entry for entry in reader.job_directories() if not job or entry["name"] in (job, name)]
        except ValueError as error:
            return Jobs(problem=f"Jobs on Kubernetes are not known: {error}")
        if not self.reads_volume:
            return Jobs(entries, missing=missing)
        # A job that neither has is missing, and no table is shown for it.
        text = jobs_text.volume_table(listed) if listed or entries or not job else ""
        return Jobs(entries, missing=missing, document={"volume": listed}, text=text)

    def details(self, entry: Mapping[str, Any]) -> str:
        return jobs_text.details(entry, datetime.now(timezone.utc))

    def where(self, entry: Mapping[str, Any]) -> str:
        return f"{entry['kubernetes']['kind']} in {entry['kubernetes']['namespace']}"

    def owner(self, entry: Mapping[str, Any]) -> str:
        return str(entry["kubernetes"]["user"])

    def stop(self, job: str) -> Stopped:
        """Request the end of the job within -e grace seconds, and delete what runs its pods.

        With -e remove=true every object of it goes. The claim and the files on the volume stay.
        """
        in_pods = self.the_job(job)
        stopping = stop.plan(self.api, in_pods, remove=is_on(self.option("remove")))
        if not self.check_mode:
            stop.run(self.api, stopping, float(self.option("grace")), display.display)
        lines = [f"{item['kind']} {item['metadata']['name']}" for item in stopping.objects]
        removed = "would be removed" if self.check_mode else "removed"
        place = f" in {in_pods.directory}" if in_pods.directory else ""
        return Stopped(
            stopping.was_running,
            f"{removed} from namespace {in_pods.namespace}",
            lines,
            note=f"its files stay on the volume{place}",
        )

    def fetch(self, job: str, to: Path) -> Fetched:
        """Pack a job's directory in a pod of its own, and fetch that, verified by its SHA-256."""
        in_pods = self.find(job)
        if in_pods is None and not self.reads_volume:
            raise ValueError(self.missing(job))
        state = jobs.status(in_pods)["state"] if in_pods else ""
        if in_pods and not jobs.has_ended(state):
            raise ValueError(f"job {job} is {state} and has no results yet")
        name = object_name(job)
        with volume.reader(self.api, self.settings, display.display, name) as reader:
            directory = reader.directory(in_pods, name)
            sums = reader.fetch(directory, to)
        size = f"{sums['bytes'] / 2**20:.1f} MiB"
        note = f"{size} of jobs/{directory}, verified by SHA-256 {sums['sha256']}"
        return Fetched(packed_json(to, "results.json", "status.json"), facts=sums, note=note)


def object_name(job: str) -> str:
    """Return the name of the objects of a job; the name itself where no objects can have it."""
    with suppress(ValueError):
        return derivation.object_name(job)
    return job


def is_on(value: Any) -> bool:
    """Return whether a variable is on; text of a user's counts, too."""
    return str(value).lower() in ("true", "yes", "on", "1")
