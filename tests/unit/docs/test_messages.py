"""Each message by which the code refuses something has a page that explains it; messages that pages quote exist."""

from __future__ import annotations

import re

import messages
import pytest
from language import tracked
from support.checkout import ROOT
from support.pages import anchors

MESSAGES = messages.messages()
TROUBLESHOOTING = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
# What Ansible, ssh or the kernel say, and names.
OF_OTHERS = {
    "UNREACHABLE",
    "Permission denied (publickey",
    "Host key verification failed",
    "Missing sudo password",
    "lost",
    "expect",
}


def test_every_message_has_a_topic() -> None:
    assert len(MESSAGES) > 400
    assert [f"{one.path}:{one.line}: {one.text}" for one in MESSAGES if messages.topic(one.path) is None] == []


@pytest.mark.parametrize("topic", messages.TOPICS, ids=lambda topic: topic.title)
def test_topics_name_pages_and_files_that_exist(topic: messages.Topic) -> None:
    page, _sign, anchor = topic.page.partition("#")
    assert (ROOT / page).is_file()
    assert not anchor or anchor in anchors(ROOT / page)
    assert [start for start in topic.files if not tracked(f"{start}*")] == []


def test_quoted_messages_exist() -> None:
    rows = re.findall(r"^\| (`.*?) \|", TROUBLESHOOTING, re.MULTILINE)
    quoted = {quote for row in rows for quote in re.findall(r"`([^`]+)`", row)} - OF_OTHERS
    assert len(quoted) > 20
    assert [quote for quote in sorted(quoted) if not any(quote in one.text for one in MESSAGES)] == []


def test_messages_of_code() -> None:
    code = """
def check(name, module, problems):
    if not name:
        raise ValueError(f"{name} is " + "empty" if module else "no name")
    module.fail_json(msg=f"no {name}: give one")
    problems.append("two of them")
    raise KeyError(name)
"""
    found = {message.text for message in messages.in_code("a.py", code)}
    assert found == {"... is empty", "no name", "no ...: give one", "two of them", "..."}


def test_messages_of_tasks() -> None:
    tasks = """
- name: Check
  ansible.builtin.assert:
    that: false
    fail_msg: "{{ host }} is down: {{ 'start' }} it"
- name: Show
  ansible.builtin.debug:
    msg: not a refusal
- name: Stop
  ansible.builtin.fail:
    msg: no way
"""
    assert [message.text for message in messages.in_tasks("a.yml", tasks)] == ["... is down: ... it", "no way"]


def test_a_file_without_a_topic_is_found() -> None:
    assert messages.topic("plugins/modules/unknown_to_all.py") is None
