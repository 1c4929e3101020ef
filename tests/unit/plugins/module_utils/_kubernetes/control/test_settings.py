"""cluster_kubernetes: what is read, and every error with its field."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import settings
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.quantities import GI
from support.kubernetes_jobs import GIVEN


def test_what_is_read() -> None:
    read = settings.read({**GIVEN, "shm": "2Gi"})
    assert (read.cpus, read.memory, read.shm, read.kind) == (200, 128 * GI, 2 * GI, "Job")
    assert read.node_selector == {settings.AMX_LABEL: "true"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"worker": 2}, "worker: unknown field; did you mean workers?"),
        ({"image": None}, "image: None is not an image, such as"),
        ({"workers": 0}, "workers: 0 is not a whole number"),
        ({"workers": True}, "workers: True is not a whole number"),
        ({"cpus": "200"}, "cpus: '200' is not a whole number"),
        ({"memory": "128 GB"}, "memory: '128 GB' is not a quantity of memory"),
        ({"kind": "MPIJob"}, "kind: 'MPIJob' is not one of Job, PyTorchJob, TrainJob"),
        ({"namespace": "My_Team"}, "namespace: 'My_Team' is not a namespace"),
        ({"node_selector": {"amx": True}}, "node_selector: amx: True is not a label's value: write it as text"),
        ({"tolerations": [{"effects": "NoSchedule"}]}, "tolerations: effects: unknown field of a toleration"),
        ({"access_mode": "ReadWriteOnce"}, "access_mode: ReadWriteOnce is for one node, and the pods of 4 workers"),
        ({"pvc": "mine", "storage": "1Ti"}, "pvc: names a claim that exists"),
    ],
)
def test_errors(given: dict[str, Any], message: str) -> None:
    (error,) = settings.errors({**GIVEN, **given})
    assert error.startswith(f"cluster_kubernetes: {message}")


def test_all_errors_at_once() -> None:
    found = settings.errors({"workers": "many", "imagine": 1})
    assert len(found) == 5, found
    assert "cluster_kubernetes: cpus: is missing" in found
    assert settings.errors(None)[0].startswith("cluster_kubernetes is not a mapping with image, workers")
    with pytest.raises(ValueError, match="memory: is missing"):
        settings.read({})
