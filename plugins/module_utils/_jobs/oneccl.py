# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""oneCCL: the variables of ranks with backend ccl, and settings of a job with which it does not start or hangs.

Under mpirun it communicates through Intel MPI. Without, as under torchrun and in pods, it uses libfabric by itself: run
with bindings 2.8.0 (oneCCL 2021.14) over TCP, on one host and between two.
"""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.amx.cluster.plugins.module_utils._jobs.wire import BINDINGS
from ansible_collections.amx.cluster.plugins.module_utils._stacks import intel_mpi

CORES = {
    "CCL_WORKER_COUNT": "set comm_cores instead",
    "CCL_WORKER_AFFINITY": "leave it out",
}
"""What only the allocation sets, and what to do. Some releases of oneCCL refuse a list longer than the number of
workers on the host; all refuse a shorter one. And accelerate up to 1.12 takes ccl wherever there are workers."""

OFFLOAD = "CCL_WORKER_OFFLOAD"
"""0 where oneCCL has no worker: as the allocation sets it without communication cores, or the job."""

OLD_BINDINGS = (
    "backend auto is gloo: this stack's oneccl-bind-pt, as all before 2.3.100, does not read LOCAL_RANK, by which "
    "launcher {launcher} numbers ranks"
)


def variables(bindings: str, env: str, directory: str, interface: str, is_mpi: bool) -> dict[str, str]:
    """Return the variables of ranks with backend ccl.

    bindings: the module that registers it. env, directory: the path of the virtual environment, and where they are in
    it. interface: of the host on the cluster network. is_mpi: whether ranks are processes of Intel MPI.
    """
    common = {"CCL_KVS_IFACE": interface, BINDINGS: bindings}
    if is_mpi:
        return common
    return {**common, "CCL_ATL_TRANSPORT": "ofi", **intel_mpi.libfabric_of_bindings(env, directory)}


def with_libraries(variables: Mapping[str, str], env: Mapping[str, str]) -> dict[str, str]:
    """Return the library path of a job's env behind that of oneCCL, which does not start without its own.

    variables: as the function variables returns them. env: that field of the job. Empty unless both have one.
    """
    name = "LD_LIBRARY_PATH"
    return {name: f"{variables[name]}:{env[name]}"} if variables.get(name) and env.get(name) else {}


def has_worker(env: Mapping[str, str]) -> bool:
    """Return whether oneCCL has worker threads with these variables."""
    return env.get(OFFLOAD) != "0"


def refusal(env: Mapping[str, str], is_mpi: bool, hosts: int, has_core: bool) -> str:
    """Return why ranks with backend ccl would not start, hang or disturb others with what a job sets them to.

    Empty if they run. env: that field of the job. is_mpi: as in variables. hosts: on how many the job runs. has_core:
    whether a rank has a core for a worker.
    """
    if not has_core and env.get(OFFLOAD, "0") != "0":
        # Without a list of CPUs, oneCCL takes a rank's last CPU under mpirun, else the last ones of the host.
        return (
            f"env: {OFFLOAD}={env[OFFLOAD]} with backend ccl: comm_cores: 0 leaves a worker no core, and it would run "
            "on one that computes: leave it out, or set comm_cores: 1"
        )
    if is_mpi:
        return ""
    reasons = {
        "CCL_ATL_TRANSPORT": (
            env.get("CCL_ATL_TRANSPORT", "").lower() == "mpi",
            "ranks that mpirun did not start hang in Intel MPI: leave it out, or set launcher: mpirun",
        ),
        "FI_PROVIDER": (
            "shm" in env.get("FI_PROVIDER", "").lower() or not env.get("FI_PROVIDER", "tcp").strip(),
            "oneCCL finds no provider on one host, and hangs between hosts: leave it out, which is tcp",
        ),
        "CCL_KVS_IFACE": (
            env.get("CCL_KVS_IFACE", "-") in ("", "lo") and hosts > 1,
            "ranks wait for each other without the interface of their network: leave it out, which is the interface on "
            "cluster_network",
        ),
        "FI_TCP_IFACE": (
            env.get("FI_TCP_IFACE", "-") in ("", "lo") and (hosts > 1 or not env["FI_TCP_IFACE"]),
            "oneCCL hangs between hosts without the interface of their network: leave it out, which is the interface "
            "on cluster_network",
        ),
    }
    for name, (hangs, reason) in reasons.items():
        if hangs:
            return f"env: {name}={env[name]} with backend ccl: {reason}"
    return ""
