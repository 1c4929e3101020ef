# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the checks of the doctor on what the hosts of a cluster reported, and render what they find."""

from __future__ import annotations

import itertools
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.amx.cluster.plugins.module_utils import _text
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.catalogue import CHECKS
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.check import (
    FAILURE,
    WARNING,
    Check,
    Cluster,
    Wanted,
)


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong on one host."""

    host: str
    check: str
    severity: str
    found: str
    advice: str


def examine(cluster: Cluster) -> list[Finding]:
    """Run every check that is wanted. Returns the findings in the order of the hosts, failures first."""
    findings = [
        Finding(found.host, check.name, check.severity, found.text, found.advice or check.advice)
        for check in checks(cluster.wanted)
        for found in check.find(cluster)
    ]
    hosts = list(cluster.results)
    # Sorting keeps the order of the checks.
    return sorted(findings, key=lambda one: (hosts.index(one.host), one.severity != FAILURE))


def checks(wanted: Wanted) -> list[Check]:
    """Return the checks that are made: all, or those of the short form."""
    return [check for check in CHECKS if wanted.full or not check.full]


def summary(findings: Sequence[Finding], cluster: Cluster) -> str:
    """Return the status of the cluster in a line."""
    counts = Counter(finding.severity for finding in findings)
    made = _text.count(len(checks(cluster.wanted)), "check")
    failures, warnings = (
        _text.count(counts[severity], severity) if counts[severity] else f"no {severity}s"
        for severity in (FAILURE, WARNING)
    )
    return f"{made} on {_text.count(len(cluster.results), 'host')}: {failures}, {warnings}"


def refusal(failures: Sequence[Finding]) -> str:
    """Return the message with which a play ends before it has changed anything, with every failure and its advice."""
    hosts = ", ".join(dict.fromkeys(finding.host for finding in failures))
    lines = "\n".join(f"- {one.host}: {one.found}. {one.advice}." for one in failures)
    return f"Nothing was changed, because {hosts} cannot be used:\n{lines}"


def table(findings: Sequence[Finding], width: int = 160) -> str:
    """Return findings as a table, at most `width` characters wide: host, check, what was found, what to do."""
    if not findings:
        return ""
    titles = ("host", "check", "what was found", "what to do")
    rows = [
        (one.host, ("" if one.severity == FAILURE else "(warning) ") + one.check, one.found, one.advice)
        for one in findings
    ]
    first = [max(len(row[column]) for row in [titles, *rows]) for column in (0, 1)]
    rest = max(60, width - sum(first) - 6)
    widths = [*first, rest // 2, rest - rest // 2]
    lines: list[tuple[str, ...]] = []
    for row in (titles, tuple("-" * size for size in widths), *rows):
        cells = [
            textwrap.wrap(cell, size, break_long_words=False, break_on_hyphens=False) for cell, size in zip(row, widths)
        ]
        lines += itertools.zip_longest(*cells, fillvalue="")
    return "\n".join(_text.columns(lines))
