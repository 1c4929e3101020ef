# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hosts of a plan, reached from the head: whether they answer, and commands on all of them at once.

Over SSH; in a batch job of Slurm by its steps.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

BY_STEPS = "AMX_CLUSTER_STEPS"
"""The variable of a supervisor that reaches the other nodes of its Slurm job by steps of that."""
# A step beside others that have the same CPUs, on all CPUs of the job.
STEP = ("srun", "--overlap", "--cpu-bind=none", "--mpi=none", "--quiet")
SECONDS = 10
"""How long a host has to answer a command."""
_LATE = "no answer within {} s"
LATE = _LATE.format(SECONDS)
"""Why a host did not answer that takes connections: ssh gives up earlier where it cannot connect (ConnectTimeout)."""
HANDSHAKE = re.compile(r"^Connection (timed out during banner exchange|to \S+ port \d+ timed out)", re.MULTILINE)
"""What ssh says of a host that took its connection, and whose sshd has not answered within ConnectTimeout."""


def on_every_host(
    command: Sequence[str], hosts: Iterable[str], here: str, sent: bytes = b"", seconds: int = SECONDS
) -> dict[str, tuple[int, str]]:
    """Run a command on hosts at once: {host: (exit code, output)}; 255 where a host did not answer.

    The output has the errors as well where the command failed, not otherwise: sshd may have a banner. "{host}" in the
    command is the host's name. here: the name of this host, on which the command runs without SSH. sent: its standard
    input. seconds: how long each host has to answer.
    """
    started, answers = {}, {}
    with tempfile.TemporaryFile() as file:  # without a name: what is sent may be secret
        file.write(sent)
        file.flush()
        for host in hosts:
            own = [word.replace("{host}", host) for word in command]
            words = own if host == here else ssh(host, own)
            try:
                with Path(f"/proc/self/fd/{file.fileno()}").open("rb") as stdin:
                    started[host] = subprocess.Popen(
                        words, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
                    )
            except OSError as error:
                answers[host] = (255, str(error))
    for host, process in started.items():
        try:
            output, errors = process.communicate(timeout=seconds)
            answers[host] = (process.returncode, output + errors if process.returncode else output)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            answers[host] = (255, _LATE.format(seconds))
    return answers


def ssh(host: str, command: Sequence[str]) -> list[str]:
    """Return the command that runs another one on a host, without a question and without waiting long for it."""
    if BY_STEPS in os.environ:
        return [*STEP, "--nodes=1", "--ntasks=1", f"--nodelist={host}", *command]
    options = ["-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "-o", "ConnectionAttempts=1"]
    return ["ssh", *options, host, shlex.join(command)]


def unreachable(hosts: Iterable[str], here: str) -> dict[str, str]:
    """Return {host: why} of the hosts that do not answer now."""
    return {
        host: LATE if HANDSHAKE.search(output) else " ".join(output.split())[-200:] or "ssh ended without a message"
        for host, (code, output) in on_every_host(["true"], hosts, here).items()
        if code
    }


def oom_kills(hosts: Iterable[str], here: str) -> dict[str, int]:
    """Return {host: how many processes its kernel has ended because it was out of memory} since it booted."""
    kills = {}
    for host, (code, output) in on_every_host(["grep", "-w", "oom_kill", "/proc/vmstat"], hosts, here).items():
        counted = re.search(r"^oom_kill (\d+)$", output, re.MULTILINE)
        if not code and counted:
            kills[host] = int(counted[1])
    return kills


def full_disks(paths: Sequence[str], hosts: Iterable[str], here: str) -> list[str]:
    """Return the hosts on which the file system of one of these paths has less than 1 MiB left."""
    full = []
    for host, (_code, output) in on_every_host(["df", "-Pk", *paths], hosts, here).items():
        # A path that is not there is only told; capacity and mount point follow what is available.
        available = re.findall(r"^\S.*\s(\d+)\s+\d+%\s", output, re.MULTILINE)
        if any(int(kilobytes) < 1024 for kilobytes in available):
            full.append(host)
    return full
