# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requirements on a cluster before the objects of a job are created: gathered from its API, then checked completely."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import (
    jobs,
    kinds,
    objects,
    quantities,
    resources,
)
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.api import Api, ApiError
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.derivation import Derived
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.objects import Object
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.settings import claim_refusal

RIGHTS_FILE = "roles/manifest/files/rbac.yml"
# Indexed Jobs are stable, and pods of a Job have host names, since then.
LEAST_VERSION = (1, 24)


# Something that a user may do or not: (verb, resource, with a subresource as in pods/exec, group, if it is not core).
Right = tuple[str, ...]


@dataclass(frozen=True)
class Found:
    """Facts about a cluster that matter to a job.

    missing: rights. nodes: None where this user may not list them. namespace: whether it is there, None where that is
    unknown; so with pull_secret. claim: of the job's volume. taken: the objects that have a name of the job's own, and
    earlier: those of a previous start. kinds: {kind: whether the server has it}.
    """

    version: tuple[int, int]
    kinds: Mapping[str, bool]
    missing: Sequence[Right] = ()
    nodes: Sequence[Object] | None = None
    namespace: bool | None = True
    claim: Object | None = None
    pull_secret: bool | None = None
    taken: Sequence[Object] = ()
    earlier: Sequence[Object] = ()


# To run commands in pods: over a websocket they begin with GET, and create; servers check one or the other.
EXEC = (("get", "pods/exec"), ("create", "pods/exec"))
READER = (*((verb, "pods") for verb in ("get", "list", "create", "delete")), *EXEC)
LOG = (("get", "pods/log"),)


def missing_of(api: Api, wanted: Iterable[Right]) -> list[Right]:
    """Return those of these rights that this user does not have. Raises ApiError."""
    return [right for right in wanted if not api.allowed(*right)]


def require(api: Api, of_task: Iterable[Right], why: str = "") -> None:
    """Raise ValueError with all of the rights that this user does not have.

    why: what follows from that.
    """
    missing = [f"{verb} {resource}" for verb, resource, *_group in missing_of(api, of_task)]
    if missing:
        raise ValueError(
            f"context {api.context} may not {', '.join(missing)} in namespace {api.namespace}{why}: have the role in "
            f"{RIGHTS_FILE} bound to its user"
        )


def rights(derived: Derived, made: Sequence[Object], names: Mapping[tuple[str, str], str]) -> list[Right]:
    """Return what this user must be allowed to do in the namespace, to start the job and to follow it.

    made: the objects. names: {(API version, kind): the resource's name}.
    """
    own = {"v1": ["ConfigMap", *(["Secret"] if derived.secret else [])]}
    for item in made:
        kind = item["kind"]
        if kind != "Namespace":
            own.setdefault(item["apiVersion"], []).append(kind)
    needed: list[Right] = []
    for version, of_version in own.items():
        group = version.rpartition("/")[0]
        for kind in dict.fromkeys(of_version):
            resource = names.get((version, kind), "")
            verbs = ("get", "create") if kind == "PersistentVolumeClaim" else ("get", "list", "create", "delete")
            needed += [_right(verb, resource, group) for verb in verbs if resource]
    if derived.settings.pvc:
        needed.append(("get", "persistentvolumeclaims"))
    if derived.settings.create_namespace:
        needed += [(verb, "namespaces") for verb in ("get", "create")]
    followed = (("get", "pods"), ("list", "pods"), ("get", "pods/log"), ("list", "events"))
    return [*needed, ("patch", "configmaps"), *followed, *EXEC]


def _right(verb: str, resource: str, group: str) -> Right:
    return (verb, resource, group) if group else (verb, resource)


