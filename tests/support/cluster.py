"""What scenarios that play a user in Python need: the hosts, playbooks as a user starts them, and how jobs stand.

molecule/shared/tasks/script.yml starts such a script with CONTAINERS (JSON, {host: container}) and PREFIX
(cluster_prefix) in its environment, beside what molecule sets.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SHARED = Path(__file__).resolve().parents[2] / "molecule/shared"
SCENARIO = Path(os.environ["MOLECULE_SCENARIO_DIRECTORY"])
EPHEMERAL = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"])
CONTAINERS: dict[str, str] = json.loads(os.environ["CONTAINERS"])
PREFIX = os.environ["PREFIX"]
HEAD = next(iter(CONTAINERS))
NETWORK = CONTAINERS[HEAD].removesuffix(HEAD) + "cluster"


def docker(*words: str, check: bool = True) -> str:
    """Run docker, and return what it printed."""
    return subprocess.run(["docker", *words], check=check, capture_output=True, text=True, timeout=120).stdout


def on(host: str, script: str, user: str = "train") -> str:
    """Run a shell script on a host, and return what it printed."""
    return docker("exec", "--user", user, CONTAINERS[host], "sh", "-c", script, check=False)


def addresses() -> dict[str, str]:
    """Return each host's address on the cluster network."""
    found = {}
    for host, container in CONTAINERS.items():
        networks = json.loads(docker("inspect", container))[0]["NetworkSettings"]["Networks"]
        found[host] = networks[NETWORK]["IPAddress"]
    return found


class Play:
    """A playbook that a user started: ansible-playbook playbooks/NAME.yml WORDS, its output in a file."""

    def __init__(self, name: str, *words: str) -> None:
        folders = [EPHEMERAL, SHARED, SCENARIO]
        inventories = [f"--inventory={folder / 'inventory'}" for folder in folders]
        self.file = EPHEMERAL / f"{name}.{time.monotonic_ns()}.out"
        self.began = time.time()
        with self.file.open("wb") as output:
            self.process = subprocess.Popen(
                ["ansible-playbook", *inventories, f"playbooks/{name}.yml", *words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def output(self) -> str:
        """Return what it has printed so far."""
        return self.file.read_text(encoding="utf-8", errors="replace")

    def ended(self) -> bool:
        return self.process.poll() is not None

    def wait(self, seconds: float) -> str:
        """Return what it printed, when it has ended. Raises subprocess.TimeoutExpired."""
        self.process.wait(seconds)
        return self.output()

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to it and what it started, but for SSH connections: they are in sessions of their own."""
        if not self.ended():
            os.killpg(self.process.pid, number)
            self.process.wait(30)


def directory(job: str) -> str:
    """Return the job's directory, the same on every host."""
    return f"{PREFIX}/jobs/{job}"


def read_json(job: str, name: str) -> dict[str, Any]:
    """Return a JSON file of the job's directory on the head; empty while there is none."""
    try:
        content: dict[str, Any] = json.loads(on(HEAD, f"cat {directory(job)}/{name} 2>/dev/null"))
    except ValueError:
        return {}
    return content


def status(job: str) -> dict[str, Any]:
    """Return the job's status.json; empty while there is none."""
    return read_json(job, "status.json")


def log(job: str) -> str:
    """Return all that the job's ranks have printed."""
    return on(HEAD, f"cat {directory(job)}/log 2>/dev/null")


def until(condition: Callable[[], Any], seconds: float) -> bool:
    """Wait for the condition; tell whether it came true within that time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.5)
    return True


def orphans(job: str) -> list[str]:
    """Return the job's processes on hosts that answer, each HOST:/proc/PID/environ or HOST:/proc/PID/cwd."""
    found = []
    mine = f"grep -lzx AMX_CLUSTER_JOB={directory(job)} /proc/[0-9]*/environ"
    starters = f"find /proc/[0-9]*/cwd -maxdepth 0 -lname {directory(job)}"
    for host in CONTAINERS:
        out = on(host, f"{{ {mine}; {starters}; }} 2>/dev/null", user="root")
        found += [f"{host}:{line}" for line in out.split()]
    return found


def kill_mpirun(job: str) -> None:
    """End the job's mpirun on the head, without a chance to tidy up."""
    on(
        HEAD,
        "for starter in $(pgrep -x mpiexec.hydra); do "
        f'[ "$(readlink /proc/$starter/cwd)" != {directory(job)} ] || kill -KILL $starter; done',
        user="root",
    )


def job_file(job: dict[str, Any]) -> Path:
    """Write a job file and return its path. YAML reads JSON."""
    path = EPHEMERAL / f"{job['name']}.yml"
    path.write_text(json.dumps(job), encoding="utf-8")
    return path
