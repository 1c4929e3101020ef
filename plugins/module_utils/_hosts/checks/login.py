# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks that Ansible can log in and run its modules, and of the user's permissions that roles need."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from ansible_collections.amx.cluster.plugins.module_utils._hosts import login_shell
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.check import (
    FAILURE,
    WARNING,
    Cluster,
    Found,
    check,
    message_of,
)

# What to do about a login that fails with one of these.
LOGINS = {
    "REMOTE HOST IDENTIFICATION HAS CHANGED": "Find out whether the host was installed anew; if so, remove its old key "
    "with ssh-keygen -R and confirm the new one",
    "Host key verification failed": "Log in once with ssh from the control node, compare the fingerprint with that on "
    "the host's console, and confirm it",
    "Permission denied": "Copy your public key to the host with ssh-copy-id, or set ansible_user to the "
    "user that has it",
}
STREAMS = ("stderr", "stdout")


@check(
    FAILURE,
    cause="Ansible cannot log in on the host",
    advice="Check ansible_host and ansible_user of this host, and that ssh from the control node logs in without a "
    "prompt",
)
def reachable(cluster: Cluster) -> Iterator[Found]:
    for host, message in cluster.unreachable.items():
        advice = next((advice for part, advice in LOGINS.items() if part in message), "")
        # ssh surrounds this one with a banner of twelve lines.
        changed = re.search(r"Offending \S+ key in (\S+:\d+)", message)
        yield Found(
            host, f"cannot be reached: {f'its SSH key is not that of {changed[1]}' if changed else message}", advice
        )


@check(
    FAILURE,
    cause="Ansible's modules do not run on the host",
    advice="Install Python 3.9 or newer, and set ansible_python_interpreter to it where Ansible does not find it",
)
def python(cluster: Cluster) -> Iterator[Found]:
    for host, message in cluster.broken.items():
        yield Found(host, f"modules fail on this host: {message}")


@check(
    FAILURE,
    cause="SSH keys cannot be stored in the user's home",
    advice="Give the user a home directory of its own on this host",
    gather=lambda _prefix: {"home_writable": os.access(Path.home(), os.W_OK | os.X_OK)},
)
def user(cluster: Cluster) -> Iterator[Found]:
    for host, info in cluster.infos.items():
        if not info["home_writable"]:
            yield Found(host, "the user cannot write to its home directory")


@check(
    FAILURE,
    cause="Roles cannot do what needs root",
    advice="Allow the user sudo without a password, run with --ask-become-pass, or set cluster_become to false",
)
def sudo(cluster: Cluster) -> Iterator[Found]:
    for host, answer in cluster.answers.items():
        result = answer.get("sudo") or {}
        if cluster.wanted.become and result.get("failed"):
            yield Found(host, f"sudo does not work: {message_of(result)}")


@check(
    FAILURE,
    cause="site.yml fails between its changes (Source ... not found)",
    advice="The home is closed to root, as on NFS with root_squash: set ansible_remote_tmp of the host to a directory "
    "on a local disk for this user alone, such as /var/tmp/ansible-USER, and remove it if it is root's",
)
def root_reads(cluster: Cluster) -> Iterator[Found]:
    for host, answer in cluster.answers.items():
        result = answer.get("copied") or {}
        if cluster.wanted.become and (result.get("failed") or result.get("unreachable")):
            # On a terminal, which sudo may need, both streams are one, and ssh adds that it has closed it.
            streams = (
                re.sub(r"Shared connection to \S+ closed\.", "", str(result.get(name) or "")) for name in STREAMS
            )
            why = next(filter(None, (" ".join(text.split()).rstrip(".") for text in streams)), "") or message_of(result)
            yield Found(host, f"root cannot read what Ansible copies to the user's temporary directory: {why[-300:]}")


@check(
    FAILURE,
    cause="scp fails (Received message too long), and a job reads the text as what its command has printed",
    advice="Have it print only where a person looks: write [[ $- == *i* ]] || return above the line in a file of bash, "
    "[[ -o interactive ]] || return in one of zsh; or remove the line",
    gather=lambda _prefix: {"login_prints": login_shell.printed()},
)
def login_prints(cluster: Cluster) -> Iterator[Found]:
    if len(cluster.results) == 1:
        return  # nothing logs in here but Ansible, which copes with it
    for host, info in cluster.infos.items():
        prints = info["login_prints"]
        if prints:
            yield Found(host, f"{prints['file']} prints {prints['text']!r} beside the output of each command over SSH")


@check(
    WARNING,
    cause="Programs that you start there behave differently from jobs, which ignore these variables",
    advice="Nothing for jobs: write what ranks are to be set to in env of the job file. For other programs, look in "
    "/etc/profile.d, /etc/environment and .bashrc, also for setvars.sh of oneAPI",
    full=True,
)
def login_variables(cluster: Cluster) -> Iterator[Found]:
    for host, info in cluster.infos.items():
        if info["login_variables"]:
            listed = ", ".join(f"{name}={value}" for name, value in info["login_variables"].items())
            yield Found(host, f"a login shell sets {listed}, which jobs ignore")
