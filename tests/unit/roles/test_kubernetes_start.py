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


def removed(resumed: bool = False, **registered: Any) -> list[str]:
    """Return the kinds that are removed, with the uid on which that depends, in order."""
    tasks = yaml.safe_load(START.read_text(encoding="utf-8"))[0]["rescue"]
    (task,) = [one for one in tasks if one["name"] == "Remove what this start has created"]
    plan = {
        "resumed": resumed,
        "shared": [definition("PersistentVolumeClaim", "amx-cluster")],
        "secret": [definition("Secret", "demo-env")],
        "first": [definition("ConfigMap")],
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
        __kubernetes_first={"results": [made("ConfigMap")]},
        __kubernetes_trains={"results": [made("Service"), {"failed": True, "msg": "forbidden", "changed": False}]},
    ) == [
        "Service uid-of-Service",
        "ConfigMap uid-of-ConfigMap",
        "Secret uid-of-Secret",
    ]


def test_objects_of_another_start_stay() -> None:
    """Two starts at once: the other one was first, so that these were changed, or not created (409), or not reached."""
    conflict = {"changed": True, "method": "create", "result": {}}
    assert (
        removed(
            __kubernetes_shared={"results": [made("PersistentVolumeClaim", "update", "amx-cluster")]},
            __kubernetes_first={"results": [made("ConfigMap", "update")]},
            __kubernetes_trains={"results": [conflict, {"failed": True, "msg": "field is immutable"}]},
        )
        == []
    )
    assert removed() == []


def test_a_job_that_could_not_be_continued_can_be_later() -> None:
    """Its ConfigMap says in which directory of the volume it was."""
    first = {"results": [made("ConfigMap")]}
    assert removed(resumed=True, __kubernetes_first=first) == []
    assert removed(__kubernetes_first=first) == ["ConfigMap uid-of-ConfigMap"]
