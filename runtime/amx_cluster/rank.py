"""Run one rank of a job: every launcher (mpirun, torchrun) runs this on a host, once for each rank.

    python -S RUNTIME rank SCRIPT [ARGUMENT ...]        in the job directory
    python -S RUNTIME rank -m MODULE [ARGUMENT ...]     for a program of the collection

What a rank is set to - its place in the group, its cores, its environment - is in the job directory's plan.json; this
host's name in that plan is in the file `host`, and what nobody else may know of the environment in secrets.json. The
script runs in a child of this process, which locks the host for its job as long as it lives, and ends with this process
and the launcher. This process reports to the job's supervisor how the script has ended, ends what the script has left
behind, and then ends as the script did.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import glob
import json
import os
import re
import resource
import signal
import socket
import sys
import time

from amx_cluster.observer import usage
from amx_cluster.observer.rank import read, replace
from ansible_collections.amx.cluster.plugins.module_utils._jobs import wire

# The directory of the programs of this version, from which the script imports them, too.
RUNTIME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Signals that are passed on to the script where they were sent to this process alone.
PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT)
# Seconds that what a script has left behind has to end by itself, after SIGTERM, and after SIGKILL.
LEFT, GRACE, KILLED = 2.0, 5.0, 5.0
# Characters of a note of how a rank is, at least.
NOTE = 300


def place(names: list[str], environ: dict[str, str]) -> tuple[int, int, int]:
    """Return (rank, size, local rank) from the launcher's variables of these names; raises ValueError without them."""
    if not all(name in environ for name in names):
        raise ValueError(
            f"the launcher has given this process no rank ({names[0]} is not set): start it with launch.sh"
        )
    rank, size, local = (int(environ[name]) for name in names)
    return rank, size, local


def variables(plan: dict, name: str, environ: dict[str, str]) -> dict[str, str]:
    """Return the environment variables that this rank is set to.

    plan: the content of plan.json. name: this host's name in it. Raises ValueError when the launcher did not make the
    group that was planned.
    """
    rank, size, local = place(plan["launcher"]["rank_variables"], environ)
    if size != plan["world_size"]:
        raise ValueError(
            f"{size} rank(s) were started and the plan is for {plan['world_size']}: start the job with launch.sh"
        )
    host = next((entry for entry in plan["hosts"] if entry["host"] == name), None)
    if host is None:
        raise ValueError(f"{name} is not a host of the plan")
    if local >= len(host["ranks"]):
        raise ValueError(f"{local + 1} ranks were started on {name} and the plan has {len(host['ranks'])} there")
    mine = host["ranks"][local]
    if mine["rank"] != rank:
        raise ValueError(
            f"rank {rank} was started on {name} where the plan has rank {mine['rank']}: the hostfile was changed"
        )
    here = os.getcwd()
    env = {**host["env"], **mine.get("env", {})}
    # Its project comes before what it requires besides the stack, which lies in packages/.
    project = [f"{here}/{path}" for path in plan.get("project", {}).get("paths", [])]
    paths = [RUNTIME, *project, f"{here}/packages", env.get("PYTHONPATH"), environ.get("PYTHONPATH")]
    return {
        **env,
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": str(local),
        "LOCAL_WORLD_SIZE": str(len(host["ranks"])),
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "AMX_CLUSTER_JOB": here,
        "AMX_CLUSTER_HOST": name,
        "AMX_CLUSTER_RANK": json.dumps(observed(plan, host, rank)),
    }


def observed(plan: dict, host: dict, rank: int) -> dict:
    """Return what the observer of this rank receives (amx_cluster/observer/rank.py).

    pid: the process that is the rank, and speaks for it; the script keeps it, its children have others. together: the
    ranks that write to the same output directory. watch: what the job is watched for. measure: how its
    steps are timed, None where they are not. notices: where the host's metadata service is asked whether the host is
    taken back, empty where there is none.
    """
    writers = plan["hosts"] if plan.get("shared_directory") else [host]
    return {
        "pid": os.getpid(),
        "rank": rank,
        "size": plan["world_size"],
        "together": [entry["rank"] for writer in writers for entry in writer["ranks"]],
        "host": host["host"],
        "interface": host.get("interface", "lo"),
        "job": os.getcwd(),
        "watch": plan.get("watch", {}),
        "measure": plan.get("measure"),
        "notices": plan.get("notices", ""),
    }


