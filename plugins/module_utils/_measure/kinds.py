# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds of measurement, one row each: what to vary, how to read a run, when to stop, how to tell.

What they have in common, and what each method is for, is in `measurement`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _io, _ownership, _text
from ansible_collections.amx.cluster.plugins.module_utils._cores import candidates, instances
from ansible_collections.amx.cluster.plugins.module_utils._jobs.derive import derived, derived_name
from ansible_collections.amx.cluster.plugins.module_utils._jobs.requests import choose_hosts, cores_of
from ansible_collections.amx.cluster.plugins.module_utils._measure import (
    estimate,
    inference,
    inference_choice,
    inference_document,
    inference_matrix,
    inference_text,
    learning,
    runs,
    sweep,
    sweep_request,
    sweep_text,
    tuning,
    tuning_files,
    tuning_request,
    tuning_text,
)
from ansible_collections.amx.cluster.plugins.module_utils._measure.inference_document import Benchmark
from ansible_collections.amx.cluster.plugins.module_utils._measure.measurement import (
    Found,
    Measurement,
    Stopped,
    contents,
    truth,
    whole,
)
from ansible_collections.amx.cluster.plugins.module_utils._measure.sweep_request import Run


class Sweep(Measurement[sweep.Sweep]):
    """The job on several numbers of hosts."""

    TITLE, PLAYBOOK, DIRECTORY = "sweep", "playbooks/scale.yml", "scale"
    FILE, VERSION, DOCUMENT = sweep.FILE, sweep.VERSION, sweep.Sweep
    OPTIONS, MORE_HOSTS = sweep_request.OPTIONS, True

    def prepare(self) -> None:
        # A number of hosts in the job file is that of other runs: those of a sweep are its counts.
        named = self.job if isinstance(self.job.hosts, list) else replace(self.job, hosts=None)
        usable = choose_hosts(named, self.cluster.hosts)
        self.request = sweep_request.read(self.options, self.job, usable)
        self.hosts = usable[: self.request.counts[-1]]
        self.content = sweep.new(self.job, usable, self.request, contents(self.job), _text.now())

    def continued(self, earlier: sweep.Sweep) -> sweep.Sweep:
        return sweep.continued(earlier, self.content)

    def ended(self, content: sweep.Sweep) -> bool:
        return not sweep.left(content)

    def unfinished(self, content: sweep.Sweep) -> list[str]:
        return sweep.interrupted(content)

    def next(self, content: sweep.Sweep, now: float) -> tuple[sweep.Sweep, sweep_request.Run | None]:
        run = sweep.following(content)
        return (sweep.started(content, run.job, _text.now()), run) if run else (content, None)

    def trial(self, content: sweep.Sweep, run: sweep_request.Run, now: float) -> dict[str, Any]:
        layout = content.layout or {}
        return sweep_request.trial(self.job, self.request, run, layout.get("ranks_per_node", 1))

    def recorded(
        self, content: sweep.Sweep, tried: Mapping[str, Any], found: Found, now: float
    ) -> tuple[sweep.Sweep, str]:
        content, stop = sweep.recorded(content, tried, _text.now())
        content = replace(content, cpu=content.cpu or found.head.get("cpu") or None)
        left, runs = len(sweep.left(content)), content.runs
        if not left:
            network = _io.read_json(self.results / "network" / "network.json")
            content = sweep.summarised(content, sweep.slowest_link(network or {}, self.hosts))
        if stop:
            raise Stopped(stop, content)
        (run,) = [run for run in [content.sanity, *runs] if run and run.job == tried["job"]]
        return content, sweep_text.line(run, len(runs) - left, len(runs))

    def status(self, content: sweep.Sweep) -> str:
        left = len(sweep.left(content))
        made = len(content.runs) - left
        where = f"Sweep of job {self.job.name} on {len(self.hosts)} hosts"
        return f"{where}: {made} runs have been made, {left} are left"

    def planned(self, content: sweep.Sweep) -> str:
        return sweep_text.planned(content)

    def text(self, content: sweep.Sweep, wrote: str) -> str:
        return sweep_text.table(content, str(self.path))


