"""Parts in lanes: their order, what becomes of them, and that nothing of what they print is lost."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from support import lanes
from support.lanes import Lanes, Part


@pytest.fixture(autouse=True)
def _logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "LOGS", tmp_path / "logs")
    monkeypatch.setattr(lanes, "ROOT", tmp_path)


def part(name: str, script: str = "true", seconds: float = 1, **fields: object) -> Part:
    return Part("unit", name, ["sh", "-c", script], seconds, **fields)  # type: ignore[arg-type]


def run(parts: Sequence[Part], count: int = 2) -> Lanes:
    ran = Lanes(parts, count, os.environ)
    ran.run()
    return ran


def counts(ran: Lanes) -> dict[str, tuple[int, int]]:
    return {result.part.name: (result.passed, result.failed) for result in ran.results}


def headings(output: str) -> list[str]:
    return re.findall(r"(?m)^=== unit: (\w+) =+$", output)


def test_a_command_passes_or_fails_and_its_whole_output_is_printed(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    ran = run([part("good", "echo one; echo two >&2"), part("bad", "printf 'three \\377'; exit 3"), part("none")])
    assert counts(ran) == {"good": (1, 0), "bad": (0, 1), "none": (1, 0)}
    output = capfdbinary.readouterr().out
    assert b"$ sh -c echo one; echo two >&2\none\ntwo\n" in output
    assert b"three \xff" in output
    assert (lanes.LOGS / "unit_good.log").read_text().endswith("one\ntwo\n")


def test_output_of_parts_that_run_at_the_same_time_is_not_mixed(capfd: pytest.CaptureFixture[str]) -> None:
    talk = "for n in 1 2 3; do echo {0}; sleep 0.1; done"
    run([part("a", talk.format("from-a")), part("b", talk.format("from-b"))])
    said = re.findall(r"(?m)^from-[ab]$", capfd.readouterr().out)
    assert said in (["from-a"] * 3 + ["from-b"] * 3, ["from-b"] * 3 + ["from-a"] * 3)


def test_the_one_with_the_most_work_behind_it_goes_first(capfd: pytest.CaptureFixture[str]) -> None:
    parts = [
        part("short", seconds=1),
        part("long", seconds=50),
        part("first", seconds=10),
        part("then", seconds=45, after=("first",)),
    ]
    run(parts, 1)
    assert headings(capfd.readouterr().out) == ["first", "long", "then", "short"]


def test_results_stay_in_the_order_of_the_parts() -> None:
    assert list(counts(run([part("short", seconds=1), part("long", seconds=50)], 1))) == ["short", "long"]


def test_as_many_run_at_a_time_as_there_are_lanes(tmp_path: Path) -> None:
    meet = "touch {0}; for n in $(seq 200); do [ -e {1} ] && exit 0; sleep 0.1; done; exit 1"
    parts = [part("a", meet.format("a", "b")), part("b", meet.format("b", "a"))]
    assert counts(run(parts, 2)) == {"a": (1, 0), "b": (1, 0)}
    for name in "ab":
        (tmp_path / name).unlink()
    alone = "[ ! -e there ] || exit 1; touch there; sleep 0.2; rm there"
    assert counts(run([part("a", alone), part("b", alone)], 1)) == {"a": (1, 0), "b": (1, 0)}


def test_a_part_may_add_to_its_log_itself(capfd: pytest.CaptureFixture[str]) -> None:
    run([part("both", 'echo one; echo two >> "$AMX_TEST_LOG"; echo three')])
    assert "\none\ntwo\nthree\n" in capfd.readouterr().out


def test_lanes_have_numbers(tmp_path: Path) -> None:
    meet = "echo $AMX_TEST_LANE > {0}; for n in $(seq 200); do [ -e {1} ] && exit 0; sleep 0.1; done; exit 1"
    run([part("a", meet.format("a", "b")), part("b", meet.format("b", "a"))], 2)
    assert {(tmp_path / name).read_text() for name in "ab"} == {"0\n", "1\n"}


def test_what_a_part_waits_for_may_fail_but_not_what_it_needs(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    parts = [
        part("broken", "exit 1"),
        part("after", after=("broken",)),
        part("needing", "touch ran", needs=("broken",)),
        part("next", "touch ran", needs=("needing",)),
        part("alone", after=("not chosen",), needs=("not chosen either",)),
    ]
    ran = run(parts)
    assert counts(ran) == {"broken": (0, 1), "after": (1, 0), "needing": (0, 1), "next": (0, 1), "alone": (1, 0)}
    assert "not run, because this failed: broken\n" in capfd.readouterr().out
    assert not (tmp_path / "ran").exists()


def test_a_part_that_hangs_is_ended_with_what_it_started(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    hanging = part(
        "hanging", "echo begun; sleep 300 & echo $! > child; trap '' INT; wait; wait", undo=["echo", "undone"]
    )
    ran = Lanes([hanging, part("other")], 2, os.environ)
    with pytest.MonkeyPatch.context() as patch:
        begun = tmp_path / "child"
        patch.setattr(Part, "timeout", property(lambda part: 0.0 if part is hanging and begun.exists() else 600.0))
        patch.setattr(lanes, "POLITE_SECONDS", 0.5)
        ran.run()
    assert counts(ran) == {"hanging": (0, 1), "other": (1, 0)}
    output = capfd.readouterr().out
    assert "begun\n$ echo undone\nundone\n\nended, because it took more than 0 seconds\n" in output
    state = Path("/proc", (tmp_path / "child").read_text().strip(), "stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


def test_what_cannot_be_started_has_failed(capfd: pytest.CaptureFixture[str]) -> None:
    ran = run([Part("unit", "odd", ["no-such-command"], 1)])
    assert counts(ran) == {"odd": (0, 1)}
    assert "cannot be started: [Errno 2] No such file or directory: 'no-such-command'" in capfd.readouterr().out


CASES = (
    '<testcase name="a"/><testcase name="b"><failure/></testcase><testcase name="c"><error/></testcase>'
    '<testcase name="d"><skipped message="why"/></testcase>'
)


@pytest.mark.parametrize(
    ("script", "passed", "failed", "skipped", "said"),
    [
        (f"echo '<suite>{CASES}</suite>' > r/a.xml; exit 1", 1, 2, ("d: why",), ""),
        ("echo '<suite><testcase/></suite>' > r/a.xml", 1, 0, (), ""),
        ("echo '<suite><testcase/></suite>' > r/a.xml; exit 1", 1, 1, (), ""),
        ("echo '<suite><testcase/></suite>' > r/a.xml; echo '<suite><te' > r/b.xml", 1, 1, (), ""),
        ("true", 0, 1, (), "no test ran\n"),
        ("echo '<suite></suite>' > r/a.xml", 0, 1, (), "no test ran\n"),
    ],
)
def test_tests_are_counted_from_reports(
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    script: str,
    passed: int,
    failed: int,
    skipped: tuple[str, ...],
    said: str,
) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r/old.xml").write_text("<suite><testcase/></suite>")
    (result,) = run([part("counted", script, reports=tmp_path / "r")]).results
    assert (result.passed, result.failed, result.skipped) == (passed, failed, skipped)
    assert said in capfd.readouterr().out


def test_a_line_says_what_runs(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "HEARTBEAT_SECONDS", 0.1)
    run([part("slow", "sleep 2"), part("later", after=("slow",))])
    line = "... 0 ended, 1 waiting, running: slow for 0 min (output so far: logs/unit_slow.log)\n"
    assert line in capfd.readouterr().out


INTERRUPTED = """
import os, sys
from pathlib import Path
from support import lanes
lanes.LOGS = lanes.ROOT = Path(sys.argv[1])
slow = lanes.Part("unit", "slow", ["sh", "-c", "echo begun; sleep 0.5; touch there; sleep 300"], 1)
lanes.Lanes([slow, lanes.Part("unit", "b", ["true"], 1)], 1, os.environ).run()
"""


def test_an_interrupted_run_prints_what_was_said(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(Path(lanes.__file__).resolve().parents[1])},
        stdout=subprocess.PIPE,
        text=True,
        # A shell that runs the tests in the background has the signal ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while not (tmp_path / "there").exists():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    output, _nothing = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "begun\n\ninterrupted\n" in output
    assert "unit: b" not in output


def test_what_a_scenario_leaves_out_is_counted_with_its_reason() -> None:
    ran = run([part("some", "echo 'skipped: reboot: takes minutes'; echo '  skipped: no journey'"), part("all")])
    assert [result.skipped for result in ran.results] == [("reboot: takes minutes",), ()]
    assert counts(ran) == {"some": (1, 0), "all": (1, 0)}
