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
    assert {name: result.failed for name, result in made.results.items()} == {"hangs": 1, "other": 1}
    assert "\nbegun\n\ninterrupted\n" in capfd.readouterr().out


CASES = (
    '<testcase name="a"/><testcase name="b"><failure/></testcase><testcase name="c"><error/></testcase>'
    '<testcase name="d"><skipped message="why"/></testcase>'
)


@pytest.mark.parametrize(
    ("report", "ok", "passed", "failed", "skipped"),
    [
        (f"<suite>{CASES}</suite>", False, 1, 2, ("d: why",)),
        ("<suite><testcase/></suite>", True, 1, 0, ()),
        ("<suite><testcase/></suite>", False, 1, 1, ()),
        ("<suite><te", False, 0, 1, ()),
        ("<suite></suite>", True, 0, 1, ()),
    ],
)
def test_tests_are_counted_from_reports(
    report: str,
    ok: bool,
    passed: int,
    failed: int,
    skipped: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "CACHE", tmp_path)
    part = Part("unit", "counted", [], counted=True)
    part.reports.mkdir(parents=True)
    (part.reports / "a.xml").write_text(report)
    assert run.count(part, 1.0, ok) == Result(part, 1.0, passed, failed, skipped)
