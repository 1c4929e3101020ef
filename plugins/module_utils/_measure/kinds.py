# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds of measurement, one row each: what to vary, how to read a run, when to stop, how to tell.

What they have in common, and what each method is for, is in `measurement`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

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
    runs,
    sampling,
    sweep,
    sweep_request,
    sweep_text,
    trainings,
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

Tried = TypeVar("Tried", tuning.Tuning, trainings.Trainings, Benchmark)
Written = TypeVar("Written", tuning.Tuning, trainings.Trainings)


class ByTrials(Measurement[Tried]):
    """A measurement whose document has the time of its end and the trial that runs."""

    def ended(self, state: Tried) -> bool:
        return bool(state.ended)

    def unfinished(self, state: Tried) -> list[str]:
        return [state.running.job] if state.running else []


def with_diff(state: Written, diff: Callable[[], str]) -> Written:
    """Return an ended tuning with the diff of its winner, or with a note where the file cannot be changed by lines."""
    try:
        return replace(state, diff=diff())
    except ValueError as error:
        return replace(state, notes=list(dict.fromkeys([*state.notes, f"there is no diff: {error}"])))


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

    def ended(self, state: sweep.Sweep) -> bool:
        return not sweep.left(state)

    def unfinished(self, state: sweep.Sweep) -> list[str]:
        return sweep.interrupted(state)

    def next(self, state: sweep.Sweep, now: float) -> tuple[sweep.Sweep, sweep_request.Run | None]:
        run = sweep.following(state)
        return (sweep.started(state, run.job, _text.now()), run) if run else (state, None)

    def trial(self, state: sweep.Sweep, run: sweep_request.Run, now: float) -> dict[str, Any]:
        layout = state.layout or {}
        return sweep_request.trial(self.job, self.request, run, layout.get("ranks_per_node", 1))

    def recorded(
        self, state: sweep.Sweep, tried: Mapping[str, Any], facts: Found, now: float
    ) -> tuple[sweep.Sweep, str]:
        state, stop = sweep.recorded(state, tried, _text.now())
        state = replace(state, cpu=state.cpu or facts.head.get("cpu") or None)
        left, runs = len(sweep.left(state)), state.runs
        if not left:
            network = _io.read_json(self.results / "network" / "network.json")
            state = sweep.summarised(state, sweep.slowest_link(network or {}, self.hosts))
        if stop:
            raise Stopped(stop, state)
        (run,) = [run for run in [state.sanity, *runs] if run and run.job == tried["job"]]
        return state, sweep_text.line(run, len(runs) - left, len(runs))

    def status(self, state: sweep.Sweep) -> str:
        left = len(sweep.left(state))
        made = len(state.runs) - left
        where = f"Sweep of job {self.job.name} on {_text.count(len(self.hosts), 'host')}"
        return f"{where}: {made} runs have been made, {left} are left"

    def planned(self, state: sweep.Sweep) -> str:
        return sweep_text.planned(state)

    def text(self, state: sweep.Sweep, wrote: str) -> str:
        return sweep_text.table(state, str(self.path))


class Tuning(ByTrials[tuning.Tuning]):
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
        self.content = tuning.new(self.job, self.request, contents(self.job), _text.now(), self.hosts)

    def to_inventory(self) -> bool:
        """Return whether the winner is for the inventory."""
        return self.request.write_to == "inventory"

    def continued(self, earlier: tuning.Tuning) -> tuning.Tuning:
        return tuning.continued(earlier, self.request.budget)

    def questions(self) -> dict[str, Any]:
        return {
            "default": self.default,
            "backends": tuning_request.backends(self.job, self.cluster.backend),
            "vary": [*self.request.vary],
        }

    def begun(self, state: tuning.Tuning, facts: Found) -> tuning.Tuning:
        valid = candidates.common(facts.hosts)
        if not valid:
            raise ValueError(
                f"job {self.job.name} has no settings that are valid on every one of {', '.join(self.hosts)}: "
                f"playbooks/plan.yml -e job={self.job.file} says what does not fit"
            )
        stack = {"packages": facts.head.get("packages") or {}}
        optimizes = tuning_request.optimizes(self.job, self.cluster.optimize, stack, self.request.vary)
        return tuning.with_candidates(state, valid, optimizes, self.request.env_values)

    def next(self, state: tuning.Tuning, now: float) -> tuple[tuning.Tuning, tuning.Trial | None]:
        state, run = tuning.advance(state, self.job, _text.now())
        if run is None:
            return with_diff(state, lambda: tuning_files.diff(state, self.job)), None
        return replace(state, running=replace(run, began=now)), run

    def trial(self, state: tuning.Tuning, run: tuning.Trial, now: float) -> dict[str, Any]:
        return tuning.derivation(state, self.job, run)

    def recorded(
        self, state: tuning.Tuning, tried: Mapping[str, Any], facts: Found, now: float
    ) -> tuple[tuning.Tuning, str]:
        running = self.begun_run(state.running)
        state = tuning.recorded(state, running, tried, max(0.0, now - (running.began or now)))
        return state, tuning_text.line(state.trials[-1])

    def status(self, state: tuning.Tuning) -> str:
        ended = ", it has ended" if self.ended(state) else ""
        where = f"Tuning of job {self.job.name} on {_text.count(len(self.hosts), 'host')}"
        return f"{where}: {len(state.trials)} trials have been made{ended}"

    def planned(self, state: tuning.Tuning) -> str:
        return tuning_text.planned(state)

    def text(self, state: tuning.Tuning, wrote: str) -> str:
        return tuning_text.table(state, str(self.path), wrote, self.request.write_to)

    def applied(self, state: tuning.Tuning, dry: bool) -> tuple[tuning.Tuning, str]:
        """Write the winner if that is requested; to the job file, only if it still is what was tuned."""
        if not state.diff or not (self.request.write or self.to_inventory()):
            return state, ""
        tuning_files.refuse_changed(tuning_files.diff(state, self.job), state.diff, self.job, self.path)
        variables = tuning_files.variables_file(self.cluster.inventory) if self.to_inventory() else None
        changes = tuning_files.changes(state, self.job, variables)
        state = replace(state, diff="".join(change.diff for change in changes))
        if not self.request.write:
            return state, ""
        return state, tuning_files.write(changes, self.job, dry)

    def failed(self, state: tuning.Tuning) -> str:
        return f"job {state.job} was not tuned: {state.notes[0]}" if tuning.job_failed(state) else ""


