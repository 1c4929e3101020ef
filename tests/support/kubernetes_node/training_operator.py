"""A stand-in of Kubeflow's training operator 1.9, for PyTorchJobs of the collection: training_operator.py KUBECONFIG.

It follows that operator's sources in what pods get (names, labels, environment, restart policy), in their headless
Services, in when a job has succeeded or failed and which of its pods are removed then. It looks twice a second instead
of watching, and knows what these jobs have alone: workers, all fields of elasticPolicy but the host, and
cleanPodPolicy: Running.
"""

from __future__ import annotations

import copy
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

from support.kubernetes_node.api import Client, Object, RefusedError

API, LABELS = "kubeflow.org/v1", "training.kubeflow.org"
MINE = {f"{LABELS}/operator-name": "pytorchjob-controller"}
SECONDS = 0.5


class Job:
    """A PyTorchJob with its pods, by their numbers."""

    def __init__(self, client: Client, job: Object, pods: list[Object]) -> None:
        self.client, self.job = client, job
        self.name, self.namespace = str(job["metadata"]["name"]), str(job["metadata"]["namespace"])
        self.worker: Object = job["spec"]["pytorchReplicaSpecs"]["Worker"]
        self.pods = {
            int(one["metadata"]["labels"][f"{LABELS}/replica-index"]): one
            for one in pods
            if any(owner["uid"] == job["metadata"]["uid"] for owner in one["metadata"].get("ownerReferences", []))
        }

    def environment(self) -> list[Object]:
        """Return what the operator adds to the environment of every container."""
        elastic = self.job["spec"]["elasticPolicy"]
        values = {
            "PYTHONUNBUFFERED": "1",
            "PET_NPROC_PER_NODE": self.job["spec"]["nprocPerNode"],
            "PET_RDZV_ENDPOINT": f"{self.name}-worker-0:{elastic['rdzvPort']}",
            "PET_RDZV_BACKEND": elastic["rdzvBackend"],
            "PET_RDZV_ID": elastic["rdzvId"],
            "PET_NNODES": f"{elastic['minReplicas']}:{elastic['maxReplicas']}",
            "PET_MAX_RESTARTS": str(elastic["maxRestarts"]),
        }
        return [{"name": name, "value": value} for name, value in values.items()]

    def make(self, index: int) -> None:
        """Create a pod, and its Service unless it has one."""
        owner = {"apiVersion": API, "kind": "PyTorchJob", "name": self.name, "uid": self.job["metadata"]["uid"]}
        labels = {
            **MINE,
            f"{LABELS}/job-name": self.name,
            f"{LABELS}/replica-type": "worker",
            f"{LABELS}/replica-index": str(index),
        }
        about: Object = {
            "name": f"{self.name}-worker-{index}",
            "namespace": self.namespace,
            "labels": labels,
            "ownerReferences": [{**owner, "blockOwnerDeletion": True, "controller": True}],
        }
        template = copy.deepcopy(self.worker["template"])
        spec = {**template["spec"], "restartPolicy": self.worker["restartPolicy"]}
        for container in spec["containers"]:
            container["env"] = [*container.get("env", []), *self.environment()]
        [port] = spec["containers"][0]["ports"]
        ports = [{"name": port["name"], "port": port["containerPort"]}]
        service = {"clusterIP": "None", "selector": labels, "ports": ports}
        pod = {**about, "labels": {**template["metadata"]["labels"], **labels}}
        for kind, metadata, content in (("Service", about, service), ("Pod", pod, spec)):
            try:
                self.client.create({"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": content})
            except RefusedError as error:
                if error.code != 409:
                    raise

    def remove(self, *phases: str) -> None:
        """Remove the pods in these phases with their Services."""
        for pod in self.pods.values():
            if pod["status"].get("phase") in phases and not pod["metadata"].get("deletionTimestamp"):
                for kind in ("Pod", "Service"):
                    self.client.delete(kind, "v1", self.namespace, pod["metadata"]["name"])

    def conclude(self, kind: str, message: str) -> None:
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {"type": kind, "status": "True", "reason": f"PyTorchJob{kind}", "message": message}
        status = {"conditions": [{**condition, "lastTransitionTime": now}], "completionTime": now}
        where = f"/apis/{API}/namespaces/{self.namespace}/pytorchjobs/{self.name}/status"
        self.client.call("PATCH", where, {"status": status}, "application/merge-patch+json")
        print(f"{self.namespace}/{self.name}: {message}", flush=True)

    def restarts(self) -> int:
        """Return how often containers of running pods were started again."""
        running = [pod for pod in self.pods.values() if pod["status"].get("phase") == "Running"]
        return sum(one.get("restartCount", 0) for pod in running for one in pod["status"].get("containerStatuses", []))

    def reconcile(self) -> None:
        """Make, restart or remove pods, and say in the status what became of the job."""
        if self.job.get("status", {}).get("conditions"):
            self.remove("Running", "Pending")
            return
        is_retried, wanted = self.worker["restartPolicy"] != "Never", self.worker["replicas"]
        if is_retried and self.restarts() >= max(self.job["spec"]["runPolicy"]["backoffLimit"], 1):
            self.remove("Running", "Pending", "Succeeded", "Failed")
            self.conclude("Failed", f"Job {self.name} has failed because it has reached the specified backoff limit")
            return
        for index in range(wanted):
            if index not in self.pods:
                self.make(index)
        going = [bool(pod["metadata"].get("deletionTimestamp")) for pod in self.pods.values()]
        phases = [pod["status"].get("phase") for pod in self.pods.values()]
        failed = phases.count("Failed") + list(zip(phases, going)).count(("Running", True))
        if "Succeeded" in phases:
            self.conclude("Succeeded", f"PyTorchJob {self.namespace}/{self.name} successfully completed.")
        elif failed and is_retried:
            for pod, phase, goes in zip(self.pods.values(), phases, going):
                if phase == "Failed" and not goes:  # it is made anew
                    self.client.delete("Pod", "v1", self.namespace, pod["metadata"]["name"])
        elif failed and wanted > list(zip(phases, going)).count(("Running", False)):
            self.conclude("Failed", f"PyTorchJob {self.name} is failed because {failed} Worker replica(s) failed.")


def main(kubeconfig: str) -> None:
    client = Client(Path(kubeconfig))
    while True:
        try:
            pods = client.list("Pod", selector=",".join(f"{key}={value}" for key, value in MINE.items()))
            for one in client.list("PyTorchJob", API):
                if not one["metadata"].get("deletionTimestamp"):
                    Job(client, one, pods).reconcile()
        except (OSError, RefusedError) as error:
            print(error, flush=True)
        time.sleep(SECONDS)


if __name__ == "__main__":
    main(*sys.argv[1:])
