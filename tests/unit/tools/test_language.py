"""The check of the language finds what its rules are against, and nothing that only looks like it."""

from __future__ import annotations

from language import PROSE, Text, find, in_code, in_names, in_prose, in_tasks
from support.checkout import tracked


def test_words_are_found_across_lines_and_comment_signs() -> None:
    text = "# one\n# on the control\n# machine, and a\n# folder\n"
    assert list(find("jobs/a.yml", [Text(1, text)])) == [
        "jobs/a.yml:2: 'control machine': write control node",
        "jobs/a.yml:4: 'folder': write directory",
    ]


def test_some_rules_are_for_names_of_tasks() -> None:
    assert len(list(find("a.yml", [Text(1, "Judge the answers", True)]))) == 1
    assert list(find("a.yml", [Text(1, "Judge the answers")])) == []


def test_nothing_is_found_in_what_only_looks_like_it() -> None:
    text = (
        "The control node copies datasets, a hostfile and a directory to the head. torch_stack_packages_folder is a "
        "variable. It foretold it: wanted wheels, a retold story, a whole number, the whole cluster"
    )
    assert list(find("a.md", [Text(1, text)])) == []


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
    assert "a.py:3: 'folder': write directory" in find("a.py", in_code(CODE))


MODULE = '''\
"""Classes of
folders."""
import os  # of folders


class Files:
    # the control
    # machine
    found: int

    def found(self, one, *, folder=1, **told):
        """Tell whether it is so."""
        both = [what for what in one]
        more: int = 1
        foundation = "a folder"
        return lambda way: both

    def _one(self):
        """Return the
        files."""
        for _found in self.found:
            self.found = os.content
'''


def test_docstrings_and_comments_are_checked() -> None:
    assert sorted(find("a.py", in_prose(MODULE))) == [
        "a.py:2: 'folders': write directory",
        "a.py:3: 'folders': write directory",
        "a.py:7: 'control machine': write control node",
    ]


def test_vague_names_are_reported_where_they_are_bound_unless_they_are_fields_or_attributes() -> None:
    problems = list(in_names("a.py", MODULE))
    names = [(line.split(":")[1], line.split("'")[1]) for line in problems if "the name" in line]
    assert sorted(names, key=lambda name: (int(name[0]), name)) == [
        ("11", "folder"),
        ("11", "found"),
        ("11", "one"),
        ("11", "told"),
        ("13", "both"),
        ("13", "what"),
        ("14", "more"),
        ("16", "way"),
        ("18", "_one"),
        ("21", "_found"),
    ]
    assert "a.py:11: the name 'folder': write directory" in problems


def test_docstrings_begin_with_a_sentence_that_a_stranger_understands() -> None:
    problems = [line for line in in_names("a.py", MODULE) if "docstring" in line]
    assert sorted(problems) == [
        "a.py:12: 'Tell' begins a docstring: begin with Return whether, Report or Send",
        "a.py:19: the docstring's first sentence does not end on its first line: shorten it",
        "a.py:1: the docstring's first sentence does not end on its first line: shorten it",
    ]


def test_the_list_of_checked_code_names_code_that_there_is() -> None:
    for pattern in PROSE:
        assert tracked(pattern), pattern
