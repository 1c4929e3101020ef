# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A TrainJob of Kubeflow Trainer with its runtime (trainer.kubeflow.org/v1alpha1), which makes a JobSet of them."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import objects
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.derivation import Derived
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.indexed_job import INDEX

GROUP = "trainer.kubeflow.org"
# The trainer looks for the pods of a TrainJob by this label, and for a container of this name.
STEP, CONTAINER = {f"{GROUP}/trainjob-ancestor-step": "trainer"}, "node"


def render(derived: Derived, files: Mapping[str, bytes]) -> list[objects.Object]:
    """Return the TrainingRuntime, which has the pod, and the TrainJob.

    numProcPerNode is a number always: without it the trainer would start a process for each CPU of the pod.
    """
    restarts = derived.run.job.restarts
    template = objects.training_pod(derived, files, CONTAINER, INDEX, "Never")
    template["metadata"]["labels"].update(STEP)
    # Not only in the TrainJob: whoever reads the runtime sees what its pods take.
    runtime = {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "TrainingRuntime",
        "metadata": objects.metadata(derived),
        "spec": {
            "mlPolicy": {"numNodes": derived.pods, "torch": {}},
            "template": {
                "spec": {
                    # All pods start again when one is lost; none of them when the job has failed.
                    "failurePolicy": {
                        "maxRestarts": restarts,
                        "rules": [
                            {
                                "name": "failed",
                                "action": "FailJobSet",
                                "onJobFailureReasons": ["PodFailurePolicy"],
                            }
                        ],
                    },
                    "replicatedJobs": [
                        {
                            "name": CONTAINER,
                            "replicas": 1,
                            "template": {
                                "spec": {
                                    "backoffLimit": 0,
                                    "podFailurePolicy": objects.lost_pods_only(CONTAINER),
                                    "template": template,
                                }
                            },
                        }
                    ],
                }
            },
        },
    }
    job = {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "TrainJob",
        "metadata": objects.metadata(derived),
        "spec": {
            "runtimeRef": {"apiGroup": GROUP, "kind": "TrainingRuntime", "name": derived.name},
            "trainer": {
                "image": derived.settings.image,
                "numNodes": derived.pods,
                "numProcPerNode": derived.ranks,
                "resourcesPerNode": derived.resources.of_container(),
            },
        },
    }
    return [runtime, job]