class LearningRate(ByTrials[trainings.Trainings]):
    """The job with other learning rates: complete trainings, within a budget."""

    VARY: ClassVar[trainings.Vary] = trainings.RATE
    TITLE, PLAYBOOK, DIRECTORY, FILE = "tuning", "playbooks/tune.yml", VARY.name, f"{VARY.name}.json"
    VERSION, DOCUMENT = trainings.VERSION, trainings.Trainings
    OPTIONS: ClassVar[Mapping[str, Any]] = {**trainings.OPTIONS, **trainings.RATES}

    def prepare(self) -> None:
        self.hosts = choose_hosts(self.job, self.cluster.hosts)
        self.content = trainings.new(self.VARY, self.options, self.job, contents(self.job), _text.now(), self.hosts)

    def continued(self, earlier: trainings.Trainings) -> trainings.Trainings:
        return trainings.continued(earlier, self.content.budget_minutes)

    def next(self, state: trainings.Trainings, now: float) -> tuple[trainings.Trainings, trainings.Trial | None]:
        state, run = trainings.advance(state, self.job, _text.now())
        if run is None:
            return with_diff(state, lambda: tuning_files.of_job(self.job, trainings.changes(state)).diff), None
        return replace(state, running=replace(run, began=now)), run

    def trial(self, state: trainings.Trainings, run: trainings.Trial, now: float) -> dict[str, Any]:
        return trainings.derivation(state, self.job, run)

    def recorded(
        self, state: trainings.Trainings, tried: Mapping[str, Any], facts: Found, now: float
    ) -> tuple[trainings.Trainings, str]:
        running = self.begun_run(state.running)
        state = trainings.recorded(state, self.job, running, tried, max(0.0, now - (running.began or now)))
        return state, trainings.line(state, state.trials[-1])

    def status(self, state: trainings.Trainings) -> str:
        ended = ", it has ended" if self.ended(state) else ""
        where = f"Tuning of {self.VARY.argument} of job {self.job.name} on {_text.count(len(self.hosts), 'host')}"
        return f"{where}: {len(state.trials)} trainings have been made{ended}"

    def planned(self, state: trainings.Trainings) -> str:
        return trainings.planned(state)

    def text(self, state: trainings.Trainings, wrote: str) -> str:
        return trainings.text(state, str(self.path), wrote)

    def applied(self, state: trainings.Trainings, dry: bool) -> tuple[trainings.Trainings, str]:
        """Write the winner if that is requested, only to the job file that was tuned."""
        if not state.diff or not truth("write", self.options["write"]):
            return state, ""
        change = tuning_files.of_job(self.job, trainings.changes(state))
        tuning_files.refuse_changed(change.diff, state.diff, self.job, self.path)
        return state, tuning_files.write([change], self.job, dry)

    def failed(self, state: trainings.Trainings) -> str:
        failed = len(state.trials) >= 1 and state.trials[0].state == "failed" and bool(state.ended)
        return f"job {state.job} was not tuned: {state.notes[0]}" if failed else ""


class Sampling(LearningRate):
    """The job with its rows in other orders: complete trainings, as each order has its share of long rows."""

    VARY = trainings.SAMPLING
    DIRECTORY, FILE, OPTIONS = VARY.name, f"{VARY.name}.json", trainings.OPTIONS

    def questions(self) -> dict[str, Any]:
        return {"packages": True}

    def begin(self, facts: Found, dry: bool) -> trainings.Trainings:
        old = sampling.too_old(facts.hosts)
        if old:
            raise ValueError(f"job {self.job.name} cannot be tuned, nothing was started:\n{old}")
        return super().begin(facts, dry)