def gather(api: Api, derived: Derived, made: Sequence[Object]) -> Found:
    """Return what a cluster has for a job and its objects. Raises ApiError where the server does not answer."""
    settings = derived.settings
    of_job = {(item["apiVersion"], item["kind"]) for item in made} | {("v1", "Secret"), ("v1", "ConfigMap")}
    names = {key: api.resource(*key) for key in sorted(of_job)}
    missing = missing_of(api, rights(derived, made, names))

    def may(verb: str, resource: str, group: str = "") -> bool:
        return _right(verb, resource, group) not in missing

    claim, pull_secret = None, None
    if may("get", "persistentvolumeclaims"):
        claim = api.read("v1", "PersistentVolumeClaim", settings.claim)
    if settings.image_pull_secret and api.allowed("get", "secrets"):
        pull_secret = api.read("v1", "Secret", settings.image_pull_secret) is not None
    taken = []
    for item in made:
        group = item["apiVersion"].rpartition("/")[0]
        if item["kind"] in kinds.SHARED or not may("get", names[item["apiVersion"], item["kind"]], group):
            continue
        there = api.read(item["apiVersion"], item["kind"], item["metadata"]["name"])
        taken += [{**there, "apiVersion": item["apiVersion"], "kind": item["kind"]}] if there else []
    return Found(
        api.version(),
        {kind: bool(name) for (_version, kind), name in names.items()},
        missing,
        _optional(partial(api.list, "v1", "Node")),
        _optional(lambda: api.read("v1", "Namespace", settings.namespace) is not None),
        claim,
        pull_secret,
        taken,
        _optional(partial(jobs.everything, api, derived.name)) or (),
    )


def _optional(call: Any) -> Any:
    """Return what a call returns, None where this user may not know."""
    try:
        return call()
    except ApiError as error:
        if error.status != 403:
            raise
        return None


def refusals(derived: Derived, cluster: Found, user: str = "", nodes: bool = True) -> list[str]:
    """Return why the job cannot be started on this cluster, one line for each reason.

    user: the name of the context. nodes: whether its nodes are checked, too.
    """
    return [
        *_of_server(derived, cluster),
        *_of_rights(derived, cluster, user),
        *_of_namespace(derived, cluster),
        *_of_objects(derived, cluster),
        *(_of_nodes(derived, cluster) if nodes else []),
    ]


def _of_server(derived: Derived, cluster: Found) -> Iterator[str]:
    kind = derived.settings.kind
    if kind == "Job" and (0, 0) < cluster.version < LEAST_VERSION:
        yield (
            f"kind: Job needs Kubernetes {_version(LEAST_VERSION)} or later, and the server has "
            f"{_version(cluster.version)}: set kind in cluster_kubernetes to PyTorchJob or TrainJob, or use a later one"
        )
    missing = [kind for kind, there in cluster.kinds.items() if not there]
    if missing:
        operator = kinds.TRAINING[kind].operator or "them"
        yield (
            f"kind: the cluster has no {' and no '.join(missing)}: install {operator}; or set kind in "
            "cluster_kubernetes to Job, which needs no operator"
        )