class Tuning(Measurement[tuning.Tuning]):
    """The job with other ranks, cores, backends and optimized steps, within a budget."""

    TITLE, PLAYBOOK, DIRECTORY = "tuning", "playbooks/tune.yml", "tune"
    FILE, VERSION, DOCUMENT, OPTIONS = tuning.FILE, tuning.VERSION, tuning.Tuning, tuning_request.OPTIONS

    def prepare(self) -> None:
        self.hosts = choose_hosts(self.job, self.cluster.hosts)
        self.request = tuning_request.read(self.options, self.job)
        self.default = cores_of(self.job, self.cluster.cores)
        if self.to_inventory():
            tuning_files.variables_file(self.cluster.inventory)
            unheeded = tuning_files.unheeded(self.job, self.request.vary)
            if unheeded:
                raise ValueError(unheeded)
        self.content = tuning.new(self.job, self.request, contents(self.job), _text.now())

    def to_inventory(self) -> bool:
        """Tell whether the winner is for the inventory."""
        return self.request.write_to == "inventory"

    def continued(self, earlier: tuning.Tuning) -> tuning.Tuning:
        return tuning.continued(earlier, self.request.budget)

    def questions(self) -> dict[str, Any]:
        return {
            "default": self.default,
            "backends": tuning_request.backends(self.job, self.cluster.backend),
            "vary": [*self.request.vary],
        }

    def begun(self, content: tuning.Tuning, found: Found) -> tuning.Tuning:
        valid = candidates.common(found.hosts)
        if not valid:
            raise ValueError(
                f"job {self.job.name} has no settings that are valid on every one of {', '.join(self.hosts)}: "
                f"playbooks/plan.yml -e job={self.job.file} says what does not fit"
            )
        stack = {"packages": found.head.get("packages") or {}}
        optimizes = tuning_request.optimizes(self.job, self.cluster.optimize, stack, self.request.vary)
        return tuning.with_candidates(content, valid, optimizes, self.request.env_values)

    def ended(self, content: tuning.Tuning) -> bool:
        return bool(content.ended)

    def unfinished(self, content: tuning.Tuning) -> list[str]:
        return [content.running.job] if content.running else []

    def next(self, content: tuning.Tuning, now: float) -> tuple[tuning.Tuning, tuning.Trial | None]:
        content, run = tuning.advance(content, self.job, _text.now())
        if run is None:
            return replace(content, diff=tuning_files.diff(content, self.job)), None
        return replace(content, running=replace(run, began=now)), run

    def trial(self, content: tuning.Tuning, run: tuning.Trial, now: float) -> dict[str, Any]:
        return tuning.derivation(content, self.job, run)

    def recorded(
        self, content: tuning.Tuning, tried: Mapping[str, Any], found: Found, now: float
    ) -> tuple[tuning.Tuning, str]:
        running = self.begun_run(content.running)
        content = tuning.recorded(content, running, tried, max(0.0, now - (running.began or now)))
        return content, tuning_text.line(content.trials[-1])

    def status(self, content: tuning.Tuning) -> str:
        ended = ", it has ended" if self.ended(content) else ""
        where = f"Tuning of job {self.job.name} on {len(self.hosts)} hosts"
        return f"{where}: {len(content.trials)} trials have been made{ended}"

    def planned(self, content: tuning.Tuning) -> str:
        return tuning_text.planned(content)

    def text(self, content: tuning.Tuning, wrote: str) -> str:
        return tuning_text.table(content, str(self.path), wrote, self.request.write_to)

    def applied(self, content: tuning.Tuning, dry: bool) -> tuple[tuning.Tuning, str]:
        """Write the winner if that is requested; to the job file, only if it still is what was tuned."""
        if not content.diff or not (self.request.write or self.to_inventory()):
            return content, ""
        tuning_files.refuse_changed(tuning_files.diff(content, self.job), content.diff, self.job, self.path)
        variables = tuning_files.variables_file(self.cluster.inventory) if self.to_inventory() else None
        changes = tuning_files.changes(content, self.job, variables)
        content = replace(content, diff="".join(change.diff for change in changes))
        if not self.request.write:
            return content, ""
        return content, tuning_files.write(changes, self.job, dry)

    def failed(self, content: tuning.Tuning) -> str:
        return f"job {content.job} was not tuned: {content.notes[0]}" if tuning.job_failed(content) else ""


