# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of the doctor: their input, and their results. The checks themselves lie beside this file.

A new one is a function in one of these files: what it looks at (`gather`, on the host), what is wrong with that, and
the words for it. One that has a limit is set by a variable of the role preflight of that name (tasks/report.yml).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.amx.cluster.plugins.module_utils._hosts import cluster_network

GIB = 2**30
FAILURE, WARNING = "failure", "warning"
# What Ansible puts before the words of ssh; which of the two depends on the moment at which ssh ended.
WRAPPING = re.compile(
    r"^(Task failed: )?(Data could not be sent to remote host .* over ssh: |Failed to connect to the host via ssh: )?"
)


@dataclass(frozen=True)
class Wanted:
    """Requirements on a cluster. The role preflight states the values, and documents each under its own name.

    require: "amx", "avx512" or "none". become: whether roles may use
    sudo. full: whether checks between hosts and of the installed software are made. connections: whether those of
    connections are made without `full`, too. limits: {name: value} of all
    checks. fabric: one of fabrics.VALUES. unknown_os: systems.REFUSE or ALLOW.
    slurm: cluster_slurm of the inventory, None without.
    """

    require: str
    become: bool
    full: bool
    limits: Mapping[str, float]
    connections: bool = False
    fabric: str = "auto"
    unknown_os: str = "refuse"
    slurm: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Cluster:
    """Facts about a cluster that the checks evaluate.

    results: by host, the head first, the results of the tasks that gathered facts there: facts (setup), info
    (host_info), sudo, copied (a file that root runs where Ansible has copied it), and where `wanted` has them listener
    (peer_listener), peers (peer_info) and nodes (those of Slurm). None stands for one that did not run.
    """

    results: Mapping[str, Mapping[str, Any]]
    wanted: Wanted

    @cached_property
    def unreachable(self) -> dict[str, str]:
        """The hosts on which Ansible could not log in: {host: Ansible's message}."""
        return self._first("unreachable", self.results)

    @cached_property
    def broken(self) -> dict[str, str]:
        """The hosts that were reached and on which modules fail: {host: Ansible's message}."""
        return self._first("failed", [host for host in self.results if host not in self.unreachable])

    @cached_property
    def answers(self) -> dict[str, Mapping[str, Any]]:
        """The results of the hosts that could be asked."""
        silent = {*self.unreachable, *self.broken}
        return {host: result for host, result in self.results.items() if host not in silent}

    @cached_property
    def infos(self) -> dict[str, Mapping[str, Any]]:
        """Return what host_info returned on each host that could be asked."""
        return {host: answer["info"]["host"] for host, answer in self.answers.items()}

    @cached_property
    def networks(self) -> dict[str, dict[str, str]]:
        """The interface, address and network that ranks use on each host, as cluster_network.of_hosts returns them."""
        return cluster_network.of_hosts(self.infos)

    @property
    def head(self) -> str:
        """The head's name, which is "" without hosts."""
        return next(iter(self.results), "")

    def _first(self, state: str, hosts: Sequence[str] | Mapping[str, Any]) -> dict[str, str]:
        messages = {}
        for host in hosts:
            tasks = (self.results[host].get(name) or {} for name in ("facts", "info"))
            task = next((task for task in tasks if task.get(state)), None)
            if task is not None:
                messages[host] = message_of(task)
        return messages


class Found(NamedTuple):
    """Problem on a host. advice: what to do here, without a full stop, where it is not the check's."""

    host: str
    text: str
    advice: str = ""


@dataclass(frozen=True)
class Check:
    """Check that is run for every host.

    cause: what happens to a job otherwise. advice: what to do, without a full stop. full: whether it needs what hosts
    report about each other or what is installed, which the short form before each playbook leaves out. limits: the
    names of values in Wanted.limits that it compares with. gather: what host_info runs on each host for it, with the
    directory of the cluster: {name: value} of Cluster.infos. of_slurm: whether it gathers with cluster_slurm alone.
    of_connections: whether it is about connections between hosts.
    """

    name: str
    severity: str
    cause: str
    advice: str
    full: bool
    find: Callable[[Cluster], Iterator[Found]]
    limits: tuple[str, ...] = ()
    gather: Callable[[Path], Mapping[str, Any]] | None = None
    of_slurm: bool = False
    of_connections: bool = False


def check(
    severity: str,
    *,
    cause: str,
    advice: str,
    full: bool = False,
    limits: tuple[str, ...] = (),
    gather: Callable[[Path], Mapping[str, Any]] | None = None,
    of_slurm: bool = False,
    of_connections: bool = False,
) -> Callable[[Callable[[Cluster], Iterator[Found]]], Check]:
    """Make a function that yields what is wrong a check of the same name."""

    def make(find: Callable[[Cluster], Iterator[Found]]) -> Check:
        return Check(find.__name__, severity, cause, advice, full, find, limits, gather, of_slurm, of_connections)

    return make


def message_of(result: Mapping[str, Any]) -> str:
    """Return why a task failed, on one line and without a full stop."""
    text = " ".join(str(result.get("msg") or result.get("module_stderr") or "no reason was given").split())
    return WRAPPING.sub("", text).rstrip(".")


def most_common(values: Sequence[str]) -> str:
    """Return the value that most hosts have, and the first host's where it is a draw."""
    return max(values, key=lambda value: (values.count(value), -values.index(value)))


def differences(values: Mapping[str, str], subject: str) -> Iterator[Found]:
    """Yield the hosts that differ from most of the others. values: {host: value}. subject: begins each text."""
    if len(set(values.values())) > 1:
        usual = most_common(list(values.values()))
        others = ", ".join(host for host, value in values.items() if value == usual)
        for host, value in values.items():
            if value != usual:
                yield Found(host, f"{subject} is {value or 'not known'}, but {usual or 'not known'} on {others}")
