# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check of whether the hosts of a run can do their part of it, and resume: on the control node, before any change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs import batches, memory_check
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Plan
from ansible_collections.amx.cluster.plugins.module_utils._jobs.planning import Answer, make_plan
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
    undivided = batches.refusal(run.job.global_batch, [len(answers[host].ranks) for host in hosts])
    return f"Job {job} cannot be planned: {undivided}" if undivided else ""


def plan(
    run: Run,
    hosts: Sequence[str],
    answered: Mapping[str, Mapping[str, Any]],
    options: Mapping[str, Any],
    stack: Mapping[str, Any],
    venv: str,
    cache: Path,
) -> tuple[dict[str, Answer], Plan]:
    """Return what every member has answered, and the plan of a run, whose memory was checked. Raises ValueError.

    hosts: those that ranks run on. answered: of every member {host: what it answered, facts, network}. options: fabric,
    tcmalloc and refuse_memory, as the inventory and the command have them. cache: with models that were provided.
    """
    answers = {
        name: Answer.of_host(name, seen["host"], seen["facts"], seen["network"]) for name, seen in answered.items()
    }
    if options["tcmalloc"] == "absent":
        answers = {name: replace(seen, tcmalloc="") for name, seen in answers.items()}
    refused = refusal(run, hosts, answers, options["tcmalloc"])
    if refused:
        raise ValueError(refused)
    made = make_plan(run, stack, venv, [answers[name] for name in hosts], options["fabric"])
    memory = {name: int(answered[name]["host"].get("memory_bytes") or 0) for name in hosts}
    packages = stack.get("packages", {})
    return answers, replace(
        made, memory=memory_check.check(run.job, made, cache, memory, packages, options["refuse_memory"])
    )


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


def running(job: str, head: Mapping[str, Any]) -> str:
    """Return why a job cannot be started that runs already; empty where it does not. head: what the head answered.

    Before any host moves the directory of its last run aside: only the head knows whether that has ended.
    """
    for run in head["jobs"]:
        status = run["status"]
        if status["state"] == "running" and Path(run["path"]).name == job:
            does = "being prepared" if "preparing" in status else "waiting" if "queue" in status else "running"
            return (
                f"Job {job} of {run['user']} is {does} since {status['started']}: follow it (playbooks/logs.yml -e "
                f"job={job}), wait for its end, stop it (playbooks/stop.yml -e job={job}), or give this job another "
                "name."
            )
    return ""


def locked(job: str, hosts: Sequence[str], answers: Mapping[str, Mapping[str, Any]], head: str) -> str:
    """Return why a job cannot be started whose hosts other jobs have locked; empty where none has.

    answers: what each member of the job answered.
    """
    queued = answers[head]["queued"]
    lines = [*(line for host in hosts for line in answers[host]["locks"])]
    lines += [line for host in hosts for line in queued.get(host, [])]
    if not lines:
        return ""
    return "\n".join(
        [
            f"Job {job} was not started:",
            *(f"- {line}" for line in dict.fromkeys(lines)),
            "Wait for its end (wait: true in the job file does, or -e '{override: {wait: true}}'), stop it "
            "(playbooks/stop.yml -e job=NAME), or name free hosts (hosts in the job file, or in override).",
        ]
    )


def without_example(run: Run, answers: Mapping[str, Mapping[str, Any]]) -> str:
    """Return why a job cannot run one of the transformers examples; empty where it can, or runs none."""
    without = [host for host, answer in answers.items() if answer["example"] and not answer["example"]["exists"]]
    if not without:
        return ""
    advice = (
        "it is not among the examples of the version in use; correct script in the job file, or"
        if answers[run.settings.head]["example"]["examples"]
        else "the transformers examples are not there;"
    )
    return (
        f"Job {run.job.name} runs {run.job.script}, which is missing on {', '.join(without)}: {advice} run site.yml "
        "with torch_stack_examples set to git, archive or directory."
    )


def verification(plan: Mapping[str, Any], answers: Mapping[str, Mapping[str, Any]], head: str) -> tuple[bool, str]:
    """Return whether a plan is to be verified that may have been verified before, and why it is not.

    answers: what each member of the job answered, of which the head knows the last plan that was verified, and the jobs
    in its queue. Ranks of a verification would take the cores of a running job, and the turn of one that waits.
    """
    if answers[head]["verified"] == plan:
        return False, "The ranks are not started again to verify this plan, as they were found to follow it before."
    busy = sorted({lock["job"] for answer in answers.values() for lock in answer["locked_by"]})
    queued = [line for host in plan["hosts"] for line in answers[head]["queued"].get(host["host"], [])]
    if not busy and not queued:
        return True, ""
    are_running = f"{', '.join(busy)} {'is' if len(busy) == 1 else 'are'} running"
    jobs = are_running if busy else "; ".join(dict.fromkeys(queued))
    return False, f"The plan is not verified, because {jobs}: run playbooks/verify.yml afterwards."
