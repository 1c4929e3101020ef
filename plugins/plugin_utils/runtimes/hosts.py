# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs on hosts of the inventory, each in a directory of its own, started and supervised on the head."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible_collections.amx.cluster.plugins.module_utils._hosts import inventory
from ansible_collections.amx.cluster.plugins.module_utils._io import disk_problem
from ansible_collections.amx.cluster.plugins.module_utils._jobs import (
    directory,
    provided,
    results,
    status,
)
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import secrets, without_secrets
from ansible_collections.amx.cluster.plugins.module_utils._jobs.progress import first_failure
from ansible_collections.amx.cluster.plugins.module_utils._jobs.servers import states
from ansible_collections.amx.cluster.plugins.module_utils._jobs.slurm.fields import is_set
from ansible_collections.amx.cluster.plugins.module_utils._jobs.start_request import Start
from ansible_collections.amx.cluster.plugins.plugin_utils import following, inventory_in_use, runtime_command, screen
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes.runtime import (
    Fetched,
    JobEnded,
    Jobs,
    Request,
    Runtime,
    Stopped,
    display,
    packed_json,
)

INTERVAL = 2.0
"""Seconds between two looks at a job that is followed."""

BEHIND = 1 << 42
"""An offset behind the end of every log."""
REASON = 1 << 20
"""Bytes at the end of a log in which the reason of a failure is looked for."""

NOT_FETCHED = ("data", "models", "project", "secrets.json", ".amx-cluster.json")
"""What of a job directory is not among the results."""


