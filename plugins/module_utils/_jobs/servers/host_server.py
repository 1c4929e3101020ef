# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The server of a model on one host: it starts this host's instances and HAProxy, and starts again what ends.

    python -S RUNTIME serve DIRECTORY start         start it, or have the one that runs take the directory's new model
    python -S RUNTIME serve DIRECTORY supervise     be it, as systemd or `start` runs it

No other host needs it: what happens to one touches no other. Its state is in status.json of the job directory.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from ansible_collections.amx.cluster.plugins.module_utils import _io
from ansible_collections.amx.cluster.plugins.module_utils._clock import CLOCK, Clock
from ansible_collections.amx.cluster.plugins.module_utils._io import read_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory, inference_requests, processes
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.instances import LAUNCHER
from ansible_collections.amx.cluster.plugins.module_utils._jobs.servers import end_reason, front, ports, unit
from ansible_collections.amx.cluster.plugins.module_utils._jobs.servers.health import ANSWER, Probe
from ansible_collections.amx.cluster.plugins.module_utils._jobs.servers.states import (
    ENDED,
    READY,
    STARTING,
    UNHEALTHY,
)
from ansible_collections.amx.cluster.plugins.module_utils._jobs.servers.version import Version
from ansible_collections.amx.cluster.plugins.module_utils._ownership import user_name
from ansible_collections.amx.cluster.plugins.module_utils._text import now

STEADY, PAUSE, LONGEST = 60.0, 5.0, 60.0
"""Seconds that an instance serves at least, or it is started again after a pause; the longest of those."""
LOOK = 0.3
"""Seconds between two looks at the processes."""
END = 10.0
"""Seconds that a process has to end by itself."""
HAPROXY_SILENT = 3 * ANSWER
"""Seconds without an answer after which HAProxy is killed: it is asked several times in these."""
SOCKETS, YOUNG = "amx-serve-", 60.0
"""How directories of sockets are called, and seconds within which a server has locked its own."""
LOG, LOG_ENDS = 64 << 20, 8 << 20
"""Bytes of the log that are kept on the disk, and at each of its ends where it has more."""
SIGNALS = {directory.STOP: "stop", signal.SIGTERM: "end", signal.SIGINT: "end", signal.SIGHUP: "replace"}
"""What a signal requests: `end` leaves the state as it is, for the next start, as when the host shuts down."""


def ended(code: int) -> str:
    """Return how a process ended. code: as Popen.returncode."""
    if not code:  # as vLLM does when its engine is lost
        return "ended by itself, with exit code 0"
    return f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}"


def pause(failures: int) -> float:
    """Return the seconds before an instance is started again that has ended so many times within STEADY seconds."""
    return min(LONGEST, PAUSE * 2 ** (failures - 1)) if failures else 0.0


@dataclass
class Instance:
    """One instance, which is started again when it ends.

    heard: when it last answered a question about its health, or began. killed: why it was killed, before it has ended.
    reason: why it ended by itself before it served, by its log.
    """

    number: int
    socket: str
    state: str = STARTING
    process: subprocess.Popen[bytes] | None = None
    began: float = 0.0
    since: str = ""
    restarts: int = 0
    failures: int = 0
    again: float = 0.0
    error: str = ""
    heard: float = 0.0
    killed: str = ""
    reason: str = ""

    def __post_init__(self) -> None:
        self.probe = Probe(self.socket)

    def to_json(self) -> dict[str, Any]:
        """Return how it is, as status.json has it."""
        shown = {"instance": self.number, "state": self.state, "since": self.since, "restarts": self.restarts}
        return {**shown, "pid": self.process.pid if self.process else 0, "error": self.error}

    def enter(self, state: str) -> None:
        """Change its state."""
        self.state, self.since = state, now()


