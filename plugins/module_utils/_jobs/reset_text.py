# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text that shows what a reset removes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs.reset import NOT_ALL, OF_FILES, PIECES
from ansible_collections.amx.cluster.plugins.module_utils._text import columns, count, names, size

CONTROL = "the control node"


def cell(part: str, entry: Mapping[str, Any]) -> str:
    """Return what a host has of a part, for a table. entry: as the module reset_info returns it."""
    if part in OF_FILES:
        return size(entry["bytes"]) if entry["paths"] else "-"
    things = [count(len(entry["paths"]), "file")] if entry["paths"] else []
    if entry.get("rules"):
        things.append(count(len(entry["rules"]), "rule"))
    if entry.get("keys"):
        things.append(count(entry["keys"], "key"))
    if entry.get("settings"):
        things.append(count(entry["settings"], "setting"))
    return ", ".join(things) or "-"


def table(hosts: Mapping[str, Mapping[str, Any]], control: Mapping[str, Any] | None, chosen: Sequence[str]) -> str:
    """Return what each piece would take away, or takes away, a line for each host.

    hosts: {host: what the module reset_info returned}. control: that of the control node, for downloads. chosen: the
    pieces to remove; empty to show all.
    """
    parts = [part for part in PIECES if part != "downloads" and (not chosen or part in chosen)]
    rows = [("host", *parts)] if parts else []
    for host, facts in hosts.items() if parts else ():
        rows.append((host, *(cell(part, facts["pieces"][part]) for part in parts)))
    lines = columns(rows)
    if control and (not chosen or "downloads" in chosen):
        lines.append(f"downloads on the control node: {cell('downloads', control['pieces']['downloads'])}")
    return "\n".join(lines)


def listed(hosts: Mapping[str, Mapping[str, Any]], control: Mapping[str, Any] | None, chosen: Sequence[str]) -> str:
    """Return each path that is to be removed with the mark by which it is known, and what stays as it has none.

    hosts, control, chosen: as for table.
    """
    hosts_of: dict[tuple[str, str, str], list[str]] = {}
    everything = {**hosts, **({CONTROL: control} if control else {})}
    for host, of_host in everything.items():
        for part in chosen:
            entry = of_host["pieces"].get(part) if (part == "downloads") == (host == CONTROL) else None
            for path, mark in (entry or {}).get("marks", {}).items():
                hosts_of.setdefault((part, path, mark), []).append(host)
            for path in (entry or {}).get("unmarked", []):
                on = hosts_of.setdefault(("stays", path, "it has no mark of the collection"), [])
                on += [host] if host not in on else []  # jobs and results lie in one place
    return "\n".join(columns([(part, path, mark, names(on)) for (part, path, mark), on in hosts_of.items()]))


def how_to() -> str:
    """Return how pieces are asked for, where none was."""
    width = max(map(len, PIECES))
    lines = [f"  {part.ljust(width)}  {text}" for part, text in PIECES.items()]
    return "\n".join(
        [
            "Nothing was removed. Name what to remove, such as playbooks/reset.yml -e reset=environments,data",
            *lines,
            f"  {'all'.ljust(width)}  all of these but {names(NOT_ALL)}",
            "Other packages of the distribution, lingering of the user (loginctl), and files that the collection has "
            "not made, stay.",
        ]
    )


def refusal(hosts: Mapping[str, Mapping[str, Any]], played: Sequence[str], chosen: Sequence[str]) -> str:
    """Return why nothing may be removed now, with what to do; an empty string when it may.

    hosts: {host: what reset_info returned}, with the head's where it is not played. played: the hosts of this run.
    chosen: the pieces to remove.
    """
    jobs: dict[str, tuple[str, list[str]]] = {}
    lines = []
    for host, facts in hosts.items():
        for use in facts["in_use"]:
            if not set(use["hosts"]) & set(played):
                continue
            if not use["job"]:
                if "environments" in chosen:
                    lines.append(f"- {host}: {use['why']}: end it, or leave out environments")
                continue
            on = jobs.setdefault(use["job"], (use["why"], []))[1]
            on += [name for name in use["hosts"] if name not in on]
    for job, (why, on) in jobs.items():
        lines.append(f"- job {job} {why} on {names(on)}: wait for its end, or stop it: playbooks/stop.yml -e job={job}")
    return "\n".join(["Nothing was removed on any host, because something still runs:", *lines]) if lines else ""


def would_refuse(refused: str) -> str:
    """Return the lines of a refusal for a run that removes nothing anyway."""
    return "\n".join(["A reset would be refused now, because something still runs:", *refused.splitlines()[1:]])
