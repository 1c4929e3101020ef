from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.action import document_check, show
from ansible_collections.amx.cluster.plugins.plugin_utils import document
from support.modules import run_action

JOBS = {"jobs": [{"name": "demo", "ranks": [{"rank": 0}]}, {"name": "mine", "ranks": []}]}


@pytest.mark.parametrize(
    ("query", "selected"),
    [
        ("", JOBS),
        ("jobs[].name", ["demo", "mine"]),
        ("jobs[?length(ranks) > `0`].name | [0]", "demo"),
        ("nothing", None),
        ("sort_by(jobs, &name)[-1].{job: name, ranks: length(ranks)}", {"job": "mine", "ranks": 0}),
    ],
)
def test_select(query: str, selected: Any) -> None:
    assert document.refusal("json", query, "") == ""
    assert document.select(JOBS, query) == selected


@pytest.mark.parametrize(
    ("form", "query", "output", "message"),
    [
        ("yaml", "", "", "format: 'yaml' is not one of text, json"),
        ("text", "jobs", "", "query is for JSON: add -e format=json"),
        ("text", "", "x.json", "output is for JSON: add -e format=json"),
        ("json", "", "/no/where/x.json", "output: there is no directory /no/where"),
        ("json", "", "/tmp", "output: /tmp is a directory: name a file"),
        (
            "json",
            "jobs[",
            "",
            "query: 'jobs[' is not JMESPath (https://jmespath.org): Incomplete expression",
        ),
        (
            "json",
            "jobs name",
            "",
            "query: 'jobs name' is not JMESPath (https://jmespath.org): ",
        ),
        (
            "json",
            "jobs[].size(@)",
            "",
            "query: 'jobs[].size(@)' is not JMESPath (https://jmespath.org): no function size()",
        ),
    ],
)
def test_refusal(form: str, query: str, output: str, message: str) -> None:
    said = document.refusal(form, query, output)
    assert said.startswith(message)
    assert "\n" not in said
    answer = run_action(document_check, {"format": form, "query": query, "output": output})
    assert (answer["failed"], answer["msg"]) == (True, said.replace("-e format", "-e amx_format"))


def test_a_playbook_without_a_report() -> None:
    assert run_action(document_check, {"format": "json", "reports": False})["msg"] == (
        "format: json is for playbooks/status.yml, doctor.yml, plan.yml, verify.yml, results.yml, report.yml, "
        "scale.yml, tune.yml, infer.yml, load.yml, predict.yml, serve.yml, network.yml and manifest.yml"
    )
    for given in ({"format": "json", "reports": True}, {"reports": False}, {"format": "json"}):
        assert run_action(document_check, given) == {"changed": False}


def test_a_query_that_meets_other_data_than_it_expects() -> None:
    query = "length(jobs[0].ranks[0].rank)"
    with pytest.raises(ValueError, match=re.escape(f"query: '{query}' cannot be evaluated: ")) as said:
        document.select(JOBS, query)
    assert "\n" not in str(said.value)


def test_one_document_on_one_line_or_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document.emit(JOBS, {"query": "", "output": None})
    line = capsys.readouterr().out
    assert line.count("\n") == 1
    assert json.loads(line) == JOBS
    document.emit(JOBS, {"query": "jobs[].name", "output": str(tmp_path / "out.json")})
    assert capsys.readouterr().out == f"Wrote {tmp_path / 'out.json'}\n"
    assert json.loads((tmp_path / "out.json").read_text()) == ["demo", "mine"]


def test_a_document_for_a_file_descriptor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (tmp_path / "out.json").open("w") as stream:
        stream.write("before\n")
        stream.flush()
        document.emit(JOBS, {"query": "jobs[].name", "output": f"/dev/fd/{stream.fileno()}"})
    assert (tmp_path / "out.json").read_text() == 'before\n["demo", "mine"]\n'
    assert capsys.readouterr().out == ""


def test_show(capsys: pytest.CaptureFixture[str]) -> None:
    run_action(show, {"text": "in words", "data": JOBS})
    assert capsys.readouterr().out == "in words\n"
    run_action(show, {"text": "in words", "data": JOBS, "format": "json", "query": "jobs[0].name"})
    assert capsys.readouterr().out == '"demo"\n'
    failed = run_action(show, {"text": "", "data": JOBS, "format": "json", "query": "length(`1`)"})
    assert failed["msg"].startswith("query: 'length(`1`)' cannot be evaluated: ")
