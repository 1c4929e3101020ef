# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which fields of a job file have no meaning in pods, and what to do about each."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import FIELDS
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.settings import Settings
from ansible_collections.amx.cluster.plugins.module_utils._stacks import packaging_files


def refusals(job: Job, settings: Settings) -> list[str]:
    """Return why a job cannot run on Kubernetes with these settings, a line for each field."""
    return [*_of_hosts(job, settings), *_of_files(job)]


def _of_hosts(job: Job, settings: Settings) -> Iterator[str]:
    if isinstance(job.hosts, list):
        yield (
            f"hosts: {', '.join(job.hosts)} are hosts of the inventory, and pods have none: set hosts to the number of "
            "pods, and node_selector in cluster_kubernetes to the nodes"
        )
    elif (job.hosts or 1) > settings.workers:
        yield (
            f"hosts: {job.hosts} pods, and cluster_kubernetes has {settings.workers} workers: set one of them to the "
            "other"
        )
    pods = job.hosts if isinstance(job.hosts, int) else settings.workers
    if job.min_hosts is not None and job.min_hosts > pods:
        yield f"min_hosts: {job.min_hosts} of {pods} pods: set it to at most {pods}"
    if job.min_hosts is not None and job.min_hosts < pods and settings.kind == "TrainJob":
        yield (
            f"min_hosts: {job.min_hosts} of {pods}: a TrainJob restarts with all of its nodes only: leave it out, or "
            "set kind in cluster_kubernetes to PyTorchJob or Job"
        )
    for name, row in FIELDS.items():
        if row.hosts_only and job.sets(name):
            yield f"{name}: {row.hosts_only}"


def _of_files(job: Job) -> Iterator[str]:
    for kind in ("models", "data", "metrics"):
        for name, source in getattr(job, kind).items():
            if source.directory and source.at == "head":
                yield (
                    f"{kind}: {name}: {source.directory} is a directory on the head, and pods have none: copy it to "
                    "the control node, or use its hub repository"
                )
    git = [text for text in job.requirements if packaging_files.is_git(text)]
    if git:
        yield (
            f"requirements: {', '.join(git)} would be built on the control node: build a wheel, and the image with it "
            "(image_packages of playbooks/image.yml)"
        )
