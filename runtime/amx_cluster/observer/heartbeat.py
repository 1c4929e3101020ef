"""Heartbeats to the job's supervisor every two seconds, from a thread that never holds up the script."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from amx_cluster.observer import saving, usage
from amx_cluster.observer.activity import Activity
from amx_cluster.observer.connection import Connection, is_unreachable
from amx_cluster.observer.failures import Failures
from amx_cluster.observer.notices import Notices
from amx_cluster.observer.rank import Rank
from ansible_collections.amx.cluster.plugins.module_utils._clock import CLOCK, Clock
from ansible_collections.amx.cluster.plugins.module_utils._jobs import wire


class Heartbeat:
    """The messages of a rank."""

    SECONDS = 2.0
    # Seconds without a connection after which this rank was given up: its host was cut off, or the supervisor is gone.
    PATIENCE = 60.0
    # Seconds that threads and child processes have when the script has failed, and waits for their end.
    FAILED = 20.0
    # Seconds without progress after which the heartbeat has the position of the script.
    STACK = 4.0

    def __init__(self, rank: Rank, activity: Activity, notices: Notices, clock: Clock = CLOCK) -> None:
        self.rank, self.activity, self.notices, self.clock = rank, activity, notices, clock
        self.connection: Connection | None = None
        self.sending = threading.Lock()
        # Whether the supervisor was ever reached, and since when it cannot be.
        self.reached = False
        self.cut_off: float | None = None
        # Whether the script has ended.
        self.ended = False
        # Is set when the next message is due at once: the script has ended, or made its first step.
        self.due = threading.Event()
        activity.at_first_step = self.due.set
        self.failures = Failures(rank, self.send)
        self.leave = os._exit
        # What the ranks' gradients are compared by.
        self.gradient: dict[str, Any] | None = None
        # What returns the times of the steps, in a job that is measured.
        self.measured: Callable[[], dict[str, Any]] | None = None
        # How many rows a rank of a prediction has, as runtime/amx_cluster/inference/run_prediction.py reports them.
        self.rows: dict[str, Any] | None = None

    def start(self, supervisor: str) -> None:
        """Begin, in a thread of its own, where a supervisor listens (ADDRESS:PORT:TOKEN)."""
        if not supervisor:
            return
        self.connection = Connection(supervisor)
        os.register_at_fork(after_in_child=self.forget)
        self.thread = threading.Thread(target=self.run, name="amx-cluster-heartbeat", daemon=True)
        self.thread.start()
        atexit.register(self.end)
        leave = self.leave

        def leave_with(status: int) -> None:
            with contextlib.suppress(Exception):
                self.end()
            leave(status)

        os._exit = leave_with  # type: ignore[assignment]

    def forget(self) -> None:
        """Disable the heartbeat in a forked child and close its socket."""
        self.sending = threading.Lock()
        if self.connection is not None:
            self.connection.close()

    def run(self) -> None:
        """Send for as long as this process lives. What cannot be sent is not sent: the supervisor sees that."""
        failed = None
        while not self.ended:
            self.activity.look()
            self.notices.look()
            self.send()
            if self.failures.failed and not threading.main_thread().is_alive():
                failed = failed or self.clock.monotonic()
                if self.clock.monotonic() - failed > self.FAILED:
                    self.give_up(f"threads or processes of the script go on {self.FAILED:.0f} s after its failure", 1)
            if self.cut_off is not None and self.reached and self.clock.monotonic() - self.cut_off > self.PATIENCE:
                self.give_up(f"the job's supervisor has not answered for {self.PATIENCE:.0f} s", wire.CUT_OFF)
            self.due.wait(self.SECONDS)
            self.due.clear()

    def give_up(self, why: str, status: int) -> None:
        """End this process."""
        with contextlib.suppress(Exception):
            stream = sys.__stderr__ or sys.stderr
            type(stream).write(stream, f"{why}: this rank ends\n")  # failures.py replaces `write`
            stream.flush()
        self.leave(status)

    def end(self) -> None:
        """Report that the script has ended: what is silent from now on is not stopped.

        The thread is not left to the interpreter's end, which needs a free descriptor to stop it.
        """
        if self.rank.speaks():
            self.ended = True
            self.due.set()
            self.thread.join(self.SECONDS)
            for _message in range(1 + len(self.rank.logged) // wire.LOGGED):
                self.send()

    def send(self) -> None:
        """Send one message. Whatever goes wrong: the script must not suffer from being watched."""
        if self.connection is None:
            return
        try:
            with self.sending:
                files = dict(self.rank.unsent)
                with self.rank.logged_until_sent() as logged:
                    message = {**self.message(), "files": files, "logged": logged}
                    self.connection.send(json.dumps(message).encode() + b"\n")
                self.reached, self.cut_off = True, None
                for name, document in files.items():
                    if self.rank.unsent.get(name) is document:  # else there is a newer one
                        del self.rank.unsent[name]
        except Exception as error:
            if not is_unreachable(error):
                self.cut_off = None
            elif self.cut_off is None:
                self.cut_off = self.clock.monotonic()

    def message(self) -> wire.Heartbeat:
        """Return what is sent but for files: use of the host, progress, and without any, where the script is."""
        counters = f"/sys/class/net/{self.rank.interface}/statistics"
        idle = self.activity.idle()
        message: wire.Heartbeat = {
            "rank": self.rank.number,
            "host": self.rank.host,
            "pid": os.getpid(),
            "time": self.clock.time(),
            "cpu_seconds": self.activity.cpu_seconds,
            "rss_bytes": usage.read_number("/proc/self/status", "VmRSS") * 1024,
            "network_bytes": sum(usage.read_counter(f"{counters}/{name}_bytes") for name in ("rx", "tx")),
            "oom_kills": usage.read_number("/proc/vmstat", "oom_kill"),
            "idle": idle,
            "stepped": self.activity.stepped,
            "steps": self.activity.steps,
            "waiting": self.activity.waiting,
            "alone": self.activity.alone,
            "gradient": self.gradient,
            "ended": self.ended,
        }
        self.notices.tell(message)
        with contextlib.suppress(OSError):
            part = saving.newest_part(self.rank)
            if part:
                message["part"] = part
        if self.rows is not None:
            message["rows"] = self.rows
        if self.failures.failed:
            message["failed"] = self.failures.failed
        if self.ended and self.failures.said:
            message["said"] = self.failures.said
        if self.measured is not None:
            with contextlib.suppress(Exception):
                message["measured"] = self.measured()
        if idle > self.STACK:
            message["stack"] = self.activity.stack()
        return message
