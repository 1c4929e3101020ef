"""What is removed again when a job on Kubernetes cannot be started: what this start has created, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from jinja2 import ChainableUndefined
from jinja2.nativetypes import NativeEnvironment

START = Path(__file__).resolve().parents[3] / "roles/kubernetes/tasks/start.yml"


def definition(kind: str, name: str = "demo") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "team"}}


def made(kind: str, method: str = "create", name: str = "demo") -> dict[str, Any]:
    """Return what kubernetes.core.k8s returns for an object."""
    one = definition(kind, name)
    result = {**one, "metadata": {**one["metadata"], "uid": f"uid-of-{kind}"}}
    return {"changed": True, "method": method, "result": result, "item": one}


def removed(record: dict[str, Any] | None = None, **registered: Any) -> list[str]:
    """Return the kinds that are removed, with the uid on which that depends, in order."""
    tasks = yaml.safe_load(START.read_text(encoding="utf-8"))[0]["rescue"]
    (task,) = [one for one in tasks if one["name"] == "Remove what this start has created"]
    plan = {
        "record": record or {},
        "config": definition("ConfigMap"),
        "shared": [definition("PersistentVolumeClaim", "amx-cluster")],
        "secret": [definition("Secret", "demo-env")],
        "first": [definition("Job", "demo-prepare")],
        "objects": [definition("Service"), definition("Job")],
    }
    environment = NativeEnvironment(undefined=ChainableUndefined)  # as Ansible's are

    def render(text: str, known: dict[str, Any]) -> Any:
        return environment.from_string(text).render(known)

    variables: dict[str, Any] = {"__kubernetes_plan": plan, **registered}
    found = []
    for item in render(task["loop"], variables):
        known = {**variables, "item": item}
        for name, text in task["vars"].items():
            known[name] = render(text, known)
        if render(f"{{{{ {task['when']} }}}}", known):
            uid = render(task["kubernetes.core.k8s"]["delete_options"]["preconditions"]["uid"], known)
            found.append(f"{item['kind']} {uid}")
    return found


def test_what_was_created_is_removed_the_last_first() -> None:
    """But for the claim, in which another job may have begun meanwhile."""
    assert removed(
        __kubernetes_shared={"results": [made("PersistentVolumeClaim", name="amx-cluster")]},
        __kubernetes_secret_made=made("Secret", name="demo-env"),
        __kubernetes_claimed=made("ConfigMap"),
        __kubernetes_first={"results": [made("Job", name="demo-prepare")]},
        __kubernetes_trains={"results": [made("Service"), {"failed": True, "msg": "forbidden", "changed": False}]},
    ) == [
        "Service uid-of-Service",
        "Job uid-of-Job",
        "Secret uid-of-Secret",
        "ConfigMap uid-of-ConfigMap",
    ]


def test_objects_of_another_start_stay() -> None:
    """The other start was first, so that the claim was refused; or objects were changed or not created (409)."""
    conflict = {"changed": True, "method": "create", "result": {}}
    assert (
        removed(
            __kubernetes_shared={"results": [made("PersistentVolumeClaim", "update", "amx-cluster")]},
            __kubernetes_claimed={"failed": True, "msg": "job demo was started by ada at the same time"},
            __kubernetes_trains={"results": [conflict, {"failed": True, "msg": "field is immutable"}]},
        )
        == []
    )
    assert removed() == []


def test_the_config_map_of_a_previous_run_stays() -> None:
    """It is restored: it says in which directory of the volume that run was, and how it ended."""
    assert removed(record=definition("ConfigMap"), __kubernetes_claimed=made("ConfigMap", "patch")) == []
    assert removed(record=definition("ConfigMap"), __kubernetes_claimed=made("ConfigMap")) == []
    assert removed(__kubernetes_claimed=made("ConfigMap")) == ["ConfigMap uid-of-ConfigMap"]


def test_nothing_of_a_previous_run_is_removed_before_the_start_is_claimed() -> None:
    block = [one["name"] for one in yaml.safe_load(START.read_text(encoding="utf-8"))[0]["block"]]
    assert block.index("Claim the job for this start") < block.index("Remove the objects of the previous run")
    assert block.index("Renew the claim of the job") < block.index("Create what trains")
