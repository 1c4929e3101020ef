"""Run the tests: `tests/run.py [check | test | test-all | ci | GROUP [SCENARIO ...]] [--record]`.

`check` is for every change, `test` (the default) shows that the product works, `test-all` is everything; `ci` is `test`
and then as many of the other parts but the last ones, the most valuable first, as end within an hour: how long a part
takes is kept in tests/durations.json, which `--record` updates. GROUP is one of lint, unit, integration, demo, sanity,
units, docs and molecule.

Three parts run at a time; a part is a row of the table with which the output ends. Every part runs, also after others
have failed. The output of a part is kept in .cache/test_logs, and printed in one piece when it has ended. The last
lines name what failed, then `N passed, N failed`: a lint check, a playbook and a scenario count as one, the other parts
as the tests that they ran. The exit code is 0 only if nothing failed. Called by the Makefile with .venv's Python.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from xml.etree import ElementTree

from support import at_length, checkout
from support.checkout import PYTHON, ROOT
from support.isolation import isolation

CACHE = ROOT / ".cache"
ENGINE_SCRIPT = "tests/support/docker_engine.sh"
# Parts at a time. Three suit two cores: each waits a third of its time, for a container, a login or the end of a job.
LANES = 3
# When a part is run: for every change, by `make test`, by `make test-all`; and of the latter, last.
CHECK, TEST, ALL, LAST = range(4)
STAGES = {"check": CHECK, "test": TEST, "test-all": LAST, "ci": ALL}
# Integration tests of what playbooks refuse, and of what they do with ranks of torch and MPI.
REFUSALS = ["refusals"]
WITH_RANKS = [
    "collectives",
    "decoder",
    "fabric_exchange",
    "healthy_scripts",
    "inference_runner",
    "measured",
    "network",
    "notices",
    "pods",
    "predict",
    "prediction_runner",
    "profiled",
    "pytorch_tests",
    "resumed",
    "serve",
    "sharding",
    "torn_checkpoints",
    "tune",
]
# Seconds that each part, and each file of tests that parts name, took in a run on two quiet cores.
DURATIONS_FILE = ROOT / "tests/durations.json"
DURATIONS: dict[str, float] = json.loads(DURATIONS_FILE.read_text(encoding="utf-8"))
# What a unit test that starts processes, waits or computes for long has: `make check` and `make test` leave it out.
SLOW_MARK = "pytest.mark.slow"
# Of a part or file that is not in it.
USUAL = 60.0
# Seconds since its begin in which `ci` starts parts that will have ended by then, and at which it ends what still runs.
BUDGET, DEADLINE = 3600.0, 4800.0
BEGAN_VARIABLE = "AMX_TEST_BEGAN"
# Seconds: how often a line says what is running, since silence would be taken for a hang; how long a part may take; and
# how long one that has to be ended has time to tidy up.
HEARTBEAT, PATIENCE, POLITE = 60.0, 5400.0, 15.0
# Characters of a failure in the summary.
SHORT = 300


@dataclass(frozen=True)
class Part:
    """What is run as one, and is a row of the table. A scenario and others of few tests are named for what they run.

    group: what the command line calls it by, with others.
    stage: when it is run.
    reason: why `make test` leaves it out.
    needs: parts, by name, that must have ended before, and are run with it when it alone is requested.
    after: parts that must have ended before where they are run, too.
    counted: its command writes JUnit reports to `reports`, whose tests are counted; else it passes or fails as a whole.
    isolated: it gets a process namespace of its own.
    tests: what it runs of its tests: `at_length.EVERYTHING`, or only what other parts leave out (`at_length.REST`).
    seconds: how long it takes on two quiet cores.
    """

    group: str
    name: str
    command: Sequence[str]
    stage: int = CHECK
    reason: str = ""
    needs: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    counted: bool = False
    isolated: bool = True
    tests: str = ""
    seconds: float = USUAL

    @property
    def log(self) -> Path:
        return CACHE / "test_logs" / (re.sub(r"\W+", "_", f"{self.group} {self.name}") + ".log")

    @property
    def reports(self) -> Path:
        return CACHE / "test_reports" / self.name.replace(" ", "_")

    @property
    def undo(self) -> Sequence[str]:
        """The command that removes what it leaves when it has to be ended."""
        return ("molecule", "destroy", "-s", self.command[-1]) if self.command[0] == "molecule" else ()


@dataclass(frozen=True)
class Result:
    """The outcome of a part. `failures` names failed tests by id, `skipped` those not run with the reason."""

    part: Part
    seconds: float
    passed: int
    failures: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


def everything() -> list[Part]:
    """Return all parts: what takes long, others wait for, or is worth most stands before."""
    site = "site.yml on this machine"
    # What `make demo` does: this machine is made a cluster of one, once for all that needs an environment; then a job,
    # whose model must have learnt something, in less than half of its steps.
    learnt = json.dumps({"amx_override": {"expect": {"eval_accuracy": 0.65}, "args": {"max_steps": 50}}})
    job = ["ansible-playbook", "playbooks/train.yml", "-e", "amx_job=jobs/demo.yml", "-e", learnt]
    pytest = ["pytest", "-ra", "--durations=15", "--durations-min=10", "--junitxml={reports}/pytest.xml"]
    lint = ["ansible-lint", "--offline", "--strict", "-c", ".config/ansible-lint.yml"]
    ansible_test = [PYTHON, "tests/support/ansible_test.py"]
    long_sanity = ("import", "pylint")
    files = sorted(f"tests/integration/{path.name}" for path in ROOT.glob("tests/integration/test_*.py"))
    refusals, ranks = ([f"tests/integration/test_{name}.py" for name in names] for names in (REFUSALS, WITH_RANKS))
    playbooks = [path for path in files if path not in {*refusals, *ranks}]
    slow_units = [
        str(path.relative_to(ROOT))
        for path in sorted(ROOT.glob("tests/unit/**/test_*.py"))
        if SLOW_MARK in path.read_text(encoding="utf-8")
    ]

    def tests(group: str, name: str, paths: Sequence[str], stage: int, reason: str = "", tests: str = "") -> Part:
        seconds = sum(DURATIONS.get(path, USUAL) for path in paths)
        needs = (site,) if group == "integration" else ()
        marked = ("-m", "slow") if group == "unit" else ()
        command = [*pytest, *marked, *paths]
        return Part(group, name, command, stage, reason, needs, counted=True, tests=tests, seconds=seconds)

    parts = [
        Part("demo", site, ["ansible-playbook", "site.yml"], TEST),
        *molecule(site),
        *(
            tests(group, f"{name} {number}", paths, ALL, f"{reason} take minutes; make test has the quick ones")
            for group, name, chosen, count, reason in (
                ("integration", "tests with ranks", ranks, 3, "ranks of torch"),
                ("integration", "tests of playbooks", playbooks, 3, "whole playbooks"),
                ("unit", "slow unit tests", slow_units, 2, "tests that start processes or wait"),
            )
            for number, paths in enumerate(split(chosen, count), 1)
        ),
        tests("integration", "refusals of playbooks", refusals, TEST),
        Part("unit", "unit tests", [*pytest, "-m", "not slow"], counted=True),
        Part("lint", "ansible-lint", lint, TEST),
        Part(
            "sanity",
            "ansible-test sanity",
            [*ansible_test, "sanity", "{reports}", *(f"--skip-test={name}" for name in long_sanity)],
            TEST,
            counted=True,
        ),
        Part("demo", "demo job", job, TEST, needs=(site,)),
        *(
            Part("lint", name, command.split())
            for name, command in {
                "mypy": "mypy",
                "yamllint": "yamllint --strict -c .config/yamllint.yml .",
                "ruff check": "ruff check",
                "ruff format": "ruff format --check",
                "generated docs": "python tools/generated_docs.py check",
                "language": "python tools/language.py",
                "changelog": "antsibull-changelog lint",
                "collection build": "python tests/support/collection_build.py",
            }.items()
        ),
        tests("integration", "integration tests at length", files, LAST, "each is like one that runs", at_length.REST),
        Part(
            "units",
            "ansible-test units",
            [*ansible_test, "units", "{reports}"],
            LAST,
            "they are the unit tests, run as ansible-test runs them",
            counted=True,
        ),
        *(
            Part(
                "sanity",
                f"ansible-test {name}",
                [*ansible_test, "sanity", "{reports}", f"--test={name}"],
                stage,
                "it takes minutes: mypy and ruff check the same files, which scenarios import",
                after=(before,),  # its copy of the checkout
                counted=True,
            )
            for name, stage, before in (
                ("import", ALL, "ansible-test sanity"),
                ("pylint", LAST, "ansible-test import"),
            )
        ),
        Part(
            "docs",
            "documentation site",
            [PYTHON, "tools/docs_site.py"],
            LAST,
            "it is built by make docs; what pages link to and what is generated is checked by itself",
        ),
    ]
    timed = (replace(part, seconds=DURATIONS.get(part.name, part.seconds)) for part in parts)
    return sorted(timed, key=lambda part: max(part.stage, TEST))


def split(paths: Sequence[str], count: int) -> list[list[str]]:
    """Return test files in so many lists that take about as long as each other."""
    lists: list[list[str]] = [[] for _number in range(count)]
    totals = [0.0] * count
    for path in sorted(paths, key=lambda path: -DURATIONS.get(path, USUAL)):
        shortest = totals.index(min(totals))
        lists[shortest].append(path)
        totals[shortest] += DURATIONS.get(path, USUAL)
    return lists


def molecule(site: str) -> list[Part]:
    """Return the container engine, started if none answers, an image of bare hosts, and the scenarios that use both."""
    inventories = [f"--inventory=molecule/{name}/inventory" for name in ("shared", "default")]
    build = ["env", f"MOLECULE_PROJECT_DIRECTORY={ROOT}", "ansible-playbook", *inventories, "molecule/shared/image.yml"]
    engine = Part("molecule", "container engine", [ENGINE_SCRIPT, "start"], TEST, isolated=False)
    image = Part("molecule", "image of bare hosts", build, TEST, needs=(engine.name,))

    def scenario(
        name: str, *after: str, stage: int = LAST, reason: str = "", needs: str = "", isolated: bool = True
    ) -> Part:
        command, needed = ["molecule", "test", "-s", name], (image.name, *filter(None, [needs]))
        tests = at_length.EVERYTHING if stage == LAST else ""
        return Part("molecule", name, command, stage, reason, needed, after, isolated=isolated, tests=tests)

    def rest(name: str, reason: str) -> Part:
        command = ["molecule", "test", "-s", name]
        after = ("default", name)
        return Part("molecule", f"{name} at length", command, LAST, reason, (image.name,), after, tests=at_length.REST)

    kubernetes = "it builds Kubernetes; objects, their schemas and what starts in a pod are in the other tests"
    shared = "shared homes and prefixes are in the integration tests of keys and resets, locks in the unit tests"
    cores = "plans are verified by site.yml in every scenario, and compared with Intel MPI in the integration tests"
    life = "a reset is in default and the integration tests; an upgrade is an installation and a link, as in default"
    trust = "who has which keys is in test_ssh_mesh.py, rules and settings in unit tests, the roles run in default"
    stacks = "default installs the real stack; wheels, archives, checks and links are in the unit tests of stacks"
    servers = "emulated servers are slow; plans of such machines are in unit tests, threads and workers in the others"
    amx = "an emulated CPU is slow; what kernels answer and oneDNN prints is in the unit tests, as it was seen"
    slurm = "its daemons and time limits take minutes; what they answer is in the unit tests, as it was seen"
    jobs = "what a user does with jobs over days takes minutes; default trains, loses a rank and goes on"
    faults = "each fault takes half a minute; default loses a rank"
    # `default` finds the wheels that site.yml has collected on this machine, and leaves the image from which others
    # start, but for those that start from bare hosts.
    return [
        engine,
        image,
        scenario("default", site, stage=TEST),
        scenario("jobs", "default", stage=ALL, reason=jobs),
        scenario("faults", "default", stage=ALL, reason=faults),
        scenario("life", "default", reason=life),
        scenario("trust", reason=trust),
        scenario("stacks", reason=stacks),
        scenario("shared_storage", "default", reason=shared),
        scenario("cores_and_networks", "default", reason=cores),
        rest("jobs", "its journeys are alike those that jobs makes"),
        rest("faults", "its faults are alike those that faults makes"),
        # Its kubelets mount what the engine has to see.
        scenario("kubernetes", site, isolated=False, reason=kubernetes),
        scenario("servers", "default", reason=servers),
        scenario("slurm", "default", reason=slurm),
        # Its disk is that of a host of `default`.
        scenario("amx", needs="default", reason=amx),
    ]


def chosen(parts: Sequence[Part], words: Sequence[str]) -> tuple[list[Part], dict[str, str]]:
    """Return the parts that the command line names with those that they need, and why others are left out.

    A stage names its parts and those before; a group its parts but the last, which a scenario's name adds. Exits if it
    names what there is not.
    """
    first, *names = words or ["test"]
    in_group = [part for part in parts if part.group == first]
    known = {part.name for part in in_group if part.undo} if in_group else {part.group for part in parts} | {*STAGES}
    if unknown := set(names) - known if in_group else {*names} if first in STAGES else {first}:
        sys.exit(f"There is no {', '.join(unknown)}; there are: {', '.join(sorted(known))}")
    if first in STAGES:
        wanted = {part.name for part in parts if part.stage <= STAGES[first]}
        named = list(parts)
    else:
        # A group whose parts are all last ones has been named for them.
        stage = LAST if at_length.EVERYTHING_RUNS or all(part.stage == LAST for part in in_group) else ALL
        wanted = set(names) or {part.name for part in in_group if part.stage <= stage}
        named = [part for part in in_group if not names]
    if at_length.EVERYTHING_RUNS:  # within the parts
        wanted -= {part.name for part in parts if part.tests == at_length.REST}
        named = [part for part in named if part.tests != at_length.REST]
    for part in reversed(parts):  # what is needed stands before
        if part.name in wanted:
            wanted.update(part.needs)
    left_out = {
        part.name: at_length.left_out_because(part.reason) if part.stage > TEST else "only in make test"
        for part in named
        if part.name not in wanted
    }
    return [part for part in parts if part.name in wanted], left_out


@dataclass
class Run:
    """A run of parts with the environment `env`; `results` by name, `running` with when each began.

    budget: seconds after `began`, a time of the epoch, at which parts that `make test` does not have should have ended;
    one that would not is not started, and named in `left_out` with the reason. Those parts wait for the others.
    """

    parts: Sequence[Part]
    env: Mapping[str, str]
    results: dict[str, Result] = field(default_factory=dict)
    running: dict[str, float] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    budget: float = math.inf
    began: float = field(default_factory=time.time)

    async def all(self) -> None:
        """Run all parts. When this is cancelled, those that run are ended, and their output is printed."""
        if task := asyncio.current_task():  # as Ctrl-C does
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        waiting, lanes, tasks = list(self.parts), set(range(LANES)), dict[asyncio.Task[None], int]()
        try:
            while waiting or tasks:
                for part in tuple(waiting):
                    if not lanes or self.unfinished(waiting).intersection(self.before(part)):
                        continue
                    waiting.remove(part)
                    if reason := self.does_not_fit(part):
                        self.left_out[part.name] = reason
                        continue
                    self.running[part.name] = time.monotonic()
                    tasks[asyncio.create_task(self.run(part, min(lanes)))] = min(lanes)
                    lanes.remove(min(lanes))
                if not tasks:
                    continue
                done, _running = await asyncio.wait(tasks, timeout=HEARTBEAT, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    lanes.add(tasks.pop(task))
                    task.result()
                if not done:
                    self.tell(len(waiting))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def unfinished(self, waiting: Iterable[Part]) -> set[str]:
        """Return the names of the parts that wait or run."""
        return {part.name for part in waiting} | self.running.keys()

    def before(self, part: Part) -> set[str]:
        """Return the names of the parts that must have ended before one is started."""
        names = {*part.needs, *part.after}
        if self.budget < math.inf and part.stage > TEST:
            names.update(other.name for other in self.parts if other.stage <= TEST)
        return names

    def does_not_fit(self, part: Part) -> str:
        """Return why a part is not started: the budget, scaled by how slow this machine is; else an empty string."""
        if self.budget == math.inf or part.stage <= TEST:
            return ""
        passed = [result for result in self.results.values() if not result.failures]  # others may have broken off
        expected = sum(result.part.seconds for result in passed)
        slowness = sum(result.seconds for result in passed) / expected if expected else 1.0
        left, needed = self.budget - (time.time() - self.began), part.seconds * slowness
        if needed <= left:
            return ""
        return f"it would take {needed / 60:.0f} min here, of {max(0, left) / 60:.0f} that are left (make test-all)"

    def tell(self, waiting: int) -> None:
        """Print what is running."""
        logs = {part.name: part.log.relative_to(ROOT) for part in self.parts}
        now = (
            f"{name} for {(time.monotonic() - began) / 60:.0f} min (output so far: {logs[name]})"
            for name, began in self.running.items()
        )
        print(f"... {len(self.results)} ended, {waiting} waiting, running: {', '.join(now)}", flush=True)

    async def run(self, part: Part, lane: int) -> None:
        """Run a part, and print what it said."""
        part.log.parent.mkdir(parents=True, exist_ok=True)
        part.log.write_text(f"$ {shlex.join(part.command)}\n")
        shutil.rmtree(part.reports, ignore_errors=True)
        part.reports.mkdir(parents=True)
        ok, said = False, ""
        try:
            ok = await asyncio.wait_for(self.command(part, lane), PATIENCE) == 0
        except TimeoutError:
            said = f"ended, because it took more than {PATIENCE:.0f} seconds"
        except OSError as error:
            said = f"cannot be started: {error}"
        except asyncio.CancelledError:
            said = "interrupted"
            raise
        finally:
            self.results[part.name] = count(part, time.monotonic() - self.running.pop(part.name), ok)
            print(f"\n=== {part.group}: {part.name} {'=' * max(3, 95 - len(part.group + part.name))}", flush=True)
            sys.stdout.buffer.write(part.log.read_bytes() + (f"\n{said}\n" if said else "").encode())
            sys.stdout.flush()

    async def command(self, part: Part, lane: int) -> int:
        """Run the command of a part to its end, and return its exit code. When this is cancelled, end it."""
        words = [word.replace("{reports}", str(part.reports)) for word in part.command]
        # Scenarios put their hosts on other cores in another lane, and let scripts add to the log themselves.
        env = {**self.env, "AMX_TEST_LANE": str(lane), "AMX_TEST_LOG": str(part.log)}
        if part.tests:
            env[at_length.VARIABLE] = part.tests
        if len([other for other in self.parts if other.undo]) > 1:
            env["AMX_TEST_KEEP_INSTALLED"] = "1"  # for the scenarios after `default`
        with part.log.open("ab") as log:
            start = functools.partial(
                asyncio.create_subprocess_exec, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
            process = await start(*(isolation() if part.isolated else ()), *words, env=env, start_new_session=True)
            try:
                return await process.wait()
            except asyncio.CancelledError:
                os.killpg(process.pid, signal.SIGINT)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), POLITE)
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
                if part.undo:
                    await (await start(*part.undo, env=env)).wait()
                raise


def count(part: Part, seconds: float, ok: bool) -> Result:
    """Return what a part's reports or its exit code say: `ok` if that was 0."""
    # A scenario's script prints what it leaves out (`support.journeys`), as the program before ansible-test does.
    log = part.log.read_text(encoding="utf-8", errors="replace") if part.log.exists() else ""
    skipped = re.findall(r"^skipped: (.+)$", log, re.MULTILINE)
    if not part.counted:
        return Result(part, seconds, int(ok), () if ok else failed_steps(log), tuple(skipped))
    passed, failures = 0, list[str]()
    for report in sorted(part.reports.glob("*.xml")):
        try:
            cases = [*ElementTree.parse(report).iter("testcase")]
        except ElementTree.ParseError:
            failures.append(f"{report.name} is incomplete")
            continue
        for case in cases:
            failure = case.find("failure")
            if (failure := case.find("error") if failure is None else failure) is not None:
                failures.append(f"{test_id(case)}: {first_line(failure)}")
            elif (reason := case.find("skipped")) is not None:
                skipped.append(f"{case.get('name')}: {reason.get('message') or reason.text}")
            else:
                passed += 1
    if not failures and not (ok and passed):  # broken off before a test could fail, or none was run
        failures.append(f"no test failed, but {last_line(log)}")
    return Result(part, seconds, passed, tuple(failures), tuple(skipped))