class InferenceBenchmark(ByTrials[Benchmark]):
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

    def begun(self, state: Benchmark, facts: Found) -> Benchmark:
        provided = facts.head.get("models") or {}
        about = {
            name: inference_matrix.of_head(model, name, provided.get(name) or {}) for name, model in self.models.items()
        }
        return inference.with_cells(state, self.request, about, instances.common(facts.hosts), facts.head)

    def next(self, state: Benchmark, now: float) -> tuple[Benchmark, inference_document.Trial | None]:
        state, run = inference.advance(state, self.request, self.job, _text.now())
        if run:
            state = replace(state, running=replace(run, began=now))
        return inference_choice.concluded(state), run

    def trial(self, state: Benchmark, run: inference_document.Trial, now: float) -> dict[str, Any]:
        return inference.derivation(state, self.request, self.job, run, now)

    def recorded(self, state: Benchmark, tried: Mapping[str, Any], facts: Found, now: float) -> tuple[Benchmark, str]:
        running = self.begun_run(state.running)
        state = inference.recorded(state, running, tried, facts.hosts, max(0.0, now - (running.began or now)))
        return state, inference_text.line(state, state.trials[-1])

    def write(self, state: Benchmark) -> None:
        """Write inference.json, and each recommended setting beside it when there is nothing left to measure."""
        super().write(state)
        if state.ended:
            for old in self.path.parent.glob(inference_choice.file_name("*")):
                _ownership.remove(old)
            for name in state.recommended:
                path = self.path.with_name(inference_choice.file_name(name))
                _io.write_text(path, inference_choice.setting_file(state, name))

    def status(self, state: Benchmark) -> str:
        ended = ", it has ended" if self.ended(state) else ""
        measured = len(state.in_state("measured"))
        where = f"Inference {self.job.name}: {', '.join(self.models)} on {_text.count(len(self.hosts), 'host')}"
        return f"{where}: {measured} cells have been measured{ended}"

    def planned(self, state: Benchmark) -> str:
        return inference_text.planned(state)

    def text(self, state: Benchmark, wrote: str) -> str:
        return inference_text.report(state, str(self.path))

    def failed(self, state: Benchmark) -> str:
        return inference.failed(state)


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

    def begin(self, facts: Found, dry: bool) -> estimate.Estimate:
        if not dry:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.begun(self.content, facts)

    def continued(self, earlier: estimate.Estimate) -> estimate.Estimate:
        return earlier

    def questions(self) -> dict[str, Any]:
        return {"links": True}

    def begun(self, state: estimate.Estimate, facts: Found) -> estimate.Estimate:
        return replace(state, links=facts.hosts)

    def ended(self, state: estimate.Estimate) -> bool:
        return state.run.state != "pending"

    def unfinished(self, state: estimate.Estimate) -> list[str]:
        return [state.run.job] if state.run.state == "pending" and state.run.started else []

    def next(self, state: estimate.Estimate, now: float) -> tuple[estimate.Estimate, Run | None]:
        if self.ended(state):
            return state, None
        run = replace(state.run, started=_text.now())
        return replace(state, run=run), run

    def trial(self, state: estimate.Estimate, run: Run, now: float) -> dict[str, Any]:
        steps, warmup = state.steps, state.warmup_steps
        return {"suffix": self.DIRECTORY, "steps": steps, "warmup_steps": warmup, "fields": {"hosts": run.names}}

    def recorded(
        self, state: estimate.Estimate, tried: Mapping[str, Any], facts: Found, now: float
    ) -> tuple[estimate.Estimate, str]:
        came = runs.record(tried)
        if came["state"] == "failed" or not came["measured"]:
            state = replace(state, run=replace(state.run, state="failed", reason=came["reason"]))
            warnings = (tried.get("plan") or {}).get("memory", {}).get("warnings", [])
            reason = came["reason"] or "its steps were not measured"
            message = "\n".join([f"Job {self.job.name} has no estimate: {state.run.job} failed: {reason}", *warnings])
            raise Stopped(message, state)
        network = _io.read_json(self.results / "network" / "network.json") or {}
        state = estimate.estimated(state, self.job, tried, network, self.hosts, self.most)
        return state, sweep_text.line(state.run, 1, 1)

    def status(self, state: estimate.Estimate) -> str:
        where = f"Estimate of job {self.job.name}"
        return f"{where}: {state.steps} steps on {state.run.names[0]}, after {state.warmup_steps} of warm-up"

    def planned(self, state: estimate.Estimate) -> str:
        steps = state.steps + state.warmup_steps
        return f"Would be run: {state.run.job} ({_text.count(steps, 'step')} on {state.run.names[0]})"

    def text(self, state: estimate.Estimate, wrote: str) -> str:
        return estimate.text(state, str(self.path))


KINDS: dict[str, type[Measurement]] = {
    "sweep": Sweep,
    "tuning": Tuning,
    LearningRate.VARY.name: LearningRate,
    Sampling.VARY.name: Sampling,
    "inference": InferenceBenchmark,
    "estimate": Estimate,
}
"""The kinds of measurement by the name that the role measure gives them."""
