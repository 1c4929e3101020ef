"""The check of the texts' language: each rule finds what it is against, and nothing that looks like it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import language
import pytest
from language import RULES, Finding, Text, find, in_code, in_tasks

# For each rule, a text that it is against.
BAD = {
    r"\bcontrol machines?\b": "on the control machine",
    r"\bdata sets?\b": "Data sets are copied",
    r"\bhost files?\b": "in the host file",
    r"\bfolders?\b": "a folder of wheels",
    r"\bstarters?\b": "the starter's own variables",
    r"\bspelt\b": "how it is spelt",
    r"\bwish(es)?\b": "a job's wishes",
    r"\b(lacking|wanting)\b": "wheels that are wanting",
    r"\bwithout end\b": "the start hangs without end",
    r"\b(is|are|was|were|be|been|being) told\b": "mpirun is told",
    r"\bleft-?overs?\b|\bleft ranks\b": "leftovers of a job",
    r"\bst(and|ands|anding|ood) still\b": "a rank stands still",
    r"\bfor want of\b": "killed for want of memory",
    r"\b(come|comes|came) whole\b": "it did not come whole",
    r"\bwhole (checkpoint|file)s?\b": "the last whole checkpoint",
    r"\bwhat becomes of\b": "what becomes of the job",
    r"\bof before\b": "the rules of before",
    r"\bprovided by nothing\b": "models/bert is provided by nothing",
    r"\b(let|lets|come|comes|came) in again\b": "unless Ansible has come in again",
    r"\bthe wire\b": "what the wire lets through",
    r"^(it|they|them|this|that|these|those|who|what|which|how|where)\b": "What each rank does",
    r"^(see|look|say|judge|let|tell|ask)\b": "Judge the answers",
    r"(?<!^)\b(it|them|they)\b": "Stop if it is running already",
}


def found(text: Text) -> list[str]:
    return [one.words for one in find("a file", iter([text]))]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.instead)
def test_a_rule_finds_what_it_is_against(rule: language.Rule) -> None:
    bad = BAD[rule.words]
    findings = list(find("docs/page.md", iter([Text(7, bad, rule.names)])))
    assert [(one.path, one.line, one.instead) for one in findings] == [("docs/page.md", 7, rule.instead)]
    assert findings[0].words in bad


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.names], ids=lambda rule: rule.instead)
def test_a_rule_for_names_is_for_nothing_else(rule: language.Rule) -> None:
    assert found(Text(1, BAD[rule.words])) == []


def test_every_sample_belongs_to_a_rule() -> None:
    assert set(BAD) == {rule.words for rule in RULES}


@pytest.mark.parametrize(
    "good",
    [
        "The control node copies datasets, a hostfile and a directory to the head.",
        "torch_stack_packages_folder and data_cache_control_folder are variables",
        "It foretold it: wanted wheels, a retold story, a whole number, the whole cluster",
    ],
)
def test_nothing_is_found_in_what_only_looks_like_it(good: str) -> None:
    assert found(Text(1, good)) == []


def test_words_are_found_across_lines_and_comment_signs() -> None:
    findings = list(find("jobs/a.yml", iter([Text(1, "# one\n# on the control\n# machine, and a\n# folder\n")])))
    assert [str(one) for one in findings] == [
        "jobs/a.yml:2: 'control machine': write control node",
        "jobs/a.yml:4: 'folder': write directory",
    ]


TASKS = """\
---
- name: Judge the play
  hosts: all
  vars:
    name: a folder
  tasks:
    - name: Say where it is
      when: folder is defined
      ansible.builtin.assert:
        that: folder
        fail_msg: no
          folder
    - name: Remove the directory
      ansible.builtin.file:
        name: a folder
    - block:
        - name: Look
          ansible.builtin.command: "true"
      rescue:
        - name: Tell why
          ansible.builtin.debug:
            msg: left in a folder
"""


def test_of_tasks_names_and_messages_are_texts() -> None:
    assert list(in_tasks(TASKS)) == [
        Text(2, "Judge the play", True),
        Text(7, "Say where it is", True),
        Text(11, "no folder"),
        Text(13, "Remove the directory", True),
        Text(17, "Look", True),
        Text(20, "Tell why", True),
        Text(22, "left in a folder"),
    ]


def test_a_mapping_has_no_tasks() -> None:
    assert list(in_tasks("name: Look for a folder\n")) == []


CODE = '''\
"""A folder."""
DOCUMENTATION = r"""
description: A folder.
"""


def folder(name):
    """Return a folder."""
    # a folder
    if name == "folder":
        raise ValueError(f"the folder {name!r} of "
                         "the host file")
    return "no " "folder"
'''


def test_of_code_messages_and_documentation_are_texts() -> None:
    assert sorted(in_code(CODE), key=lambda text: text.line) == [
        Text(2, "\ndescription: A folder.\n"),
        Text(11, "the folder {} of the host file"),
        Text(13, "no folder"),
    ]
    assert [str(one) for one in find("a.py", in_code(CODE)) if one.line == 3] == ["a.py:3: 'folder': write directory"]


def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/page.md").write_text("# Jobs\n\nA folder.\n", encoding="utf-8")
    (tmp_path / "playbooks").mkdir()
    (tmp_path / "playbooks/site.yml").write_text("- name: Look\n  hosts: all\n", encoding="utf-8")
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins/a.py").write_text('print("no folder")\n', encoding="utf-8")
    monkeypatch.setattr(language, "ROOT", tmp_path)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)


def test_it_fails_with_place_words_and_replacement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project(tmp_path, monkeypatch)
    monkeypatch.setattr(language, "NOT_SWEPT", ("plugins/",))
    assert language.main([]) == 1
    assert capsys.readouterr().out == (
        "docs/page.md:3: 'folder': write directory\n"
        "playbooks/site.yml:1: 'Look': write Check, Fail if, Gather, Read, Find or Show\n"
        "2 problems\n"
        "plugins/ is not swept yet: 1 problems\n"
    )
    assert language.main(["plugins"]) == 1
    assert capsys.readouterr().out.startswith("plugins/a.py:1: 'folder': write directory\n1 problems\n")


def test_it_passes_where_nothing_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project(tmp_path, monkeypatch)
    monkeypatch.setattr(language, "NOT_SWEPT", ("docs/", "playbooks/", "plugins/"))
    assert language.main([]) == 0
    assert capsys.readouterr().out.startswith("0 problems\n")


def test_all_that_users_read_is_checked() -> None:
    for patterns in (language.PAGES, language.TASKS, language.CODE):
        assert [pattern for pattern in patterns if not language.tracked(pattern) and "handlers" not in pattern] == []
    pages = {"README.md", "Makefile", "ansible.cfg", "requirements.txt", "docs/glossary.md", "roles/job/README.md"}
    pages |= {"jobs/demo.yml", "inventories/example/group_vars/cluster.yml", "roles/job/meta/argument_specs.yml"}
    assert pages <= set(language.tracked(*language.PAGES))
    assert {"playbooks/site.yml", "roles/job/tasks/main.yml"} <= set(language.tracked(*language.TASKS))
    assert {"plugins/modules/job_info.py", "roles/job/files/rank.py"} <= set(language.tracked(*language.CODE))


def test_a_finding_reads_as_a_line() -> None:
    assert str(Finding("a.md", 3, "wish", "request")) == "a.md:3: 'wish': write request"