def _version(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def _of_rights(derived: Derived, cluster: Found, user: str) -> Iterator[str]:
    if not cluster.missing:
        return
    by_resource: dict[str, list[str]] = {}
    for verb, *resource in cluster.missing:
        by_resource.setdefault(".".join(resource), []).append(verb)
    listed = "; ".join(f"{', '.join(verbs)} {resource}" for resource, verbs in by_resource.items())
    yield (
        f"the user of context {user} may not, in namespace {derived.settings.namespace}: {listed}: have an "
        f"administrator apply {RIGHTS_FILE} with your name"
    )


def _of_namespace(derived: Derived, cluster: Found) -> Iterator[str]:
    settings = derived.settings
    if cluster.namespace is False and not settings.create_namespace:
        yield (
            f"namespace: the cluster has no {settings.namespace}: kubectl create namespace {settings.namespace}, or "
            "set create_namespace: true in cluster_kubernetes"
        )
        return
    may_read = ("get", "persistentvolumeclaims") not in cluster.missing
    if settings.pvc and cluster.claim is None and may_read:
        yield (
            f"pvc: namespace {settings.namespace} has no claim {settings.pvc}: create it, or leave pvc out and set "
            "storage_class, so that one is made"
        )
    if cluster.claim is not None:
        refused = claim_refusal(cluster.claim, derived.pods)
        if refused:
            yield refused
        if cluster.claim.get("status", {}).get("phase") == "Lost":
            yield f"pvc: the volume of {settings.claim} is lost (its PersistentVolume was deleted): use another claim"
    if settings.image_pull_secret and cluster.pull_secret is False:
        yield (
            f"image_pull_secret: namespace {settings.namespace} has no Secret {settings.image_pull_secret}: kubectl "
            f"create secret docker-registry {settings.image_pull_secret} -n {settings.namespace} --docker-server=..."
        )


def _of_objects(derived: Derived, cluster: Found) -> Iterator[str]:
    name = derived.run.job.name
    makers = [item for item in cluster.earlier if item["kind"] in kinds.TRAINING]
    running = [item for item in makers if not kinds.conclusion(item)[0]]
    starting = [item for item in cluster.earlier if item["kind"] == "ConfigMap" and jobs.is_starting(item)]
    # While a job's data are prepared, nothing of it trains yet.
    does = "is running" if any(not kinds.prepares(item, derived.name) for item in running) else "prepares its data"
    if running:
        yield (
            f"job {name} {does} {_since(running[0])}: follow it (playbooks/logs.yml -e job={name}), wait for its end, "
            f"stop it (playbooks/stop.yml -e job={name}), or give this job another name"
        )
    elif starting:
        yield (
            f"job {name} is being started {_since(starting[0])}: wait until it runs, or, if that start was "
            f"interrupted, end it (playbooks/stop.yml -e job={name})"
        )
    for other in _with_the_same_objects(derived, cluster):
        yield (
            f"job {other} has the objects {derived.name} in namespace {derived.settings.namespace}, and so would job "
            f"{name}: give this job another name, or remove those (playbooks/stop.yml -e job={other} -e remove=true)"
        )
    for item in cluster.taken:
        if item["metadata"].get("labels", {}).get(objects.JOB_LABEL) != derived.name or not jobs.ours(item):
            yield (
                f"{item['kind']} {item['metadata']['name']} in namespace {derived.settings.namespace} is not of a job "
                "of the collection: give this job another name"
            )


def _since(item: Object) -> str:
    """Return since when an object is there, and who has created it."""
    notes = item["metadata"].get("annotations", {})
    since = notes.get(objects.SINCE) or item["metadata"].get("creationTimestamp", "")
    return f"since {since}" + (f", started by {notes[objects.BY_USER]}" if notes.get(objects.BY_USER) else "")


def _with_the_same_objects(derived: Derived, cluster: Found) -> list[str]:
    """Return the other jobs whose objects have the names of this one's: a.b and a-b both give a-b."""
    configs = [item for item in cluster.earlier if item["kind"] == "ConfigMap"]
    runs = [jobs.JobInPods(derived.name, derived.settings.namespace, config=config).run for config in configs]
    return sorted({str(run["job"]["name"]) for run in runs if run} - {derived.run.job.name})


def _of_nodes(derived: Derived, cluster: Found) -> Iterator[str]:
    if cluster.nodes is None:
        return
    selector, wanted = derived.settings.node_selector, derived.resources
    refused = resources.unfit(wanted, selector, list(cluster.nodes))
    if refused:
        yield refused
        return
    fitting = resources.room(wanted, selector, list(cluster.nodes))
    if sum(fitting.values()) < derived.least_pods:
        listed = ", ".join(f"{name} {number}" for name, number in fitting.items() if number)
        yield (
            f"workers: {derived.least_pods} pods of {wanted.cpus} CPUs and {quantities.memory(wanted.memory)} of "
            f"memory, and nodes can take {sum(fitting.values())} ({listed}): set hosts in the job file, or workers in "
            "cluster_kubernetes, to at most that"
        )


def notes(cluster: Found) -> list[str]:
    """Return what could not be checked."""
    if cluster.nodes is None:
        return ["this user may not list nodes: whether a pod fits one is not checked"]
    return []
