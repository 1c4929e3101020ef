"""Run the tests: `tests/run.py [lint | unit | integration | demo | sanity | units | docs | molecule [SCENARIO ...]]`.

Without an argument, all of them, in two lanes side by side. Every part runs, also after one has failed, but for those
that need it. What a part says is printed in one piece when it has ended, and kept in .cache/test_logs. At the end a
table shows what each part took, and the last line counts `N passed, N failed`: a lint check, a playbook and a scenario
count as one, the other parts as the tests that they ran. The exit code is 0 only if nothing failed. Called by the
Makefile with the Python of .venv.

AMX_TEST_LANES=1 runs one part after another, and prints their output as it comes, as that of the last part always is.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterable, Mapping, Sequence

from support import checkout
from support.at_length import AT_LENGTH, left_out_because
from support.checkout import COLLECTION, PYTHON, ROOT, tracked
from support.lanes import Lanes, Part, Result, heading

REPORTS = ROOT / ".cache" / "test_reports"
KEPT_BYTECODE = ROOT / ".cache" / "kept_bytecode"
ENGINE_SCRIPT = "tests/support/docker_engine.sh"
ANSIBLE_TEST = "tests/support/ansible_test.py"
# Two suit two cores: a lane that waits leaves them to the other, and a third would only make both slower.
LANES = 2


def environment() -> dict[str, str]:
    """The environment of every part."""
    env = checkout.environment()
    env.setdefault("AMX_CLUSTER_ENV", str(ROOT / ".cluster" / "env"))  # what site.yml installs
    env.setdefault("COLUMNS", "160")  # molecule would fold Ansible's output at 80
    env["KEPT_BYTECODE"] = str(KEPT_BYTECODE)  # of modules that run on this machine (keep_bytecode)
    return env


def keep_bytecode() -> None:
    """Have .venv's Python keep the bytecode of modules that Ansible sends it, as the scenarios' hosts do."""
    KEPT_BYTECODE.mkdir(parents=True, exist_ok=True)
    for path in ROOT.glob("molecule/shared/image/kept_bytecode.*"):
        shutil.copy(path, sysconfig.get_path("purelib"))


def mypy_command() -> list[str]:
    """Typed code: plugins (by their name in the collection), tests, tools, and what roles and jobs bring to hosts."""
    plugins = [f"{COLLECTION}/{name}" for name in tracked("plugins/*.py")]
    return ["mypy", *plugins, *tracked("tests/*.py", "tools/*.py", "jobs/*.py", "roles/*.py", "molecule/*.py")]


def lint() -> list[Part]:
    """Each check is a part."""
    yamllint = ["yamllint", "--strict", "-c", ".config/yamllint.yml", *tracked("*.yml", "*.yaml")]
    return [
        Part("lint", name, command, seconds)
        for name, seconds, command in (
            ("ansible-lint", 25, ["ansible-lint", "--offline", "--strict", "-c", ".config/ansible-lint.yml"]),
            ("yamllint", 4, yamllint),
            ("ruff check", 1, ["ruff", "check"]),
            ("ruff format", 1, ["ruff", "format", "--check"]),
            ("mypy", 10, mypy_command()),
            ("generated docs", 1, [PYTHON, "tools/generated_docs.py", "check"]),
            ("language", 1, [PYTHON, "tools/language.py"]),
            ("changelog", 2, ["antsibull-changelog", "lint"]),
            ("collection build", 2, [PYTHON, "tests/support/collection_build.py"]),
        )
    ]


def counted(
    group: str,
    name: str,
    seconds: float,
    command: Sequence[str],
    needs: tuple[str, ...] = (),
    after: tuple[str, ...] = (),
) -> Part:
    """A part whose command writes JUnit reports to the path that is `{reports}` in it."""
    reports = REPORTS / name.replace(" ", "_")
    words = [word.replace("{reports}", str(reports)) for word in command]
    return Part(group, name, words, seconds, reports=reports, needs=needs, after=after)


def on_this_machine() -> list[Part]:
    """What takes no container."""
    pytest = ("pytest", "-ra", "--durations=15", "--durations-min=10", "--junitxml={reports}/pytest.xml")
    # What `make demo` does: this machine is made a cluster of one, once for all that needs an environment; then a job,
    # whose model must have learnt something.
    site = Part("demo", "site.yml on this machine", ["ansible-playbook", "site.yml"], 60)
    learnt = json.dumps({"override": {"expect": {"eval_accuracy": 0.72}}})
    job = ["ansible-playbook", "playbooks/train.yml", "-e", "job=jobs/demo.yml", "-e", learnt]
    return [
        counted("unit", "unit tests", 105, pytest),
        site,
        # Its jobs would be in the way of the demo's, which is refused where another one runs.
        counted(
            "integration",
            "integration tests",
            1000,
            (*pytest, "tests/integration"),
            needs=(site.name,),
            after=("demo job",),
        ),
        Part("demo", "demo job", job, 60, needs=(site.name,)),
        *(
            counted(command, f"ansible-test {command}", seconds, [PYTHON, ANSIBLE_TEST, command, "{reports}"])
            for command, seconds in (("sanity", 85), ("units", 500))
        ),
        Part("docs", "documentation site", [PYTHON, "tools/docs_site.py"], 150),
    ]


# About how long each scenario takes.
SCENARIOS = {
    "jobs": 600,
    "faults": 450,
    "default": 300,
    "trust": 400,
    "stacks": 270,
    "shared_storage": 200,
    "life": 350,
    "kubernetes": 900,
}
# The parts that `make test` leaves out, and why.
PARTS_AT_LENGTH = {
    "documentation site": "it is built by make docs; what pages link to and what is generated is checked by itself",
    "ansible-test units": "they are the unit tests, run as ansible-test runs them",
    "kubernetes": "it builds Kubernetes; objects, their schemas and what starts in a pod are in the other tests",
    "life": "a reset is in the integration tests and in the scenario trust, an upgrade in the scenario stacks",
}
# `default` finds the wheels that site.yml has collected on this machine, and leaves the image that others start from,
# but for those that start from bare hosts.
AFTER = {
    "default": ("site.yml on this machine",),
    "shared_storage": ("site.yml on this machine",),
    "stacks": (),
    "trust": (),
    "kubernetes": ("site.yml on this machine",),
}


def molecule() -> list[Part]:
    """Each scenario is a part. They share a container engine, started for them if none answers, and an image."""
    engine = Part("molecule", "container engine", [ENGINE_SCRIPT, "start"], 20)
    inventories = [f"--inventory=molecule/{name}/inventory" for name in ("shared", "default")]
    image = Part(
        "molecule",
        "image of bare hosts",
        ["env", f"MOLECULE_PROJECT_DIRECTORY={ROOT}", "ansible-playbook", *inventories, "molecule/shared/image.yml"],
        90,
        needs=(engine.name,),
    )
    names = [path.parent.name for path in ROOT.glob("molecule/*/molecule.yml")]
    return [
        engine,
        image,
        *(
            Part(
                "molecule",
                name,
                ["molecule", "test", "-s", name],
                SCENARIOS.get(name, 100),
                needs=(image.name,),
                after=AFTER.get(name, ("default",)),
                undo=["molecule", "destroy", "-s", name],
            )
            for name in sorted(names, key=lambda name: (name != "default", name))
        ),
    ]


def chosen(parts: Sequence[Part], words: Sequence[str]) -> list[Part]:
    """The parts that the command line names, with those that they need. Exits if it names what there is not."""
    if not words:
        return list(parts)
    group, *names = words
    known = list(dict.fromkeys(part.group for part in parts))
    if group not in known:
        sys.exit(f"No part {group!r}; there are: {', '.join(known)}")
    needed = {name for part in parts for name in part.needs}
    scenarios = [part.name for part in parts if part.group == group and part.name not in needed]
    if unknown := [name for name in names if name not in scenarios]:
        sys.exit(f"No scenario {', '.join(unknown)}; there are: {', '.join(scenarios)}")
    wanted = {part.name for part in parts if part.group == group and (not names or part.name in names)}
    for part in reversed(parts):  # what is needed stands before
        if part.name in wanted:
            wanted.update(part.needs)
    return [part for part in parts if part.name in wanted]


def left_out(parts: Sequence[Part], words: Sequence[str]) -> dict[str, str]:
    """Return those of the parts that are not run because they take long, each with the reason.

    What the command line names is run: a scenario by its own name, any other part by that of its group.
    """
    if AT_LENGTH or (words and words[0] != "molecule"):
        return {}
    names = {part.name for part in parts} - set(words)
    return {name: left_out_because(why) for name, why in PARTS_AT_LENGTH.items() if name in names}


def print_summary(results: Iterable[Result], seconds: float, not_run: Mapping[str, str]) -> None:
    """The table of parts, what was left out, and the closing line."""
    results = list(results)
    heading("summary")
    width = max((len(result.part.name) for result in results), default=0)
    print(f"{'part':<11} {'':<{width}} {'seconds':>8}  result")
    for result in results:
        counts = [f"{result.passed} passed", f"{result.failed} failed"]
        if result.skipped:
            counts.append(f"{len(result.skipped)} skipped")
        verdict = "FAILED" if result.failed else "ok"
        name = f"{result.part.group:<11} {result.part.name:<{width}}"
        print(f"{name} {result.seconds:>8.1f}  {verdict:<7} {', '.join(counts)}")
    print(f"{'all':<11} {'':<{width}} {seconds:>8.1f}\n")
    for result in results:
        for reason in result.skipped:
            print(f"skipped in {result.part.name}: {reason}")
    for name, reason in not_run.items():
        print(f"skipped: {name}: {reason}")
    print(f"{sum(r.passed for r in results)} passed, {sum(r.failed for r in results)} failed", flush=True)


def main(words: Sequence[str]) -> int:
    """Run the named parts, or all. Returns the exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    keep_bytecode()
    parts = chosen([*lint(), *on_this_machine(), *molecule()], words)
    not_run = left_out(parts, words)
    parts = [part for part in parts if part.name not in not_run]
    lanes = Lanes(parts, int(os.environ.get("AMX_TEST_LANES") or LANES), environment())
    started = time.monotonic()
    try:
        lanes.run()
    finally:
        if any(part.command[0] == ENGINE_SCRIPT for part in parts):
            subprocess.run([ENGINE_SCRIPT, "stop"], cwd=ROOT, check=False)
        print_summary(lanes.results, time.monotonic() - started, not_run)
    return 1 if any(result.failed for result in lanes.results) else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("interrupted")
