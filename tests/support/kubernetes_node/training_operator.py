"""A stand-in of Kubeflow's training operator 1.9 for PyTorchJobs with workers only: training_operator.py KUBECONFIG.

It follows that operator's sources in what pods get (names, labels, environment, restart policy), in their headless
Services, in when a job has succeeded or failed and which of its pods are removed then. It looks twice a second instead
of watching, and knows no master, no suspension, no time to live and no gang.
"""

from __future__ import annotations

import copy
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

from support.kubernetes_node.api import Client, Object, RefusedError

API = "kubeflow.org/v1"
LABELS = "training.kubeflow.org"
CONTROLLER = "pytorchjob-controller"
# The container that counts, and its port.
CONTAINER, PORT_NAME, PORT = "pytorch", "pytorchjob-port", 23456
SECONDS = 0.5


def now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class Job:
    """A PyTorchJob with what is there of it."""

    def __init__(self, client: Client, job: Object, pods: list[Object], services: list[Object]) -> None:
        self.client = client
        self.job = job
        self.name: str = job["metadata"]["name"]
        self.namespace: str = job["metadata"]["namespace"]
        self.worker: Object = job["spec"]["pytorchReplicaSpecs"]["Worker"]
        self.replicas: int = self.worker.get("replicas", 1)
        self.policy: Object = job["spec"].get("runPolicy", {})
        self.elastic: Object = job["spec"].get("elasticPolicy") or {}
        self.status: Object = copy.deepcopy(job.get("status") or {})
        self.pods = {self.index(one): one for one in pods if self.owns(one)}
        self.services = {self.index(one): one for one in services if self.owns(one)}

    def owns(self, one: Object) -> bool:
        return any(owner["uid"] == self.job["metadata"]["uid"] for owner in one["metadata"].get("ownerReferences", []))

    @staticmethod
    def index(one: Object) -> int:
        return int(one["metadata"]["labels"][f"{LABELS}/replica-index"])

    # Conditions

    def has(self, kind: str) -> bool:
        conditions = self.status.get("conditions", [])
        return any(one["type"] == kind and one["status"] == "True" for one in conditions)

    def set_condition(self, kind: str, message: str) -> None:
        """Add a condition; Running and Restarting replace each other, and an end makes Running false."""
        if self.has("Failed") or self.has(kind):
            return
        gone = {kind, *({"Running", "Restarting"} if kind in ("Running", "Restarting") else set())}
        kept = [dict(one) for one in self.status.get("conditions", []) if one["type"] not in gone]
        for one in kept:
            if kind in ("Failed", "Succeeded") and one["type"] == "Running":
                one["status"] = "False"
        times = {"lastUpdateTime": now(), "lastTransitionTime": now()}
        made = {"type": kind, "status": "True", "reason": f"PyTorchJob{kind}", "message": message, **times}
        self.status["conditions"] = [*kept, made]
        if kind in ("Failed", "Succeeded"):
            self.status.setdefault("completionTime", now())

    # What is made

    def metadata(self, index: int) -> Object:
        labels = {
            f"{LABELS}/operator-name": CONTROLLER,
            f"{LABELS}/job-name": self.name,
            f"{LABELS}/replica-type": "worker",
            f"{LABELS}/replica-index": str(index),
        }
        owner = {
            "apiVersion": API,
            "kind": "PyTorchJob",
            "name": self.name,
            "uid": self.job["metadata"]["uid"],
            "blockOwnerDeletion": True,
            "controller": True,
        }
        name = f"{self.name}-worker-{index}"
        return {"name": name, "namespace": self.namespace, "labels": labels, "ownerReferences": [owner]}

    def port(self) -> int:
        for container in self.worker["template"]["spec"]["containers"]:
            for port in container.get("ports", []):
                if container["name"] == CONTAINER and port.get("name") == PORT_NAME:
                    return int(port["containerPort"])
        return PORT

    def environment(self) -> list[Object]:
        """Return what the operator adds to the environment of every container."""
        values = {"PYTHONUNBUFFERED": "1"}
        per_node = self.job["spec"].get("nprocPerNode")
        if per_node or "nProcPerNode" not in self.elastic:
            values["PET_NPROC_PER_NODE"] = per_node or "auto"
        if not self.elastic:
            values["PET_NNODES"] = str(self.replicas)
            return [{"name": name, "value": value} for name, value in values.items()]
        host = self.elastic.get("rdzvHost") or f"{self.name}-worker-0"
        least = self.elastic.get("minReplicas") or self.elastic.get("maxReplicas") or self.replicas
        most = self.elastic.get("maxReplicas") or self.elastic.get("minReplicas") or self.replicas
        values["PET_RDZV_ENDPOINT"] = f"{host}:{self.elastic.get('rdzvPort') or self.port()}"
        values["PET_RDZV_BACKEND"] = self.elastic.get("rdzvBackend") or "c10d"
        values["PET_NNODES"] = f"{least}:{most}"
        for field, name in (
            ("maxRestarts", "PET_MAX_RESTARTS"),
            ("nProcPerNode", "PET_NPROC_PER_NODE"),
            ("rdzvId", "PET_RDZV_ID"),
        ):
            if self.elastic.get(field) is not None:
                values[name] = str(self.elastic[field])
        return [{"name": name, "value": value} for name, value in values.items()]

    def make_pod(self, index: int) -> None:
        template = copy.deepcopy(self.worker["template"])
        metadata = self.metadata(index)
        metadata["labels"] = {**template.get("metadata", {}).get("labels", {}), **metadata["labels"]}
        if index == 0:
            metadata["labels"][f"{LABELS}/job-role"] = "master"
        metadata["annotations"] = template.get("metadata", {}).get("annotations", {})
        for container in template["spec"]["containers"]:
            container["env"] = [*container.get("env", []), *self.environment()]
        wanted = self.worker.get("restartPolicy", "OnFailure")
        template["spec"]["restartPolicy"] = "Never" if wanted == "ExitCode" else wanted
        self.client.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})

    def make_service(self, index: int) -> None:
        metadata = self.metadata(index)
        spec = {
            "clusterIP": "None",
            "selector": metadata["labels"],
            "ports": [{"name": PORT_NAME, "port": self.port()}],
        }
        self.client.create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})

    def remove_pod(self, index: int, with_service: bool) -> None:
        name = self.pods[index]["metadata"]["name"]
        self.client.delete("Pod", "v1", self.namespace, name)
        if with_service:
            self.client.delete("Service", "v1", self.namespace, name)

    # What becomes of it

    def restarts(self) -> int:
        """Return how often containers of running pods were started again."""
        running = [pod for pod in self.pods.values() if pod["status"].get("phase") == "Running"]
        return sum(one.get("restartCount", 0) for pod in running for one in pod["status"].get("containerStatuses", []))

    def exceeds(self) -> str:
        """Return why a job has failed as a whole; an empty string while it has not."""
        limit = self.policy.get("backoffLimit")
        retried = self.worker.get("restartPolicy", "OnFailure") != "Never"
        if limit is not None and retried and self.restarts() >= max(limit, 1):
            return f"Job {self.name} has failed because it has reached the specified backoff limit"
        deadline, started = self.policy.get("activeDeadlineSeconds"), self.status.get("startTime")
        if deadline and started:
            begun = datetime.strptime(started, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
            if (datetime.now(timezone.utc) - begun).total_seconds() >= deadline:
                return f"Job {self.name} has failed because it was active longer than specified deadline"
        return ""

    def clean_up(self) -> None:
        """Remove the pods of a job that has ended as its policy says."""
        policy = self.policy.get("cleanPodPolicy", "None")
        for index, pod in self.pods.items():
            going = pod["metadata"].get("deletionTimestamp")
            runs = pod["status"].get("phase") in ("Running", "Pending")
            if not going and (policy == "All" or (policy == "Running" and runs)):
                self.remove_pod(index, with_service=True)

    def reconcile(self) -> None:
        """Make, restart or remove pods, and say in the status what became of the job."""
        if self.has("Succeeded") or self.has("Failed"):
            self.clean_up()
            return
        self.set_condition("Created", f"PyTorchJob {self.name} is created.")
        self.status.setdefault("startTime", now())
        reason = self.exceeds()
        if reason:
            for index in self.pods:
                self.remove_pod(index, with_service=True)
            self.set_condition("Failed", reason)
            return
        counts = {"active": 0, "succeeded": 0, "failed": 0}
        for index in range(self.replicas):
            if index not in self.pods:
                self.make_pod(index)
            else:
                self.count(index, counts)
            if index not in self.services:
                self.make_service(index)
        self.status["replicaStatuses"] = {"Worker": {name: number for name, number in counts.items() if number}}
        if counts["succeeded"] == self.replicas or (self.elastic and counts["succeeded"]):
            self.set_condition("Succeeded", f"PyTorchJob {self.namespace}/{self.name} successfully completed.")
        elif counts["active"]:
            self.set_condition("Running", f"PyTorchJob {self.namespace}/{self.name} is running.")
        if counts["failed"] and self.replicas > counts["succeeded"] + counts["active"]:
            failed = f"because {counts['failed']} Worker replica(s) failed."
            if self.worker.get("restartPolicy", "OnFailure") == "Never":
                self.set_condition("Failed", f"PyTorchJob {self.name} is failed {failed}")
            else:
                self.set_condition("Restarting", f"PyTorchJob {self.name} is restarting {failed}")

    def count(self, index: int, counts: dict[str, int]) -> None:
        """Count a pod by its phase; one that failed is removed, to be made anew, where the policy says so."""
        pod = self.pods[index]
        phase, going = pod["status"].get("phase"), pod["metadata"].get("deletionTimestamp")
        if phase == "Running":
            counts["failed" if going else "active"] += 1
        elif phase == "Succeeded":
            counts["succeeded"] += 1
        elif phase == "Failed":
            counts["failed"] += 1
            if not going and self.worker.get("restartPolicy", "OnFailure") in ("OnFailure", "Always"):
                self.remove_pod(index, with_service=False)


def look(client: Client) -> None:
    """Reconcile all jobs once."""
    mine = f"{LABELS}/operator-name={CONTROLLER}"
    jobs = client.list("PyTorchJob", API)
    pods, services = (client.list(kind, selector=mine) for kind in ("Pod", "Service"))
    for one in jobs:
        if one["metadata"].get("deletionTimestamp") or "Worker" not in one["spec"]["pytorchReplicaSpecs"]:
            continue
        job = Job(client, one, pods, services)
        try:
            job.reconcile()
        except RefusedError as error:
            # A pod that is going still has the name.
            if error.code != 409:
                print(f"{job.namespace}/{job.name}: {error}", flush=True)
        if job.status != (one.get("status") or {}):
            for condition in job.status.get("conditions", []):
                print(f"{job.namespace}/{job.name}: {condition['type']} {condition['status']}", flush=True)
            where = f"/apis/{API}/namespaces/{job.namespace}/pytorchjobs/{job.name}/status"
            client.call("PATCH", where, {"status": job.status}, "application/merge-patch+json")


def main(kubeconfig: str) -> None:
    client = Client(Path(kubeconfig))
    while True:
        try:
            look(client)
        except (OSError, RefusedError) as error:
            print(error, flush=True)
        time.sleep(SECONDS)


if __name__ == "__main__":
    main(*sys.argv[1:])
