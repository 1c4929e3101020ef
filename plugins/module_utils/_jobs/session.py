# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Outlive the login that started a job, also where systemd-logind ends all that a user's session has left behind.

logind.conf(5): with KillUserProcesses=yes, what is to go on is started by `systemd-run --user --scope`, by a user for
whom lingering is enabled (loginctl(1)).
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from ansible_collections.amx.cluster.plugins.module_utils._ownership import user_name

MANAGER = ("org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager")


def outside(command: Sequence[str], cgroup: str, user: str) -> list[str]:
    """Return how to start a command so that it outlives the login: in another way where logind would end it.

    cgroup: the content of /proc/self/cgroup. user: the name of this process's. Raises ValueError where there is no way,
    and says what to do.
    """
    if not re.search(r"/session-[^/]*\.scope", cgroup) or not _ends_processes(user):
        return list(command)
    if _ask("loginctl", "show-user", user, "--property=Linger", "--value").strip() != "yes":
        raise ValueError(
            f"systemd-logind ends what {user} has started when {user} logs out (KillUserProcesses=yes): run site.yml, "
            f"or sudo loginctl enable-linger {user} on this host"
        )
    return ["systemd-run", "--user", "--scope", "--quiet", "--collect", *command]


def environment(environ: Mapping[str, str], uid: int) -> dict[str, str]:
    """Return the environment in which systemd-run finds the user's own systemd."""
    runtime = f"/run/user/{uid}"
    return {**environ, "XDG_RUNTIME_DIR": runtime, "DBUS_SESSION_BUS_ADDRESS": f"unix:path={runtime}/bus"}


def stay(command: Sequence[str]) -> None:
    """Run the command outside of the login session instead, if needed. Raises ValueError as `outside` does."""
    words = outside(command, Path("/proc/self/cgroup").read_text(encoding="utf-8"), user_name(os.getuid()))
    if words != list(command):
        os.execvpe(words[0], words, environment(os.environ, os.getuid()))


def applies(killing: str, only: str, but: str, user: str) -> bool:
    """Return whether logind ends a user's processes, from its properties as busctl prints them.

    killing: KillUserProcesses. only, but: KillOnlyUsers and KillExcludeUsers, such as 'as 1 "root"'.
    """
    chosen, excepted = (re.findall(r'"([^"]*)"', names) for names in (only, but))
    return killing.split() == ["b", "true"] and user not in excepted and (not chosen or user in chosen)


def _ends_processes(user: str) -> bool:
    killing, only, but = (
        _ask("busctl", "get-property", *MANAGER, name)
        for name in ("KillUserProcesses", "KillOnlyUsers", "KillExcludeUsers")
    )
    return applies(killing, only, but, user)


def _ask(*command: str) -> str:
    """Return what a command prints; nothing where it is missing or fails: then there is no logind."""
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ran.stdout if ran.returncode == 0 else ""
