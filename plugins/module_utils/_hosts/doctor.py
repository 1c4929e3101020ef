# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the checks of the doctor on what the hosts of a cluster reported, and render what they find."""

from __future__ import annotations

import dataclasses
import itertools
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.amx.cluster.plugins.module_utils import _screen, _text
from ansible_collections.amx.cluster.plugins.module_utils._hosts import fabrics, machine
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.catalogue import CHECKS
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.check import (
    FAILURE,
    WARNING,
    Check,
    Cluster,
    Wanted,
)
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.fabric import of_hosts

_SEVERITIES = {FAILURE: _screen.RED, WARNING: _screen.YELLOW}
_TABLE = 100  # columns that a table needs


@dataclass(frozen=True)
class Finding:
    """A problem on one host."""

    host: str
    check: str
    severity: str
    found: str
    advice: str


def examine(cluster: Cluster) -> list[Finding]:
    """Run every check that is wanted. Returns the findings in the order of the hosts, failures first."""
    findings = [
        Finding(problem.host, check.name, check.severity, problem.text, problem.advice or check.advice)
        for check in checks(cluster.wanted)
        for problem in check.find(cluster)
    ]
    hosts = list(cluster.results)
    # Sorting keeps the order of the checks.
    return sorted(findings, key=lambda finding: (hosts.index(finding.host), finding.severity != FAILURE))


def checks(wanted: Wanted) -> list[Check]:
    """Return the checks that are made: all, or those of the short form."""
    return [check for check in CHECKS if wanted.full or not check.full or (wanted.connections and check.of_connections)]


def summary(findings: Sequence[Finding], cluster: Cluster) -> str:
    """Return the status of the cluster in a line."""
    counts = Counter(finding.severity for finding in findings)
    made = _text.count(len(checks(cluster.wanted)), "check")
    failures, warnings = (
        _text.count(counts[severity], severity) if counts[severity] else f"no {severity}s"
        for severity in (FAILURE, WARNING)
    )
    return f"{made} on {_text.count(len(cluster.results), 'host')}: {failures}, {warnings}"


@dataclass(frozen=True)
class Fabric:
    """RDMA hardware of a host and its use. ports: (link and device, state) of each. memlock: the memory that a process
    may lock. jobs: the fabric that jobs use on all hosts, and why no faster one."""

    ports: tuple[tuple[str, str], ...]
    memlock: str
    jobs: str


def fabrics_of(cluster: Cluster) -> dict[str, Fabric]:
    """Return what every host has for a fabric; empty where none has an RDMA device."""
    facts = of_hosts(cluster)
    if not any(map(fabrics.described, facts.values())):
        return {}
    wanted = cluster.wanted.fabric
    name, _link, lacks = fabrics.kept_back(facts)
    by_host = {}
    for host, own in facts.items():
        lack = fabrics.find_lack_everywhere(wanted, own) if wanted in fabrics.FABRICS else lacks.get(host)
        if wanted == fabrics.TCP:
            jobs = "tcp, as cluster_fabric says"
        elif wanted in fabrics.FABRICS:
            jobs = f"none: {lack.text}" if lack else wanted
        elif lack:
            jobs = f"tcp: {lack.text}"
        else:
            jobs = fabrics.shared(facts) or (f"tcp, because of {', '.join(lacks)}" if name else "tcp")
        by_host[host] = Fabric(tuple(fabrics.described(own)), fabrics.lockable(own), jobs)
    return by_host


def fabrics_table(by_host: Mapping[str, Fabric]) -> str:
    """Return what hosts have for a fabric as a table with an empty line after it; hosts that are alike share a row."""
    if not by_host:
        return ""
    alike: dict[Fabric, list[str]] = {}
    for host, fabric in by_host.items():
        alike.setdefault(fabric, []).append(host)
    rows = [("host", "fabric", "link", "locked memory", "jobs that use MPI"), ("----",) * 5]
    for fabric, hosts in alike.items():
        for place, (device, state) in enumerate(fabric.ports or (("none", "-"),)):
            first = (", ".join(hosts), fabric.memlock, fabric.jobs) if place == 0 else ("", "", "")
            rows.append((first[0], device, state, *first[1:]))
    return "\n".join([*_text.columns(rows), ""])