@dataclass
class HostServer:
    """The instances of this host and its HAProxy. clock: of all but the waits for the end of processes."""

    version: Version
    directory: Path
    clock: Clock = CLOCK
    status: dict[str, Any] = field(default_factory=dict)
    instances: list[Instance] = field(default_factory=list)
    haproxy: subprocess.Popen[bytes] | None = None
    haproxy_heard: float = 0.0
    looked: float = 0.0
    lock: IO[bytes] | None = None
    requested: str = ""
    generation: int = 0
    was_ready: bool = False
    saved: dict[str, Any] = field(default_factory=dict)
    known: set[int] = field(default_factory=set)
    left: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.haproxy_probe = Probe(front.own_socket(str(self.directory)))

    def ask(self, request: str, *_signal: object) -> None:
        """Request something of it: one of SIGNALS."""
        if request != "replace" or not self.requested:  # which does not undo that it is to end
            self.requested = request

    # Its files

    def register(self) -> bool:
        """Register this process as the one server of the directory; return whether it served before.

        Raises OSError and ValueError.
        """
        self.lock = (self.version.files / "supervisor.lock").open("wb")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"the server in {self.version.path} runs already") from None
        before = read_json(self.version.files / "status.json") or {}
        self.status = {
            "job": self.version.job["job"]["name"],
            "state": "running",
            "started": before.get("started") or now(),
            "reason": "",
            "pid": os.getpid(),
            "start": self.version.start,
            "host": self.version.here,
            "hosts": len(self.version.plan["hosts"]),
            "ranks": self.version.plan["world_size"],
            "front": bool(front.program()),
            "servers": [host["host"] for host in self.version.plan["hosts"]],
        }
        return bool(before)

    def write(self) -> None:
        """Write status.json, if it has changed. Raises OSError."""
        shown = {**self.status, "instances": [instance.to_json() for instance in self.instances]}
        if shown != self.saved:
            _io.write_json(self.version.files / "status.json", shown)
            self.saved = shown

    def save(self) -> None:
        """Write status.json, if it has changed. A disk that is full ends no server."""
        with contextlib.suppress(OSError):
            self.write()

    def leave(self, state: str, reason: str) -> None:
        """Write that it has ended. Without room for another file, the one that is there is written over."""
        self.status.update(state=state, reason=reason, ended=now())
        try:
            self.write()
        except OSError:
            with contextlib.suppress(OSError), (self.version.files / "status.json").open("r+b") as file:
                file.write(json.dumps({**self.status, "instances": []}).encode())
                file.truncate()

    def say(self, text: str) -> None:
        """Write a line into the log. A disk that is full ends no server."""
        with contextlib.suppress(OSError):
            print(f"{now()} {self.version.here}: {text}", flush=True)

    def reason_in_log(self, version: Version, instance: Instance) -> str:
        """Return why an instance ended, by what it wrote into the log of a version."""
        try:
            log = _io.tail(version.files / "log", 0, end_reason.BYTES)
        except OSError:
            return "its log cannot be read"
        return end_reason.find(log, version.here, version.host["ranks"][instance.number]["rank"])

    # Its processes

    def socket_of(self, number: int, suffix: str = "") -> str:
        return str(self.directory / f"i{number}{suffix}")

    def front(self, version: Version) -> front.Front:
        """Return what HAProxy of this host does."""
        request, host = version.request, version.host
        return front.Front(
            str(self.directory),
            request.address or host["address"],
            request.port,
            host["address"],
            [self.socket_of(number) for number in range(len(host["ranks"]))],
            front.peers(version.plan["hosts"], version.here),
            request.keys,
            request.certificate,
            version.limit("request"),
        )

    def start_haproxy(self) -> None:
        """Start HAProxy, where there is one. Raises OSError, and ValueError where it refuses its configuration."""
        program = front.program()
        if not program:
            return
        path = self.directory / "haproxy.cfg"
        path.write_text(front.render(self.front(self.version)), encoding="utf-8")
        checked = subprocess.run([program, "-c", "-f", str(path)], capture_output=True, text=True, check=False)
        if checked.returncode:
            alerts = [line for line in checked.stderr.splitlines() if "[ALERT]" in line]
            reason = alerts[0] if alerts else end_reason.last_line(checked.stderr)
            raise ValueError(f"HAProxy on {self.version.here} refuses its configuration: {reason}")
        self.haproxy = subprocess.Popen([program, "-db", "-f", str(path)], preexec_fn=_end_with_parent)
        self.known.add(self.haproxy.pid)
        self.haproxy_heard = self.clock.monotonic()
        self.haproxy_probe.close()

    def start_instance(
        self, instance: Instance, version: Version, is_again: bool, log: IO[bytes] | None = None
    ) -> None:
        """Start the process of an instance. log: where its output goes, by default the log of this process."""
        host = version.host
        rank = host["ranks"][instance.number]["rank"]
        place = (str(rank), str(version.plan["world_size"]), str(instance.number))
        environ = {**os.environ, **dict(zip(LAUNCHER.rank_variables, place))}
        words = [f"{version.plan['environment']}/bin/python", "-S", version.plan["runtime"], "rank", "-m"]
        words.append(inference_requests.SERVERS[version.request.engine])
        words += ["--socket", instance.socket, *(["--again"] if is_again else [])]
        if not front.program() and version.request.engine == "amx":
            words += ["--address", version.request.address or host["address"], "--port", str(version.request.port)]
        with contextlib.suppress(FileNotFoundError):
            os.unlink(instance.socket)  # noqa: PTH108 a socket
        instance.process = subprocess.Popen(
            words,
            cwd=version.files,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=_end_with_parent,
        )
        self.known.add(instance.process.pid)
        instance.began = instance.heard = self.clock.monotonic()
        instance.killed = ""
        instance.probe.close()
        instance.enter(STARTING)

    def look_at(self, instance: Instance) -> None:
        """Note how an instance is, and start it when it is time."""
        if instance.process is None:
            if self.clock.monotonic() >= instance.again:
                try:
                    self.start_instance(instance, self.version, self.was_ready)
                except OSError as error:  # such as for lack of memory
                    self.note_end(instance, f"cannot be started ({error})")
            return
        code = instance.process.poll()
        if code is None:
            self.note_health(instance, instance.process)
        else:
            # First: what is noted goes into the log, too.
            why = "" if instance.killed or self.was_ready else self.reason_in_log(self.version, instance)
            self.note_end(instance, instance.killed or ended(code), why)

    def note_health(self, instance: Instance, process: subprocess.Popen[bytes]) -> None:
        """Note whether an instance is healthy, and kill one that has not been heard of for long."""
        status, seen = instance.probe.look(), self.clock.monotonic()
        if status:
            instance.heard = seen
        if status == 200 and instance.state != READY:
            instance.enter(READY)
            instance.error = ""
            self.was_ready = True
            self.say(f"instance {instance.number} answers")
        elif instance.state == READY and (status == 503 or seen - instance.heard > ANSWER):
            instance.enter(UNHEALTHY)
            instance.error = "answers /health with 503" if status else f"has not answered for {ANSWER:g} s"
            self.say(f"instance {instance.number} {instance.error}")
        limit = self.version.limit("load" if instance.state == STARTING else "hung")
        if seen - instance.heard > limit and not instance.killed:
            process.kill()
            did = "load the model" if instance.state == STARTING else "answer"
            instance.killed = f"did not {did} for {limit:g} s, and was killed"

    def note_end(self, instance: Instance, how: str, reason: str = "") -> None:
        """Note that an instance has ended, and when it is started again. reason: what its log tells of it."""
        instance.reason = reason
        self.forget(instance.process)
        self.end_left()
        steady = instance.state == READY and self.clock.monotonic() - instance.began >= STEADY
        instance.failures = 0 if steady else instance.failures + 1
        instance.again = self.clock.monotonic() + pause(instance.failures)
        instance.restarts, instance.process, instance.error = instance.restarts + 1, None, how
        instance.enter(ENDED)
        wait = pause(instance.failures)
        self.say(f"instance {instance.number} {how}: it is started again{f' in {wait:g} s' if wait else ''}")

    def end(self, ending: Iterable[subprocess.Popen[bytes] | None], seconds: float) -> None:
        """Ask processes to end, and kill those that have not after so many seconds."""
        living = [process for process in ending if process and process.poll() is None]
        for process in living:
            process.terminate()
        until = time.monotonic() + seconds
        for process in living:
            try:
                process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            self.forget(process)
        self.end_left()

    def end_left(self) -> None:
        """Kill what killed instances have left, such as vLLM's engine with all its memory: children of this process.

        Python's trackers of resources are left alone: they end when those have ended, and remove their shared memory.
        """
        for pid in processes.left_by(os.getpid(), self.known):
            self.left.add(pid)
            with contextlib.suppress(OSError):
                if not processes.is_tracker(pid):
                    os.kill(pid, signal.SIGKILL)

    def reap(self) -> None:
        """Collect the exit codes of what was left and has ended: else it stays a zombie."""
        for pid in self.left - self.known:  # whose number may be that of a new instance by now
            with contextlib.suppress(OSError):  # its parent has not ended yet
                os.waitpid(pid, os.WNOHANG)
            if not Path(f"/proc/{pid}").exists():
                self.left.discard(pid)

    def forget(self, process: subprocess.Popen[bytes] | None) -> None:
        """Leave a process that has ended out of the known ones: its number may be used again."""
        self.known.discard(process.pid if process else 0)

    # What it does

    def run(self, has_served: bool) -> str:
        """Serve until it is asked to end; return why it has to."""
        problem = self.unusable()
        while problem and has_served and not self.requested:  # as after a reboot, when the network is not there yet
            self.say(f"{problem}: trying again")
            self.status["reason"] = problem
            self.save()
            self.sleep(PAUSE)
            problem = self.unusable()
        if problem:  # where it is to end, as at a shutdown without a network, it has not failed
            return "" if has_served and self.requested in ("end", "stop") else problem
        self.status["reason"] = ""
        self.start_haproxy()
        while True:
            self.note_time()
            for instance in self.instances:
                self.look_at(instance)
                if instance.state == ENDED and not self.was_ready and not has_served:
                    why = f"instance {instance.number} on {self.version.here} {instance.error} before it served"
                    return ": ".join(filter(None, [why, instance.reason]))
            self.look_at_haproxy()
            self.reap()
            self.save()
            with contextlib.suppress(OSError):
                directory.shorten_log(self.version.files / "log", LOG, LOG_ENDS, LOG_ENDS)
            if self.requested == "replace":
                self.requested = ""
                self.replace()
            elif self.requested:
                return ""
            self.sleep(LOOK)

    def note_time(self) -> None:
        """Count no seconds against what was not asked: this process was suspended, or a model was replaced."""
        now = self.clock.monotonic()
        if now - self.looked > ANSWER:
            self.haproxy_heard = now
            for instance in self.instances:
                instance.heard = now
        self.looked = now

    def look_at_haproxy(self) -> None:
        """Start HAProxy again where it has ended or does not answer. Until it answers, the status has the reason."""
        if not self.haproxy:
            return
        status = self.haproxy_probe.look()
        if status is not None:
            self.status["reason"] = "" if status else "HAProxy does not answer"
        if status:
            self.haproxy_heard = self.clock.monotonic()
        how = ""
        if self.haproxy.poll() is not None:
            how = ended(self.haproxy.returncode)
        elif self.clock.monotonic() - self.haproxy_heard > HAPROXY_SILENT:
            how = f"has not answered for {HAPROXY_SILENT:g} s, and was killed"
            self.end([self.haproxy], 0)
        if how:
            self.status["reason"] = f"HAProxy {how}"
            self.say(f"HAProxy {how}: it is started again")
            try:
                self.start_haproxy()
            except (OSError, ValueError) as error:
                self.status["reason"] = str(error)
                self.say(f"{error}: trying again")
            self.save()
            self.sleep(1)

    def sleep(self, seconds: float) -> None:
        """Wait, unless something is asked meanwhile."""
        end = self.clock.monotonic() + seconds
        while not self.requested and self.clock.monotonic() < end:
            self.clock.sleep(0.05)

    def unusable(self) -> str:
        """Return why requests cannot be accepted here; empty where they can."""
        version, request = self.version, self.version.request
        if not front.program():
            if request.keys or request.certificate or request.engine != "amx":
                return (
                    f"{version.here} has no HAProxy 2.2 or later, which keys, TLS and vLLM need: set cluster_serving: "
                    "true in the inventory, and run playbooks/site.yml"
                )
            if not version.host["ranks"]:
                return ""
        elif request.certificate and not os.access(request.certificate, os.R_OK):
            return f"{version.here}: the certificate {request.certificate} cannot be read by {user_name(os.getuid())}"
        places = [(request.address or version.host["address"], request.port)]
        places += [(version.host["address"], request.port + 1)] if front.program() else []
        for address, port in places:
            problem = ports.problem_of(address, port)
            if problem:
                return f"port {port} of {address} cannot be used on {version.here}: {problem}"
        return ""

    def replace(self) -> None:
        """Take the model that the directory has now, one instance after the other; else keep what there is."""
        try:
            after = Version.read(self.version.path)
        except (OSError, ValueError, KeyError) as error:
            self.say(f"the new model cannot be read: {error}")
            return
        if after.start == self.version.start:
            return
        problem = self.roll(after)
        if problem:
            self.status["refused"] = {"start": after.start, "reason": problem}
            self.say(f"the model stays as it was: {problem}")
            os.close(after.place)
            self.save()
            return
        self.status.update(state="stopped", reason="another model has taken its place", ended=now())
        self.save()
        lock, place = self.lock, self.version.place
        self.version = after
        self.register()
        self.save()
        log_to(after.files)
        if lock:
            lock.close()
        os.close(place)
        self.say("the new model is served")

    def roll(self, after: Version) -> str:
        """Replace each instance by one of another version; return why that failed, with the earlier ones as they were.

        A new instance takes the socket of the earlier one when it answers; that ends when it has answered its requests.
        """
        self.generation += 1
        replaced: list[tuple[Instance, Instance]] = []
        count = len(after.host["ranks"])
        load = after.limit("load")
        try:
            if count != len(self.instances) or self.front(after) != self.front(self.version):
                raise ValueError(
                    "the number of instances, the address, the port, the keys, the request limit or the hosts differ: "
                    f"stop the server (playbooks/stop.yml -e job={self.status['job']}), and serve the model again"
                )
            for instance in self.instances:
                new = Instance(instance.number, self.socket_of(instance.number, f".{self.generation}"))
                replaced.append((instance, new))
                with (after.files / "log").open("ab") as log:
                    self.start_instance(new, after, True, log)
                while new.probe.look() != 200:
                    code = new.process.poll() if new.process else 1
                    if code is not None:
                        raise ValueError(
                            f"the new instance {new.number} on {after.here} {ended(code)} before it served: "
                            + self.reason_in_log(after, new)
                        )
                    if self.clock.monotonic() - new.began > load:
                        raise ValueError(
                            f"the new instance {new.number} on {after.here} did not load the model for {load:g} s"
                        )
                    if self.requested:
                        raise ValueError("the server is being stopped")
                    self.sleep(LOOK)
                    self.look_at_haproxy()
                    for other in self.instances:
                        if other is not instance:
                            self.look_at(other)
            for _instance, new in replaced:
                if new.process is None or new.process.poll() is not None:
                    raise ValueError(f"the new instance {new.number} on {after.here} has ended meanwhile")
            self.take(after)
        except (OSError, ValueError) as error:
            self.end([new.process for _instance, new in replaced], END)
            return str(error)
        # All are there: from here on nothing is to fail.
        for instance, new in replaced:
            os.replace(new.socket, instance.socket)  # noqa: PTH105 a socket
        ending = [instance.process for instance, _new in replaced]
        for instance, new in replaced:
            instance.process, instance.began, instance.failures = new.process, new.began, 0
            instance.killed = instance.error = ""
            instance.enter(READY)
        self.end(ending, inference_requests.DRAIN)
        self.looked = 0.0
        return ""

    def take(self, after: Version) -> None:
        """Write the status of another version, after which its start cannot be undone. Raises OSError, ValueError."""
        with directory.creating(after.path):
            if directory.settings_of(after.path).get("start") != after.start:
                raise ValueError("its start was given up meanwhile")
            (after.files / "supervisor.lock").touch()
            _io.write_json(after.files / "status.json", {**self.saved, "start": after.start})

    def stop(self) -> None:
        """Accept no further requests, answer those under way, and end all processes."""
        if self.haproxy and self.haproxy.poll() is None:
            self.haproxy.send_signal(signal.SIGUSR1)  # it ends once its connections have ended
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.haproxy.wait(inference_requests.DRAIN)
            self.end([self.haproxy], END)
        self.end([instance.process for instance in self.instances if instance.state == STARTING], END)
        self.end([instance.process for instance in self.instances], inference_requests.DRAIN)
        for instance in self.instances:
            instance.process = None
            instance.enter(ENDED)
        until = time.monotonic() + END
        while self.left and time.monotonic() < until:  # systemd kills what is there when this process has ended
            self.reap()
            time.sleep(0.05)