class Hosts(Runtime):
    """Ranks on hosts of the inventory, which the supervisor on the head starts by the job's launch.sh."""

    name = "hosts"

    @property
    def jobs(self) -> str:
        """The directory of all job directories, the same on every host."""
        return f"{self.variable('job_prefix') or self.variable('cluster_prefix') or inventory.PREFIX}/jobs"

    def directory(self, job: str) -> str:
        return f"{self.jobs}/{job}"

    def is_configured(self) -> bool:
        """Return whether ranks run on the hosts of the inventory: a login host of Slurm only submits jobs."""
        return not self.submits()

    def submits(self) -> bool:
        """Return whether the inventory's head is a login host of Slurm."""
        return is_set(self.variable("cluster_slurm"))

    def command(self, path: str) -> list[str]:
        """Return the command of the head that starts a job. path: of its directory."""
        return ["start", path, "supervise"]

    def has(self, job: str) -> bool:
        """Return whether the head has such a job."""
        path = f"{self.directory(job)}/status.json"
        stat = self.module("ansible.builtin.stat", path=path, get_checksum=False, get_mime=False)
        return bool(stat["stat"]["exists"])

    def missing(self, job: str) -> str:
        return directory.NO_JOB.format(job)

    def start(self, request: Request) -> dict[str, Any]:
        """Start the job by the command of the head, which writes its directory on every host, and follow it."""
        job, path = request.run.job.name, self.directory(request.run.job.name)
        document = start_document(request, self.jobs).to_json()
        python = f"{request.plan['environment']}/bin/python"
        answer = runtime_command.run(self.action, python, request.plan["runtime"], self.command(path), document)
        if answer.get("failed"):
            full = disk_problem(answer["msg"], str(self.variables["inventory_hostname"]))
            raise ValueError(full or answer["msg"])
        shown = {"shows_results": request.shows_results, "until_ready": request.until_ready}
        return self._follow(job, shows_log=False, **shown)

    def follow(self, job: str, *, shows_results: bool = True) -> dict[str, Any]:
        return self._follow(job, shows_log=False, shows_results=shows_results)

    def log(self, job: str) -> dict[str, Any]:
        return self._follow(job, shows_log=True, shows_results=True)

    def _follow(self, job: str, *, shows_log: bool, shows_results: bool, until_ready: bool = False) -> dict[str, Any]:
        """Show what the job does until it ends, or serves a model."""
        progress = following.Progress(job, restarts_only=shows_log)
        come_back = f"Ctrl-C leaves job {job} running. Its log: playbooks/logs.yml -e job={job}"
        reads = shows_log or display.verbosity > 0
        offset, log, wait = 0 if reads else BEHIND, "", 0.0
        with contextlib.closing(progress):
            while True:
                seen = self._look(job, offset, wait)
                ended = seen["status"]["state"] != "running"
                if come_back and not ended:
                    self.show(come_back)
                come_back = ""
                for line in seen["log"].splitlines():
                    (display.display if shows_log else display.v)(line)
                offset, log = seen["log_offset"], (log + seen["log"])[-REASON:]
                progress.show(seen)
                if ended and not seen["log"]:
                    break
                if until_ready and not ended and states.is_ready(seen["status"]):
                    return {key: seen[key] for key in ("status", "outcome", "progress")}
                wait = self.interval(seen)
        if not reads and seen["status"]["state"] == "failed":
            log = self._look(job, -REASON)["log"]
        return self._conclude(seen, log, shows_results=shows_results)

    @staticmethod
    def interval(seen: Mapping[str, Any]) -> float:
        """Return the seconds until the next look at a job."""
        del seen
        return INTERVAL

    def _look(self, job: str, offset: int, wait: float = 0) -> dict[str, Any]:
        """Return how a job stands, once it has ended or after so many seconds, and its log from an offset on."""
        try:
            options = {"path": self.directory(job), "log_offset": offset, "wait": wait}
            answers = runtime_command.ask(self.action, self.jobs.removesuffix("/jobs"), {"job_info": options})
            return answers.get("job_info") or self.module("amx.cluster.job_info", **options)
        except AnsibleConnectionFailure as error:
            words = f"The job does not need this connection; playbooks/status.yml -e job={job} shows its status."
            raise AnsibleConnectionFailure(inventory_in_use.commands(f"{error}\n{words}")) from None

    @staticmethod
    def _conclude(seen: Mapping[str, Any], log: str, *, shows_results: bool) -> dict[str, Any]:
        """Show the results. Raises JobEnded, with what its log tells, where the job failed."""
        result = {key: seen[key] for key in ("status", "outcome", "progress")}
        if seen["outcome"] and shows_results:
            screen.show(results.table(seen["outcome"]))
        state = seen["status"]["state"]
        if state == "succeeded":
            return result
        message = following.reason(seen["status"])
        if state == "failed" and seen["status"].get("returncode"):
            message += f"\n{first_failure(log, reason=seen['status']['reason'])}".rstrip()
        raise JobEnded(message, result)

    def status(self, job: str, gathered: Mapping[str, Mapping[str, Any]]) -> Jobs:
        """Return the jobs that the head has, with the processes of ranks that jobs_info has gathered on each host.

        gathered: also `removed`, the files with secrets that were removed on the host; null where it did not answer.
        """
        removed = {host: seen["removed"] for host, seen in gathered.items() if seen.get("removed") is not None}
        every = gathered.get(self.variables["inventory_hostname"], {}).get("jobs", [])
        entries = status.entries(
            [status.without_secrets(entry, removed) for entry in every],
            {host: seen.get("processes") or [] for host, seen in gathered.items()},
        )
        for entry in entries:
            if "servers" in entry["status"]:
                entry["status"] = {**entry["status"], "servers": status.servers(entry, gathered)}
        notes = [
            f"{host} had secrets of ended jobs, which were removed: {', '.join(files)}"
            for host, files in removed.items()
            if files
        ]
        named = [entry for entry in entries if not job or entry["name"] == job]
        return Jobs(named, missing="" if named else self.missing(job), notes=notes)

    def details(self, entry: Mapping[str, Any]) -> str:
        return status.details(entry, screen.current())

    def stop(self, job: str) -> Stopped:
        """Stop the supervisor, which ends the ranks of all hosts, and end what is left on the head."""
        seen = self._stop(job)
        others = [host for host in self.variable("job_hosts") if host != self.variables["inventory_hostname"]]
        return Stopped(
            was_running=seen["was_running"],
            what=f"orphaned processes {'that would be ' if self.check_mode else ''}ended",
            ended=seen["lines"],
            missing="" if seen["known"] else self.missing(job),
            hosts=others,
        )

    def stop_rest(self, job: str) -> list[str]:
        return list(self._stop(job)["lines"])

    def _stop(self, job: str) -> dict[str, Any]:
        return self.module("amx.cluster.job_end", path=self.directory(job), host=self.variables["inventory_hostname"])

    def fetch(self, job: str, to: Path) -> Fetched:
        """Pack the job directory on the head, without data and models, and fetch it."""
        directory = self.directory(job)
        seen = self.module("amx.cluster.job_info", path=directory)
        if not seen["outcome"]:
            raise ValueError(f"Job {job} is {seen['status']['state']} and has no results yet.")
        self.module("ansible.builtin.file", path=f"{directory}/secrets.json", state="absent")
        # The directory of all jobs can be read by everyone, and others may fetch the same job now.
        private = self.module("amx.cluster.own_path", path=f"{self.jobs}/.{job}.", state="temporary")["path"]
        try:
            packed = f"{private}/results.tar"
            self.module("ansible.legacy.command", argv=pack(directory, packed))
            self.fetch_file(packed, to)
        finally:
            self.module("ansible.builtin.file", path=private, state="absent")
        # The versions that the job ran with; its virtual environment may have been replaced since.
        stack = to.with_name("stack.json")
        environment = packed_json(to, "plan.json").get("environment")
        if environment:
            self.fetch_file(f"{environment}/amx-cluster.json", stack, required=False)
        return Fetched(seen["outcome"], files={stack.name: stack} if stack.exists() else {})


def start_document(request: Request, jobs: str) -> Start:
    """Return what the head needs to start a job. jobs: the directory of job directories.

    Raises ValueError where the job file has changed since it was read, or the inventory lacks a secret, and OSError.
    """
    run, job = request.run, request.run.job
    scripts = [job.script, *([job.prepare.script] if job.prepare else [])]
    own = {script.name: script for script in scripts if script.is_absolute() and not job.project}
    links = {host: provided.links(job.to_json(), names, request.linked) for host, names in request.cached.items()}
    of_head = links.get(run.settings.head, {})
    return Start(
        jobs=jobs,
        run=run,
        plan=dict(request.plan),
        files={
            **{name: path.read_text(encoding="utf-8") for name, path in own.items()},
            "job.yml": without_secrets(job.file),
        },
        files_of_head=dict(request.drawings),
        links=of_head,
        links_of={host: paths for host, paths in links.items() if paths != of_head},
        project=dict(request.project),
        secrets=secrets(job, request.env, request.override),
        keep_previous=request.keep_previous,
        resume=request.resume,
        source=request.source,
        prepared=request.prepared,
        predicts=request.predicts,
        planning=request.plan.get("planning", {}),
    )


def pack(directory: str, to: str) -> Sequence[str]:
    """Return the command that packs the results of a job directory."""
    excluded = [f"--exclude=./{name}" for name in NOT_FETCHED]
    return ["tar", "--create", f"--file={to}", f"--directory={directory}", *excluded, "."]
