"""Measure cells of an inference benchmark: every instance runs this, one process pinned to its own cores.

Each cell is measured in a process that is forked from this one, where torch and transformers are imported already: one
that crashes fails its cell only. The result of each is written to output/inference/CELL-RANK.json in the job directory:
EMPTY has its fields, and docs/inference.md what they mean.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from amx_cluster.inference.loaded import Unavailable
from amx_cluster.inference.together import Host
from ansible_collections.amx.cluster.plugins.module_utils._jobs.inference_requests import Benchmark, of_job

# What a result has, and its value where the cell has not come so far.
EMPTY: dict[str, Any] = {
    **dict.fromkeys(("throughput", "first_call_seconds", "load_seconds", "peak_memory_bytes", "isa", "int8_route")),
    **dict.fromkeys(("agreement", "generation", "overhead", "together")),
    **{name: [] for name in ("latencies_us", "open_loop", "new_weights")},
    **{"count": 0, "seconds": 0.0, "samples": 0, "emulated": False},
}
PR_SET_PDEATHSIG = 1


class Instance:
    """This process: one of the job's ranks, and one of the instances on its host."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.rank = int(environ.get("RANK", "0"))
        self.name = environ.get("AMX_CLUSTER_HOST") or socket.gethostname()
        self.job = Path(environ.get("AMX_CLUSTER_JOB", "."))
        local, count = int(environ.get("LOCAL_RANK", "0")), int(environ.get("LOCAL_WORLD_SIZE", "1"))
        self.host = Host(self.job / "inference" / self.name, local, count)
        self.output = self.job / "output" / "inference"
        self.output.mkdir(parents=True, exist_ok=True)

    def measure(self, cell: Mapping[str, Any], limit: float, deadline: float | None) -> dict[str, Any]:
        """Measure a cell and write its result; return it."""
        self.host.wait(cell["id"], "begin", limit)
        began = time.monotonic()
        if self._is_late(cell, limit, deadline):
            measured: dict[str, Any] = {"state": "skipped", "reason": "the time budget was used up before this cell"}
        else:
            measured = self._fork(cell, limit)
        if measured["state"] != "measured":
            self.host.gone(cell["id"])
        place = {"version": 1, "cell": cell["id"], "rank": self.rank, "host": self.name}
        result = {**place, "state": "", "reason": "", **EMPTY, **measured, "cell_seconds": time.monotonic() - began}
        self._write(f"{cell['id']}-{self.rank}.json", result)
        return result

    def _is_late(self, cell: Mapping[str, Any], limit: float, deadline: float | None) -> bool:
        """Return whether the cell is to be skipped: the first instance of the host decides for all of them."""
        if deadline is None:
            return False
        if self.host.number == 0:
            self.host.announce(f"{cell['id']}.begin", "late" if time.time() > deadline else "go")
        return self.host.hear(f"{cell['id']}.begin", cell["id"], limit) == "late"

    def _write(self, name: str, document: Mapping[str, Any]) -> None:
        part = self.output / f".{name}.part"
        part.write_text(json.dumps(document), encoding="utf-8")
        part.replace(self.output / name)

    # ------------------------------------------------------------------------------------------------------- children

    def _fork(self, cell: Mapping[str, Any], limit: float) -> dict[str, Any]:
        """Measure the cell in a child; return what the child says, or how it ended."""
        killed_before = oom_kills()
        receiving, sending = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        # What torch.compile makes is thrown away: no instance and no later cell finds what another one compiled.
        with tempfile.TemporaryDirectory(prefix="compiled.", dir=self.job / "inference") as compiled:
            child = os.fork()
            if child == 0:
                os.close(receiving)
                self._in_child(cell, limit, sending, compiled)  # does not return
            os.close(sending)
            answer, overdue = receive(receiving, limit)
            os.close(receiving)
            if overdue:
                os.kill(child, signal.SIGKILL)
            _pid, status, usage = os.wait4(child, 0)
        peak = {"peak_memory_bytes": usage.ru_maxrss * 1024}
        if overdue:
            reason = f"it was not measured within {limit:.0f} s, its time limit"
            return {"state": "failed", "reason": reason, **peak}
        with contextlib.suppress(ValueError):
            return {**peak, **json.loads(answer)}
        return {"state": "failed", "reason": how_it_ended(status, oom_kills() - killed_before), **peak}

    def _in_child(self, cell: Mapping[str, Any], limit: float, sending: int, compiled: str) -> None:
        """Measure the cell, send the result and end; the parent's end is this process's, too."""
        code = 1
        try:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            self.host.leave()
            # In this process: on an instance's few cores, more of them compile no faster.
            os.environ.update(TORCHINDUCTOR_CACHE_DIR=compiled, TORCHINDUCTOR_COMPILE_THREADS="1")
            result = measured(cell, self.rank, self.host, limit)
            with os.fdopen(sending, "w", encoding="utf-8") as stream:
                json.dump({**result, "peak_memory_bytes": peak_memory()}, stream)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)


