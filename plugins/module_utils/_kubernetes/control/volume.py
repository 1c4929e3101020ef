# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The volume of jobs, read by a pod of its own when none of a job's pods runs: every play has one of these."""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import causes, checks, jobs, pods
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.api import Api, ApiError
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.following import Waits
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.objects import (
    MANAGED_BY,
    MANAGER,
    READS,
    ROLE_LABEL,
    Object,
    common_spec,
    container,
    labels,
)
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.settings import Settings
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.interface import (
    PROGRAM,
    READER_ENDING,
    READER_SECONDS,
)

# It packs a directory, and sends it, also where pods of other jobs have requested all CPUs of every node.
REQUESTS, LIMITS = {"cpu": "0", "memory": "128Mi"}, {"cpu": "1", "memory": "512Mi"}
# The labels of all of these pods.
SELECTOR = f"{ROLE_LABEL}={READS},{MANAGED_BY}={MANAGER}"
# Bytes of a file that one command sends, and how often it is tried.
CHUNK, TRIES = 8 * 2**20, 4
# Seconds: until the pod runs, and that packing a directory, or listing those of a volume, may take.
STARTING, PACKING = 300.0, 1800.0
# Prints a part of a file: words are its path, the first byte and how many.
PART = (
    "import base64,sys; f=open(sys.argv[1],'rb'); f.seek(int(sys.argv[2])); "
    "sys.stdout.write(base64.b64encode(f.read(int(sys.argv[3]))).decode())"
)


def new_name(job: str = "") -> str:
    """Return a name for a pod that no other reading has. job: of its objects; empty where all jobs are meant."""
    return f"{job or 'amx-cluster'}-{READS}-{secrets.token_hex(4)}"


def pod(settings: Settings, name: str, job: str = "") -> Object:
    """Return the pod: it does nothing until commands are run in it, and needs no node with AMX.

    name: of the pod. job: see new_name. Whatever happens to the play that made it, it ends after an hour.
    """
    mounts = ("storage", "scratch", *(["job"] if job else []))
    resources = {"requests": dict(REQUESTS), "limits": dict(LIMITS)}
    volumes: list[Object] = [
        {"name": "storage", "persistentVolumeClaim": {"claimName": settings.claim}},
        {"name": "scratch", "emptyDir": {}},
        # Its objects may have been removed, while its files are on the volume.
        *([{"name": "job", "configMap": {"name": job, "optional": True}}] if job else []),
    ]
    spec = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": READER_SECONDS,
        "terminationGracePeriodSeconds": READER_ENDING,
        **common_spec(settings, [container(settings, READS, "wait", resources, mounts)], volumes),
    }
    about = {"name": name, "namespace": settings.namespace, "labels": labels(job, READS)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec}


@contextmanager
def reader(api: Api, settings: Settings, say: Callable[[str], None], job: str = "") -> Iterator[Reader]:
    """Start a pod by which the volume is read, and remove it at the end. job: of its objects; empty for all jobs.

    Raises ValueError where the volume is missing, the user may not, or the pod cannot run.
    """
    checks.require(api, checks.READER)
    if api.read("v1", "PersistentVolumeClaim", settings.claim) is None:
        raise ValueError(
            f"namespace {api.namespace} has no PersistentVolumeClaim {settings.claim}: there is no volume with files "
            "of jobs"
        )
    for ended in filter(pods.has_read, api.list("v1", "Pod", SELECTOR)):  # of interrupted plays
        api.delete("v1", "Pod", ended["metadata"]["name"])
    name = new_name(job)
    try:
        yield Reader(api, wait_for(api, api.create(pod(settings, name, job)), say), say)
    finally:
        with suppress(ApiError):  # it ends by itself, and the next play removes it
            api.delete("v1", "Pod", name)


def wait_for(api: Api, made: Object, say: Callable[[str], None], seconds: float = STARTING, every: float = 1) -> Object:
    """Wait until a reader runs; return it as the server has it. Raises ValueError when it will not."""
    name = made["metadata"]["name"]
    waits = Waits(f"pod {name}", say, seconds)
    while True:
        pod = api.read("v1", "Pod", name)
        if pod is None:
            raise ValueError(f"pod {name} was removed from namespace {api.namespace} while it was started")
        if pods.is_running(pod):
            return pod
        if pods.phase(pod) in ("Failed", "Succeeded"):
            raise ValueError(f"pod {name} cannot run: {pods.why(pod) or 'it has ended'}")
        events = {pod["metadata"]["uid"]: api.events(pod["metadata"]["uid"])}
        waits.show(causes.of_waiting([pod], events) or [causes.Cause(name, f"pod {name} is being started")])
        time.sleep(every)