class LearningRate(Measurement[learning.Learning]):
    """The job with other learning rates: whole trainings, within a budget. Kept apart from what changes speed alone."""

    TITLE, PLAYBOOK, DIRECTORY = "tuning", "playbooks/tune.yml", learning.ARGUMENT
    FILE, VERSION, DOCUMENT, OPTIONS = learning.FILE, learning.VERSION, learning.Learning, learning.OPTIONS

    def prepare(self) -> None:
        self.hosts = choose_hosts(self.job, self.cluster.hosts)
        self.content = learning.new(self.options, self.job, contents(self.job), _text.now())

    def continued(self, earlier: learning.Learning) -> learning.Learning:
        return learning.continued(earlier, self.content.budget_minutes)

    def ended(self, content: learning.Learning) -> bool:
        return bool(content.ended)

    def unfinished(self, content: learning.Learning) -> list[str]:
        return [content.running.job] if content.running else []

    def next(self, content: learning.Learning, now: float) -> tuple[learning.Learning, learning.Trial | None]:
        content, run = learning.advance(content, self.job, _text.now())
        if run is None:
            change = tuning_files.of_job(self.job, learning.changes(content))
            return replace(content, diff=change.diff), None
        return replace(content, running=replace(run, began=now)), run

    def trial(self, content: learning.Learning, run: learning.Trial, now: float) -> dict[str, Any]:
        return learning.derivation(self.job, run)

    def recorded(
        self, content: learning.Learning, tried: Mapping[str, Any], found: Found, now: float
    ) -> tuple[learning.Learning, str]:
        running = self.begun_run(content.running)
        content = learning.recorded(content, running, tried, max(0.0, now - (running.began or now)))
        return content, learning.line(content.trials[-1], content.metric)

    def status(self, content: learning.Learning) -> str:
        ended = ", it has ended" if self.ended(content) else ""
        where = f"Tuning of the learning rate of job {self.job.name} on {len(self.hosts)} hosts"
        return f"{where}: {len(content.trials)} trainings have been made{ended}"

    def planned(self, content: learning.Learning) -> str:
        return learning.planned(content)

    def text(self, content: learning.Learning, wrote: str) -> str:
        return learning.text(content, str(self.path), wrote)

    def applied(self, content: learning.Learning, dry: bool) -> tuple[learning.Learning, str]:
        """Write the winner if that is requested, only to the job file that was tuned."""
        if not content.diff or not truth("write", self.options["write"]):
            return content, ""
        change = tuning_files.of_job(self.job, learning.changes(content))
        tuning_files.refuse_changed(change.diff, content.diff, self.job, self.path)
        return content, tuning_files.write([change], self.job, dry)

    def failed(self, content: learning.Learning) -> str:
        failed = len(content.trials) >= 1 and content.trials[0].state == "failed" and bool(content.ended)
        return f"job {content.job} was not tuned: {content.notes[0]}" if failed else ""