def measured(cell: Mapping[str, Any], rank: int, host: Host, limit: float) -> dict[str, Any]:
    """Return {state, reason, ..} of a cell that is measured in this process."""
    from amx_cluster.inference.measure_cell import Measurement

    measurement = Measurement(cell, rank, host, limit)
    try:
        return {"state": "measured", **measurement.run()}
    except Unavailable as error:
        return {"state": "refused", "reason": str(error)}
    except MemoryError:
        reason = "out of memory"
    except Exception as error:
        traceback.print_exc()
        first = (str(error).strip().splitlines() or [""])[0][:300]
        reason = f"{type(error).__name__}: {first}"
        if "can't allocate memory" in str(error):
            reason = f"out of memory: {first}"
    return {"state": "failed", "reason": reason, **measurement.found}


def peak_memory() -> int:
    """Return the most memory that this process has had, in bytes; raises OSError."""
    lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return int(fields["VmHWM"].split()[0]) * 1024


def receive(source: int, limit: float) -> tuple[str, bool]:
    """Read until the other end is closed; return it, and whether that took longer than `limit` seconds."""
    end = time.monotonic() + limit
    parts: list[bytes] = []
    while True:
        left = end - time.monotonic()
        if left <= 0:
            return "", True
        if not select.select([source], [], [], min(left, 1.0))[0]:
            still_alive()
            continue
        part = os.read(source, 1 << 16)
        if not part:
            return b"".join(parts).decode(), False
        parts.append(part)


def still_alive() -> None:
    """Report to the job's observer that this rank is at work: no cell takes longer than its time limit."""
    observer = getattr(sys.modules.get("amx_cluster.observer"), "observer", None)
    if observer is not None:
        observer.activity.note()


def how_it_ended(status: int, oom: int) -> str:
    """Return why a child sent no result. status: as wait4 returns it. oom: processes the kernel killed meanwhile."""
    if not os.WIFSIGNALED(status):
        return f"its process ended with exit code {os.waitstatus_to_exitcode(status)} and without a result: see the log"
    number = os.WTERMSIG(status)
    name = signal.Signals(number).name
    if number == signal.SIGKILL and oom > 0:
        return f"its process was killed by {name}: out of memory (the kernel's OOM killer)"
    if number == signal.SIGKILL:
        return f"its process was killed by {name}, as the kernel does when memory runs out"
    return f"its process was killed by signal {number} ({name}): it crashed"


def oom_kills() -> int:
    """Return how many processes the kernel has killed out of memory since it started; 0 where it does not say."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text(encoding="ascii").splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


# --------------------------------------------------------------------------------------------------------------- main


def import_once(cells: Sequence[Mapping[str, Any]]) -> None:
    """Import what the children of this process need, which takes seconds: the classes of the models above all.

    Nothing is computed here: a child of a process whose OpenMP threads are running would hang in its first product.
    """
    from amx_cluster.inference import measure_cell, models

    assert measure_cell
    if any(cell.get("precision") == "int8" for cell in cells):
        from amx_cluster.inference import int8

        assert int8
    for cell in cells:
        # Whatever is wrong with it is found when the cell is measured.
        with contextlib.suppress(Exception):
            models.configuration(cell)


def describe(cell: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """Return the result of a cell in one line."""
    shape = f"batch {cell['batch_size']}" + (f" x {cell['sequence_length']}" if cell.get("sequence_length") else "")
    how = cell["precision"] + " autocast" * bool(cell.get("autocast"))
    words = f"{cell['id']} {cell['model']} {cell['task']} {how} {cell['engine']} {shape}: "
    if result["state"] != "measured":
        return f"{words}{result['state']}: {result['reason']}"
    middle = result["latencies_us"][len(result["latencies_us"]) // 2] / 1000
    return f"{words}{result['throughput']['value']:.2f} samples/s on this instance, p50 {middle:.2f} ms"


def main() -> None:
    """Measure the cells of the job. Those that failed are in results."""
    instance = Instance(os.environ)
    request = Benchmark.from_json(of_job(instance.job))
    import torch
    import transformers

    if not sys.stdout.isatty():
        transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    if instance.rank == 0:
        print(f"torch {torch.__version__}, transformers {transformers.__version__}", flush=True)
    import_once(request.cells)
    for cell in request.cells:
        result = instance.measure(cell, request.limit_seconds, request.deadline)
        still_alive()
        if instance.rank == 0 or result["state"] == "failed":
            print(describe(cell, result), flush=True)


if __name__ == "__main__":
    main()