def remove_left(places: Path = Path("/tmp")) -> None:
    """Remove the directories of sockets that servers of this user have left that were killed."""
    for path in places.glob(f"{SOCKETS}*"):
        with contextlib.suppress(OSError):  # it is in use, or of another user
            if path.lstat().st_uid == os.getuid() and time.time() - path.lstat().st_mtime > YOUNG:
                place = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
                try:
                    fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path)
                finally:
                    os.close(place)


def log_to(files: Path) -> None:
    """Write the output of this process, and of what it starts from now on, to a directory's log. Raises OSError."""
    output = os.open(files / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)


def _end_with_parent() -> None:
    """Request SIGTERM from the kernel for this process when its parent ends (prctl(2), PR_SET_PDEATHSIG)."""
    import ctypes

    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def _adopt() -> None:
    """Request processes that lose their parent below this one as its children (prctl(2), PR_SET_CHILD_SUBREAPER)."""
    import ctypes

    ctypes.CDLL(None).prctl(36, 1)


def supervise(path: Path) -> int:
    """Serve what a directory says, until asked to end; return the exit code: 0 where it is not to be started again."""
    os.umask(0o077)
    version = Version.read(path)
    before = read_json(path / "status.json") or {}
    if before.get("state") not in (None, "running"):
        return 0  # it was stopped
    log_to(path)
    # Not in the job directory: the path of a socket has at most 107 characters.
    remove_left()
    _adopt()
    with tempfile.TemporaryDirectory(prefix=SOCKETS, dir="/tmp") as made:
        kept = os.open(made, os.O_RDONLY)
        fcntl.flock(kept, fcntl.LOCK_EX)  # which keeps systemd-tmpfiles and other servers from it
        server = HostServer(version, Path(made))
        numbers = range(len(version.host["ranks"]))
        server.instances = [Instance(number, server.socket_of(number)) for number in numbers]
        for number, request in SIGNALS.items():
            signal.signal(number, functools.partial(server.ask, request))
        try:
            has_served = server.register()
            server.write()  # without it, nobody could stop the server
            processes.end(path, grace=0)  # of a server that was killed
        except (OSError, ValueError) as error:
            server.say(f"it does not start: {error}")
            return 0
        reason, state = "", "failed"
        try:
            reason = server.run(has_served)
        except Exception as error:
            server.say(traceback.format_exc())
            reason = f"the server of {version.here} failed ({type(error).__name__}: {error}); its log tells where"
        server.stop()
        if server.requested == "end" and not reason:  # as when the host shuts down: it serves again afterwards
            server.save()
            return 0
        if server.requested == "stop":
            state, reason = "stopped", "it was stopped on request"
        server.leave(state, reason)
        unit.remove(path)
    return 0


def main(words: Sequence[str]) -> None:
    """Run the command `serve`: a job directory, and `start` or directory.SUPERVISE[0]."""
    path = Path(words[0]).resolve()
    if words[1] == "start":
        try:
            answer = unit.start(path, [sys.executable, "-S", str(Path(sys.argv[0]).resolve()), "serve", str(path)])
        except (OSError, ValueError) as error:
            sys.exit(str(error))
        sys.stdout.write(json.dumps(answer) + "\n")
    else:
        sys.exit(supervise(path))
