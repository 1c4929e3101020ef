# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of the inventory, and what is derived from it and from facts: the hosts, and their network."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._hosts import fabrics
from ansible_collections.amx.cluster.plugins.module_utils._text import count, names

# Defaults of cluster_prefix and cluster_stack, as roles have them.
PREFIX, STACK = "/opt/amx-cluster", "native"
# A playbook of the collection in a message, and the command before it where there is one.
PLAYBOOK = re.compile(r"(?<![\w/.=-])(?:ansible-playbook (?:-i \S+ )*)?((?:playbooks/\w+|site)\.yml)\b")
# What a path may have that ends up in lists which spaces or colons divide, in SSH commands and in shell scripts.
PLAIN_PATH = re.compile(r"[\w./+@%=,~-]+")


def errors(groups: Mapping[str, Sequence[str]]) -> list[str]:
    """Return what is wrong with the inventory's groups (Ansible's `groups`); an empty list for a sound inventory.

    The contract: group `cluster` with the children `head` (exactly one host) and `workers` (any number).
    """
    errors = []
    head = list(groups.get("head", []))
    workers = list(groups.get("workers", []))
    cluster = list(groups.get("cluster", []))
    shape = "see inventories/example/hosts.yml"
    if not cluster:
        errors.append(
            f"the group 'cluster' has no hosts: put the servers into its children 'head' and 'workers' ({shape})"
        )
    elif not head:
        errors.append(f"the group 'head' has no host: name there the one host from which jobs are launched ({shape})")
    if len(head) > 1:
        errors.append(
            f"the group 'head' has {len(head)} hosts ({', '.join(head)}): keep exactly one, "
            "put the others into 'workers'"
        )
    for host in sorted(set(head) & set(workers)):
        errors.append(f"{host} is in 'head' and in 'workers': the head trains too, take it out of 'workers'")
    for host in sorted((set(head) | set(workers)) - set(cluster)) if cluster else []:
        errors.append(f"{host} is not in 'cluster': make 'head' and 'workers' children of 'cluster' ({shape})")
    for host in sorted(set(cluster) - set(head) - set(workers)) if head else []:
        errors.append(f"{host} is in 'cluster' but neither in 'head' nor in 'workers': put it into one of them")
    return errors


def become_errors(become: Mapping[str, Any], everywhere: bool) -> list[str]:
    """Return what is wrong when Ansible logs in as one user and would run jobs as another, as a list of at most one.

    become: {host: ansible_become, None where it is not set}. everywhere: whether --become or ansible.cfg turns it on
    for every task.
    """
    hosts = [host for host, value in become.items() if value]
    if not hosts and not everywhere:
        return []
    where = f"ansible_become is true for {', '.join(hosts)}" if hosts else "become is on for every task (--become)"
    return [
        f"{where}: jobs would run as root, or as ansible_become_user. Turn it off, and set ansible_user to the user "
        "that runs jobs; tasks that need root use sudo by themselves (cluster_become)"
    ]


def path_errors(paths: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return which directories cannot be used because of their names. paths: {variable: {host: its value}}.

    The dynamic loader divides LD_PRELOAD at spaces and colons, and pip divides PIP_FIND_LINKS at spaces.
    """
    errors = []
    for variable, by_host in paths.items():
        for path in dict.fromkeys(str(value) for value in by_host.values() if value):
            bad = sorted(set(PLAIN_PATH.sub("", path)))
            if bad:
                hosts = ", ".join(host for host, value in by_host.items() if str(value) == path)
                errors.append(
                    f"{variable} is {path!r} on {hosts}, which has {' '.join(map(repr, bad))}: set it, or move the "
                    "directory that it is in, to a path of letters, digits and ./_-+@%=,~ alone (LD_PRELOAD and "
                    "PIP_FIND_LINKS cannot have others)"
                )
    return errors


def fabric_errors(values: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with cluster_fabric. values: {host: its value, None where it is not set}."""
    by_value: dict[str, list[str]] = {}
    for host, value in values.items():
        by_value.setdefault(fabrics.AUTO if value is None else str(value), []).append(host)
    errors = [
        f"cluster_fabric is {value!r} on {', '.join(hosts)}: set it to one of {', '.join(fabrics.VALUES)} "
        "(docs/fabrics.md)"
        for value, hosts in by_value.items()
        if value not in fabrics.VALUES
    ]
    if len(by_value) > 1 and not errors:
        settings = ", ".join(f"{value} on {', '.join(hosts)}" for value, hosts in by_value.items())
        errors.append(f"cluster_fabric is {settings}: set the same for all hosts, in group_vars/cluster.yml")
    return errors


def host_order(groups: Mapping[str, list[str]]) -> list[str]:
    """Return the hosts in the order of the hostfile: the head first, then the workers as the inventory has them."""
    head = list(groups.get("head", []))
    return head + [host for host in groups.get("workers", []) if host not in head]


def values(variables: Mapping[str, Any], paths: Mapping[str, str]) -> dict[str, Any]:
    """Pick variables of a host: {key: value}, None where it is not defined.

    paths: the variable of each key; dots lead into mappings.
    """
    return {key: _value(variables, path.split(".")) for key, path in paths.items()}


def _value(variables: Any, path: Sequence[str]) -> Any:
    for name in path:
        if not isinstance(variables, Mapping) or name not in variables:
            return None
        variables = variables[name]
    return variables


def option(sources: Sequence[str], defaults: Sequence[str], here: Path) -> str:
    """Return the options by which a command uses the inventories in use; empty where these are the default ones.

    sources: files and directories, or lists of hosts, which have a comma. here: the current directory; paths in it are
    shortened.
    """
    if list(sources) == list(defaults):
        return ""
    return " ".join(f"-i {shlex.quote(_shortened(source, here))}" for source in sources)


def _shortened(source: str, here: Path) -> str:
    relative = source if "," in source else os.path.relpath(source, here)
    return source if relative.startswith("..") else relative


def commands(text: str, inventory_option: str, installed: bool = False) -> str:
    """Return a text in which each playbook that it names (site.yml, playbooks/NAME.yml) is the command that runs it.

    installed: whether the collection is installed, and its playbooks are known by their full names.
    """
    command = f"ansible-playbook {inventory_option} " if inventory_option else "ansible-playbook "
    return PLAYBOOK.sub(
        lambda playbook: command + (f"amx.cluster.{Path(playbook[1]).stem}" if installed else playbook[1]), text
    )


def summary(groups: Mapping[str, list[str]], inventory_option: str, limit: str = "") -> str:
    """Return the line with which a playbook begins: which hosts it is about.

    inventory_option: see option. limit: the value of --limit.
    """
    hosts = host_order(groups)
    if not inventory_option and hosts == ["localhost"]:
        return "Hosts: localhost, this machine only. For other hosts: change to the directory of `amx init`, or use -i"
    workers = f", workers {names(hosts[1:])}" if hosts[1:] else ""
    source = f" of {inventory_option.replace('-i ', '')}" if inventory_option else ""
    limited = f", limited to {limit}" if limit else ""
    return f"Hosts: {count(len(hosts), 'host')}{source}{limited}: head {hosts[0]}{workers}"
