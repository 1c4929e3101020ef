"""Tools of scenarios that play a user in Python: the hosts, playbooks as a user starts them, and the status of jobs.

molecule/shared/tasks/script.yml starts such a script with CONTAINERS (JSON, {host: container}, the head first) and
PREFIX (cluster_prefix) in its environment, beside what molecule sets.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from support.checkout import ROOT, environment
from support.journeys import check

SCENARIO = Path(os.environ["MOLECULE_SCENARIO_DIRECTORY"])
EPHEMERAL = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"])
CONTAINERS: dict[str, str] = json.loads(os.environ["CONTAINERS"])
PREFIX = os.environ["PREFIX"]
# The configuration with which one logs in on hosts that are no containers.
SSH = EPHEMERAL / "ssh_config"
HEAD = next(iter(CONTAINERS))
# The hosts share few cores, with other scenarios perhaps: what has not come after this many seconds will not come.
PATIENCE = 600.0


def docker(*words: str, fails: bool = False) -> str:
    """Run docker, and return what it printed. Raises CalledProcessError when it fails, unless it may."""
    ran = subprocess.run(["docker", *words], check=not fails, capture_output=True, text=True, timeout=PATIENCE)
    return ran.stdout


def on(host: str, script: str, user: str = "train", fails: bool = True) -> str:
    """Run a shell script on a host, and return what it printed; it may fail unless that is excluded."""
    if SSH.exists():
        command = ["ssh", "-F", str(SSH), f"train@{host}", f"sudo -u {user} sh -c {shlex.quote(script)}"]
        return subprocess.run(command, check=not fails, capture_output=True, text=True, timeout=PATIENCE).stdout
    return docker("exec", "--user", user, CONTAINERS[host], "sh", "-c", script, fails=fails)


def network(name: str = "cluster") -> str:
    """Return the name that the engine has for a network of the scenario."""
    return CONTAINERS[HEAD].removesuffix(HEAD) + name


def addresses(name: str = "cluster") -> dict[str, str]:
    """Return each host's address on a network."""
    addresses = {}
    for host, container in CONTAINERS.items():
        networks = json.loads(docker("inspect", container))[0]["NetworkSettings"]["Networks"]
        addresses[host] = networks[network(name)]["IPAddress"]
    return addresses


class Play:
    """A playbook that a user started: ansible-playbook playbooks/NAME.yml WORDS, its output in a file.

    playbook: what is run instead, in the directory `where` with the environment `env`.
    """

    def __init__(
        self, name: str, *words: str, playbook: str = "", where: Path = ROOT, env: Mapping[str, str] | None = None
    ) -> None:
        inventories = [f"--inventory={path / 'inventory'}" for path in (EPHEMERAL, ROOT / "molecule/shared", SCENARIO)]
        self.command = f"{name}.yml {' '.join(words)}"
        self.file = EPHEMERAL / f"{name}.{time.monotonic_ns()}.out"
        self.began = time.time()
        with self.file.open("wb") as output:
            self.process = subprocess.Popen(
                ["ansible-playbook", *inventories, playbook or f"playbooks/{name}.yml", *words],
                cwd=where,
                env=environment() if env is None else env,
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

    def wait(self, seconds: float = PATIENCE) -> str:
        """Return what it printed, when it has ended. Raises subprocess.TimeoutExpired."""
        self.process.wait(seconds)
        return self.output()

    def succeed(self, seconds: float = PATIENCE) -> str:
        """Return what it printed, when it has ended as a success. Raises WrongError when it fails."""
        output = self.wait(seconds)
        check(self.process.returncode == 0, f"{self.command} failed:\n{output[-6000:]}")
        return output

    def fail(self) -> str:
        """Return what it printed, when it has failed. Raises WrongError when it succeeds."""
        output = self.wait()
        check(self.process.returncode != 0, f"{self.command} succeeded:\n{output[-6000:]}")
        return output

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to it and what it started, but for SSH connections: they are in sessions of their own."""
        if not self.ended():
            os.killpg(self.process.pid, number)
            self.process.wait(PATIENCE)


def words(output: str) -> str:
    """Return a play's output without the line breaks, indents and quotes that YAML adds to long texts."""
    return " ".join(output.replace("''", "'").split())


def directory(job: str) -> str:
    """Return the job's directory, the same on every host."""
    return f"{PREFIX}/jobs/{job}"


def read_json(job: str, name: str) -> dict[str, Any]:
    """Return a JSON file of the job's directory on the head; empty while there is none."""
    try:
        document: dict[str, Any] = json.loads(on(HEAD, f"cat {directory(job)}/{name} 2>/dev/null"))
    except ValueError:
        return {}
    return document


def status(job: str) -> dict[str, Any]:
    """Return the job's status.json; empty while there is none."""
    return read_json(job, "status.json")


def attempts(job: str) -> list[dict[str, Any]]:
    """Return the job's attempts, the first one first."""
    return list(status(job).get("attempts", []))


def log(job: str) -> str:
    """Return all that the job's ranks have printed."""
    return on(HEAD, f"cat {directory(job)}/log 2>/dev/null")


def until(condition: Callable[[], Any], seconds: float = PATIENCE) -> bool:
    """Wait for the condition; return whether it came true within that time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        # To ask a container takes a tenth of a second of processor time.
        time.sleep(1.0)
    return True


def orphans(job: str) -> list[str]:
    """Return the job's processes on hosts that answer, each HOST:/proc/PID/environ or HOST:/proc/PID/cwd."""
    processes = []
    mine = f"grep -lzx AMX_CLUSTER_JOB={directory(job)} /proc/[0-9]*/environ"
    launchers = f"find /proc/[0-9]*/cwd -maxdepth 0 -lname {directory(job)}"
    for host in CONTAINERS:
        out = on(host, f"{{ {mine}; {launchers}; }} 2>/dev/null", user="root")
        processes += [f"{host}:{line}" for line in out.split()]
    return processes


def kill_launcher(job: str) -> None:
    """End the job's mpirun on the head, without a chance to tidy up."""
    on(
        HEAD,
        "for launcher in $(pgrep -x mpiexec.hydra); do "
        f'[ "$(readlink /proc/$launcher/cwd)" != {directory(job)} ] || kill -KILL $launcher; done',
        user="root",
    )


def job_file(job: dict[str, Any]) -> Path:
    """Write a job file and return its path. YAML reads JSON."""
    path = EPHEMERAL / f"{job['name']}.yml"
    path.write_text(json.dumps(job), encoding="utf-8")
    return path


def train(job: Path, *options: str) -> Play:
    """Start a job."""
    return Play("train", "-e", f"job={job}", *options)
