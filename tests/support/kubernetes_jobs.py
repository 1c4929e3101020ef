"""Jobs on Kubernetes for tests: settings, stacks and runs, and the judges of what is rendered for them."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import kubeflow.training.models
import kubernetes.client
import kubernetes_validate
from ansible_collections.amx.cluster.plugins.module_utils._jobs import project_files
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import load
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run, Settings
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import derivation, manifest, settings
from kubeflow_trainer_api import models as trainer
from support.checkout import ROOT

STACK: dict[str, Any] = {
    "name": "native",
    "backend": "mpi",
    "interpreter": "3.11",
    "arguments": {"cpu": {"use_cpu": True}, "distributed": {"ddp_backend": "mpi"}, "bf16": {"bf16": True}},
}
CCL_STACK: dict[str, Any] = {
    **STACK,
    "name": "ipex-2.8",
    "backend": "ccl",
    "bindings": "oneccl_bindings_for_pytorch",
    "packages": {"oneccl-bind-pt": "2.8.0"},
}
GIVEN: dict[str, Any] = {"image": "registry.example.com/amx:1", "workers": 4, "cpus": 200, "memory": "128Gi"}
# A server of this version knows every field that is rendered.
KUBERNETES = "1.30"
# The client looks for models of an operator among its own.
vars(kubernetes.client.models).update(
    {name: model for name, model in vars(kubeflow.training.models).items() if name.startswith("KubeflowOrg")}
)
# Else the schema of a kind is read from its file for every object.
kubernetes_validate.utils.schema_contents = functools.cache(kubernetes_validate.utils.schema_contents)


@functools.cache
def _of_checkout(file: Path, override: str) -> Job:
    return load(file, json.loads(override))


def job_of(file: Path, override: dict[str, Any] | None = None) -> Job:
    """Return the job in a file with these fields; one of the checkout, whose scripts are long, is read only once."""
    if ROOT not in file.parents:
        return load(file, override)
    return _of_checkout(file, json.dumps(override))


def derive(
    file: Path = ROOT / "jobs/smoke.yml",
    override: dict[str, Any] | None = None,
    stack: dict[str, Any] | None = None,
    **given: Any,
) -> derivation.Derived:
    """Return what follows from a job file with these fields, and cluster_kubernetes with these."""
    chosen = settings.read({**GIVEN, **given})
    job = job_of(file, override)
    brought = project_files.summary(project_files.read(job)["project"])
    return derivation.derive(Run(job, Settings(head="", project=brought)), stack or STACK, chosen)


def render(derived: derivation.Derived, file: Path = ROOT / "jobs/smoke.yml") -> dict[str, dict[str, Any]]:
    """Return the objects of a job by the names of their files."""
    return manifest.named(manifest.render(derived, manifest.job_files(derived, job_of(file), {})))


def write(directory: Path, derived: derivation.Derived, job: Job) -> None:
    """Write what a pod finds of the ConfigMap of a job, which the control node has as `job`."""
    for name, data in manifest.job_files(derived, job, project_files.read(job)["project"]).items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(data)


def judge(item: dict[str, Any]) -> None:
    """Fail unless an object is valid for a judge that is not ours, which knows all of its fields.

    Built-in kinds: the schemas of kubernetes-validate. The others: the models of the operators' own SDKs, which must
    give back what they were given.
    """
    kind = item["kind"]
    if kind in ("TrainJob", "TrainingRuntime"):
        model = getattr(trainer, f"TrainerV1alpha1{kind}")
        assert json.loads(model.from_dict(item).to_json()) == item
    elif kind == "PyTorchJob":
        client = kubernetes.client.ApiClient()
        made = client.deserialize(SimpleNamespace(data=json.dumps(item)), "KubeflowOrgV1PyTorchJob")
        assert client.sanitize_for_serialization(made) == item
    else:
        kubernetes_validate.validate(item, KUBERNETES, strict=True)


def pods(objects: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the specifications of all pods in some objects, wherever they are."""
    specifications: list[dict[str, Any]] = []

    def look(value: Any) -> None:
        if isinstance(value, dict):
            if "containers" in value:
                specifications.append(value)
            for item in value.values():
                look(item)
        elif isinstance(value, list):
            for item in value:
                look(item)

    look(list(objects.values()))
    return specifications