def test_id(case: ElementTree.Element) -> str:
    """Return the id of a test in a JUnit report, with which pytest runs it again."""
    names = case.get("classname", "").split(".")
    for length in range(len(names), 0, -1):  # the directories, the file, then classes
        if (ROOT / (path := "/".join(names[:length]) + ".py")).is_file():
            names = [path, *names[length:]]
            break
    return "::".join([*names, case.get("name", "")])


def first_line(failure: ElementTree.Element) -> str:
    """Return what a failure of a JUnit report is, shortened."""
    return next(iter((failure.get("message") or failure.text or "").strip().splitlines()), "")[:SHORT]


def last_line(log: str) -> str:
    """Return the last line of a part's output, shortened."""
    return (["no output", *filter(None, map(str.strip, log.splitlines()))])[-1][:SHORT]


def failed_steps(log: str) -> tuple[str, ...]:
    """Return what failed in a part that has no reports: journeys, else the task of Ansible that failed last."""
    if journeys := re.findall(r"^\[(.+): WRONG, \d+ s\]$", log, re.MULTILINE):
        return tuple(journeys)
    task = ""
    failed = last_line(log)
    for line in log.splitlines():
        if line.startswith("TASK ["):
            task = line.rstrip(" *")
        elif line.startswith(("fatal: ", "failed: ")):
            failed = f"{task} {line}"[:SHORT]
    return (failed,)