@dataclass(frozen=True)
class Reader:
    """A pod that runs, by which the volume is read."""

    api: Api
    pod: Object
    say: Callable[[str], None]

    def job_directories(self) -> list[dict[str, Any]]:
        """Return the job directories of the volume, as pod list prints them. Raises ValueError."""
        return list(jobs.ask(self.api, self.pod, ["list"], PACKING)["jobs"])

    def directory(self, job: jobs.JobInPods | None, name: str) -> str:
        """Return the name of a job's last directory. job: the job, where the cluster has it. Raises ValueError."""
        start = job.start if job else ""
        return f"{name}-{start or newest(self.job_directories(), name)}"

    def log(self, directory: str) -> str:
        """Return the log of a job. Raises ValueError."""
        return self._run([*PROGRAM, "log", directory], PACKING)

    def fetch(self, directory: str, to: Path) -> dict[str, Any]:
        """Fetch a packed job directory into a file; return its bytes and sha256. Raises ValueError, OSError."""
        packed = jobs.ask(self.api, self.pod, ["pack", directory], PACKING)
        to.parent.mkdir(parents=True, exist_ok=True)
        fetch(lambda *part: self._part(packed["path"], *part), packed["bytes"], packed["sha256"], to, self.say)
        return {key: packed[key] for key in ("bytes", "sha256")}

    def _part(self, path: str, first: int, count: int) -> bytes:
        try:
            printed = self._run([PROGRAM[0], "-S", "-c", PART, path, str(first), str(count)], 120)
            return base64.b64decode(printed.strip(), validate=True)
        except binascii.Error as error:
            raise ValueError(str(error)) from None

    def _run(self, command: Sequence[str], timeout: float) -> str:
        code, out, errors = self.api.exec(self.pod["metadata"]["name"], READS, command, timeout)
        if code:
            raise ValueError((errors.strip() or f"exit code {code}").splitlines()[-1].removeprefix("amx.cluster: "))
        return out


def newest(listed_jobs: Sequence[dict[str, Any]], name: str) -> str:
    """Return the start of the newest directory of a job. listed_jobs: as pod list has them. Raises ValueError."""
    own = [entry for entry in listed_jobs if entry["name"] == name]
    if not own:
        there = ", ".join(sorted({str(entry["name"]) for entry in listed_jobs}))
        raise ValueError(
            f"the volume has no directory of job {name}; it has " + (f"those of {there}" if there else "none")
        )
    return str(max(own, key=lambda entry: (str(entry.get("started") or ""), str(entry["start"])))["start"])


def fetch(
    part: Callable[[int, int], bytes],
    size: int,
    sha256: str,
    to: Path,
    report: Callable[[str], None] = lambda text: None,
    pause: float = 1,
) -> None:
    """Fetch a file in parts, and verify it. part: returns so many bytes from one on, and raises ValueError.

    A part that is not complete is tried again, a file whose sum is another once more as a whole. Raises ValueError.
    """
    for attempt in range(2):
        digest = hashlib.sha256()
        with to.open("wb") as stream:
            while stream.tell() < size:
                wanted = min(CHUNK, size - stream.tell())
                data = _complete(part, stream.tell(), wanted, report, pause)
                digest.update(data)
                stream.write(data)
        if digest.hexdigest() == sha256:
            return
        if not attempt:
            report("  the sum of what was fetched is not that of the volume: it is fetched again")
    raise ValueError(
        f"the SHA-256 of what was fetched twice is {digest.hexdigest()}, and that on the volume is {sha256}: something "
        "between the control node and the pod changes it"
    )


def _complete(
    part: Callable[[int, int], bytes], first: int, wanted: int, report: Callable[[str], None], pause: float
) -> bytes:
    problem = ""
    for attempt in range(TRIES):
        if attempt:
            report(f"  byte {first} on: {problem}; trying again")
            time.sleep(pause * attempt)
        try:
            data = part(first, wanted)
        except ValueError as error:
            problem = str(error)
            continue
        if len(data) == wanted:
            return data
        problem = f"{len(data)} of {wanted} bytes came"
    raise ValueError(f"the results could not be fetched, tried {TRIES} times, from byte {first} on: {problem}")
