"""MPI in this process: loaded once, from the launcher's group, and ended with the script."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from collections.abc import Callable
from typing import Any

from amx_cluster_mpi.library import MPI
from amx_cluster_mpi.progress import Progress, poll
from amx_cluster_mpi.watchdog import Call, Watchdog

# What gives a process its place in Intel MPI's group, and in those of other launchers.
OURS = "PMI_SIZE"
OTHERS = {"OMPI_COMM_WORLD_SIZE": "Open MPI's mpirun", "TORCHELASTIC_RUN_ID": "torchrun"}
# Seconds that the ranks may take to form the group, and to end.
FORM = 300.0
# Seconds that a rank waits at most until others are notified that it leaves.
GOODBYE = 2.0


class Leaving(SystemExit):
    """Exception that sys.exit raises: it knows at its end whether it has ended the script, or was caught."""

    def __init__(self, status: Any, ended: Callable[[], None]) -> None:
        super().__init__(status)
        self.ended = ended

    def __del__(self) -> None:
        if sys is not None and sys._getframe().f_back is None:  # no code is left that could go on
            self.ended()


class Runtime:
    """The MPI of this process. Raises RuntimeError where it is not the launcher's, saying what to do."""

    def __init__(self) -> None:
        wanted = int(os.environ.get("WORLD_SIZE") or 1)
        other = next((name for variable, name in OTHERS.items() if variable in os.environ), "")
        if OURS not in os.environ and (wanted > 1 or other):
            raise RuntimeError(
                f"backend mpi takes its ranks from Intel MPI's mpirun, and this one was started by "
                f"{other or 'another launcher'}: set launcher: mpirun, or backend: gloo, in the job file"
            )
        library = MPI.Get_library_version().split("\0")[0].strip()
        if not library.startswith("Intel(R) MPI"):
            raise RuntimeError(
                f"backend mpi needs Intel MPI, and {library.splitlines()[0]} was loaded: take it off LD_LIBRARY_PATH"
            )
        if not MPI.Is_initialized():
            MPI.Init_thread(MPI.THREAD_MULTIPLE)
        if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
            raise RuntimeError(
                "backend mpi needs MPI_THREAD_MULTIPLE, and the script has initialized MPI with less: set "
                "mpi4py.rc.thread_level = 'multiple' before it imports mpi4py.MPI"
            )
        self.world = MPI.COMM_WORLD
        place = int(os.environ.get("RANK") or self.world.rank)
        if (place, wanted) != (self.world.rank, self.world.size) and wanted > 1:
            raise RuntimeError(
                f"this is rank {place} of {wanted} (RANK, WORLD_SIZE) and rank {self.world.rank} of {self.world.size} "
                "of mpirun: start the script with launch.sh"
            )
        self.pid = os.getpid()
        self.failed = False
        self.watchdog = Watchdog()
        everyone = range(self.world.size)
        with self.watchdog.watching(Call(everyone, "", 0, "forming the group", FORM)):
            self.watchdog.comm = self.world.Dup()
        cpus = [int(cpu) for cpu in os.environ.get("AMX_CLUSTER_MPI_CPUS", "").split(",") if cpu]
        self.progress = Progress(self.watchdog, cpus)
        self.watchdog.is_sending = self.progress.is_sending
        self._watch_the_end()
        atexit.register(self.close)

    def _watch_the_end(self) -> None:
        """Learn whether the script fails: a rank that does must not wait for the others."""
        hook = sys.excepthook

        def excepthook(*arguments: Any) -> None:
            self.failed = True
            hook(*arguments)

        def exit_with(status: Any = None) -> None:
            raise Leaving(status, fail) if status not in (None, 0) else SystemExit(status)

        def fail() -> None:
            self.failed = True

        leave = os._exit

        def leave_with(status: int) -> None:
            if status == 0:
                self.leave()
            leave(status)

        sys.excepthook, sys.exit, os._exit = excepthook, exit_with, leave_with  # type: ignore[assignment]

    def is_up(self) -> bool:
        """Return whether this process is the rank, and has neither failed nor ended MPI."""
        return not self.failed and os.getpid() == self.pid and not MPI.Is_finalized()

    def close(self) -> None:
        """End MPI together with the other ranks; where the script has failed, leave that to the launcher."""
        if not self.is_up():
            return
        self.progress.drain()
        self.watchdog.end()
        self.progress.give_up_receiving()
        # Others may have much to do still: rank 0 writes the model. MPI_Finalize alone would keep a core busy.
        together = False
        if not (self.watchdog.left or self.progress.given_up):  # who is not able to end MPI does not come here
            barrier = self.world.Ibarrier()

            def is_decided() -> bool:
                nonlocal together
                together = together or barrier.Test()
                return together or bool(self.watchdog.left)

            poll(is_decided, None)
        if not together:
            # MPI cannot end without all ranks. Each says so instead, and waits for all to have said it.
            self.watchdog.say_goodbye(GOODBYE, at_once=False)
            poll(lambda: len(self.watchdog.left) == self.world.size - 1, None)
            self._end_for_launcher()
            return
        self.progress.close()
        self.watchdog.close()
        MPI.Finalize()

    def leave(self) -> None:
        """End this process without the other ranks, by os._exit(0) of the script: they go on without it."""
        if self.is_up():
            self.watchdog.say_goodbye(GOODBYE, at_once=True)
            self._end_for_launcher()

    def _end_for_launcher(self) -> None:
        """Report to the launcher what MPI_Finalize would, which waits for all ranks (PMI's simple protocol).

        It would else take the end of this process for a failure, and end the others.
        """
        self.watchdog.close()
        self.progress.close()
        self.failed = True  # none of this is done twice
        with contextlib.suppress(KeyError, ValueError, OSError):
            manager = int(os.environ["PMI_FD"])
            os.write(manager, b"cmd=finalize\n")
            os.read(manager, 1024)  # that it was understood


_runtime: list[Runtime] = []


def runtime() -> Runtime:
    """Return the MPI of this process. Raises RuntimeError as Runtime does, and in a process that a rank has forked."""
    if not _runtime:
        _runtime.append(Runtime())
    if _runtime[0].pid != os.getpid():
        raise RuntimeError("backend mpi: a process that a rank has forked cannot communicate with the other ranks")
    return _runtime[0]