def print_summary(results: Sequence[Result], seconds: float, not_run: Mapping[str, str]) -> None:
    """The table of parts, what was left out, and the closing line."""
    width = max((len(result.part.name) for result in results), default=0)
    print(f"\n=== summary {'=' * 95}\n{'part':<11} {'':<{width}} {'seconds':>8}  result")
    for result in results:
        counts = [f"{result.passed} passed", f"{len(result.failures)} failed"]
        if result.skipped:
            counts.append(f"{len(result.skipped)} skipped")
        verdict = "FAILED" if result.failures else "ok"
        name = f"{result.part.group:<11} {result.part.name:<{width}}"
        print(f"{name} {result.seconds:>8.1f}  {verdict:<7} {', '.join(counts)}")
    print(f"{'all':<11} {'':<{width}} {seconds:>8.1f}\n")
    for result in results:
        for reason in result.skipped:
            print(f"skipped in {result.part.name}: {reason}")
    for name, reason in not_run.items():
        print(f"skipped: {name}: {reason}")
    # Last, since the end of the output is what is seen where only that is kept.
    for result in results:
        for failure in result.failures:
            print(f"FAILED {result.part.name}: {failure}")
    failed = sum(len(result.failures) for result in results)
    print(f"{sum(result.passed for result in results)} passed, {failed} failed", flush=True)


