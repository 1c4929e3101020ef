"""Two hosts on this machine that do not share the job directory, for jobs of one rank on each.

node0 is this machine. node1 is the same with another directory in the place of that of the jobs, in a mount namespace
of its own (unshare(1)), which needs root; there, localhost is LOCALHOST. STAND-INS are ssh, scp and mpirun, which go
there and start the ranks; rank.py, observer, supervisor, torch and the script are the real ones. A file down.node1 in
`base` has node1 not answer.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._io import read_json
from support import real_jobs

LOCALHOST = "127.0.0.3"
SSH = """#!/bin/bash
while [ "$1" = -o ]; do shift 2; done
host=$1; shift
[ "$host" != node0 ] || exec bash -c "$*"
[ ! -e {base}/down.$host ] || { echo "ssh: connect to host $host port 22: No route to host" >&2; exit 255; }
cd /
exec unshare --mount bash -c '
    mount --bind {base}/node1/jobs {base}/jobs && mount --bind {base}/node1/hosts /etc/hosts && exec bash -c "$1"
' bash "$*"
"""
# What is on node1 lies elsewhere when it is seen from here.
SCP = """#!/bin/bash
[ ! -e {base}/down.node1 ] || { echo "scp: node1: No route to host" >&2; exit 1; }
words=()
for word in "${@:2}"; do
    case $word in
        node1:*) word=${word#node1:}; words+=("{base}/node1/jobs${word#{base}/jobs}") ;;
        *) words+=("$word") ;;
    esac
done
exec cp -r "${words[@]}"
"""
MPIRUN = """#!/bin/bash
while [ "$2" != -S ]; do shift; done
size=$(wc -l < hostfile)
export PMI_SIZE=$size MPI_LOCALRANKID=0
pids=()
for rank in $(seq 0 $((size - 1))); do
    host=$(sed -n $((rank + 1))p hostfile)
    PMI_RANK=$rank ssh $host "cd $PWD && exec $(printf '%q ' "$@")" &
    pids+=($!)
done
trap 'kill -9 "${pids[@]}"' EXIT
wait -n || exit 9
for _rank in $(seq 2 $size); do wait -n || exit 9; done
"""


def can_mount() -> bool:
    return os.geteuid() == 0 and subprocess.run(["unshare", "--mount", "true"], check=False).returncode == 0


needs_mounts = pytest.mark.skipif(not can_mount(), reason="it takes root to give a host a directory of its own")


class Hosts:
    """A job `demo` in the directories of two hosts below `base`."""

    def __init__(self, base: Path, environment: Path) -> None:
        self.base, self.environment = base, environment
        self.folder = base / "jobs/demo"
        self.places = {"node0": self.folder, "node1": base / "node1/jobs/demo"}
        self.bin = base / "env/bin"
        for path in (self.bin, base / "jobs", base / "node1/jobs"):
            path.mkdir(parents=True)
        (base / "node1/hosts").write_text(f"{LOCALHOST} localhost\n")
        (base / "env/amx-cluster.json").write_bytes((environment / "amx-cluster.json").read_bytes())
        python = f'#!/bin/sh\nexec {environment}/bin/python "$@"\n'
        for name, text in {"ssh": SSH, "scp": SCP, "mpirun": MPIRUN, "python": python}.items():
            (self.bin / name).write_text(text.replace("{base}", str(base)))
            (self.bin / name).chmod(0o755)

    def start(self, script: Path, start: str = "the first", notices: str = "", **job: Any) -> None:
        """Start the job in the directories that are there, or in new ones.

        start: tells it from other starts. notices: as run.Settings has it.
        """
        path = {"PATH": f"{self.bin}:{os.environ['PATH']}"}  # with the stand-ins
        settings = {"start": start, "notices": notices}
        real_jobs.start(self.places, script, self.base / "env", [{}], settings=settings, supervisor=path, **job)

    def ended(self) -> tuple[dict[str, Any], str]:
        """Wait for the job's end; return its status and its log."""
        return real_jobs.ended(self.folder)

    def result(self) -> dict[str, Any]:
        return read_json(self.folder / "output/all_results.json") or {}
