# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Environment variables of a login on a host that would change what a job does, and which a job therefore ignores.

They come from /etc/profile.d, /etc/environment, .bashrc, or from setvars.sh of oneAPI that one of these sources.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import signal
import subprocess
from collections.abc import Sequence

# For ranks: threads, cores, collectives and what is loaded. Both are regular expressions of bash, too.
OF_RANKS = (
    r"(OMP|GOMP|KMP|MKL|CCL|ATL|FI|ONEDNN|DNNL)_\w+|LD_PRELOAD|PYTHONPATH|PYTHONHOME"
    # Not I_MPI_INFO_*, I_MPI_PIN_INFO and the like, which Hydra gives to ranks.
    r"|I_MPI_((ADJUST|ASYNC_PROGRESS|OFI|SHM|THREAD|TUNING)\w*|FABRICS|PIN|WAIT_MODE)"
)
# For launchers: theirs, too.
OF_LAUNCHERS = rf"{OF_RANKS}|(I_MPI|HYDRA)_\w+"
SECONDS = 15
# What a script in bash that starts a launcher begins with.
IGNORE = f"""\
# What a login on this host sets (.bashrc, /etc/environment, setvars.sh of oneAPI) is not what was planned.
ignored=()
pattern='^({OF_LAUNCHERS})$'
for name in $(compgen -e); do
    [[ $name =~ $pattern ]] || continue
    ignored+=("$name=${{!name}}")
    unset "$name"
done
[ ${{#ignored[@]}} = 0 ] || echo "${{0##*/}}: the job ignores what a login on $(hostname) sets: ${{ignored[*]}};" \\
    "set env or env_launcher of the job file instead" >&2
"""


def exported(shell: str = "", seconds: float = SECONDS) -> dict[str, str]:
    """Return those of these variables that a person's shell on this host has, by name.

    shell: by default the user's. It is asked as an interactive one, since many a .bashrc does nothing for others, once
    as a login shell and once not: bash reads other files then. Empty where it does not answer within `seconds`.
    """
    with contextlib.suppress(KeyError):
        shell = shell or pwd.getpwuid(os.getuid()).pw_shell
    found: dict[str, str] = {}
    for options in (["-l", "-i"], ["-i"]):
        found.update(_variables([shell or "/bin/sh", *options, "-c", "env -0"], seconds))
    return {name: value for name, value in sorted(found.items()) if re.fullmatch(OF_LAUNCHERS, name)}


def _variables(command: Sequence[str], seconds: float) -> dict[str, str]:
    """Return the environment that a shell prints."""
    kept = {name: value for name, value in os.environ.items() if not re.fullmatch(OF_LAUNCHERS, name)}
    try:
        process = subprocess.Popen(
            command,
            env={**kept, "TERM": "dumb"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return {}
    try:
        output, _errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return {}
    pairs = (entry.partition("=") for entry in output.decode(errors="replace").split("\0"))
    # What a profile prints comes before the first variable.
    return {name.rpartition("\n")[2]: value for name, _sign, value in pairs}
