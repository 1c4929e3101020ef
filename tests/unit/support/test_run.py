"""Which parts of the tests are run, what is left of them, and how their tests are counted."""

from __future__ import annotations

import asyncio
import math
import os
import select
import time
from dataclasses import replace
from pathlib import Path

import pytest
import run
import yaml
from run import Part, Result, Run
from support import at_length
from support.checkout import ROOT
from support.isolation import VARIABLE, isolation

PARTS = run.everything()
# What only `make test-all` and `.ci/run` have, and of that the last.
SCENARIOS = {"amx", "cores_and_networks", "kubernetes", "life", "servers", "shared_storage", "slurm", "stacks", "trust"}
REST = {"faults at length", "integration tests at length", "jobs at length"}
LAST = {"ansible-test units", "ansible-test pylint", "documentation site", *SCENARIOS, *REST}
RANKS, PLAYBOOKS = ({f"tests {kind} {number}" for number in (1, 2, 3)} for kind in ("with ranks", "of playbooks"))
SLOW = {"slow unit tests 1", "slow unit tests 2"}
ALL = {"ansible-test import", "jobs", "faults", *SLOW, *RANKS, *PLAYBOOKS}


@pytest.mark.parametrize(
    ("words", "left_out"),
    [
        ([], {*ALL, *LAST}),
        (["test"], {*ALL, *LAST}),
        (["test-all"], set()),
        (["ci"], LAST),
        (["unit"], set()),
        (["units"], set()),
        (["integration"], {"integration tests at length"}),
        (["molecule"], {*SCENARIOS, "faults at length", "jobs at length"}),
        (["molecule", "life", "default"], set()),
    ],
)
@pytest.mark.parametrize("everything", [False, True])
def test_what_takes_long_is_left_out_unless_it_is_named(
    words: list[str], left_out: set[str], everything: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(at_length, "EVERYTHING_RUNS", everything)
    chosen, reasons = run.chosen(PARTS, words)
    group = not {*words} & {*run.STAGES} and words
    assert reasons.keys() == (left_out - REST if everything and not group else set() if everything else left_out)
    assert not reasons.keys() & {part.name for part in chosen}
    assert all(reasons.values())


@pytest.mark.parametrize("words", [["nothing"], ["test", "mypy"], ["molecule", "nothing"], ["lint", "mypy"]])
def test_what_there_is_not_is_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit, match=f"There is no {words[-1]}; there are: "):
        run.chosen(PARTS, words)


def test_each_stage_has_what_those_before_have() -> None:
    stages = [{part.name for part in run.chosen(PARTS, [word])[0]} for word in ("check", "test", "test-all")]
    check, test, everything = stages
    assert check == {part.name for part in PARTS if part.group in ("lint", "unit")} - {"ansible-lint", *SLOW}
    assert test - check == {
        "ansible-lint", "ansible-test sanity", "container engine", "default", "demo job", "image of bare hosts",
        "refusals of playbooks", "site.yml on this machine",
    }  # fmt: skip
    assert everything == {part.name for part in PARTS}
    assert check < test < everything
    assert set(run.chosen(PARTS, ["check"])[1].values()) > {"only in make test"}


def test_every_integration_test_is_in_one_part_and_those_take_equally_long(monkeypatch: pytest.MonkeyPatch) -> None:
    words = [word for part in PARTS if part.group == "integration" and not part.tests for word in part.command]
    files = sorted(word for word in words if word.startswith("tests/integration/"))
    assert files == sorted(f"tests/integration/{path.name}" for path in ROOT.glob("tests/integration/test_*.py"))
    monkeypatch.setattr(run, "DURATIONS", {"a": 90, "b": 50, "c": 40, "e": 1})
    assert run.split(["e", "d", "c", "b", "a"], 2) == [["a", "c"], ["d", "b", "e"]]


@pytest.mark.parametrize(
    ("elapsed", "slowness", "fits"),
    [(0, 1.0, True), (60, 1.0, True), (80, 1.0, False), (0, 4.0, False), (80, 0.5, True), (200, 0.1, False)],
)
def test_a_part_starts_if_it_ends_within_the_budget(elapsed: float, slowness: float, fits: bool) -> None:
    """Its duration is scaled by how slow the parts were that have ended."""
    ended, part = Part("unit", "ended", [], run.TEST, seconds=10), Part("unit", "next", [], run.ALL, seconds=30)
    made = Run([part], {}, budget=100.0, began=time.time() - elapsed)
    made.results["ended"] = Result(ended, 10 * slowness, 1)
    made.results["failed"] = Result(replace(ended, seconds=1000), 1, 0, ("a",))  # shows nothing: it broke off
    assert (not made.does_not_fit(part)) is fits
    assert not made.does_not_fit(ended)  # `make test` runs as a whole
    assert not replace(made, budget=math.inf).does_not_fit(part)