def environment() -> dict[str, str]:
    """The environment of every part. Modules that run on this machine keep their bytecode, as on scenarios' hosts."""
    kept = CACHE / "kept_bytecode"
    kept.mkdir(parents=True, exist_ok=True)
    for path in ROOT.glob("molecule/shared/image/kept_bytecode.*"):
        shutil.copy(path, sysconfig.get_path("purelib"))
    env = {**checkout.environment(), "KEPT_BYTECODE": str(kept)}
    env.setdefault("AMX_CLUSTER_ENV", str(ROOT / ".cluster" / "env"))  # what site.yml installs
    env.setdefault("COLUMNS", "160")  # molecule would fold Ansible's output at 80
    return env


def record(results: Iterable[Result]) -> None:
    """Write how long the parts that have passed, and the files of tests that are named, took."""
    for result in results:
        if result.part.counted and result.part.command[-1].endswith(".py") and not result.part.tests:
            for report in result.part.reports.glob("*.xml"):
                files = dict[str, float]()
                for case in ElementTree.parse(report).iter("testcase"):
                    name = test_id(case).partition("::")[0]
                    files[name] = files.get(name, 0.0) + float(case.get("time", 0))
                DURATIONS.update({name: round(seconds, 1) for name, seconds in files.items()})
        elif not result.failures:
            DURATIONS[result.part.name] = round(result.seconds, 1)
    DURATIONS_FILE.write_text(json.dumps(DURATIONS, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def main(words: Sequence[str]) -> int:
    """Run the named parts. Returns the exit code."""
    parts, left_out = chosen(everything(), [word for word in words if word != "--record"])
    run = Run(parts, environment(), left_out=left_out)
    limit = None
    if "ci" in words:
        run.began, run.budget = float(os.environ.get(BEGAN_VARIABLE) or run.began), BUDGET
        limit = DEADLINE - (time.time() - run.began)
    began = time.monotonic()
    try:
        asyncio.run(asyncio.wait_for(run.all(), limit))
    except TimeoutError:
        print(f"ended, because {DEADLINE / 60:.0f} minutes were over", flush=True)
    finally:
        if any(part.command[0] == ENGINE_SCRIPT for part in run.parts):
            subprocess.run([ENGINE_SCRIPT, "stop"], cwd=ROOT, check=False)
        results = [run.results[part.name] for part in run.parts if part.name in run.results]
        print_summary(results, time.monotonic() - began, run.left_out)
        if "--record" in words:
            record(results)
    unfinished = {part.name for part in run.parts} - run.results.keys() - run.left_out.keys()
    return 1 if unfinished or any(result.failures for result in results) else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (KeyboardInterrupt, asyncio.CancelledError):
        sys.exit("interrupted")
