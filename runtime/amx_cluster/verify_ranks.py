"""A job's script that trains nothing: each rank reports what it observes of itself, for a comparison with the plan.

Started like every job's script. Joins the group, has OpenMP compute through torch, and has rank 0 write observed.json
into the job directory: {"ranks": [a report of each rank]}, a report being

    rank, host      as the rank was set
    cpus            the CPUs that the process was allowed when it started
    omp_threads     how many threads torch has OpenMP use
    omp_num_threads the variable OMP_NUM_THREADS
    threads         the threads that computed: {name, cpus: those allowed, cpu: the one it ran on last}
    comm_threads    the threads that the backend started, likewise
    openmp          the file of the OpenMP run time that torch calls
    other_openmp    the other OpenMP run times that are loaded: {file: whether it has started threads, too}
    libraries       the files of all OpenMP run times and allocators in the process's memory map
    product         how oneDNN ran a product in bfloat16, such as brg_matmul:avx10_1_512_amx; "" if not by oneDNN
    memory          bytes that belong to no file, by NUMA node: {node: bytes}; empty where the kernel does not say
    huge_pages      bytes in transparent huge pages
    amx             whether the kernel granted the process AMX tiles; null where it knows no such permission
"""

from __future__ import annotations

import ctypes
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

# What the process is, before anything is imported that could change it.
CPUS = sorted(os.sched_getaffinity(0))

import torch
from amx_cluster.observer.group import libraries
from ansible_collections.amx.cluster.plugins.module_utils._cores import memory
from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import parse_cpus
from ansible_collections.amx.cluster.plugins.module_utils._hosts import amx, onednn, openmp
from torch import distributed


class DlInfo(ctypes.Structure):
    """Answer of dladdr(3) about an address: Dl_info."""

    _fields_ = (
        ("dli_fname", ctypes.c_char_p),
        ("dli_fbase", ctypes.c_void_p),
        ("dli_sname", ctypes.c_char_p),
        ("dli_saddr", ctypes.c_void_p),
    )


def tasks() -> dict[int, dict[str, Any]]:
    """Return this process's threads by their number in the kernel: {name, cpus, cpu}, as proc(5) has them."""
    threads = {}
    for directory in Path("/proc/self/task").iterdir():
        try:
            status = (directory / "status").read_text(encoding="utf-8")
            stat = (directory / "stat").read_text(encoding="utf-8")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        threads[int(directory.name)] = {
            "name": fields["Name"],
            "cpus": sorted(parse_cpus(fields["Cpus_allowed_list"])),
            # Field 39, `processor`; the first after the name in parentheses is field 3.
            "cpu": int(stat.rpartition(")")[2].split()[36]),
        }
    return threads


def join(backend: str) -> None:
    """Form the group, and have the backend start all its threads."""
    distributed.init_process_group(backend)
    total = torch.ones(1)
    distributed.all_reduce(total)
    if int(total.item()) != int(os.environ["WORLD_SIZE"]):
        raise RuntimeError(f"the sum of one from each of {os.environ['WORLD_SIZE']} ranks came out as {total.item()}")


def compute(precision: str) -> None:
    """Use every OpenMP thread, as training does: matrix multiplications and a loop over a large tensor."""
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    matrix = torch.ones(512, 512, dtype=kind)
    # torch gives a thread at least 32,768 elements.
    vector = torch.ones(torch.get_num_threads() * 2**17)
    for _round in range(5):
        matrix @ matrix
        vector.exp()


def product() -> str:
    """Multiply in bfloat16, and return what oneDNN ran it with."""
    matrix = torch.ones(512, 512, dtype=torch.bfloat16)
    return onednn.product_ran_with(lambda: matrix @ matrix)


def openmp_file() -> str:
    """Return the file of the OpenMP run time that torch's calls are bound to, an empty string when there is none.

    The dynamic linker searches what is loaded for all, the preloaded first, and then what torch brings along.
    """
    torch_cpu = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    for name in (None, str(torch_cpu)):
        function = getattr(ctypes.CDLL(name), "omp_get_max_threads", None)
        info = DlInfo()
        if function is not None and ctypes.CDLL(None).dladdr(
            ctypes.cast(function, ctypes.c_void_p), ctypes.byref(info)
        ):
            return os.fsdecode(info.dli_fname or b"")
    return ""


def of_this_process(name: str) -> str:
    """Return a file of /proc/self, empty where there is none, as numa_maps without NUMA."""
    try:
        return Path("/proc/self", name).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def other_openmp(used: str) -> dict[str, bool]:
    """Return the OpenMP run times in this process but for the one in use, and whether each has started threads."""
    time.sleep(0.5)  # until threads that look for work have gone to sleep
    runtimes = openmp.read()
    return {file: started for file, started in runtimes.items() if os.path.realpath(file) != os.path.realpath(used)}


def main() -> None:
    os.umask(0o077)
    plan = json.loads(Path("plan.json").read_text(encoding="utf-8"))
    before = set(tasks())
    join(plan["backend"])
    joined = tasks()
    compute(plan["precision"])
    computed = tasks()
    myself = threading.get_native_id()
    openmp_used = openmp_file()
    report = {
        "rank": int(os.environ["RANK"]),
        "host": os.environ["AMX_CLUSTER_HOST"],
        "cpus": CPUS,
        "omp_threads": torch.get_num_threads(),
        "omp_num_threads": os.environ.get("OMP_NUM_THREADS", ""),
        "threads": [task for number, task in computed.items() if number == myself or number not in joined],
        "comm_threads": [task for number, task in joined.items() if number not in before],
        "openmp": openmp_used,
        "other_openmp": other_openmp(openmp_used),
        "libraries": libraries(),
        "product": product() if plan["precision"] == "bf16" else "",
        "amx": amx.granted(),
        "memory": memory.by_node(of_this_process("numa_maps")),
        "huge_pages": memory.huge_pages(of_this_process("smaps_rollup")),
    }
    reports: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(reports, report)
    if distributed.get_rank() == 0:
        Path("observed.json").write_text(json.dumps({"ranks": reports}, indent=1) + "\n", encoding="utf-8")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
