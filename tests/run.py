"""Run the project's tests: `tests/run.py [lint | unit | integration | demo | sanity | molecule [SCENARIO ...]]`.

Without a part, all of them. Every part runs, also after one has failed. At the end a table shows what each part took,
and the last line counts `N passed, N failed`: a lint check, a playbook and a scenario count as one, the other parts as
the tests that they ran. The exit code is 0 only if nothing failed. Called by the Makefile with the Python of .venv.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
PYTHON = str(BIN / "python")
# The checkout by its name as a collection.
COLLECTION = ".collections/ansible_collections/amx/cluster"
REPORTS = ROOT / ".cache" / "test_reports"
ENGINE = "tests/support/docker_engine.sh"
# A part that takes longer hangs; the whole run has to end within 40 minutes.
TIMEOUT_SECONDS = 20 * 60


@dataclass
class Result:
    """What became of one part. `skipped` names tests with the reason: they neither passed nor failed, but are shown."""

    part: str
    name: str
    seconds: float
    passed: int
    failed: int
    skipped: tuple[str, ...] = ()


def environment() -> dict[str, str]:
    """The environment of every part: tools and collections of this checkout only, nothing that waits for a person."""
    env = dict(os.environ)
    env["PATH"] = f"{BIN}{os.pathsep}{env.get('PATH', os.defpath)}"
    env["LC_ALL"] = "C.UTF-8"
    env["ANSIBLE_CONFIG"] = str(ROOT / "ansible.cfg")
    env["ANSIBLE_COLLECTIONS_PATH"] = str(ROOT / ".collections")
    env["ANSIBLE_ROLES_PATH"] = str(ROOT / "roles")
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    env.pop("PYTHONPATH", None)
    env.setdefault("AMX_CLUSTER_ENV", str(ROOT / ".cluster" / "env"))  # what site.yml installs
    env.setdefault("COLUMNS", "160")  # molecule would fold Ansible's output at 80
    if not sys.stdout.isatty():
        env["NO_COLOR"] = "1"
    return env


def call(command: list[str], timeout: float = TIMEOUT_SECONDS) -> int:
    """Run a command in the checkout, its output going to ours. Returns its exit code; 124 if it had to be ended."""
    print(f"$ {' '.join(command)}", flush=True)
    try:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment(), stdin=subprocess.DEVNULL, start_new_session=True
        )
    except OSError as error:
        print(f"cannot be started: {error}", flush=True)
        return 127
    try:
        return process.wait(timeout)
    except subprocess.TimeoutExpired:
        print(f"ended after {timeout:.0f} seconds", flush=True)
        return 124
    finally:
        if process.poll() is None:
            end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a command and all that it started: politely first, so that it can tidy up."""
    os.killpg(process.pid, signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(15)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def tracked(*patterns: str) -> list[str]:
    """The checkout's files that match git pathspecs: tracked or new, without the ignored."""
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run([*command, "--", *patterns], cwd=ROOT, check=True, capture_output=True, text=True)
    return sorted({name for name in listing.stdout.split("\0") if name and (ROOT / name).is_file()})


def mypy_command() -> list[str]:
    """Typed code: plugins (by their name in the collection), tests, tools, and what roles and jobs bring to hosts."""
    plugins = [f"{COLLECTION}/{name}" for name in tracked("plugins/*.py")]
    return ["mypy", *plugins, *tracked("tests/*.py", "tools/*.py", "jobs/*.py", "roles/*.py", "molecule/*.py")]


def lint_checks() -> dict[str, list[str]]:
    """The lint checks by name."""
    return {
        "ansible-lint": ["ansible-lint", "--offline", "--strict", "-c", ".config/ansible-lint.yml"],
        "yamllint": ["yamllint", "--strict", "-c", ".config/yamllint.yml", *tracked("*.yml", "*.yaml")],
        "ruff check": ["ruff", "check"],
        "ruff format": ["ruff", "format", "--check"],
        "mypy": mypy_command(),
        "generated docs": [PYTHON, "tools/generated_docs.py", "check"],
        "language": [PYTHON, "tools/language.py"],
        "changelog": ["antsibull-changelog", "lint"],
        "collection build": [PYTHON, "tests/support/collection_build.py"],
    }


def run_lint() -> list[Result]:
    """Each check is one result."""
    results = []
    for name, command in lint_checks().items():
        heading(f"lint: {name}")
        started = time.monotonic()
        failed = call(command) != 0
        results.append(Result("lint", name, time.monotonic() - started, int(not failed), int(failed)))
    return results


def run_counted(part: str, name: str, command: list[str]) -> list[Result]:
    """A part that writes JUnit reports into REPORTS/<part>; its tests are counted from them."""
    heading(name)
    reports = REPORTS / part
    reports.mkdir(parents=True, exist_ok=True)
    for old in reports.glob("*.xml"):
        old.unlink()
    started = time.monotonic()
    code = call(command)
    seconds = time.monotonic() - started
    passed, failed, skipped = count_reports(reports)
    if code != 0 and failed == 0:
        failed = 1  # it broke off before a test could fail
    elif passed == 0 and failed == 0:
        print(f"{name}: no test ran", flush=True)
        failed = 1
    return [Result(part, name, seconds, passed, failed, skipped)]


def count_reports(folder: Path) -> tuple[int, int, tuple[str, ...]]:
    """The number of tests that passed and that failed, and the skipped ones, in a folder of JUnit files."""
    passed = failed = 0
    skipped = []
    for report in sorted(folder.glob("*.xml")):
        for case in ElementTree.parse(report).iter("testcase"):
            reason = case.find("skipped")
            if case.find("failure") is not None or case.find("error") is not None:
                failed += 1
            elif reason is not None:
                skipped.append(f"{case.get('name')}: {reason.get('message') or reason.text}")
            else:
                passed += 1
    return passed, failed, tuple(skipped)


def run_unit() -> list[Result]:
    """The unit tests."""
    return run_counted(
        "unit",
        "unit tests",
        ["pytest", "-ra", f"--junitxml={REPORTS / 'unit' / 'pytest.xml'}"],
    )


@functools.cache
def run_site() -> Result:
    """What `make demo` does first, once for all that needs an environment: this machine as a cluster of one."""
    return run_playbook("site.yml on this machine", ["site.yml"])


def run_playbook(name: str, arguments: list[str]) -> Result:
    """A playbook on this machine, which passes or fails as a whole."""
    heading(name)
    started = time.monotonic()
    failed = call(["ansible-playbook", *arguments]) != 0
    return Result("demo", name, time.monotonic() - started, int(not failed), int(failed))


def run_integration() -> list[Result]:
    """Playbooks against this machine, no container needed, and plans against its Intel MPI and OpenMP run time."""
    return [
        run_site(),
        *run_counted(
            "integration",
            "integration tests",
            ["pytest", "-ra", f"--junitxml={REPORTS / 'integration' / 'pytest.xml'}", "tests/integration"],
        ),
    ]


def run_demo() -> list[Result]:
    """What `make demo` does. The job file says how well the model must have learnt."""
    return [run_site(), run_playbook("demo job", ["playbooks/train.yml", "-e", "job=jobs/demo.yml"])]


def run_sanity() -> list[Result]:
    """Ansible's own tests of a collection."""
    return run_counted(
        "sanity", "ansible-test sanity", [PYTHON, "tests/support/ansible_test_sanity.py", str(REPORTS / "sanity")]
    )


def scenarios() -> list[str]:
    """The molecule scenarios, `default` first: it is the one that shows whether the main job works."""
    names = {path.parent.name for path in ROOT.glob("molecule/*/molecule.yml")} - {"shared"}
    return sorted(names, key=lambda name: (name != "default", name))


def run_molecule(wanted: list[str]) -> list[Result]:
    """Each scenario is one result; a container engine is started for them if none answers, and stopped again."""
    known = scenarios()
    unknown = [name for name in wanted if name not in known]
    if unknown:
        sys.exit(f"No scenario {', '.join(unknown)}; there are: {', '.join(known) or 'none'}")
    chosen = wanted or known
    if not chosen:
        print("molecule: there is no scenario", flush=True)
        return [Result("molecule", "(no scenario)", 0.0, 0, 1)]
    heading("container engine")
    started = time.monotonic()
    code = call([ENGINE, "start"])
    results = [Result("molecule", "container engine", time.monotonic() - started, int(code == 0), int(code != 0))]
    try:
        for name in chosen:
            heading(f"molecule: {name}")
            started = time.monotonic()
            # Without an engine every scenario has failed; trying each would only bury the reason.
            failed = code != 0 or call(["molecule", "test", "-s", name]) != 0
            results.append(Result("molecule", name, time.monotonic() - started, int(not failed), int(failed)))
    finally:
        call([ENGINE, "stop"])
    return results


def heading(text: str) -> None:
    """A line that divides the output."""
    print(f"\n=== {text} {'=' * max(3, 100 - len(text))}", flush=True)


def print_summary(results: list[Result], seconds: float) -> None:
    """The table of parts and the closing line."""
    heading("summary")
    width = max(len(result.name) for result in results)
    print(f"{'part':<11} {'':<{width}} {'seconds':>8}  result")
    for result in results:
        parts = [f"{result.passed} passed", f"{result.failed} failed"]
        if result.skipped:
            parts.append(f"{len(result.skipped)} skipped")
        verdict = "FAILED" if result.failed else "ok"
        print(f"{result.part:<11} {result.name:<{width}} {result.seconds:>8.1f}  {verdict:<7} {', '.join(parts)}")
    print(f"{'all':<11} {'':<{width}} {seconds:>8.1f}\n")
    for result in results:
        for reason in result.skipped:
            print(f"skipped in {result.name}: {reason}")
    print(f"{sum(r.passed for r in results)} passed, {sum(r.failed for r in results)} failed", flush=True)


def main(arguments: list[str]) -> int:
    """Run the named part, or all. Returns the exit code."""
    parts: dict[str, Callable[[], list[Result]]] = {
        "lint": run_lint,
        "unit": run_unit,
        "integration": run_integration,
        "demo": run_demo,
        "sanity": run_sanity,
        "molecule": lambda: run_molecule(arguments[1:]),
    }
    if arguments and arguments[0] not in parts:
        sys.exit(f"No part {arguments[0]!r}; there are: {', '.join(parts)}")
    started = time.monotonic()
    results: list[Result] = []
    for run in [parts[arguments[0]]] if arguments else list(parts.values()):
        results += [result for result in run() if result not in results]
    print_summary(results, time.monotonic() - started)
    return 1 if any(result.failed for result in results) else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("interrupted")
