# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The log of a pod, followed until its job ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import checks, jobs, pods
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.api import Api, ApiError
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.following import JobFailed


def follow(
    api: Api,
    job: jobs.JobInPods,
    number: int,
    show: Callable[[str], None],
    say: Callable[[str], None],
    every: float = 2,
) -> dict[str, Any] | None:
    """Show what a pod prints until the job ends; return the job's status. None where its pods are gone.

    number: of the pod. show: prints a line of the log. say: prints one of ours. Raises JobFailed where the job has
    failed, and ValueError.
    """
    checks.require(api, checks.LOG)
    shown: dict[tuple[str, int], int] = {}
    reported = ""
    while True:
        status = jobs.status(job)
        ended = jobs.has_ended(status["state"])
        if ended and not job.pods:
            return None
        if job.pods and (ended or number >= len(job.pods)):
            job.pod(number)  # there will be none of that number
        pod = next((item for item in job.pods if pods.number_of(item) == number), None)
        if pod and (pods.is_running(pod) or pods.terminated(pod)):
            if not shown and not ended:
                say(
                    f"Following the log of pod {pod['metadata']['name']}. Ctrl-C leaves the job running; come back to "
                    f"it with\n  playbooks/logs.yml -e job={job.job} (or status, stop)"
                )
            _show(api, pod, shown, show, follow=not ended)
        elif status["reason"] != reported:
            reported = status["reason"]
            say(f"  {status['state']}: {reported}")
        if ended:
            text = f"job {status['job']} {status['state']}" + (f": {status['reason']}" if status["reason"] else "")
            if status["state"] != "succeeded":
                raise JobFailed(text, {"status": status})
            say(text)
            return status
        time.sleep(every)
        job = next(iter(jobs.gather(api, job.name)), None) or jobs.JobInPods(job.name, job.namespace)


def _show(
    api: Api, pod: pods.Object, shown: dict[tuple[str, int], int], show: Callable[[str], None], *, follow: bool
) -> None:
    """Print the lines of the pod's container that were not shown before. shown: how many were, by container."""
    key = (pod["metadata"]["uid"], pods.restarts(pod))
    before = shown.setdefault(key, 0)
    try:
        for place, line in enumerate(api.log(pod["metadata"]["name"], pods.container_of(pod), follow)):
            if place >= before:
                show(line)
                shown[key] = place + 1
    except ApiError as error:
        if error.status not in (0, 400, 404):
            raise
        # The connection was lost, the container is being replaced, or its pod was deleted: what follows shows
        # whether the job goes on.
