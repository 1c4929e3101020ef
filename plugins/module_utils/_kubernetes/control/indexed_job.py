# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An Indexed Job with a headless Service: for clusters without an operator (Kubernetes 1.26 and later).

Versions 1.24 and 1.25 ignore podFailurePolicy: there the pods of a job that has failed are started again.
"""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import objects
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.derivation import Derived

CONTAINER = "train"
INDEX = f"metadata.annotations['{objects.COMPLETION_INDEX}']"


def render(derived: Derived, files: Mapping[str, bytes]) -> list[objects.Object]:
    """Return the Service and the Job. Pods are NAME-0, NAME-1 ... to each other."""
    restarts = derived.run.job.restarts
    template = objects.training_pod(derived, files, CONTAINER, INDEX, "Never")
    template["spec"]["subdomain"] = derived.name
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": objects.metadata(derived),
        "spec": {
            "completionMode": "Indexed",
            "completions": derived.pods,
            "parallelism": derived.pods,
            # Each restart of the job may replace all pods; how many restarts it has is counted in the first one.
            "backoffLimit": restarts * derived.pods,
            "podFailurePolicy": objects.lost_pods_only(CONTAINER),
            "template": template,
        },
    }
    return [objects.service(derived), job]
