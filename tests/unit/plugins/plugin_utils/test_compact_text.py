"""What the callback plugin compact prints, line by line."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils import _screen
from ansible_collections.amx.cluster.plugins.module_utils._screen import Screen, cells
from ansible_collections.amx.cluster.plugins.plugin_utils import compact_text
from ansible_collections.amx.cluster.plugins.plugin_utils.compact_text import Section
from hypothesis import given
from hypothesis import strategies as st

PIPE = Screen()
SHORT = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=60)


def section(**changes: Any) -> Section:
    values: dict[str, Any] = {"name": "ssh_mesh", "play": "Allow logins", "began": 10.0, "ended": 22.4, **changes}
    return Section(**{"hosts": {"node0", "node1", "node2"}, **values})


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"changed": {"node0", "node1"}}, "ssh_mesh              12 s  2 of 3 hosts changed    Allow logins"),
        ({}, "ssh_mesh              12 s                          Allow logins"),
        ({"play": "ssh_mesh"}, "ssh_mesh              12 s"),
        (
            {"hosts": {"node0"}, "changed": {"node0"}},
            "ssh_mesh              12 s  changed                 Allow logins",
        ),
        ({"failed": {"node2"}}, "ssh_mesh              12 s  failed on node2         Allow logins"),
        ({"unreachable": {"gone"}, "play": ""}, "ssh_mesh              12 s  cannot reach gone"),
        ({"ended": 10.0 + 4000, "play": ""}, "ssh_mesh         1 h 6 min"),
    ],
)
def test_section_line(changes: dict[str, Any], text: str) -> None:
    assert compact_text.section_line(section(**changes), False, PIPE) == text


def test_check_mode_changes_nothing() -> None:
    line = compact_text.section_line(section(changed={"node0"}), True, PIPE)
    assert "1 of 3 hosts would change" in line


@given(name=SHORT, play=SHORT, columns=st.integers(30, 200), failed=st.sets(SHORT, max_size=8))
def test_lines_fit_a_terminal(name: str, play: str, columns: int, failed: set[str]) -> None:
    line = compact_text.section_line(section(name=name, play=play, failed=failed), False, Screen(columns, redraws=True))
    assert all(cells(part) < columns for part in line.splitlines()) or "\n" in line
    task = compact_text.task_line(name, play, 1, 3, "attempt 2 of 5", Screen(columns, redraws=True))
    assert cells(task) < columns
    assert "\n" not in task


def test_only_own_checks_that_passed_have_no_line() -> None:
    quick = {"hosts": {"localhost"}, "ended": 10.5, "ours": True}
    assert compact_text.is_trivial(section(**quick))
    for changes in ({"ours": False}, {"failed": {"localhost"}}, {"ended": 13.5}, {"hosts": {"node0"}}):
        assert not compact_text.is_trivial(section(**{**quick, **changes}))


def test_a_failed_command_is_shown_in_full() -> None:
    result = {
        "msg": "non-zero return code",
        "cmd": ["make", "all"],
        "rc": 2,
        "stderr": "first\n  second: 'x'\n",
        "stdout": "",
        "stderr_lines": ["first"],
        "changed": True,
        "invocation": {},
        "attempts": 3,
        "start": "1",
    }
    assert compact_text.failure("node1", "site: Build", "roles/site/tasks/main.yml:7", result, PIPE) == (
        "FAILED node1: site: Build (after 3 attempts)\n"
        "  non-zero return code\n"
        "  cmd: make all\n"
        "  rc: 2\n"
        "  stderr:\n"
        "    first\n"
        "      second: 'x'\n"
        "  roles/site/tasks/main.yml:7"
    )


def test_other_values_of_a_failure() -> None:
    result = {
        "msg": "Status code was 500",
        "status": 500,
        "url": "http://node0/",
        "json": {"error": "full"},
        "big": [1] * 200,
    }
    assert compact_text.details(result, whole=False) == [
        "Status code was 500",
        'json: {"error": "full"}',
        "status: 500",
        "url: http://node0/",
        "(-v shows big)",
    ]
    assert compact_text.details(result) == ["Status code was 500"]
    assert compact_text.details({"failed": True}) == ["(no message: -v shows the result)"]
    assert compact_text.details({"msg": ["one", "two"]}) == ["one", "two"]
    assert compact_text.details({"msg": {"a": 1}}) == ['{"a": 1}']


def test_a_message_keeps_its_lines() -> None:
    assert compact_text.message("node0", "a\n  b") == "node0:\n    a\n      b".replace("    a", "  a").replace(
        "      b", "    b"
    )
    assert compact_text.message("node0", "a") == "node0: a"
    assert compact_text.message("localhost", "a\n  b") == "a\n  b"
    assert compact_text.message("localhost", ["é"]) == '[\n  "é"\n]'


def told(**counts: int) -> dict[str, int]:
    names = ("ok", "failures", "unreachable", "changed", "skipped", "rescued", "ignored")
    return {**dict.fromkeys(names, 0), **counts}


def test_recap() -> None:
    assert compact_text.recap({"node0": told(ok=3)}, 12.3, False, PIPE) == "Done in 12 s: nothing changed"
    assert compact_text.recap({"b": told(changed=1), "a": told(changed=2, ignored=1)}, 80, False, PIPE) == (
        "Done in 1 min 20 s: changed a, b; 1 failure ignored"
    )
    assert compact_text.recap({"a": told(changed=1)}, 1, True, PIPE) == "Done in 1 s: would change a"
    assert compact_text.recap({}, 1, False, PIPE) == "Done in 1 s: no host took part"
    hosts = {"node0": told(ok=5, changed=1), "node10": told(failures=1, ok=1), "gone": told(unreachable=1)}
    assert compact_text.recap(hosts, 5, False, PIPE) == (
        "Failed after 5 s\n  gone    unreachable\n  node0   1 change, 5 tasks ok\n  node10  1 failure, 1 task ok"
    )
    coloured = compact_text.recap(hosts, 5, False, Screen(colours=True))
    assert "\x1b[31mgone  \x1b[0m" in coloured
    assert _screen.plain(coloured) == compact_text.recap(hosts, 5, False, PIPE)


def test_the_running_task() -> None:
    wide = Screen(60, redraws=True)
    assert compact_text.task_line("job", "Plan the job", 1, 3, "", wide) == "job: Plan the job  1/3 hosts"
    assert compact_text.task_line("", "Plan the job", 0, 1, "", wide) == "Plan the job"
    assert (
        compact_text.task_line("job", "Plan the job", 0, 3, "", Screen(24, redraws=True)) == "job: Plan...  0/3 hosts"
    )
