# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PyTorch's torchrun on every host, over SSH but for the head: each starts its ranks, which meet at the first host.

Facts: torch 2.13, torch/distributed/run.py and torch/distributed/elastic/: --rdzv_backend static numbers ranks by
--node_rank; hosts may start different numbers of ranks; what a rank inherits is in rank_variables. Options have
underscores: those with dashes came with torch 2.0.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from ansible_collections.amx.cluster.plugins.module_utils._hosts import login_shell
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.launcher import (
    Killed,
    Launcher,
    free_port,
    python,
    rank_command,
)
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Plan
from ansible_collections.amx.cluster.plugins.module_utils._jobs.wire import SUPERVISOR

# torchrun's report of the first rank that failed, where a signal ended it; it ends the host's other ranks by SIGTERM.
KILLED = re.compile(
    r"Root Cause \(first observed failure\):\n\[\d+\]:\n(?:.*\n){2}"
    r"\s+rank\s+: (?P<rank>\d+) \(local_rank: \d+\)\n\s+exitcode\s+: -(?P<signal>\d+) "
)


class Torchrun(Launcher):
    """launch.sh on the head starts torchrun on every host, and ends all when one has failed."""

    name = "torchrun"
    rank_variables = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    pins = False
    backends = ("gloo", "ccl")

    def derived(self, plan: Plan) -> dict[str, str]:
        """Return what torchrun itself is set to on every host; rank.py sets each rank's own."""
        env = plan.environment
        return {
            "PATH": f"{env}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "LD_LIBRARY_PATH": f"{env}/lib",
            "MASTER_ADDR": plan.master_addr,
            "OMP_NUM_THREADS": "1",
        }

    def files(self, plan: Plan, words: Sequence[str]) -> dict[str, str]:
        """Return the hostfile, env, torchrun.sh (which each host runs) and launch.sh."""
        about = {"job": plan.job, "ranks": plan.world_size, "hosts": len(plan.hosts), "supervisor": SUPERVISOR}
        starts = [
            f"start {shlex.quote(host.host)} {number} {len(host.ranks)}" for number, host in enumerate(plan.hosts)
        ]
        return {
            "hostfile": "".join(f"{host.host}\n" for host in plan.hosts),
            "env": self.env_file(plan),
            "torchrun.sh": TORCHRUN.format(**about, ignore=login_shell.IGNORE, command=rank_command(plan, words)),
            "launch.sh": LAUNCH.format(
                **about,
                port=free_port(plan),
                python=shlex.quote(python(plan)),
                runtime=shlex.quote(plan.runtime),
                head=shlex.quote(plan.head),
                names=" ".join(shlex.quote(host.host) for host in plan.hosts),
                starts="\n".join(starts),
            ),
        }

    def killed(self, log: str, plan: Plan, ended: Sequence[int] = ()) -> Killed | None:
        """Return the rank that torchrun reports as killed, on the host that the plan has it on."""
        match = KILLED.search(log)
        if not match:
            return None
        hosts = {rank.rank: host.host for host in plan.hosts for rank in host.ranks}
        rank = int(match["rank"])
        return Killed(rank, hosts.get(rank, "an unknown host"), int(match["signal"]))


TORCHRUN = """\
#!/usr/bin/env bash
# This host's part of job {job}, started by launch.sh: torchrun.sh NUMBER_OF_THIS_HOST RANKS_HERE MASTER_PORT
# The address at which the ranks report to the job's supervisor comes as a line on standard input, where there is one.
set -euo pipefail
cd "$(dirname "${{BASH_SOURCE[0]}}")"

{ignore}
set -a
source ./env
MASTER_PORT=$3
read -r {supervisor} || true
set +a

exec torchrun --nnodes={hosts} --node_rank="$1" --nproc_per_node="$2" --rdzv_backend=static --max_restarts=0 \\
  --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT" --no_python \\
  {command} < /dev/null
"""

LAUNCH = """\
#!/usr/bin/env bash
# Job {job}: {ranks} rank(s) on {hosts} host(s), started by torchrun on each. Written by amx.cluster from job.yml and
# plan.json. It needs this directory and what it names, which every host of the hostfile has: run it again with
# `bash launch.sh`.
set -euo pipefail
cd "$(dirname "${{BASH_SOURCE[0]}}")"

set -a
source ./env
# Where rank 0 waits for the others: a port that is free on its host now.
MASTER_PORT=$({port})
set +a

# Become a command on a host, with the variables of a login; on the head without SSH. Arguments: the host, the command,
# options of ssh.
on() {{
    [ "$1" != {head} ] || exec env -i HOME="$HOME" USER="$(id -un)" PATH="$PATH" bash -c "$2"
    exec ssh -o BatchMode=yes "${{@:3}}" "$1" "$2"
}}

# Start torchrun on a host: its name, its number, its ranks. Each rank's cores, threads and interface are in plan.json;
# rank.py sets them.
started=()
start() {{
    on "$1" "$(printf 'bash %q/torchrun.sh %q %q %q' "$PWD" "$2" "$3" "$MASTER_PORT")" <<< "${{{supervisor}:-}}" &
    started+=($!)
}}

# End this job's processes on every host: torchrun on another host does not notice that this script has ended.
end_all() {{
    trap '' TERM INT
    local host ending=()
    for host in {names}; do
        on "$host" "$(printf '%q -S %q supervise --reap %q' {python} {runtime} "$PWD")" \\
            -o ConnectTimeout=5 > /dev/null 2>&1 &
        ending+=($!)
    done
    wait "${{ending[@]}}" || true
    kill "${{started[@]}}" 2> /dev/null || true
}}
trap 'end_all; exit 143' TERM
trap 'end_all; exit 130' INT

{starts}

# The first host that fails decides.
code=0
for _host in {names}; do
    wait -n || {{
        code=$?
        break
    }}
done
[ "$code" -eq 0 ] || end_all
exit "$code"
"""

LAUNCHER = Torchrun()