def machines_of(cluster: Cluster) -> dict[str, machine.Machine]:
    """Return NUMA nodes, memory and kernel settings of every host; empty where no host has a choice in them."""
    machines = {
        host: machine.described(info["machine_settings"], info["cpu_model"]) for host, info in cluster.infos.items()
    }
    return {} if all(map(machine.plain, machines.values())) else machines


def machines_table(machines: Mapping[str, machine.Machine]) -> str:
    """Return that as a table with an empty line after it; hosts that are alike share a row."""
    if not machines:
        return ""
    alike: dict[machine.Machine, list[str]] = {}
    for host, each in machines.items():
        alike.setdefault(each, []).append(host)
    titles = ("host", "NUMA", "special memory", "NUMA balancing", "huge pages", "CPU governor", "deepest idle state")
    rows = [(", ".join(hosts), *dataclasses.astuple(each)) for each, hosts in alike.items()]
    return "\n".join([*_text.columns([titles, ("----",) * len(titles), *rows]), ""])


def refusal(failures: Sequence[Finding]) -> str:
    """Return the message with which a play ends before it has changed anything, with every failure and its advice."""
    hosts = ", ".join(dict.fromkeys(finding.host for finding in failures))
    lines = "\n".join(f"- {finding.host}: {finding.found}. {finding.advice}." for finding in failures)
    return f"Nothing was changed, because {hosts} cannot be used:\n{lines}"


def table(findings: Sequence[Finding], width: int = 160, colours: bool = False) -> str:
    """Return findings, failures first: host, check, what was found, what to do.

    width: columns of the screen; on a narrow one, they are a list. colours: whether the severities have some.
    """
    if not findings:
        return ""
    ordered = sorted(findings, key=lambda finding: finding.severity != FAILURE)
    if width < _TABLE:
        return "\n".join(_listed(ordered, width, colours))
    titles = ("host", "check", "what was found", "what to do")
    rows = [
        (
            finding.host,
            ("" if finding.severity == FAILURE else "(warning) ") + finding.check,
            finding.found,
            finding.advice,
        )
        for finding in ordered
    ]
    first = [max(len(row[column]) for row in [titles, *rows]) for column in (0, 1)]
    rest = max(60, width - sum(first) - 6)
    widths = [*first, rest // 2, rest - rest // 2]
    lines: list[tuple[str, ...]] = []
    painted: dict[int, str] = {}
    for number, row in enumerate((titles, tuple("-" * size for size in widths), *rows)):
        if number >= 2:
            painted[len(lines)] = _SEVERITIES[ordered[number - 2].severity]
        cells = [
            textwrap.wrap(cell, size, break_long_words=False, break_on_hyphens=False) for cell, size in zip(row, widths)
        ]
        lines += itertools.zip_longest(*cells, fillvalue="")
    edge = sum(first) + 2
    return "\n".join(
        _screen.painted(line[:edge], painted[place], colours) + line[edge:] if place in painted else line
        for place, line in enumerate(_text.columns(lines))
    )


def _listed(findings: Sequence[Finding], width: int, colours: bool) -> list[str]:
    """Return findings as a list, for a screen that has no room for a table."""
    lines = []
    for finding in findings:
        head = _screen.fit(f"{finding.severity.upper()} {finding.host}: {finding.check}", width)
        lines.append(_screen.painted(head, _SEVERITIES[finding.severity], colours))
        for text in (f"  found: {finding.found}", f"  what to do: {finding.advice}"):
            lines += textwrap.wrap(text, width, subsequent_indent="    ", break_on_hyphens=False)
    return lines