def without_login(pattern: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return this process's environment without what a login on the host sets, and that, which ranks do not get.

    pattern: the names, as a regular expression; empty for none. What the launcher itself is set to, by the file env,
    stays.
    """
    own = set()
    with contextlib.suppress(FileNotFoundError), open("env", encoding="utf-8") as stream:
        own = {line.partition("=")[0] for line in stream}
    ignored = {
        name: value for name, value in os.environ.items() if name not in own and pattern and re.fullmatch(pattern, name)
    }
    return {name: value for name, value in os.environ.items() if name not in ignored}, ignored


def secrets(plan: dict) -> dict[str, str]:
    """Return the variables that plan.json only names; their values are in a file that nobody else can read.

    Raises ValueError when the file is gone or does not have them all.
    """
    names = plan.get("secrets", {})
    if not names:
        return {}
    try:
        with open("secrets.json", encoding="utf-8") as stream:
            values = json.load(stream)
        return {name: values[name] for name in names}
    except (FileNotFoundError, KeyError):
        raise ValueError(
            f"secrets.json does not have {', '.join(names)}; it is removed when a job ends: start the job with "
            "playbooks/train.yml"
        ) from None


def pin(plan: dict, name: str, local: int) -> None:
    """Confine this process, and all that it starts, to the domain of its rank in the plan."""
    host = next(entry for entry in plan["hosts"] if entry["host"] == name)
    os.sched_setaffinity(0, host["ranks"][local]["domain_cpus"])


def set_memory(host: dict, local: int) -> None:
    """Take memory from the NUMA nodes of the plan, as all that this process starts (set_mempolicy(2)).

    The policy that is a default must not end a job: where the kernel refuses it, memory is left to it. Raises OSError
    for another one.
    """
    planned = host["ranks"][local].get("memory")
    if not planned:
        return
    mode = {"preferred": 1, "interleave": 3, "preferred_many": 5}[planned["policy"]]
    mask = (ctypes.c_ulong * (max(planned["nodes"]) // 64 + 2))()
    for node in planned["nodes"]:
        mask[node // 64] |= 1 << node % 64
    call = ctypes.CDLL(None, use_errno=True).syscall
    if call(ctypes.c_long(238), ctypes.c_long(mode), mask, ctypes.c_ulong(64 * len(mask))):
        reason = os.strerror(ctypes.get_errno())
        text = f"memory of NUMA nodes {planned['nodes']} cannot be set on {host['host']}: {reason}"
        if not set(planned["nodes"]) <= set(host["ranks"][local].get("numa_nodes", [])):
            raise OSError(f"{text}: set memory to local or any in the job file")
        print(f"rank.py: {text}; it is left to the kernel", file=sys.stderr, flush=True)


def own_name(plan: dict) -> str:
    """Return this host's name in the plan; raises OSError, or ValueError when it is not in it.

    It is in the file `host`, or in the variable that the launcher names. Where hosts share the directory, it is the one
    whose address this host has.
    """
    variable = plan.get("launcher", {}).get("host_variable")
    if variable:
        return os.environ[variable]
    if not plan.get("shared_directory"):
        with open("host", encoding="utf-8") as stream:
            return stream.read().strip()
    for host in plan["hosts"]:
        address = host["address"]
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as tried:
            tried.bind((address, 0))
            return host["host"]
    addresses = ", ".join(host["address"] for host in plan["hosts"])
    raise ValueError(f"{socket.gethostname()} has none of the plan's addresses ({addresses})")


def lock_host(local: int, name: str = "", shared: bool = False, seconds: float = 30, alone: bool = True) -> None:
    """Lock this host for the job in the working directory until this process, and all that it starts, have ended.

    A lock on a file of the job (flock(2)), which no rank has to give back. name: this host's in the plan. shared:
    whether other hosts' locks lie in the same directories. alone: whether no other job may have the host. Raises
    ValueError when another job's rank has locked the host, or one of an earlier start does not end within `seconds`.
    """
    mine = os.open(f"lock.{name}.{local}", os.O_RDWR | os.O_CREAT, 0o600)
    os.set_inheritable(mine, True)
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        if time.monotonic() > end:
            raise ValueError(
                f"a process of an earlier start of this job has not ended on {name}: end it with playbooks/stop.yml"
            )
        time.sleep(0.1)
    for path in glob.glob("../*/lock.*") if alone else ():
        of_this_host = not shared or os.path.basename(path).rpartition(".")[0] == f"lock.{name}"
        if not of_this_host or os.path.dirname(os.path.realpath(path)) == os.getcwd():
            continue
        with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as other:
            try:
                fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(f"job {os.path.basename(os.path.dirname(path))} has locked this host") from None


def end_with(parent: int) -> None:
    """Request the end of this process by the kernel when its parent ends: no rank outlives its job (prctl(2))."""
    ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("rank.py: the launcher has ended meanwhile")


class Script:
    """The process of this rank's script, seen from the one that starts it."""

    def __init__(self, command: list[str]) -> None:
        """Find out which rank it is. What is wrong with that, `become` reports."""
        self.command = command
        self.pid = 0
        self.code: int | None = None
        self.supervisor = os.environ.get(wire.SUPERVISOR, "")
        self.rank, self.host, self.began = -1, "", ""
        with contextlib.suppress(OSError, ValueError, KeyError), open("plan.json", encoding="utf-8") as stream:
            plan = json.load(stream)
            self.host = own_name(plan)
            self.rank = place(plan["launcher"]["rank_variables"], dict(os.environ))[0]

    def start(self) -> None:
        """Start it, and note that in ranks/RANK.json."""
        parent = os.getpid()
        self.pid = os.fork()
        if not self.pid:
            end_with(parent)
            try:
                become(self.command)
            except (OSError, ValueError) as error:
                self.tell(exit=None, failed=f"rank.py: {error}")
                sys.exit(f"rank.py: {error}")
        with contextlib.suppress(OSError):
            self.began = usage.stat(f"/proc/{self.pid}/stat")[19]
        self.note()

    def note(self) -> None:
        """Write down how it is. A disk that is full ends no rank."""
        if self.rank < 0:
            return
        attempt, machine = wire.attempt(self.supervisor), wire.machine()
        record = {"pid": self.pid, "began": self.began, "machine": machine, "attempt": attempt, "code": self.code}
        path, text = f"ranks/{self.rank}.json", f"{json.dumps(record):{NOTE}}"
        with contextlib.suppress(OSError):
            os.makedirs("ranks", mode=0o700, exist_ok=True)
            try:
                replace(path, text)
            except OSError:  # the room that the note has is enough for the next one
                with open(path, "r+", encoding="utf-8") as stream:
                    stream.write(text)

    def tell(self, **report: object) -> None:
        """Report something to the job's supervisor, if it listens."""
        if self.rank < 0 or not self.supervisor:
            return
        message = {"rank": self.rank, "host": self.host, "idle": 0, "files": {}, "oom_kills": -1, **report}
        address, port, token = self.supervisor.split(":", 2)
        with contextlib.suppress(OSError), socket.create_connection((address, int(port)), timeout=5) as connection:
            connection.sendall(f"{token}\n{json.dumps(message)}\n".encode())

    def collect(self) -> None:
        """Collect all children that have ended; this process has those, too, whose own parents have ended."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                if pid == self.pid:
                    self.code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)

    def wait(self) -> None:
        """Wait for its end, and report it."""
        signals = {signal.SIGCHLD, *PASSED_ON}
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        self.collect()
        while self.code is None:
            received = signal.sigwaitinfo(signals)
            # A launcher signals the group that it has made, and a terminal its own: the script is in it.
            to_group = os.getpgrp() == os.getpid() and received.si_pid == os.getppid()
            if received.si_signo != signal.SIGCHLD and received.si_code <= 0 and not to_group:
                os.kill(self.pid, received.si_signo)
            self.collect()
        self.note()
        self.tell(exit=self.code)

    def end_left(self) -> None:
        """End what it has left behind, and report what did not end by itself."""
        named: dict[int, str] = {}
        for number, seconds in ((0, LEFT), (signal.SIGTERM, GRACE), (signal.SIGKILL, KILLED)):
            end = time.monotonic() + seconds
            for pid in usage.family(os.getpid()) if number else []:
                with contextlib.suppress(OSError):
                    words = read(f"/proc/{pid}/cmdline").replace("\0", " ").strip()
                    os.kill(pid, number)
                    named.setdefault(pid, f"{words[:80] or 'a process'} (process {pid})")
            while usage.family(os.getpid()) and time.monotonic() < end:
                time.sleep(0.02)
                self.collect()
            if not usage.family(os.getpid()):
                break
        if named:
            text = f"rank {self.rank} on {self.host}: its script left {', '.join(named.values())}: ended"
            with contextlib.suppress(OSError):
                print(f"rank.py: {text}", file=sys.stderr, flush=True)
            self.tell(left=text)

    def end_as_it_did(self) -> None:
        """End this process by the same signal, or with the same exit code."""
        if self.code is not None and self.code < 0:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # there is one already
            with contextlib.suppress(OSError):  # SIGKILL has no handler
                signal.signal(-self.code, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
            os.kill(os.getpid(), -self.code)
        os._exit(self.code or 0)


def main(command: list[str]) -> None:
    """Run the script as a rank, and end as it does. command: its path, or -m and a module's name, and its arguments."""
    end_with(os.getppid())
    ctypes.CDLL(None, use_errno=True).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: orphans of the script become its children
    script = Script(command)
    script.start()
    script.wait()
    # Only now: mpirun ends all ranks, and this process, once nothing has the connection that it gave to this one.
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor > 2:
            with contextlib.suppress(OSError):
                os.close(descriptor)
    script.end_left()
    script.end_as_it_did()


def become(command: list[str]) -> None:
    """Replace this process by the script of this rank. Raises OSError, and ValueError."""
    with open("plan.json", encoding="utf-8") as stream:
        plan = json.load(stream)
    name = own_name(plan)
    environ, ignored = without_login(plan["launcher"].get("ignored", ""))
    environ.update(secrets(plan))
    environ.update(variables(plan, name, environ))
    if not plan["launcher"]["pins"]:
        pin(plan, name, int(environ["LOCAL_RANK"]))
    if ignored and environ["LOCAL_RANK"] == "0":
        listed = " ".join(f"{key}={value}" for key, value in ignored.items())
        advice = "set env of the job file instead"
        print(f"rank.py: ranks on {name} ignore what a login there sets: {listed}; {advice}", file=sys.stderr)
    set_memory(next(host for host in plan["hosts"] if host["host"] == name), int(environ["LOCAL_RANK"]))
    if plan["launcher"].get("locks", True):
        alone = not plan["launcher"].get("shares_hosts")
        lock_host(int(environ["LOCAL_RANK"]), name, plan.get("shared_directory", False), alone=alone)
    if plan.get("project") and command[0] != "-m":  # its scripts run there, as they do where they were written
        directory = plan["project"]["paths"][0]
        command = [os.path.relpath(command[0], directory), *command[1:]]
        os.chdir(directory)
    os.execve(sys.executable, [sys.executable, *command], environ)
