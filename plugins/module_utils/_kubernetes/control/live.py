# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the control node asks of the cluster and of its pods about jobs that are there, and what it fetches of them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import (
    jobs,
    objects,
    observed_pods,
)
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.api import Api, ApiError
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.jobs import Found
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.interface import PROGRAM

# Bytes of a file that one command sends, and how often it is tried.
CHUNK, TRIES = 8 * 2**20, 4
# Seconds that packing a directory, or listing those of a volume, may take.
PACKING = 1800
# Prints a part of a file: words are its path, the first byte and how many.
PART = (
    "import base64,sys; f=open(sys.argv[1],'rb'); f.seek(int(sys.argv[2])); "
    "sys.stdout.write(base64.b64encode(f.read(int(sys.argv[3]))).decode())"
)


def gather(api: Api, namespace: str, name: str = "") -> list[Found]:
    """Return the jobs of a namespace, or the one of this name. Raises ValueError."""
    selector = jobs.selector(name)
    trainings = [
        one for kind, version in jobs.TRAINING.items() for one in listed(api, version, kind, namespace, selector)
    ]
    return jobs.group(
        api.list("v1", "ConfigMap", namespace, selector),
        trainings,
        api.list("v1", "Pod", namespace, selector),
        namespace,
    )


def listed(api: Api, version: str, kind: str, namespace: str, selector: str) -> list[dict[str, Any]]:
    """Return the objects of a kind; none of a kind that this user may not list, for the job may be of another."""
    try:
        return api.list(version, kind, namespace, selector)
    except ApiError as error:
        if error.status != 403 or kind == "Job":
            raise
        return []


def everything(api: Api, namespace: str, name: str) -> list[dict[str, str]]:
    """Return all objects of a job that can be removed. Raises ValueError."""
    selector = jobs.selector(name)
    found = [one for kind, version in jobs.REMOVED.items() for one in listed(api, version, kind, namespace, selector)]
    return jobs.removable(found, name)


def ask(api: Api, namespace: str, pod: str, container: str, words: Sequence[str], timeout: float = 30) -> Any:
    """Return the JSON that pod.py prints for these words in a pod. Raises ValueError."""
    code, out, errors = api.exec(namespace, pod, container, [*PROGRAM, *words], timeout)
    if code:
        said = (errors.strip() or out.strip() or f"exit code {code}").splitlines()[-1]
        raise ValueError(f"pod.py {' '.join(words)} in pod {pod}: {said.removeprefix('amx.cluster: ')}")
    try:
        return json.loads(out.strip().splitlines()[-1])
    except (IndexError, ValueError):
        raise ValueError(
            f"pod.py {' '.join(words)} in pod {pod} printed no JSON: its image is of another version of the collection "
            "than this one; build it again with playbooks/image.yml"
        ) from None


def live(api: Api, found: Found) -> tuple[dict[str, Any], str]:
    """Return what the supervisor of a job says, in its first pod, or why it cannot be asked; nothing of one without."""
    first = found.first_running
    if first is None:
        return {}, ""
    try:
        name, container = first["metadata"]["name"], observed_pods.container_of(first)
        return dict(ask(api, found.namespace, name, container, ["status"])), ""
    except ValueError as error:
        return {}, str(error)


def wait_for(
    api: Api,
    namespace: str,
    pod: str,
    seconds: float,
    every: float = 1,
    told: Callable[[str], None] = lambda text: None,
) -> None:
    """Wait until a pod runs. told: is called with each reason why it does not. Raises ValueError when it will not."""
    until, last = time.monotonic() + seconds, ""
    while True:
        found = api.read("v1", "Pod", namespace, pod)
        if found is None:
            raise ValueError(f"pod {pod} was removed from namespace {namespace} while it was started")
        if observed_pods.is_running(found):
            return
        reason = observed_pods.why(found)
        if found.get("status", {}).get("phase") in ("Failed", "Succeeded") or reason.startswith(observed_pods.HOPELESS):
            raise ValueError(f"pod {pod} cannot run: {reason or 'it has ended'}")
        if time.monotonic() > until:
            raise ValueError(f"pod {pod} has not started within {seconds:.0f} s: {reason or 'no reason is known'}")
        if reason and reason != last:
            told(f"  pod {pod} waits: {reason}")
            last = reason
        time.sleep(every)


# Files of the volume


def newest(listed_jobs: Sequence[dict[str, Any]], name: str) -> str:
    """Return the start of the newest directory of a job. listed_jobs: as pod.py list has them. Raises ValueError."""
    own = [one for one in listed_jobs if one["name"] == name]
    if not own:
        there = ", ".join(sorted({str(one["name"]) for one in listed_jobs}))
        raise ValueError(
            f"the volume has no directory of job {name}; it has " + (f"those of {there}" if there else "none")
        )
    return str(max(own, key=lambda one: (str(one.get("started") or ""), str(one["start"])))["start"])


def fetch(
    part: Callable[[int, int], bytes],
    size: int,
    sha256: str,
    to: Path,
    told: Callable[[str], None] = lambda text: None,
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
                content = _complete(part, stream.tell(), wanted, told, pause)
                digest.update(content)
                stream.write(content)
        if digest.hexdigest() == sha256:
            return
        if not attempt:
            told("  the sum of what was fetched is not that of the volume: it is fetched again")
    raise ValueError(
        f"the SHA-256 of what was fetched twice is {digest.hexdigest()}, and that on the volume is {sha256}: something "
        "between the control node and the pod changes it"
    )


def _complete(
    part: Callable[[int, int], bytes], first: int, wanted: int, told: Callable[[str], None], pause: float
) -> bytes:
    problem = ""
    for attempt in range(TRIES):
        if attempt:
            told(f"  byte {first} on: {problem}; trying again")
            time.sleep(pause * attempt)
        try:
            content = part(first, wanted)
        except ValueError as error:
            problem = str(error)
            continue
        if len(content) == wanted:
            return content
        problem = f"{len(content)} of {wanted} bytes came"
    raise ValueError(f"the results could not be fetched, tried {TRIES} times, from byte {first} on: {problem}")


def parts(api: Api, namespace: str, pod: str, path: str) -> Callable[[int, int], bytes]:
    """Return what reads a part of a file in a reader pod, for `fetch`."""

    def read(first: int, count: int) -> bytes:
        command = [PROGRAM[0], "-S", "-c", PART, path, str(first), str(count)]
        code, out, errors = api.exec(namespace, pod, objects.READS, command, 120)
        if code:
            raise ValueError((errors.strip() or f"exit code {code}").splitlines()[-1])
        try:
            return base64.b64decode(out.strip(), validate=True)
        except binascii.Error as error:
            raise ValueError(str(error)) from None

    return read