class InferenceBenchmark(Measurement[Benchmark]):
    """Models with every setting of instances, precision, batch and engine, within a budget."""

    TITLE, PLAYBOOK, DIRECTORY = "inference benchmark", "playbooks/infer.yml", "inference"
    FILE, VERSION, DOCUMENT = inference.FILE, inference.VERSION, Benchmark
    EXAMPLE = "jobs/inference.yml"
    OPTIONS = dict.fromkeys(inference_matrix.WITH_OPTIONS)

    def override(self) -> Any:
        """Return the fields that win over the job file's, with those of `inference` that have options of their own."""
        return inference_matrix.overridden(self.options.get("override") or {}, self.options)

    def prepare(self) -> None:
        self.request = inference_matrix.request(self.job)
        self.hosts = choose_hosts(self.job, self.cluster.hosts)
        try:
            derived(self.job, "infer-999")
        except ValueError as error:
            raise ValueError(f"{error}; set a shorter name in {self.job.file}") from None
        self.models = inference_matrix.models(self.job, self.cluster.prefix)
        self.content = inference.new(self.job, contents(self.job), self.hosts, _text.now())

    def continued(self, earlier: Benchmark) -> Benchmark:
        return inference.continued(earlier, self.request.budget)

    def questions(self) -> dict[str, Any]:
        own = self.request
        return {
            "instances_per_node": own.instances_per_node,
            "threads_per_instance": own.threads_per_instance,
            "reserved_cores": self.job.reserved_cores,
            "threads_per_core": self.job.threads_per_core,
            "models": {name: model for name, model in self.models.items() if model["entry"]},
        }

    def begun(self, content: Benchmark, found: Found) -> Benchmark:
        provided = found.head.get("models") or {}
        about = {
            name: inference_matrix.found(model, name, provided.get(name) or {}) for name, model in self.models.items()
        }
        return inference.with_cells(content, self.request, about, instances.common(found.hosts), found.head)

    def ended(self, content: Benchmark) -> bool:
        return bool(content.ended)

    def unfinished(self, content: Benchmark) -> list[str]:
        return [content.running.job] if content.running else []

    def next(self, content: Benchmark, now: float) -> tuple[Benchmark, inference_document.Trial | None]:
        content, run = inference.advance(content, self.request, self.job, _text.now())
        if run:
            content = replace(content, running=replace(run, began=now))
        return inference_choice.concluded(content), run

    def trial(self, content: Benchmark, run: inference_document.Trial, now: float) -> dict[str, Any]:
        return inference.derivation(content, self.request, self.job, run, now)

    def recorded(self, content: Benchmark, tried: Mapping[str, Any], found: Found, now: float) -> tuple[Benchmark, str]:
        running = self.begun_run(content.running)
        content = inference.recorded(content, running, tried, found.hosts, max(0.0, now - (running.began or now)))
        return content, inference_text.line(content, content.trials[-1])

    def write(self, content: Benchmark) -> None:
        """Write inference.json, and each recommended setting beside it when there is nothing left to measure."""
        super().write(content)
        if content.ended:
            for old in self.path.parent.glob(inference_choice.file_name("*")):
                _ownership.remove(old)
            for name in content.recommended:
                path = self.path.with_name(inference_choice.file_name(name))
                _io.write_text(path, inference_choice.setting_file(content, name))

    def status(self, content: Benchmark) -> str:
        ended = ", it has ended" if self.ended(content) else ""
        measured = len(content.in_state("measured"))
        where = f"Inference {self.job.name}: {', '.join(self.models)} on {len(self.hosts)} hosts"
        return f"{where}: {measured} cells have been measured{ended}"

    def planned(self, content: Benchmark) -> str:
        return inference_text.planned(content)

    def text(self, content: Benchmark, wrote: str) -> str:
        return inference_text.report(content, str(self.path))

    def failed(self, content: Benchmark) -> str:
        return inference.failed(content)


