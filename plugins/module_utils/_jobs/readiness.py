# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the hosts of a run can do their part of it, and resume: evaluated on the control node before any change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs.planning import Answer
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run, members


def refusal(run: Run, hosts: Sequence[str], answers: Mapping[str, Answer], tcmalloc: str) -> str:
    """Return why a run cannot be planned, in a line for each host or reason; an empty string when it can.

    hosts: those that ranks run on. answers: of every member. tcmalloc: "required" refuses hosts without it.
    """
    job = run.job.name
    venvs = {host: answers[host].venv for host in members(run.settings, hosts)}
    without = [host for host, path in venvs.items() if not path]
    if without:
        return (
            f"Job {job} cannot be planned: there is no virtual environment on {', '.join(without)}: run site.yml, "
            "which installs the same one on all hosts."
        )
    expected = venvs[run.settings.head]
    other = [f"{host} has {path}" for host, path in venvs.items() if path != expected]
    if other:
        return (
            f"Job {job} cannot be planned: {', '.join(other)}, and the head {run.settings.head} has {expected}: run "
            "site.yml, which installs the same virtual environment on all hosts."
        )
    refused: dict[str, list[str]] = {}
    for host in hosts:
        message = answers[host].refusal
        if message:
            refused.setdefault(message, []).append(host)
    if refused:
        lines = [f"- {', '.join(names)}: {message}" for message, names in refused.items()]
        return "\n".join([f"Job {job} cannot be planned:", *lines])
    missing = [host for host in hosts if tcmalloc == "required" and not answers[host].tcmalloc]
    if missing:
        return (
            f"cluster_tcmalloc is required, and the loader of {', '.join(missing)} (ldconfig -p) has no tcmalloc: run "
            "site.yml, which installs it, or set cluster_tcmalloc to preferred."
        )
    return ""


AUTO = "auto"


def resumption(resume: bool | str, head: str, previous: Mapping[str, Mapping[str, Any]]) -> tuple[bool, str]:
    """Return whether a run resumes from a checkpoint, and from which host its head gets the job directory before.

    resume: as the user sets it; AUTO resumes where there is a complete checkpoint of a run that has not succeeded.
    previous: what directory.previous returned on each member. The host is empty where the head has a directory, or no
    host a checkpoint: a head that was replaced has none, and one that leaves has brought its own to another host.
    """
    if not resume:
        return False, ""
    own = previous[head]
    others = [host for host, run in previous.items() if host != head and run["checkpoint"]]
    source = others[0] if others and not own["state"] and not own["checkpoint"] else ""
    if resume != AUTO:
        return True, source
    return (own["checkpoint"] or bool(others)) and own["state"] != "succeeded", source
