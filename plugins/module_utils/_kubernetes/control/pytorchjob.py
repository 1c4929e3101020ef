# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A PyTorchJob of Kubeflow's training operator (kubeflow.org/v1, maintained on its release 1.9)."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import objects
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.derivation import PORT, Derived

INDEX = f"metadata.labels['{objects.REPLICA_INDEX}']"


def render(derived: Derived, files: Mapping[str, bytes]) -> list[objects.Object]:
    """Return the PyTorchJob. The operator makes a Service for each of its pods, NAME-worker-0 and so on.

    Its container must be named pytorch, its port pytorchjob-port, and nprocPerNode be text. It sets
    PET_RDZV_ENDPOINT and PET_NNODES by elasticPolicy, which has no master.
    """
    restarts = derived.run.job.restarts
    # The operator counts how often containers were started again, and the job's restarts are counted in the first pod:
    # this is more than they can be. In a pod whose job has failed, the command pod ends at once until the limit
    # is reached.
    limit = restarts * derived.pods + 1 if restarts else 0
    # The operator gives pods the restartPolicy of their replicas.
    template = objects.training_pod(derived, files, "pytorch", INDEX, "", "pytorchjob-port")
    spec = {
        "nprocPerNode": str(derived.ranks),
        "runPolicy": {"cleanPodPolicy": "Running", "backoffLimit": limit},
        "elasticPolicy": {
            "rdzvBackend": "c10d",
            "rdzvId": f"{derived.name}-{derived.run.settings.start}",
            "rdzvPort": PORT,
            "minReplicas": derived.least_pods,
            "maxReplicas": derived.pods,
            "maxRestarts": restarts,
        },
        "pytorchReplicaSpecs": {
            "Worker": {
                "replicas": derived.pods,
                "restartPolicy": "OnFailure" if restarts else "Never",
                "template": template,
            }
        },
    }
    return [
        {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": objects.metadata(derived), "spec": spec}
    ]