@pytest.mark.parametrize(("elapsed", "more"), [(0, ["last"]), (200, [])])
def test_what_make_test_has_ends_first_and_what_does_not_fit_is_named(
    elapsed: float, more: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "CACHE", tmp_path)
    monkeypatch.setattr(run, "ROOT", tmp_path)
    parts = [
        Part("unit", "last", ["true"], run.LAST, isolated=False, seconds=1),
        Part("unit", "test", ["sleep", "0.1"], run.TEST, isolated=False, seconds=1),
    ]
    made = Run(parts, os.environ, budget=100.0, began=time.time() - elapsed)
    asyncio.run(made.all())
    assert [*made.results] == ["test", *more]
    assert [*made.left_out] == [part.name for part in parts if part.name not in made.results]


def test_every_scenario_is_run_here_and_in_the_workflow() -> None:
    scenarios = {path.parent.name for path in ROOT.glob("molecule/*/molecule.yml")}
    assert {part.command[-1] for part in PARTS if part.undo} == scenarios
    jobs = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8"))["jobs"]
    own = scenarios & set(jobs)  # with a job of its own
    assert {*jobs["scenarios"]["strategy"]["matrix"]["scenario"], *own} == scenarios


@pytest.mark.slow
def test_an_interrupted_part_prints_what_it_said_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if not isolation():
        pytest.skip("this machine allows no process namespace")
    monkeypatch.setattr(run, "CACHE", tmp_path)
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setattr(run, "POLITE", 0.5)
    # The process of another session ends with the namespace, and has the pipe open until then.
    os.mkfifo(tmp_path / "pipe")
    script = "setsid sh -c 'trap \"\" INT TERM; sleep 600' > pipe & echo begun; touch there; trap '' INT; sleep 600"
    hangs, other = Part("unit", "hangs", ["sh", "-c", script]), Part("unit", "other", ["false"])
    made = Run([hangs, other, Part("unit", "never", ["true"], after=("hangs",))], os.environ)

    async def interrupt() -> None:
        task = asyncio.create_task(made.all())
        while not (tmp_path / "there").exists() or "other" not in made.results:
            await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.wait([task])

    pipe = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    asyncio.run(interrupt())
    assert select.select([pipe], [], [], 30)[0], "the process of another session still runs"
    os.close(pipe)
    assert {name: len(result.failures) for name, result in made.results.items()} == {"hangs": 1, "other": 1}
    assert "\nbegun\n\ninterrupted\n" in capfd.readouterr().out


CASES = (
    '<testcase name="a"/><testcase name="b" classname="tests.unit.support.test_run.TestX"><failure message="x&#10;y"/>'
    '</testcase><testcase name="c[1.5]" classname="tests.unit.support.test_run"><error>z</error></testcase>'
    '<testcase name="d"><skipped message="why"/></testcase>'
)
FAILED = ("tests/unit/support/test_run.py::TestX::b: x", "tests/unit/support/test_run.py::c[1.5]: z")


@pytest.mark.parametrize(
    ("report", "ok", "passed", "failures", "skipped"),
    [
        (f"<suite>{CASES}</suite>", False, 1, FAILED, ("d: why",)),
        ("<suite><testcase/></suite>", True, 1, (), ()),
        ("<suite><testcase/></suite>", False, 1, ("no test failed, but no output",), ()),
        ("<suite><te", False, 0, ("a.xml is incomplete",), ()),
        ("<suite></suite>", True, 0, ("no test failed, but no output",), ()),
    ],
)
def test_tests_are_counted_from_reports(
    report: str,
    ok: bool,
    passed: int,
    failures: tuple[str, ...],
    skipped: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "CACHE", tmp_path)
    part = Part("unit", "counted", [], counted=True)
    part.reports.mkdir(parents=True)
    (part.reports / "a.xml").write_text(report)
    assert run.count(part, 1.0, ok) == Result(part, 1.0, passed, failures, skipped)


@pytest.mark.parametrize(
    ("log", "failures"),
    [
        (
            "[a job: as it should be, 3 s]\n[a lost rank: WRONG, 4 s]\n[a secret: WRONG, 4 s]\nwrong: 2\n",
            ["a lost rank", "a secret"],
        ),
        (
            "TASK [Verify] *****\nfatal: [head]: no\nTASK [Clean up] ***\nok: [head]\n",
            ["TASK [Verify] fatal: [head]: no"],
        ),
        ("one\n\ntwo words\n\n", ["two words"]),
        ("", ["no output"]),
    ],
)
def test_what_failed_in_a_part_without_reports_is_in_its_output(log: str, failures: list[str]) -> None:
    assert [*run.failed_steps(log)] == failures


def test_the_last_lines_name_what_failed(capsys: pytest.CaptureFixture[str]) -> None:
    unit, lint = Part("unit", "unit tests", []), Part("lint", "mypy", [])
    run.print_summary([Result(unit, 1.0, 7, ("a::b: x",)), Result(lint, 2.0, 0, ("z",))], 3.0, {"life": "why"})
    last = ["skipped: life: why", "FAILED unit tests: a::b: x", "FAILED mypy: z", "7 passed, 2 failed"]
    assert capsys.readouterr().out.splitlines()[-4:] == last