class Estimate(Measurement[estimate.Estimate]):
    """A few steps of the job on its first host, from which the time on more hosts is computed; always made anew."""

    TITLE, PLAYBOOK, DIRECTORY = "estimate", "playbooks/plan.yml -e estimate=true", "estimate"
    FILE, VERSION, DOCUMENT, OPTIONS = estimate.FILE, estimate.VERSION, estimate.Estimate, estimate.OPTIONS

    def prepare(self) -> None:
        truth("estimate", self.options["estimate"])
        steps, warmup = (whole(name, self.options[name], least) for name, least in (("steps", 1), ("warmup_steps", 0)))
        if not self.job.of_kind().takes_trainer_arguments:
            raise ValueError(
                f"job {self.job.name} is of kind {self.job.kind}, which decides itself how many steps it makes: its "
                f"time can be estimated for scripts of transformers' Trainer (kind: trainer); playbooks/scale.yml -e "
                f"job={self.job.file} measures it on 1, 2, 4, ... hosts"
            )
        self.hosts = choose_hosts(self.job, self.cluster.hosts)
        self.most = len(choose_hosts(replace(self.job, hosts=None), self.cluster.hosts))
        if isinstance(self.job.hosts, list):
            self.most = len(self.hosts)
        try:
            name = derived_name(self.job.name, self.DIRECTORY)
        except ValueError as error:
            raise ValueError(f"{error}; set a shorter name in {self.job.file}") from None
        run = Run(name, 1, self.hosts[:1], 1, None)
        version, now = self.VERSION, _text.now()
        self.content = estimate.Estimate(version, self.job.name, len(self.hosts), steps, warmup, now, run)

    def earlier(self) -> None:
        return None

    def begin(self, found: Found, dry: bool) -> estimate.Estimate:
        if not dry:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.begun(self.content, found)

    def continued(self, earlier: estimate.Estimate) -> estimate.Estimate:
        return earlier

    def questions(self) -> dict[str, Any]:
        return {"links": True}

    def begun(self, content: estimate.Estimate, found: Found) -> estimate.Estimate:
        return replace(content, links=found.hosts)

    def ended(self, content: estimate.Estimate) -> bool:
        return content.run.state != "pending"

    def unfinished(self, content: estimate.Estimate) -> list[str]:
        return [content.run.job] if content.run.state == "pending" and content.run.started else []

    def next(self, content: estimate.Estimate, now: float) -> tuple[estimate.Estimate, Run | None]:
        if self.ended(content):
            return content, None
        run = replace(content.run, started=_text.now())
        return replace(content, run=run), run

    def trial(self, content: estimate.Estimate, run: Run, now: float) -> dict[str, Any]:
        steps, warmup = content.steps, content.warmup_steps
        return {"suffix": self.DIRECTORY, "steps": steps, "warmup_steps": warmup, "fields": {"hosts": run.names}}

    def recorded(
        self, content: estimate.Estimate, tried: Mapping[str, Any], found: Found, now: float
    ) -> tuple[estimate.Estimate, str]:
        came = runs.record(tried)
        if came["state"] == "failed" or not came["measured"]:
            content = replace(content, run=replace(content.run, state="failed", reason=came["reason"]))
            warnings = (tried.get("plan") or {}).get("memory", {}).get("warnings", [])
            reason = came["reason"] or "its steps were not measured"
            told = "\n".join([f"Job {self.job.name} has no estimate: {content.run.job} failed: {reason}", *warnings])
            raise Stopped(told, content)
        network = _io.read_json(self.results / "network" / "network.json") or {}
        content = estimate.estimated(content, self.job, tried, network, self.hosts, self.most)
        return content, sweep_text.line(content.run, 1, 1)

    def status(self, content: estimate.Estimate) -> str:
        where = f"Estimate of job {self.job.name}"
        return f"{where}: {content.steps} steps on {content.run.names[0]}, after {content.warmup_steps} of warm-up"

    def planned(self, content: estimate.Estimate) -> str:
        steps = content.steps + content.warmup_steps
        return f"Would be run: {content.run.job} ({_text.count(steps, 'step')} on {content.run.names[0]})"

    def text(self, content: estimate.Estimate, wrote: str) -> str:
        return estimate.text(content, str(self.path))


KINDS: dict[str, type[Measurement]] = {
    "sweep": Sweep,
    "tuning": Tuning,
    learning.ARGUMENT: LearningRate,
    "inference": InferenceBenchmark,
    "estimate": Estimate,
}
"""The kinds of measurement by the name that the role measure gives them."""
