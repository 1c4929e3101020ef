# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Effects of a login on jobs: it sets environment variables, which a job ignores, or prints something.

Both come from /etc/profile.d, /etc/environment, .bashrc, or from setvars.sh of oneAPI that one of these sources.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import secrets
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

# For ranks: threads, cores, collectives and what is loaded. Both are regular expressions of bash, too.
OF_RANKS = (
    r"(OMP|GOMP|KMP|MKL|CCL|ATL|FI|ONEDNN|DNNL)_\w+|LD_PRELOAD|PYTHONPATH|PYTHONHOME"
    # Not I_MPI_INFO_*, I_MPI_PIN_INFO and the like, which Hydra gives to ranks.
    r"|I_MPI_((ADJUST|ASYNC_PROGRESS|OFI|SHM|THREAD|TUNING)\w*|FABRICS|PIN|WAIT_MODE)"
)
# For launchers: theirs, too.
OF_LAUNCHERS = rf"{OF_RANKS}|(I_MPI|HYDRA)_\w+"
SECONDS = 15
# Files that a shell reads for a command over SSH, by its name; below the home where they are relative.
FILES = {
    "bash": ("/etc/bash.bashrc", "/etc/bashrc", ".bashrc"),
    "zsh": ("/etc/zshenv", "/etc/zsh/zshenv", ".zshenv"),
    "tcsh": ("/etc/csh.cshrc", ".tcshrc", ".cshrc"),
    "csh": ("/etc/csh.cshrc", ".cshrc"),
    "fish": ("/etc/fish/config.fish", ".config/fish/conf.d", ".config/fish/config.fish"),
}
# What sshd itself runs with sh before a command: the user's file, else that of the host.
OF_SSHD = (".ssh/rc", "/etc/ssh/sshrc")
# Sources a file and prints, before each command, the file and the line that it is in.
TRACE = r"""PS4='+@${BASH_SOURCE}:${LINENO}@ '; set -x; source "$1" """
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
    variables: dict[str, str] = {}
    for options in (["-l", "-i"], ["-i"]):
        variables.update(_variables([shell or "/bin/sh", *options, "-c", "env -0"], seconds))
    return {name: value for name, value in sorted(variables.items()) if re.fullmatch(OF_LAUNCHERS, name)}


def printed(shell: str = "", home: Path | None = None, seconds: float = SECONDS) -> dict[str, str]:
    """Return what a command over SSH prints on this host besides its own output, and the file that prints it:
    {text, file}, empty where it is nothing. shell, home: by default the user's; file: with its line where known."""
    with contextlib.suppress(KeyError):
        shell = shell or pwd.getpwuid(os.getuid()).pw_shell
    shell, home = shell or "/bin/sh", home or Path.home()
    separator = secrets.token_hex(8)
    before, _separator, after = _over_ssh([shell, "-c", f"echo {separator}"], home, seconds).partition(separator)
    # A line end alone is enough for scp to fail. What is printed afterwards is so by an exit trap.
    around = before + after.removeprefix("\n")
    text = around.strip() or repr(around).strip("'")
    names = [os.environ.get("BASH_ENV", ""), *FILES.get(Path(shell).name, ())]
    files = [home / name for name in names if name and (home / name).exists()]
    file = " or ".join(map(str, files)) or "a file that the login shell reads"
    if text and Path(shell).name == "bash":
        for startup in files:
            traced = _over_ssh([shell, "--norc", "-c", TRACE, "bash", str(startup)], home, seconds, subprocess.STDOUT)
            start, marker, _rest = traced.partition(f"\n{text.splitlines()[0]}")
            places = re.findall(r"^\++@(.+?)@ ", start, re.MULTILINE)
            if marker and places:
                file = places[-1]
                break
    if not text:
        of_sshd = [home / name for name in OF_SSHD if (home / name).is_file()][:1]
        for path in of_sshd:
            text, file = _over_ssh(["/bin/sh", str(path)], home, seconds).strip(), str(path)
    return {"text": " ".join(text.split())[:100], "file": file} if text else {}


def _over_ssh(command: Sequence[str], home: Path, seconds: float, errors: int = subprocess.DEVNULL) -> str:
    """Return what a command prints that is run as by sshd, which bash knows by its standard input or SSH_CLIENT."""
    environ = {name: value for name, value in os.environ.items() if name not in ("SHLVL", "PS1")}
    environ.update(HOME=str(home), SSH_CLIENT="127.0.0.1 1 22", SSH_CONNECTION="127.0.0.1 1 127.0.0.1 22")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.shutdown(socket.SHUT_WR)
        return _run(command, environ, theirs.fileno(), errors, seconds, home)


def _variables(command: Sequence[str], seconds: float) -> dict[str, str]:
    """Return the environment that a shell prints."""
    kept = {name: value for name, value in os.environ.items() if not re.fullmatch(OF_LAUNCHERS, name)}
    output = _run(command, {**kept, "TERM": "dumb"}, subprocess.DEVNULL, subprocess.DEVNULL, seconds)
    pairs = (entry.partition("=") for entry in output.split("\0"))
    # What a profile prints comes before the first variable.
    return {name.rpartition("\n")[2]: value for name, _sign, value in pairs}


def _run(
    command: Sequence[str],
    environ: Mapping[str, str],
    stdin: int,
    stderr: int,
    seconds: float,
    directory: Path | None = None,
) -> str:
    """Return what a command prints until it ends, or within `seconds`; nothing where it cannot be started.

    Its output is a file: processes that it leaves in the background may keep a pipe open indefinitely.
    """
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                command,
                env=environ,
                cwd=directory,
                stdin=stdin,
                stdout=output,
                stderr=stderr,
                start_new_session=True,
            )
        except OSError:
            return ""
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=seconds)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        output.seek(0)
        return output.read().decode(errors="replace")
