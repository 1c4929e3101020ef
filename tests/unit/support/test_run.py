"""Which parts of the tests are run, what is left of them, and how their tests are counted."""

from __future__ import annotations

import asyncio
import os
import select
from pathlib import Path

import pytest
import run
import yaml
from run import Part, Result, Run
from support.checkout import ROOT
from support.isolation import VARIABLE, isolation

PARTS = run.everything()
# Those that `make test` leaves out.
SCENARIOS = {"amx", "cores_and_networks", "kubernetes", "life", "servers", "shared_storage", "stacks", "trust"}


@pytest.mark.parametrize(
    ("words", "left_out"),
    [
        ([], {"ansible-test units", "documentation site", *SCENARIOS}),
        (["unit"], set()),
        (["units"], set()),
        (["molecule"], SCENARIOS),
        (["molecule", "life", "default"], set()),
    ],
)
@pytest.mark.parametrize("at_length", [False, True])
def test_what_takes_long_is_left_out_unless_it_is_named(
    words: list[str], left_out: set[str], at_length: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "AT_LENGTH", at_length)
    assert set(run.left_out(run.chosen(PARTS, words), words)) == (set() if at_length else left_out)


def test_every_scenario_is_run_here_and_in_the_workflow() -> None:
    scenarios = {path.parent.name for path in ROOT.glob("molecule/*/molecule.yml")}
    assert {part.name for part in PARTS if part.undo} == scenarios
    jobs = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8"))["jobs"]
    own = scenarios & set(jobs)  # with a job of its own
    assert {*jobs["scenarios"]["strategy"]["matrix"]["scenario"], *own} == scenarios


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
