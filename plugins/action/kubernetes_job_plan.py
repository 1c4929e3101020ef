# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils._jobs import project_files
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job, load
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run, Settings
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run_files import secrets as values_of
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import (
    api,
    checks,
    derivation,
    live,
    manifest,
    objects,
    settings,
    starts,
    training,
)
from ansible_collections.amx.cluster.plugins.plugin_utils import inventory_in_use, job_on_kubernetes

display = Display()


class ActionModule(ActionBase):
    """Plans the start of a job on Kubernetes, on the control node: reads the cluster, and changes nothing in it."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(
            {
                **job_on_kubernetes.ARGUMENTS,
                "user": {"type": "str", "default": ""},
                "since": {"type": "str", "default": ""},
                "resume": {"type": "bool", "default": False},
                "check_nodes": {"type": "bool", "default": True},
                "secret_of": {"type": "str", "default": "", "no_log": False},
            }
        )
        if not options["job"]:
            return {"failed": True, "msg": job_on_kubernetes.NO_JOB}
        try:
            job = load(Path(options["job"]), options["override"])
            return self.secret(options, job) if options["secret_of"] else self.plan(options, job)
        except (OSError, ValueError) as error:
            return {"failed": True, "msg": inventory_in_use.commands(str(error), task_vars)}

    @staticmethod
    def derive(options: dict[str, Any], job: Job, start: str) -> tuple[derivation.Derived, dict[str, Any], Run]:
        """Return what follows from the job, the tree of its project, and its run as the control node has it."""
        tree = project_files.read(job)["project"]
        who = {"user": options["user"], "since": options["since"], "start": start}
        run = Run(job, Settings(head="", backend=options["backend"], project=project_files.summary(tree), **who))
        return derivation.derive(run, options["stack"], settings.read(options["kubernetes"]), True), tree, run

    def plan(self, options: dict[str, Any], job: Job) -> dict[str, Any]:
        """Return the objects of a new start, after all checks. Raises ValueError with a line for each refusal."""
        derived, tree, run = self.derive(options, job, secrets.token_hex(6))
        values_of(run, options["job_env"], options["override"])
        chosen = derived.settings
        display.display(derivation.describe(derived))
        cluster = api.Api.connect(chosen.kubeconfig, chosen.context)
        made = manifest.render(derived, manifest.job_files(derived, job, tree))
        without_values = [objects.secret(derived, {})] if derived.secret else []
        found = checks.gather(cluster, derived, [*without_values, *made])
        refused = checks.refusals(derived, found, cluster.context, options["check_nodes"])
        if refused:
            lines = "".join(f"\n- {line}" for line in refused)
            raise ValueError(f"Job {job.name} was not started on {cluster.server}:{lines}")
        if options["resume"]:
            derived, tree, run = self.derive(options, job, self.previous_start(job, found))
            made = manifest.render(derived, manifest.job_files(derived, job, tree))
        for note in checks.notes(found):
            display.display(f"  note: {note}")
        own = [one for one in made if one["kind"] not in objects.SHARED]
        place = 2 if derived.is_prepared else 1  # after the ConfigMap, the Job that prepares
        there = [one for one in found.earlier if one["kind"] == "ConfigMap" and one["metadata"]["name"] == derived.name]
        previous = next(iter(live.gather(cluster, chosen.namespace, derived.name)), None)
        here = {"Namespace": bool(found.namespace), "PersistentVolumeClaim": found.claim is not None}
        return {
            "changed": False,
            "job": job.name,
            "name": derived.name,
            "namespace": chosen.namespace,
            "kind": chosen.kind,
            "start": derived.run.settings.start,
            "resumed": options["resume"],
            "kubeconfig": os.pathsep.join(map(str, api.kubeconfig_paths(chosen.kubeconfig))),
            "context": cluster.context,
            "has_secret": bool(derived.secret),
            "secret": without_values,
            # What pods and the Secret need comes before them, and what is there already stays as it is.
            "shared": [one for one in made if one["kind"] in objects.SHARED and not here[one["kind"]]],
            # By this ConfigMap one start is chosen: see starts.py.
            "config": own[0],
            "version": there[0]["metadata"]["resourceVersion"] if there else "",
            "record": starts.record(previous) if previous else {},
            # Pods that train would take the CPUs that the one which prepares the data needs.
            "first": own[1:place],
            "objects": own[place:],
            "is_prepared": derived.is_prepared,
            "previous": [
                {"api_version": one["apiVersion"], "kind": one["kind"], "name": one["metadata"]["name"]}
                for one in found.earlier
                if one not in there
            ],
        }

    @staticmethod
    def previous_start(job: Job, found: checks.Found) -> str:
        """Return the start whose directory on the volume is continued. Raises ValueError without one."""
        starts = [
            one["metadata"].get("annotations", {}).get(objects.START, "")
            for one in found.earlier
            # stop.yml deletes what trains, and leaves the files.
            if training.is_training(one) or one["kind"] == "ConfigMap"
        ]
        if not any(starts):
            raise ValueError(f"job {job.name} has no previous run on the cluster to continue: leave job_resume out")
        return str(next(filter(None, starts)))

    def secret(self, options: dict[str, Any], job: Job) -> dict[str, Any]:
        """Return the Secret of a start. Its task has no_log."""
        derived, _tree, run = self.derive(options, job, options["secret_of"])
        values = values_of(run, options["job_env"], options["override"])
        return {"changed": False, "secret": objects.secret(derived, values)}
